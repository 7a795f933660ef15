"""What no schedule can undercut, without a search.

Every operation has a head (what its job needs before it, at the least) and a tail (after it). The bound is the largest of
- a job's operations one after another;
- a machine that must do some operations: each may start after its head, and its tail follows. With interruptions allowed,
  the operation of the longest tail first is optimal (Jackson's preemptive schedule; Carlier and Pinson, Management Science
  35, 1989), and interruptions only help;
- k machines that must do some operations between them: k times the makespan covers their durations, and before the first
  operation and after the last one on each machine a head and a tail, the k least of each (Carlier, EJOR 29, 1987).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, fsum

from rollplan.models.certified import Bound
from rollplan.models.job_shop.problem import JobShopProblem

Demand = tuple[float, float, float]
"""Head, duration and tail of an operation."""


def lower_bound(problem: JobShopProblem) -> Bound:
    """Return the largest of the bounds above, over every set of machines that is all the alternatives of some operation.

    With whole durations it is rounded up to a whole number, else down by what sums of floats may be off.
    """
    demands = shortest(problem)
    best = max((head + duration + tail for row in demands for head, duration, tail in row), default=0.0)
    sets = {frozenset(way.machine for way in operation) for _, _, operation in problem.operations()}
    for machines in [*sets, frozenset(range(problem.machines))]:
        bound_to = [demands[job][k] for job, k, operation in problem.operations() if machines.issuperset(way.machine for way in operation)]
        if bound_to:
            best = max(best, jackson(bound_to) if len(machines) == 1 else several(bound_to, len(machines)))
    return Bound(float(ceil(best)) if problem.whole else best * (1 - 1e-12), "closed form")


def shortest(problem: JobShopProblem) -> list[list[Demand]]:
    """Return head, duration and tail of each operation, every one on its fastest machine."""
    demands = []
    for chain in problem.jobs:
        durations = [min(way.duration for way in operation) for operation in chain]
        demands.append([(fsum(durations[:k]), durations[k], fsum(durations[k + 1 :])) for k in range(len(chain))])
    return demands


def jackson(demands: Sequence[Demand]) -> float:
    """Return the least makespan on one machine with interruptions allowed."""
    coming = sorted(demands)
    waiting: list[tuple[float, float]] = []
    now = best = 0.0
    at = 0
    while at < len(coming) or waiting:
        if not waiting:
            now = max(now, coming[at][0])
        while at < len(coming) and coming[at][0] <= now:
            _, duration, tail = coming[at]
            heappush(waiting, (-tail, duration))
            at += 1
        tail, left = heappop(waiting)
        until = coming[at][0] if at < len(coming) else float("inf")
        if now + left <= until:
            now += left
            best = max(best, now - tail)
        else:
            heappush(waiting, (tail, left - (until - now)))
            now = until
    return best


def several(demands: Sequence[Demand], machines: int) -> float:
    """Return the bound of operations on so many machines between them: mean load with the least heads and tails."""
    if machines > len(demands):
        return 0.0
    heads, durations, tails = (sorted(column) for column in zip(*demands, strict=True))
    return fsum([*heads[:machines], *durations, *tails[:machines]]) / machines
