"""P||Cmax: n jobs, m identical machines, whole processing times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite
from numbers import Integral

_LARGEST = 2**53
"""Sums stay below, so that they are exact in floats, too."""


@dataclass(frozen=True, slots=True)
class PcmaxProblem:
    """Each job runs on one machine without interruption; the last machine should end as early as possible.

    times (n): processing times in whole units of the caller, at least 1. machines: m. Raises `ValueError` for a value out
    of range or not whole.
    """

    times: tuple[int, ...]
    machines: int

    def __post_init__(self) -> None:
        if not self.times:
            raise ValueError("times must have at least one job")
        for job, time in enumerate(self.times):
            if not isinstance(time, Integral):
                raise ValueError(
                    f"times must be whole numbers, got {time!r} for job {job}; `rounded_down` makes them from seconds and a unit"
                )
        if not isinstance(self.machines, Integral):
            raise ValueError(f"machines must be a whole number, got {self.machines!r}; write how many there are, such as 3")
        if (least := min(self.times)) < 1:
            raise ValueError(f"times must be at least 1, got {least} for job {self.times.index(least)}; leave out jobs that take no time")
        if self.machines < 1:
            raise ValueError(f"machines must be at least 1, got {self.machines}")
        if (total := sum(self.times)) > _LARGEST:
            raise ValueError(f"times must sum to at most 2^53, got {total}; choose a coarser unit")

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.times)

    @property
    def longest_first(self) -> list[int]:
        """Jobs by processing time, longest first; of equal ones the lower index first."""
        return sorted(range(len(self)), key=lambda job: -self.times[job])

    @classmethod
    def rounded_down(cls, times: Sequence[float], machines: int, unit: float) -> PcmaxProblem:
        """Return the problem in whole numbers of `unit`, times rounded down and those below one unit left out.

        Its optimum times `unit` is at most the optimum of the given times (but for the rounding of the division), and at
        least that less n units. Raises `ValueError` if unit is not positive, or no time reaches it.
        """
        if not (isfinite(unit) and unit > 0):
            raise ValueError(f"unit must be finite and positive, got {unit}")
        whole = tuple(units for time in times if (units := floor(time / unit)) >= 1)
        if not whole:
            raise ValueError(f"times must reach one unit of {unit}, the longest of {len(times)} is {max(times, default=0.0)}")
        return cls(whole, machines)
