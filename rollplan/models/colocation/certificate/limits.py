"""Which plans a proof speaks of: limits on the measures of a plan, and what they say of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from math import inf, isfinite
from typing import TypeAlias

from rollplan.models.certified import Branch, GroupCount, Leaf, Measure, PoolNodes, Together, TwoOfThree
from rollplan.models.colocation.problem import ColocationProblem

MOST_AT = 10**9
_MAX_PRICE = 1e12
Pairs: TypeAlias = frozenset[tuple[int, int]]


class BadWitnessError(Exception):
    """The witness cannot prove anything."""


@dataclass(frozen=True)
class Box:
    """Plans whose measures lie within limits. Measures without an entry have the limits that every plan keeps."""

    problem: ColocationProblem
    limits: dict[Measure, tuple[float, float]] = field(default_factory=dict)

    def of(self, measure: Measure) -> tuple[float, float]:
        """Return the least and the largest value of a measure."""
        if measure in self.limits:
            return self.limits[measure]
        if isinstance(measure, PoolNodes):
            nodes = self.problem.pools[measure.pool].nodes
            return 0.0, inf if nodes is None else float(nodes)
        return 0.0, 1.0 if isinstance(measure, (Together, TwoOfThree)) else inf

    def part(self, branch: Branch) -> tuple[Box, Box]:
        """Return the plans in which the measure is at most `at`, and those in which it is more."""
        low, high = self.of(branch.measure)
        return (
            Box(self.problem, {**self.limits, branch.measure: (low, min(high, float(branch.at)))}),
            Box(self.problem, {**self.limits, branch.measure: (max(low, float(branch.at + 1)), high)}),
        )

    @property
    def empty(self) -> bool:
        """Whether the limits contradict themselves."""
        return any(low > high for low, high in self.limits.values())

    @cached_property
    def pairs(self) -> tuple[Pairs, Pairs]:
        """Pairs of jobs (lower index first) that no group has both of, and those of which every group has both or none."""
        apart, together = set(), set()
        for measure, (low, high) in self.limits.items():
            if isinstance(measure, (Together, TwoOfThree)) and high == 0:
                apart |= set(combinations(sorted(jobs_of(measure)), 2))
            if isinstance(measure, Together) and low == 1:
                together.add((min(measure.first, measure.second), max(measure.first, measure.second)))
        return frozenset(apart), frozenset(together)


def jobs_of(measure: Together | TwoOfThree) -> tuple[int, ...]:
    """Return the jobs that a measure speaks of."""
    return (measure.first, measure.second, *((measure.third,) if isinstance(measure, TwoOfThree) else ()))


def checked_measure(problem: ColocationProblem, measure: Measure) -> None:
    """Raise `BadWitnessError` if a plan of this problem has no such measure."""
    if isinstance(measure, (Together, TwoOfThree)):
        jobs = jobs_of(measure)
        if len(set(jobs)) < len(jobs) or not all(0 <= job < len(problem.jobs) for job in jobs):
            raise BadWitnessError("speaks of jobs that do not exist")
        return
    pools = (measure.pool,) if isinstance(measure, PoolNodes) else (measure.rollout_pool, measure.train_pool)
    if not all(0 <= pool < len(problem.pools) for pool in pools):
        raise BadWitnessError("speaks of a pool that does not exist")


def checked_branch(problem: ColocationProblem, branch: Branch) -> None:
    """Raise `BadWitnessError` if the branch does not part the plans."""
    checked_measure(problem, branch.measure)
    if abs(branch.at) > MOST_AT:
        raise BadWitnessError("parts plans by an absurd number")


def ends(box: Box, prices: Leaf) -> float:
    """Return what the prices of measures earn at the limits, rounded down; raise `BadWitnessError` for prices that prove nothing."""
    if len(prices.jobs) != len(box.problem.jobs):
        raise BadWitnessError("has the wrong number of prices")
    every = tuple(chain(prices.jobs, (price for _, price in prices.measures)))
    if not all(isfinite(price) for price in every) or any(price < 0 for price in prices.jobs):
        raise BadWitnessError("has a price that is negative or not finite")
    if any(abs(price) > _MAX_PRICE for price in every):
        raise BadWitnessError("has a price beyond all measure")
    total = 0.0
    for measure, price in prices.measures:
        checked_measure(box.problem, measure)
        if isinstance(measure, Together):
            raise BadWitnessError("prices a pair of jobs, which has no price")
        if isinstance(measure, TwoOfThree) and price > 0:
            raise BadWitnessError("pays for two of three jobs in a group, which no limit asks for")
        low, high = box.of(measure)
        if price < 0 and high == inf:
            raise BadWitnessError("prices a number that has no limit")
        earned = price * (low if price >= 0 else high) if price else 0.0
        total += earned - 1e-12 * abs(earned)
    return total


def class_price(box: Box, prices: Leaf, pools: tuple[int, int], train_nodes: int, rollout_nodes: int) -> float:
    """Return dollars per hour of a group of so many nodes of (rollout, training) pool, less the prices of what it adds to by its size.

    Infinite if no plan within the limits has such a group.
    """
    total = box.problem.pools[pools[0]].price_per_node_h * rollout_nodes + box.problem.pools[pools[1]].price_per_node_h * train_nodes
    for pool in set(pools):
        if _adds(PoolNodes(pool), pools, train_nodes, rollout_nodes) > box.of(PoolNodes(pool))[1]:
            return inf
    for measure, (_, high) in box.limits.items():
        if isinstance(measure, GroupCount) and high == 0 and _adds(measure, pools, train_nodes, rollout_nodes):
            return inf
    for measure, price in prices.measures:
        if isinstance(measure, (PoolNodes, GroupCount)):
            total -= price * _adds(measure, pools, train_nodes, rollout_nodes)
    return total


def _adds(measure: PoolNodes | GroupCount, pools: tuple[int, int], train_nodes: int, rollout_nodes: int) -> int:
    """Return what a group adds to a measure."""
    if isinstance(measure, PoolNodes):
        return rollout_nodes * (measure.pool == pools[0]) + train_nodes * (measure.pool == pools[1])
    same = (measure.rollout_pool, measure.train_pool) == pools
    return int(same and measure.train_nodes in (None, train_nodes) and measure.rollout_nodes in (None, rollout_nodes))
