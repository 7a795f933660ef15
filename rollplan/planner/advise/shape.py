"""How the stages of a run would change with its GPUs: by published experience alone, or by the laws of its model.

Without a model a stage takes (GPUs now / GPUs then) ^ e times as long. The exponents span what verl publishes for its
7B model (docs/advise.md): doubling the trainer gave 0.78 and 0.47 (beside rollout), doubling rollout 1.24 and -0.24. A
trainer that leaves GPUs that it shared is another one, because it keeps its state in place: the five published pairs give
-0.22 to 0.68.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2
from typing import Protocol

from rollplan.models.split.problem import SplitProblem
from rollplan.planner.advise.estimate import Estimate

EXPONENTS = (0.4, 0.8, 1.0)
MOVING_EXPONENTS = (-0.25, 0.35, 1.0)
LAW_ERROR = 0.14
"""Median error of rollplan's laws, shifted through one measured split, at another one (docs/against_reality.md): per
doubling, at most once."""


class Shape(Protocol):
    """Factors of seconds from one number of GPUs to another, and which numbers are possible."""

    def rollout_counts(self) -> Iterable[int]:
        """Return the numbers of GPUs that can roll out."""

    def train_counts(self) -> Iterable[int]:
        """Return the numbers of GPUs that can train."""

    def shared_counts(self) -> Iterable[int]:
        """Return the numbers of GPUs on which both sides can take turns."""

    def rollout(self, now: int, then: int) -> Estimate:
        """Return the factor of rollout seconds."""

    def train(self, now: int, then: int, moving: bool = False) -> Estimate:
        """Return the factor of training seconds; moving: the trainer shares its GPUs now and would not then, or the other way."""


@dataclass(frozen=True, slots=True)
class PowerShape:
    """Without a model: GPUs of each side come in units, and `ranks` must divide into the samples of an update."""

    gpus: int
    rollout_unit: int
    train_unit: int
    samples_per_update: int | None = None

    def rollout_counts(self) -> Iterable[int]:
        """Return the multiples of the unit."""
        return range(self.rollout_unit, self.gpus + 1, self.rollout_unit)

    def train_counts(self) -> Iterable[int]:
        """Return the multiples of the unit whose ranks divide the samples of an update."""
        samples = self.samples_per_update
        return [
            gpus
            for gpus in range(self.train_unit, self.gpus + 1, self.train_unit)
            if not samples or samples % (gpus // self.train_unit) == 0
        ]

    def shared_counts(self) -> Iterable[int]:
        """Return all GPUs."""
        return (self.gpus,)

    def rollout(self, now: int, then: int) -> Estimate:
        """Return the factor of rollout seconds."""
        return _powers(now / then, EXPONENTS)

    def train(self, now: int, then: int, moving: bool = False) -> Estimate:
        """Return the factor of training seconds."""
        return _powers(now / then, MOVING_EXPONENTS if moving else EXPONENTS)


@dataclass(frozen=True, slots=True)
class LawShape:
    """With a model: the ratios of its laws, on the GPU counts where a layout fits. One pool."""

    problem: SplitProblem
    pool: str

    def rollout_counts(self) -> Iterable[int]:
        """Return the counts that have a layout."""
        return self.problem.rollout.get(self.pool, {})

    def train_counts(self) -> Iterable[int]:
        """Return the counts that have a layout."""
        return self.problem.train.get(self.pool, {})

    def shared_counts(self) -> Iterable[int]:
        """Return the counts that have a layout of both."""
        return self.problem.turns().get(self.pool, {})

    def rollout(self, now: int, then: int) -> Estimate:
        """Return the factor of rollout seconds."""
        return _law(self.problem.rollout[self.pool], now, then)

    def train(self, now: int, then: int, moving: bool = False) -> Estimate:
        """Return the factor of training seconds; what sharing GPUs costs is not in the law, so it widens the estimate."""
        found = _law(self.problem.train[self.pool], now, then)
        if not moving:
            return found
        other = (now / then) ** MOVING_EXPONENTS[0]
        return Estimate(min(found.low, other), found.likely, max(found.high, other))


def _powers(ratio: float, exponents: tuple[float, float, float]) -> Estimate:
    low, likely, high = sorted(ratio**exponent for exponent in exponents)
    return Estimate(low, likely, high)


def _law(table: Mapping[int, float], now: int, then: int) -> Estimate:
    factor = table[then] / table[now]
    error = LAW_ERROR * min(1.0, abs(log2(then / now)))
    return Estimate(factor * (1 - error), factor, factor * (1 + error))
