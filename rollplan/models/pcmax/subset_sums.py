"""Which sums subsets of whole numbers have, as the bits of one large integer."""

from __future__ import annotations

from collections.abc import Iterable


def subset_sums(numbers: Iterable[int], most: int) -> int:
    """Return an integer whose bit s is set if and only if some subset of `numbers` sums to s, for s of 0 to `most`."""
    sums, mask = 1, (1 << most + 1) - 1
    for number in numbers:
        sums |= sums << number & mask
    return sums


def at_least(sums: int, value: int) -> int | None:
    """Return the least sum that is at least `value`, None if there is none."""
    above = sums >> value
    return value + (above & -above).bit_length() - 1 if above else None


def between(sums: int, low: int, high: int) -> list[int]:
    """Return the sums of `low` to `high` - 1, rising."""
    found: list[int] = []
    value = at_least(sums, low)
    while value is not None and value < high:
        found.append(value)
        value = at_least(sums, value + 1)
    return found
