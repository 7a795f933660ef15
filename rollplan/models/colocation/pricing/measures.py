"""What branching parts plans by: how much a group adds to each measure, and the limits of a node of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from rollplan.models.certified import GroupCount, Measure, PoolNodes, Together, TwoOfThree
from rollplan.models.colocation.pricing.block import Block, Bools, Floats, Ints
from rollplan.models.colocation.pricing.kernel import Rules
from rollplan.models.colocation.problem import ColocationProblem

Priced = PoolNodes | GroupCount | TwoOfThree
"""Measures that may have a price in a leaf."""
Counted = PoolNodes | GroupCount
"""Measures that a group adds to by its node counts alone: they enter `base`, and pricing stays as it is (robust branching)."""


def added_by(measure: Counted, block: Block) -> Floats | None:
    """Return what a group of a block adds to a measure, by class of training nodes and rollout nodes; None if nothing."""
    nodes = np.arange(block.most_nodes + 1)
    train = block.train_nodes
    if isinstance(measure, PoolNodes):
        if measure.pool not in (block.rollout_pool, block.train_pool):
            return None
        taken = (measure.pool == block.rollout_pool) * nodes[None, :] + (measure.pool == block.train_pool) * train[:, None]
        return np.asarray(taken, dtype=np.float64)
    if (measure.rollout_pool, measure.train_pool) != (block.rollout_pool, block.train_pool):
        return None
    counted = np.ones((len(train), len(nodes)), dtype=bool)
    if measure.train_nodes is not None:
        counted &= (train == measure.train_nodes)[:, None]
    if measure.rollout_nodes is not None:
        counted &= (nodes == measure.rollout_nodes)[None, :]
    return counted.astype(np.float64)


def triples_of(prices: Mapping[Priced, float], block: Block) -> tuple[Ints, Floats]:
    """Return the triples of a block's jobs that have a price, as places, (t, 3), and what a group with two of them pays, (t,)."""
    place = {int(k): i for i, k in enumerate(block.index)}
    found = [
        ((place[measure.first], place[measure.second], place[measure.third]), -price)
        for measure, price in prices.items()
        if isinstance(measure, TwoOfThree) and measure.first in place
    ]
    return np.array([triple for triple, _ in found], dtype=np.int64).reshape(-1, 3), np.array([price for _, price in found])


def hold_two(members: Ints, triple: Sequence[int]) -> Bools:
    """Return which groups, (m, max_size), hold at least two of three jobs."""
    held = np.zeros(len(members), dtype=np.int8)
    for k in triple:
        held += (members == k).any(axis=1)
    return np.asarray(held >= 2)


@dataclass(frozen=True, slots=True)
class Box:
    """Limits [low, high] of measures in a node of the tree; measures that are not named have those of every plan."""

    problem: ColocationProblem
    limits: Mapping[Measure, tuple[float, float]] = field(default_factory=dict)

    def of(self, measure: Measure) -> tuple[float, float]:
        """Return the limits of a measure."""
        return self.limits.get(measure) or first_limits(self.problem, measure)

    def cut(self, measure: Measure, at: int) -> tuple[Box, Box]:
        """Return the parts in which a measure is at most `at`, and in which it is more."""
        low, high = self.of(measure)
        below, above = (low, min(high, float(at))), (max(low, at + 1.0), high)
        return Box(self.problem, {**self.limits, measure: below}), Box(self.problem, {**self.limits, measure: above})

    @property
    def empty(self) -> bool:
        """Whether no plan can be inside."""
        return any(low > high for low, high in self.limits.values())

    def counted(self) -> Iterator[tuple[Counted, tuple[float, float]]]:
        """Yield the measures by node counts that have limits, pools of limited nodes first."""
        for pool, given in enumerate(self.problem.pools):
            if given.nodes is not None and PoolNodes(pool) not in self.limits:
                yield PoolNodes(pool), (0.0, float(given.nodes))
        for measure, limits in self.limits.items():
            if isinstance(measure, (PoolNodes, GroupCount)):
                yield measure, limits

    def rules(self, block: Block) -> Rules:
        """Return the rules on pairs of a block's jobs."""
        place = {int(k): i for i, k in enumerate(block.index)}
        apart, together = [], []
        for measure, (low, high) in self.limits.items():
            if isinstance(measure, Together) and measure.first in place:
                pair = (place[measure.first], place[measure.second])
                apart += [pair] if high < 1 else []
                together += [pair] if low > 0 else []
        return Rules(np.array(apart, dtype=np.int64).reshape(-1, 2), np.array(together, dtype=np.int64).reshape(-1, 2))


def first_limits(problem: ColocationProblem, measure: Measure) -> tuple[float, float]:
    """Return the limits of a measure in every plan."""
    if isinstance(measure, PoolNodes):
        nodes = problem.pools[measure.pool].nodes
        return 0.0, inf if nodes is None else float(nodes)
    return (0.0, inf) if isinstance(measure, GroupCount) else (0.0, 1.0)
