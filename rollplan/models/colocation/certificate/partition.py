"""Every partition of a small fleet into groups, searched by a dynamic program over sets of jobs: proves the optimum."""

from __future__ import annotations

from math import inf, isfinite

from rollplan.models.colocation.certificate.groups import all_groups
from rollplan.models.colocation.problem import ColocationProblem

MAX_EXHAUSTIVE_JOBS = 13


def partition_cost(problem: ColocationProblem) -> float | None:
    """Return the least cost over every partition into groups, None for more than 13 jobs or if there is none."""
    if len(problem.jobs) > MAX_EXHAUSTIVE_JOBS:
        return None
    groups: dict[int, list[tuple[int, float]]] = {k: [] for k in range(len(problem.jobs))}
    for members, nodes in all_groups(problem):
        head = problem.jobs[members[0]]
        rollout, train = (problem.pools[pool].price_per_node_h for pool in (head.rollout_pool, head.train_pool))
        groups[members[0]].append((sum(1 << k for k in members), nodes[0] * rollout + nodes[1] * train))
    least = [0.0] + [inf] * ((1 << len(problem.jobs)) - 1)
    for rest in range(1, len(least)):
        first = (rest & -rest).bit_length() - 1
        least[rest] = min((least[rest ^ mask] + cost for mask, cost in groups[first] if mask & rest == mask), default=inf)
    return round(least[-1], 9) if isfinite(least[-1]) else None
