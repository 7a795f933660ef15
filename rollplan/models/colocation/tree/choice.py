"""What to branch on: measures that the LP leaves fractional, then pairs of jobs."""

from __future__ import annotations

from itertools import combinations
from math import floor

import numpy as np

from rollplan.models.certified import GroupCount, PoolNodes, Together
from rollplan.models.colocation.pricing.block import Floats
from rollplan.models.colocation.pricing.measures import Box, Counted
from rollplan.models.colocation.tree.master import Master

_FRACTION = 1e-5


def total_to_part(master: Master, box: Box, taken: Floats, prices: list[float]) -> tuple[Counted, int] | None:
    """Return where to part the nodes of a pool or the groups by training nodes, until all are fixed; None if they are.

    Plans of equal totals cost the same, so that the LP at a fixed point either is infeasible or says nothing more. taken: values of
    the first columns, (m,). prices: of a node of each pool: the dearest pool is parted first, fractional numbers before others.
    """
    used = {pool for block in master.blocks for pool in (block.rollout_pool, block.train_pool)}
    totals: list[Counted] = [PoolNodes(pool) for pool in sorted(used, key=lambda pool: (-prices[pool], pool))]
    counts: list[Counted] = [
        GroupCount(block.rollout_pool, block.train_pool, int(nodes), None) for block in master.blocks for nodes in block.train_nodes[::-1]
    ]
    for measures in (totals, counts):
        around: tuple[Counted, int] | None = None
        for measure in measures:
            total = float(taken @ master.amounts(measure)[: len(taken)])
            low, high = box.of(measure)
            # Outside its limits lies a total that the LP cannot keep: there is nothing to part there.
            if low < total < high and _FRACTION < total - floor(total) < 1 - _FRACTION:
                return measure, floor(total)
            at = round(min(max(total, low), high))
            if around is None and low < high:
                around = (measure, at) if at < high else (measure, at - 1)
        if around is not None:
            return around
    return None


def fractional_counts(master: Master, box: Box, taken: Floats) -> list[tuple[Counted, int]]:
    """Return the counts of groups that are fractional, the most promising first, and the whole numbers below."""
    found: list[tuple[float, Counted, int]] = []
    measures: list[Counted] = []
    used = np.flatnonzero(taken > _FRACTION)
    for number, block in enumerate(master.blocks):
        here = used[master.block_of[used] == number]
        pair = (block.rollout_pool, block.train_pool)
        train, nodes = block.train_nodes[master.train_class[here]], master.nodes[here]
        measures += [GroupCount(*pair, None, None)]
        measures += [GroupCount(*pair, int(t), None) for t in np.unique(train)]
        measures += [GroupCount(*pair, None, int(n)) for n in np.unique(nodes)]
        measures += [GroupCount(*pair, int(t), int(n)) for t, n in sorted({*zip(train.tolist(), nodes.tolist(), strict=True)})]
    for measure in measures:
        total = float(taken @ master.amounts(measure)[: len(taken)])
        low, high = box.of(measure)
        share = total - floor(total)
        if low < total < high and _FRACTION < share < 1 - _FRACTION:
            found.append((min(share, 1 - share) + _rank(measure), measure, floor(total)))
    found.sort(key=lambda option: -option[0])
    return [(measure, at) for _, measure, at in found]


def _rank(measure: Counted) -> int:
    """Return how early a count is branched on: groups by training nodes, by both, by rollout nodes."""
    if isinstance(measure, PoolNodes) or measure.rollout_nodes is None:
        return 2
    return 0 if measure.train_nodes is None else 1


def fractional_pair(master: Master, box: Box, taken: Floats) -> tuple[int, int] | None:
    """Return the two jobs that the LP puts together most nearly by half; None if no pair is left open."""
    together: dict[tuple[int, int], float] = {}
    for column in np.flatnonzero((taken > _FRACTION) & (taken < 1 - _FRACTION)):
        members = master.members[column]
        jobs = sorted(master.blocks[int(master.block_of[column])].index[members[members >= 0]].tolist())
        for pair in combinations(jobs, 2):
            together[pair] = together.get(pair, 0.0) + float(taken[column])
    free = {pair: abs(share - 0.5) for pair, share in together.items() if Together(*pair) not in box.limits}
    return min(free, key=lambda pair: (free[pair], pair)) if free else None
