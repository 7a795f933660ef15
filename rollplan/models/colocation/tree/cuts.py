"""Subset-row cuts: of three jobs, a plan has at most one group that holds two of them; the LP may have one and a half.

Jepsen, Petersen, Spoorendonk, Pisinger, "Subset-row inequalities applied to the vehicle-routing problem with time windows",
Operations Research 56 (2008), section 3.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np

from rollplan.models.certified import TwoOfThree
from rollplan.models.colocation.pricing.block import Floats
from rollplan.models.colocation.tree.master import Master

_VIOLATED = 0.02
"""Least violation of a cut that is worth a row."""


def violated(master: Master, taken: Floats, most: int, per_job: int) -> list[TwoOfThree]:
    """Return the cuts that the LP breaks most, at most `most` and no more than `per_job` for a job; taken: values of columns, (m,)."""
    pairs: dict[tuple[int, int], float] = defaultdict(float)
    threes: dict[tuple[int, int, int], float] = defaultdict(float)
    for column in np.flatnonzero((taken > 1e-6) & (taken < 1 - 1e-6)):
        members = master.members[column]
        jobs = sorted(master.blocks[int(master.block_of[column])].index[members[members >= 0]].tolist())
        for pair in combinations(jobs, 2):
            pairs[pair] += float(taken[column])
        for three in combinations(jobs, 3):
            threes[three] += float(taken[column])
    linked: dict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        linked[first].append(second)
    found = []
    for first, others in linked.items():
        for second, third in combinations(sorted(others), 2):
            if (second, third) not in pairs:
                continue  # all groups with two of them hold the first job, which is in one group
            total = pairs[first, second] + pairs[first, third] + pairs[second, third] - 2 * threes.get((first, second, third), 0.0)
            if total > 1 + _VIOLATED:
                found.append((-total, first, second, third))
    found.sort()
    used: dict[int, int] = defaultdict(int)
    cuts: list[TwoOfThree] = []
    for _, *jobs in found:
        if len(cuts) < most and all(used[k] < per_job for k in jobs):
            cuts.append(TwoOfThree(*jobs))
            for k in jobs:
                used[k] += 1
    return cuts
