"""Dispatching rules: one active schedule each (Giffler and Thompson, Operations Research 8, 1960), alternatives included.

Of all operations whose turn it is, take the machine where one could end first; of those that could start there before that
end, the rule chooses one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType

from rollplan.models.job_shop.problem import Alternative, JobShopProblem
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.timing import timed

Priority = Callable[[float, float, int, float], float]
"""Rank (least first) from duration, work remaining in the job, operations remaining, and when the operation was ready."""

RULES: Mapping[str, Priority] = MappingProxyType(
    {
        "work": lambda duration, work, operations, ready: -work,
        "operations": lambda duration, work, operations, ready: -operations,
        "shortest": lambda duration, work, operations, ready: duration,
        "longest": lambda duration, work, operations, ready: -duration,
        "first": lambda duration, work, operations, ready: ready,
    }
)
"""Most work remaining, most operations remaining, shortest and longest operation, first come first served."""


def dispatched(problem: JobShopProblem, rule: str) -> Schedule:
    """Return the schedule that a rule (a name of `RULES`) makes."""
    rank = RULES[rule]
    work = [[0.0] * (len(chain) + 1) for chain in problem.jobs]
    for job, chain in enumerate(problem.jobs):
        for k in range(len(chain) - 1, -1, -1):
            work[job][k] = work[job][k + 1] + min(way.duration for way in chain[k])
    turn = [0] * len(problem.jobs)
    ready = [0.0] * len(problem.jobs)
    free = [0.0] * problem.machines
    order: list[tuple[int, int, tuple[Alternative]]] = []
    waiting = {job for job, chain in enumerate(problem.jobs) if chain}
    while waiting:
        end, machine = inf, -1
        for job in waiting:
            for way in problem.jobs[job][turn[job]]:
                ends = max(ready[job], free[way.machine] if way.duration else 0.0) + way.duration
                if (ends, way.machine) < (end, machine):
                    end, machine = ends, way.machine
        best: tuple[tuple[float, int], Alternative] | None = None
        for job in waiting:
            k = turn[job]
            for way in problem.jobs[job][k]:
                if way.machine != machine:
                    continue
                start = max(ready[job], free[machine] if way.duration else 0.0)
                if start < end or start + way.duration == end:
                    found = (rank(way.duration, work[job][k], len(problem.jobs[job]) - k, ready[job]), job)
                    if best is None or found < best[0]:
                        best = (found, way)
        assert best is not None, "the operation that ends first is among them"
        (_, job), way = best
        start = max(ready[job], free[machine] if way.duration else 0.0)
        ready[job] = start + way.duration
        if way.duration:
            free[machine] = ready[job]
        order.append((job, turn[job], (way,)))
        turn[job] += 1
        if turn[job] == len(problem.jobs[job]):
            waiting.remove(job)
    return timed(problem, order)


def best_dispatched(problem: JobShopProblem) -> Schedule:
    """Return the best schedule of all rules, of equals the first."""
    return min((dispatched(problem, rule) for rule in RULES), key=lambda schedule: schedule.makespan)
