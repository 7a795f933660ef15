"""P3 co-location: the problem and its solution, as data.

n jobs, rollout and training pools. Partition the jobs into co-execution groups and pin each job's rollout to nodes of
its group, so that the nodes of all groups cost least per hour. In a group every job trains on all training nodes, one
after the other; a group has as many training nodes as its largest job asks for. Limits of a group S:

    period(S) <= slo_k * solo_k  for every k in S            (guarantee `bound`)
    sum of train_memory_k        <= memory of a training node
    sum of rollout_memory_k      <= memory of a rollout node, over the jobs pinned there
    |S| <= max_group_size, and no pool gives more nodes than it has
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

REL_TOL = 1e-9
"""Two sums that differ by less are equal: 1.5 * 200 against 100 + 100 + 100."""


def at_most(value: float, limit: float) -> bool:
    """Return whether value <= limit, forgiving rounding."""
    return value <= limit * (1 + REL_TOL)


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes that are rented whole; `nodes` is None when there are as many as needed."""

    name: str
    price_per_node_h: float
    memory_gib: float
    nodes: int | None = None

    def __post_init__(self) -> None:
        _positive_or_zero(self.name, price_per_node_h=self.price_per_node_h, memory_gib=self.memory_gib)
        if self.nodes is not None and self.nodes < 0:
            raise ValueError(f"{self.name}: nodes must be at least 0, got {self.nodes}")


@dataclass(frozen=True, slots=True)
class JobData:
    """One job. rollout_s and train_s are the seconds its nodes are busy per iteration, overheads included.

    gang: the rollout holds all its nodes at the same moment, not each as soon as it is free. delay_s: seconds between
    training and the next rollout in which the job holds no node (a transfer that neither pool waits for).
    """

    name: str
    slo: float
    rollout_s: float
    train_s: float
    rollout_pool: int = 0
    train_pool: int = 1
    rollout_nodes: int = 1
    train_nodes: int = 1
    rollout_memory_gib: float = 0.0
    train_memory_gib: float = 0.0
    gang: bool = False
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        _positive_or_zero(
            self.name,
            rollout_s=self.rollout_s,
            train_s=self.train_s,
            delay_s=self.delay_s,
            rollout_memory_gib=self.rollout_memory_gib,
            train_memory_gib=self.train_memory_gib,
        )
        if not (math.isfinite(self.slo) and self.slo >= 1):
            raise ValueError(f"{self.name}: slo must be finite and at least 1, got {self.slo}")
        if self.rollout_nodes < 1 or self.train_nodes < 1:
            raise ValueError(f"{self.name}: node counts must be at least 1, got {self.rollout_nodes} and {self.train_nodes}")
        if self.solo_s <= 0:
            raise ValueError(f"{self.name}: rollout_s + train_s must be positive, got {self.solo_s}")

    @property
    def solo_s(self) -> float:
        """Seconds of one iteration with all nodes to itself."""
        return self.rollout_s + self.train_s + self.delay_s

    @property
    def tolerable_s(self) -> float:
        """Longest period the job accepts: slo * solo."""
        return self.slo * self.solo_s


@dataclass(frozen=True, slots=True)
class ColocationProblem:
    """Pools and jobs in indices, the largest group allowed, and how often a job may run in a group's period.

    max_rate: 1 is strict round robin; with more, a short job may run up to so many times while a long one runs once.
    """

    pools: tuple[NodePool, ...]
    jobs: tuple[JobData, ...]
    max_group_size: int = 5
    max_rate: int = 1

    def __post_init__(self) -> None:
        if self.max_group_size < 1:
            raise ValueError(f"max_group_size must be at least 1, got {self.max_group_size}")
        if self.max_rate < 1:
            raise ValueError(f"max_rate must be at least 1, got {self.max_rate}")
        for job in self.jobs:
            if not (0 <= job.rollout_pool < len(self.pools) and 0 <= job.train_pool < len(self.pools)):
                raise ValueError(f"{job.name}: pools must be in 0..{len(self.pools) - 1}, got {job.rollout_pool} and {job.train_pool}")

    def price(self, nodes: Sequence[int]) -> float:
        """Return dollars per hour of `nodes[p]` nodes of each pool p, rounded to 10^-9 so that equal plans cost the same."""
        return round(math.fsum(count * pool.price_per_node_h for count, pool in zip(nodes, self.pools, strict=True)), 9)

    def solo_cost_per_h(self) -> float:
        """Return dollars per hour when every job has its own nodes."""
        nodes = [0] * len(self.pools)
        for job in self.jobs:
            nodes[job.rollout_pool] += job.rollout_nodes
            nodes[job.train_pool] += job.train_nodes
        return self.price(nodes)

    def cost_unit(self) -> float | None:
        """Return the amount of which every plan's cost is a whole multiple, None if it is too small to help.

        8 H20 for 14.80 $/h and 8 H800 for 42.24 $/h: every cost is a multiple of 0.08 $/h, so a bound of
        100.01 proves 100.08.
        """
        prices = [Fraction(repr(float(pool.price_per_node_h))) for pool in self.pools if pool.price_per_node_h > 0]
        if not prices:
            return None
        unit = reduce(
            lambda a, b: Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator), prices
        )
        return float(unit) if max(prices) / unit <= 10**6 else None

    def next_cost(self, bound: float) -> float:
        """Return the least cost a plan can have that is not below `bound` (rounding of 1e-6 of a unit is forgiven)."""
        unit = self.cost_unit()
        return bound if unit is None or not math.isfinite(bound) else round(math.ceil(bound / unit - 1e-6) * unit, 9)


@dataclass(frozen=True, slots=True)
class Run:
    """One iteration in a timetable: when the rollout starts on each of the job's nodes, when training starts."""

    rollout_at_s: tuple[float, ...]
    train_at_s: float


@dataclass(frozen=True, slots=True)
class Timetable:
    """A schedule that repeats every `period_s` seconds.

    runs[i]: the iterations of the group's i-th job in one period, in the order of their training; training starts in
    [0, period_s), rollouts may start before 0. What counts is the cyclic order that the times give on every node: run in
    that order without waiting for the clock, shorter phases never end late.
    """

    period_s: float
    runs: tuple[tuple[Run, ...], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that share nodes; `pinning[i]` are the rollout nodes of `jobs[i]`.

    timetable: None is strict round robin in the order of `jobs`, whose period the closed form gives. Groups for which
    that form is only a lower bound (gangs, delays, several runs per period) have one.
    """

    jobs: tuple[int, ...]
    pinning: tuple[tuple[int, ...], ...]
    rollout_nodes: int
    train_nodes: int
    timetable: Timetable | None = None


@dataclass(frozen=True, slots=True)
class ColocationSolution:
    """Groups that hold every job once, and their cost."""

    groups: tuple[Group, ...]
    cost_per_h: float


def _positive_or_zero(owner: str, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{owner}: {name} must be finite and at least 0, got {value}")
