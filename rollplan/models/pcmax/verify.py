"""Independent verifier of an assignment: adds up every machine again."""

from __future__ import annotations

from collections import Counter

from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution


def verify(problem: PcmaxProblem, solution: PcmaxSolution) -> tuple[str, ...]:
    """Return what is wrong with an assignment, in words; empty when every job is placed once and the makespan is right."""
    found: list[str] = []
    if len(solution.machines) != problem.machines:
        found.append(f"{len(solution.machines)} machines have jobs, the problem has {problem.machines}")
    placed = Counter(job for jobs in solution.machines for job in jobs)
    if strange := sorted(job for job in placed if not 0 <= job < len(problem)):
        return (*found, f"job index {strange[0]} does not exist")
    found += [f"job {job} is placed {placed[job]} times, must be once" for job in range(len(problem)) if placed[job] != 1]
    last = 0
    for jobs in solution.machines:
        last = max(last, sum(problem.times[job] for job in jobs))
    if last != solution.makespan:
        found.append(f"the last machine ends at {last}, the assignment says {solution.makespan}")
    return tuple(found)
