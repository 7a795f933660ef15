"""Who moves when a plan changes: each new group continues at most one old group, and jobs that are elsewhere moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True, slots=True)
class Moves:
    """The groups before, and what it costs to leave them.

    group_of: by job, the number of its old group; None for a job that is new. price_per_h: $/h that a plan must save for every job
    that it moves. most: at most so many jobs may move; None is any number.
    """

    group_of: tuple[int | None, ...]
    price_per_h: float = 0.0
    most: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.price_per_h) and self.price_per_h >= 0):
            raise ValueError(f"price_per_h must be finite and at least 0, got {self.price_per_h}")
        if self.most is not None and self.most < 0:
            raise ValueError(f"most must be at least 0, got {self.most}")
        if any(group is not None and group < 0 for group in self.group_of):
            raise ValueError("group numbers must be at least 0")


def inheritance(group_of: Sequence[int | None], groups: Sequence[Sequence[int]]) -> tuple[int | None, ...]:
    """Return the old group that each new group continues (None: it is new), such that as few jobs as possible move.

    Each old group is continued by at most one new group: an assignment of greatest overlap.
    """
    olds = sorted({old for old in group_of if old is not None})
    column = {old: i for i, old in enumerate(olds)}
    overlap = np.zeros((len(groups), len(olds)))
    for row, members in enumerate(groups):
        for k in members:
            old = group_of[k]
            if old is not None:
                overlap[row, column[old]] += 1
    heirs: list[int | None] = [None] * len(groups)
    for new, i in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
        if overlap[new, i] > 0:
            heirs[int(new)] = olds[int(i)]
    return tuple(heirs)


def moved_jobs(group_of: Sequence[int | None], groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the jobs that had a group before and whose new group does not continue it, ascending; as few as there can be."""
    heirs = inheritance(group_of, groups)
    return tuple(sorted(k for heir, members in zip(heirs, groups, strict=True) for k in members if group_of[k] not in (None, heir)))
