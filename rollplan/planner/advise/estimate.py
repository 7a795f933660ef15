"""A quantity that a log does not state exactly: the least it can be, what is likely, and the most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True, slots=True)
class Estimate:
    """low <= likely <= high, finite and at least 0; all equal where the log states the value."""

    low: float
    likely: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.high) and 0 <= self.low <= self.likely <= self.high):
            raise ValueError(f"must be finite, at least 0 and in the order low, likely, high, got {self.low}, {self.likely}, {self.high}")

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a value that is known."""
        return cls(value, value, value)

    @property
    def known(self) -> bool:
        """Whether low and high agree."""
        return self.low == self.high

    def map(self, law: Callable[[float], float]) -> Estimate:
        """Return a monotone function of the quantity, rising or falling."""
        ends = law(self.low), law(self.high)
        return Estimate(min(ends), law(self.likely), max(ends))

    def times(self, other: Estimate) -> Estimate:
        """Return the product with an independent estimate."""
        return Estimate(self.low * other.low, self.likely * other.likely, self.high * other.high)

    def plus(self, seconds: float) -> Estimate:
        """Return the sum with a known value, at least 0 in all."""
        return self.map(lambda value: max(0.0, value + seconds))

    @property
    def ends(self) -> tuple[float, float, float]:
        """low, likely, high."""
        return self.low, self.likely, self.high
