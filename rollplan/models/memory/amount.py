"""An amount of memory and the words to check it by hand, built together so that they cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GIB = 2**30
"""Bytes in one GiB."""

Factor = tuple[float, str]
"""A number and what it counts."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes and their formula: numbers, words, `+ - x /`, brackets; `GiB` stands for 2^30 bytes."""

    bytes: float
    formula: str

    def __add__(self, other: Amount) -> Amount:
        """Return the sum; a zero leaves no trace in the formula."""
        if not self.bytes or not other.bytes:
            return self if self.bytes else other
        return Amount(self.bytes + other.bytes, f"{self.formula} + {other.formula}")

    def times(self, count: float, words: str) -> Amount:
        """Return the multiple; one time leaves the formula as it is."""
        if count == 1:
            return self
        formula = f"({self.formula})" if " + " in self.formula or " - " in self.formula else self.formula
        return Amount(self.bytes * count, f"{formula} x {number(count)} {words}")

    @property
    def gib(self) -> float:
        """The amount in GiB."""
        return self.bytes / GIB


NOTHING = Amount(0.0, "0")


def product(*factors: Factor, over: Sequence[Factor] = ()) -> Amount:
    """Return the product of `factors` divided by `over`; divisors of 1 are not shown."""
    total, parts = 1.0, []
    for value, words in factors:
        total *= value
        parts.append(f"{number(value)} {words}".rstrip())
    formula = " x ".join(parts)
    for value, words in over:
        if value != 1:
            total /= value
            formula += f" / {number(value)} {words}"
    return Amount(total, formula)


def gib(value_gib: float, words: str) -> Amount:
    """Return an amount that is given, not computed."""
    return Amount(value_gib * GIB, f"{number(value_gib)} GiB {words}".rstrip())


def number(value: float) -> str:
    """Return a number as short as six digits allow (1.51e9); whole numbers below 10^9 in full."""
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.6g}".replace("e+", "e").replace("e0", "e")
