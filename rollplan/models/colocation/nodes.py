"""How few rollout nodes a group needs, and which job goes where.

A node can host a set of jobs if their rollouts fit into the period and their footprints into its memory. Job k needs
`demand[k]` different nodes. The least number of nodes is a multi-cover by fitting sets:

    min sum_p x_p   subject to   sum_{p contains k} x_p >= demand_k,   x_p in 0, 1, 2, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from rollplan.models.colocation.problem import at_most

_DP_STATES = 4096
_DP_NODES = 100
"""Most states and nodes of the dynamic program, which recurses once for each node; beyond them a MILP counts sets."""


def fitting_sets(rollout_s: Sequence[float], memory_gib: Sequence[float], period_s: float, node_memory_gib: float) -> tuple[int, ...]:
    """Return the bit masks of the sets of jobs that one node can host; every single job is one of them."""
    size = len(rollout_s)
    return tuple(
        mask
        for mask in range(1, 1 << size)
        if mask.bit_count() == 1
        or (
            at_most(sum(rollout_s[k] for k in range(size) if mask >> k & 1), period_s)
            and at_most(sum(memory_gib[k] for k in range(size) if mask >> k & 1), node_memory_gib)
        )
    )


@lru_cache(maxsize=200_000)
def cover(sets: tuple[int, ...], demand: tuple[int, ...]) -> tuple[int, ...]:
    """Return a smallest list of sets, one per node, in which job k appears exactly demand[k] times.

    sets: closed under taking subsets, as `fitting_sets` returns them.
    """
    if sum(demand) <= _DP_NODES and prod(d + 1 for d in demand) <= _DP_STATES:
        return tuple(sorted(_Cover(sets, len(demand)).fewest(demand), reverse=True))
    return _cover_by_milp(sets, demand)


def pin(nodes: Sequence[int], size: int) -> tuple[tuple[int, ...], ...]:
    """Turn the sets on each node into the nodes of each job."""
    return tuple(tuple(node for node, mask in enumerate(nodes) if mask >> k & 1) for k in range(size))


class _Cover:
    """Dynamic program over the demands that are still open."""

    def __init__(self, sets: tuple[int, ...], size: int) -> None:
        self.size = size
        self.sets = sorted(sets, key=lambda mask: (-mask.bit_count(), mask))
        self.known: dict[tuple[int, ...], tuple[int, ...]] = {(0,) * size: ()}

    def fewest(self, demand: tuple[int, ...]) -> tuple[int, ...]:
        if demand in self.known:
            return self.known[demand]
        open_jobs = sum(1 << k for k in range(self.size) if demand[k])
        first = open_jobs & -open_jobs
        best: tuple[int, ...] | None = None
        tried: list[int] = []
        for mask in self.sets:
            useful = mask & open_jobs
            # A set inside one that was tried leaves more open, so it cannot need fewer nodes.
            if not useful & first or any(useful & other == useful for other in tried):
                continue
            tried.append(useful)
            rest = self.fewest(tuple(d - (useful >> k & 1) for k, d in enumerate(demand)))
            if best is None or len(rest) + 1 < len(best):
                best = (useful, *rest)
        assert best is not None, "every single job fits a node"
        self.known[demand] = best
        return best


def _cover_by_milp(sets: tuple[int, ...], demand: tuple[int, ...]) -> tuple[int, ...]:
    membership = np.array([[mask >> k & 1 for mask in sets] for k in range(len(demand))], dtype=float)
    exact = LinearConstraint(membership, demand, demand)
    found = milp(np.ones(len(sets)), constraints=exact, integrality=np.ones(len(sets), dtype=np.int8), bounds=Bounds(0, max(demand)))
    if found.x is None:
        raise ArithmeticError(f"no node cover found for {demand}: {found.message}")
    return tuple(sorted((mask for mask, times in zip(sets, found.x, strict=True) for _ in range(round(times))), reverse=True))
