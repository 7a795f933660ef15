"""Assignments of jobs to machines and their makespan, and the one that everything starts from: LPT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from rollplan.models.pcmax.problem import PcmaxProblem


@dataclass(frozen=True, slots=True)
class PcmaxSolution:
    """For each machine the indices of its jobs in rising order; the largest sum of their times."""

    machines: tuple[tuple[int, ...], ...]
    makespan: int


def solution(problem: PcmaxProblem, machines: Iterable[Sequence[int]]) -> PcmaxSolution:
    """Return the solution with these jobs on the machines; machines that are not given stay empty."""
    jobs = [tuple(sorted(each)) for each in machines]
    jobs += [()] * (problem.machines - len(jobs))
    return PcmaxSolution(tuple(jobs), max(sum(problem.times[job] for job in each) for each in jobs))


def of_times(problem: PcmaxProblem, machines: Iterable[Sequence[int]]) -> PcmaxSolution:
    """Return the solution whose machines have jobs of these processing times; of equal jobs the lower index comes first."""
    left: dict[int, list[int]] = {}
    for job in reversed(range(len(problem))):
        left.setdefault(problem.times[job], []).append(job)
    return solution(problem, [[left[time].pop() for time in each] for each in machines])


def lpt(problem: PcmaxProblem) -> PcmaxSolution:
    """Return the longest job first, each on the machine that is free first: at most 4/3 - 1/(3m) of the optimum (Graham 1969)."""
    machines: list[list[int]] = [[] for _ in range(problem.machines)]
    free = [(0, i) for i in range(problem.machines)]
    heapify(free)
    for job in problem.longest_first:
        at, i = free[0]
        machines[i].append(job)
        heapreplace(free, (at + problem.times[job], i))
    return solution(problem, machines)
