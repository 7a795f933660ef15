"""Pricing of a list of groups: the best few of every leader, compiled, and with numpy alone, with the same answers."""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.one_group import allowed
from rollplan.models.compiled import compiled


@compiled
def scan_groups(
    members: Ints,
    train_class: Ints,
    nodes: Ints,
    rows: int,
    padded: Floats,
    base: Floats,
    extra: Floats,
    threshold: float,
    apart: Ints,
    together: Ints,
    best: Floats,
    where: Ints,
    stop: Ints,
) -> bool:
    """Write the groups of least reduced cost below `threshold` among the first `rows`; return False if stopped.

    padded: prices of the jobs, and 0 at the end. extra: what groups pay beside their cost, (m,), or nothing, (0,). best, where:
    (n, most), infinite and -1 before: reduced costs and rows of each leader.
    """
    most = best.shape[1]
    size = members.shape[1]
    ruled = len(apart) + len(together) > 0
    group = np.empty(size, dtype=np.int64)
    for row in range(rows):
        if row & 65535 == 0 and stop[0] != 0:
            return False
        reduced = base[train_class[row], nodes[row]]
        if row < len(extra):
            reduced += extra[row]
        for j in range(size):
            reduced -= padded[members[row, j]]
        leader = members[row, 0]
        if reduced >= threshold or reduced >= best[leader, most - 1]:
            continue
        if ruled:
            count = 0
            for j in range(size):
                if members[row, j] >= 0:
                    group[count] = members[row, j]
                    count += 1
            if not allowed(group, count, apart, together):
                continue
        i = most - 1
        while i > 0 and best[leader, i - 1] > reduced:
            best[leader, i] = best[leader, i - 1]
            where[leader, i] = where[leader, i - 1]
            i -= 1
        best[leader, i] = reduced
        where[leader, i] = row
    return True


def scan_arrays(reduced: Floats, leader: Ints, jobs: int, threshold: float, most: int) -> tuple[Floats, Ints]:
    """Return best and where of `scan_groups`, from reduced costs and leaders of all rows, (m,)."""
    best, where = np.full((jobs, most), np.inf), np.full((jobs, most), -1, dtype=np.int64)
    below = np.flatnonzero(reduced < threshold)
    order = below[np.lexsort((below, reduced[below], leader[below]))]
    starts = np.flatnonzero(np.diff(leader[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    order, rank = order[rank < most], rank[rank < most]
    best[leader[order], rank], where[leader[order], rank] = reduced[order], order
    return best, where
