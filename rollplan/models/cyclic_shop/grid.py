"""From seconds to whole numbers for CP-SAT, and what rounding does to a bound.

If all times are multiples of a power of ten they are whole numbers of it, and nothing is rounded. Otherwise durations are
rounded up, so that a schedule found for them holds for the shorter true ones. A period that is refuted with durations
rounded up by less than one unit each is a bound only after as many units are taken off as a cycle of phases has parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isclose

_LARGEST = 2**27
"""Periods are at most so many units: all sums of the model stay far below 2^31, beyond which proofs have been wrong."""


@dataclass(frozen=True, slots=True)
class Grid:
    """`per_s` units are a second. rounded: whether some duration is not a whole number of units."""

    per_s: float
    rounded: bool

    def up(self, seconds: float) -> int:
        """Return units, rounded up; rounding errors of 1e-9 of a unit's count are no reason to round."""
        units = seconds * self.per_s
        return round(units) if isclose(units, round(units), rel_tol=1e-9, abs_tol=1e-9) else ceil(units)

    def down(self, seconds: float) -> int:
        """Return units, rounded down, with the same tolerance."""
        units = seconds * self.per_s
        return round(units) if isclose(units, round(units), rel_tol=1e-9, abs_tol=1e-9) else floor(units)


def grid_of(seconds: Sequence[float], longest_s: float, multiple: int = 1) -> Grid:
    """Return the coarsest grid of powers of ten, `multiple` times as fine, that holds all `seconds`.

    longest_s: the longest period that will be asked for; if the exact grid would be too fine for it, a rounding one.
    """
    for digits in range(7):
        per_s = 10**digits
        if per_s * multiple * longest_s > _LARGEST:
            break
        if all(isclose(value * per_s, round(value * per_s), rel_tol=1e-9, abs_tol=1e-9) for value in seconds):
            return Grid(per_s * multiple, False)
    return Grid(_LARGEST / longest_s, True)
