"""A plan from the LP: take the groups that it takes almost whole, solve it again for the jobs that are left, and so on."""

from __future__ import annotations

from math import ceil

import numpy as np

from rollplan.models.certified import Limits
from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.measures import Box
from rollplan.models.colocation.tree.master import Master

_WHOLE = 0.7
"""Share from which a group is taken."""
_LEAST = 0.05
"""Part of the groups with a share that a step takes at least, the largest shares first."""
_TAKEN = 1e-6


def dive(master: Master, box: Box, limits: Limits) -> Ints:
    """Return the columns taken, no two with a job in common; jobs may be left over. The LP is afterwards as it was.

    No groups are looked for on the way: those that the LP knows are enough, and what is left over goes to the neighbourhood search.
    """
    master.enter(box)
    taken: list[int] = []
    covered: list[set[int]] = [set() for _ in master.blocks]
    found = master.solve(box, limits.left_s)
    with master.fixing() as fix:
        while found is not None and not limits.stop():
            share: Floats = found.taken
            options = [int(column) for column in np.flatnonzero(share > _TAKEN) if not _held(master, int(column), covered)]
            if not options:
                break
            options.sort(key=lambda column: (-float(share[column]), column))
            certain = int((share[options] >= _WHOLE).sum())
            step = []
            for column in options[: max(certain, ceil(_LEAST * len(options)))]:
                if not _held(master, column, covered):
                    covered[int(master.block_of[column])] |= _members(master, column)
                    step.append(column)
            fix(step)
            taken += step
            found = master.solve(box, limits.left_s)
    return np.array(taken, dtype=np.int64)


def _members(master: Master, column: int) -> set[int]:
    return {int(k) for k in master.members[column] if k >= 0}


def _held(master: Master, column: int, covered: list[set[int]]) -> bool:
    """Return whether a group has a job of one that was taken."""
    return not covered[int(master.block_of[column])].isdisjoint(_members(master, column))
