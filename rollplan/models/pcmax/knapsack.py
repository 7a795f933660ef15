"""The best pattern: which jobs are worth most within a capacity, by dynamic programming in whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

Pattern: TypeAlias = tuple[tuple[int, int], ...]
"""What a machine holds: pairs of a size (its position in the list of sizes) and how many of it, positions rising."""


class Knapsack:
    """The most that the first r of the rows are worth within every capacity; a row is one more job of a size.

    sizes, copies, prices (d): processing times, how many jobs have each, and whole prices, at least 0; what fits into the
    capacity is worth less than 2^31.
    """

    def __init__(self, sizes: Sequence[int], copies: Sequence[int], prices: Sequence[int], capacity: int) -> None:
        self.sizes, self.prices, self.capacity = sizes, prices, capacity
        priced = [d for d in range(len(sizes)) if prices[d] > 0]
        self.rows = [d for d in priced for _ in range(min(copies[d], capacity // sizes[d]))]
        self.table = np.zeros((len(self.rows) + 1, capacity + 1), dtype=np.int32)
        for row, d in enumerate(self.rows):
            before, after, size = self.table[row], self.table[row + 1], sizes[d]
            after[:size] = before[:size]
            np.maximum(before[size:], before[: capacity + 1 - size] + prices[d], out=after[size:])

    @property
    def worth(self) -> int:
        """What the best pattern is worth."""
        return int(self.table[-1, -1])

    def patterns(self, more_than: int, most: int) -> Iterator[Pattern]:
        """Yield the best pattern, then the best of the first so many rows, at most `most` that are worth more than asked."""
        enough = int(np.searchsorted(self.table[:, -1], more_than, side="right"))
        for row in np.unique(np.linspace(len(self.rows), enough, most).astype(np.int64))[::-1].tolist():
            if enough <= row <= len(self.rows):
                yield self._best(row)

    def _best(self, rows: int) -> Pattern:
        room, taken = self.capacity, Counter[int]()
        for row in range(rows - 1, -1, -1):
            if self.table[row + 1, room] != self.table[row, room]:
                taken[self.rows[row]] += 1
                room -= self.sizes[self.rows[row]]
        return tuple(sorted(taken.items()))
