"""An answer with its proof: how far from the optimum it can be at most, and by which argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Literal, TypeAlias, TypeVar

SolutionT = TypeVar("SolutionT")
Proof = Literal["closed form", "LP relaxation", "branch and bound", "CP-SAT", "fluid", "exhaustive"]
Stopped = Literal["optimal", "heuristic", "target gap", "node limit", "search limit", "time limit", "interrupted"]


@dataclass(frozen=True, slots=True)
class Bound:
    """No solution costs less than `value`; `proof` is the argument."""

    value: float
    proof: Proof


@dataclass(frozen=True, slots=True)
class PoolNodes:
    """Measure of a plan: the nodes that its groups take of a pool in total."""

    pool: int


@dataclass(frozen=True, slots=True)
class GroupCount:
    """Measure of a plan: its groups of a pair of pools with so many training and rollout nodes; None is any number."""

    rollout_pool: int
    train_pool: int
    train_nodes: int | None
    rollout_nodes: int | None


@dataclass(frozen=True, slots=True)
class Together:
    """Measure of a plan: 1 if two jobs are in one group, else 0."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class TwoOfThree:
    """Measure of a plan: its groups that hold at least two of three jobs, 0 or 1, because a job is in one group only.

    Its price in a leaf is not positive: that of the limit 1, which an LP does not know by itself (a subset-row cut).
    """

    first: int
    second: int
    third: int


Measure: TypeAlias = PoolNodes | GroupCount | Together | TwoOfThree
"""A whole number that a plan has, by which proofs part the plans."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Prices in $/h that prove an LP bound: one per job (not negative), and some of measures.

    The price of a measure is negative where an upper limit binds, positive where a lower one does. `Together` has none:
    its limits say which groups there are.
    """

    jobs: tuple[float, ...]
    measures: tuple[tuple[Measure, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """Plans in which a measure is at most `at`, and those in which it is more: each side has its own proof.

    prices: prove a lower bound for both sides at once, for a proof that is cut short. The root should have them (those of
    the first LP); the branches under it may.
    """

    measure: Measure
    at: int
    below: Witness
    above: Witness
    prices: Leaf | None = None


Witness: TypeAlias = Leaf | Branch
"""What proves a bound again: a tree of limits on measures with prices at its ends."""


@dataclass(frozen=True, slots=True)
class Certified(Generic[SolutionT]):
    """A solution, its value, a proven bound, why the search ended, and the witness of the bound if there is one.

    witness_bound: what can be proven again from the witness (without one: the fluid bound); at most the bound.
    """

    solution: SolutionT
    value: float
    bound: Bound
    stopped: Stopped
    seconds: float = 0.0
    seed: int = 0
    witness: Witness | None = None
    witness_bound: float = 0.0

    @property
    def gap(self) -> float:
        """Relative distance (value - bound) / bound, never negative."""
        return gap(self.value, self.bound.value)

    @property
    def optimal(self) -> bool:
        """Whether the value equals the bound within 1e-9."""
        return self.gap <= 1e-9


def gap(value: float, bound: float) -> float:
    """Return (value - bound) / bound; 0 when the two are equal, infinite when the bound says nothing."""
    if value <= bound:
        return 0.0
    return (value - bound) / bound if bound > 0 else float("inf")


@dataclass(slots=True)
class Limits:
    """When to stop: seconds from now, search nodes, a gap that is good enough, or a word from outside.

    node_limit makes a run repeatable; time_s depends on the machine.
    """

    time_s: float = 60.0
    node_limit: int = 1000
    target_gap: float = 0.0
    interrupted: Callable[[], bool] = lambda: False
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = monotonic()

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return max(0.0, self.started + self.time_s - monotonic())

    def part(self, share: float) -> Limits:
        """Return limits that end after a share of the time left."""
        return Limits(self.left_s * share, self.node_limit, self.target_gap, self.interrupted)

    def stop(self) -> Literal["time limit", "interrupted"] | None:
        """Return why to stop now, None to go on."""
        if self.interrupted():
            return "interrupted"
        return "time limit" if self.left_s <= 0 else None


Report = Callable[[float, float | None], None]
"""Called with the incumbent's value and the bound whenever one of them improves."""


def silent(value: float, bound: float | None) -> None:
    """Report to nobody."""
