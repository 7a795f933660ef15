"""MULTIFIT: first fit decreasing, with bisection on the capacity."""

from __future__ import annotations

from rollplan.models.pcmax.bounds import simple_bound
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, lpt, solution


def multifit(problem: PcmaxProblem) -> PcmaxSolution:
    """Return the best packing found, never worse than LPT, and at most 13/11 of the optimum.

    Coffman, Garey and Johnson (1978); 13/11 by Yue (1990).
    """
    best, order = lpt(problem), problem.longest_first
    low, high = simple_bound(problem), best.makespan
    while low < high:
        middle = (low + high) // 2
        packed = _first_fit(problem, order, middle)
        if packed is None:
            low = middle + 1
        else:
            best, high = min(best, packed, key=lambda found: found.makespan), middle
    return best


def _first_fit(problem: PcmaxProblem, order: list[int], capacity: int) -> PcmaxSolution | None:
    """Return each job on the first machine with room for it, None if one finds none."""
    machines: list[list[int]] = [[] for _ in range(problem.machines)]
    room = [capacity] * problem.machines
    for job in order:
        time = problem.times[job]
        i = next((i for i, left in enumerate(room) if left >= time), None)
        if i is None:
            return None
        machines[i].append(job)
        room[i] -= time
    return solution(problem, machines)
