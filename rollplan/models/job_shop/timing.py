"""A schedule from the order of its operations: each starts as soon as its job and its machine are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollplan.models.job_shop.problem import Alternative, JobShopProblem
from rollplan.models.job_shop.solution import Schedule


def timed(problem: JobShopProblem, order: Iterable[tuple[int, int, Sequence[Alternative]]]) -> Schedule:
    """Return the schedule that takes the operations in this order, each on that of the given alternatives where it ends first.

    order: job, position in the job and alternatives of every operation, each after the one before it in its job. Of machines
    where it would end at the same time it takes the one that became free last.
    """
    free = [0.0] * problem.machines
    ready = [0.0] * len(problem.jobs)
    machines: list[list[int]] = [[] for _ in problem.jobs]
    starts: list[list[float]] = [[] for _ in problem.jobs]
    for job, k, ways in order:
        assert k == len(starts[job]), "operations of a job come in their order"
        best: tuple[float, float, float, int] | None = None
        for way in ways:
            start = max(ready[job], free[way.machine]) if way.duration > 0 else ready[job]
            found = (start + way.duration, -free[way.machine], start, way.machine)
            if best is None or found < best:
                best = found
        assert best is not None, "an operation has alternatives"
        end, _, start, machine = best
        if end > start:
            free[machine] = end
        ready[job] = end
        machines[job].append(machine)
        starts[job].append(start)
    return Schedule(tuple(map(tuple, machines)), tuple(map(tuple, starts)), max(ready))


def retimed(problem: JobShopProblem, schedule: Schedule) -> Schedule:
    """Return the schedule with the same machines and orders in which everything starts as soon as it can."""
    return timed(problem, in_order(problem, schedule))


def in_order(problem: JobShopProblem, schedule: Schedule) -> list[tuple[int, int, tuple[Alternative]]]:
    """Return job, position and alternative of the operations by their starts, as `timed` takes them."""
    found = []
    for job, k, operation in problem.operations():
        (way,) = (way for way in operation if way.machine == schedule.machines[job][k])
        start = schedule.starts[job][k]
        found.append((start, start + way.duration, job, k, way))
    return [(job, k, (way,)) for _, _, job, k, way in sorted(found, key=lambda each: each[:4])]
