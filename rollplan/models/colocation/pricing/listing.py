"""A list of groups of a block, and pricing by looking at all of them: the fast way where the groups are few enough to list."""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Block, Floats, Ints
from rollplan.models.colocation.pricing.columns import Columns
from rollplan.models.colocation.pricing.kernel import UNLIMITED, Found, Kernel, Priced, Rules, Stop, never
from rollplan.models.colocation.pricing.lister import list_groups
from rollplan.models.colocation.pricing.measures import hold_two
from rollplan.models.colocation.pricing.scan import scan_arrays, scan_groups
from rollplan.models.compiled import HAVE_COMPILER

SCANNED_BY_NUMPY = 40_000
"""Up to so many groups numpy is quick enough, and nothing waits for a compiler."""
_SAMPLED = 16
"""Leaders whose groups are counted to guess how many there are."""


class Listing:
    """Groups of a block: all that are feasible, or those given.

    members: places, ascending, padded with -1, (m, max_size). train_class, nodes: (m,). complete: whether no group is missing.
    """

    def __init__(self, block: Block, members: Ints, train_class: Ints, nodes: Ints, complete: bool) -> None:
        self.block, self.complete = block, complete
        self.members, self.train_class, self.nodes = members, train_class, nodes
        self._holding: dict[tuple[int, int, int], Ints] = {}

    @classmethod
    def of_columns(cls, block: Block, columns: Columns) -> Listing:
        """Return the columns that belong to a block."""
        place = np.full(int(max(block.index.max(), columns.members.max(initial=0))) + 2, -1, dtype=np.int32)
        place[block.index] = np.arange(len(block), dtype=np.int32)
        here = np.flatnonzero(place[columns.members[:, 0]] >= 0)
        members = place[columns.members[here]]
        members = np.sort(np.where(members < 0, np.iinfo(np.int32).max, members), axis=1)
        members = np.where(members == np.iinfo(np.int32).max, -1, members).astype(np.int32)
        classes = np.searchsorted(block.train_nodes, columns.train_nodes[here]).astype(np.int32)
        return cls(block, members, classes, columns.rollout_nodes[here].astype(np.int32), columns.complete)

    def __len__(self) -> int:
        return len(self.members)

    def correct(self, members: tuple[int, ...], nodes: int | None) -> None:
        """Note that a group needs more nodes, or is not possible (None)."""
        key = np.full(self.members.shape[1], -1)
        key[: len(members)] = members
        rows = np.flatnonzero((self.members == key).all(axis=1))
        if nodes is None or nodes > self.block.most_nodes:
            kept = np.ones(len(self), dtype=bool)
            kept[rows] = False
            self._holding.clear()
            self.members, self.train_class, self.nodes = self.members[kept], self.train_class[kept], self.nodes[kept]
        else:
            self.nodes[rows] = nodes

    def price(
        self, prices: Floats, base: Floats, threshold: float, most: int, rules: Rules, stop: Stop | None = None, budget: int = UNLIMITED
    ) -> Priced:
        """Return the `most` groups of least reduced cost below `threshold` of every leader, as `Kernel.price` does."""
        padded = np.append(prices, 0.0)
        extra = self._extra(rules)
        if HAVE_COMPILER and len(self) > SCANNED_BY_NUMPY:
            best: Floats = np.full((len(prices), most), np.inf)
            where: Ints = np.full((len(prices), most), -1, dtype=np.int64)
            done = scan_groups(
                self.members,
                self.train_class,
                self.nodes,
                len(self),
                padded,
                base,
                extra,
                threshold,
                rules.apart,
                rules.together,
                best,
                where,
                stop if stop is not None else never(),
            )
        else:
            reduced = base[self.train_class, self.nodes].copy()
            for column in self.members.T:
                reduced -= padded[column]
            if len(extra):
                reduced += extra
            if len(rules.apart) + len(rules.together):
                reduced[~rules.allow(self.members)] = np.inf
            best, where = scan_arrays(reduced, self.members[:, 0], len(prices), threshold, most)
            done = True
        rows = where[where >= 0]
        found = Found(self.members[rows].astype(np.int64), self.train_class[rows], self.nodes[rows], best[where >= 0])
        return Priced(np.minimum(0.0, best[:, 0]), found, done and self.complete, len(self))

    def _extra(self, rules: Rules) -> Floats:
        """Return what each group pays for holding two of three jobs, (m,); nothing, (0,), where there are no such triples."""
        if not len(rules.extra):
            return np.zeros(0)
        extra = np.zeros(len(self))
        for triple, price in zip(rules.triples, rules.extra, strict=True):
            key = (int(triple[0]), int(triple[1]), int(triple[2]))
            if key not in self._holding:
                self._holding[key] = np.flatnonzero(hold_two(self.members, key))
            extra[self._holding[key]] += price
        return extra


def list_all(kernel: Kernel, most: int, stop: Stop) -> Listing | None:
    """Return all groups of a kernel's block, None if they are likely more than `most`, or if it was stopped."""
    block, jobs = kernel.block, len(kernel.block)
    sampled = range(0, jobs, max(1, jobs // _SAMPLED))
    room = most // len(sampled) + 1
    total = 0
    for leader in sampled:
        count = _listed(kernel, leader, leader + 1, room, stop)
        if count is None:
            return None
        total += len(count[0])
    if total * jobs > most * len(sampled):
        return None
    found = _listed(kernel, 0, jobs, most, stop)
    return None if found is None else Listing(block, *found, complete=True)


def _listed(kernel: Kernel, first: int, end: int, most: int, stop: Stop) -> tuple[Ints, Ints, Ints] | None:
    """Return members, classes and nodes of the groups of some leaders; None if there are more than `most`, or if stopped."""
    block = kernel.block
    base = block.base()
    members: Ints = np.empty((most, block.max_size), dtype=np.int32)
    classes: Ints = np.empty(most, dtype=np.int32)
    nodes: Ints = np.empty(most, dtype=np.int32)
    reduced = np.empty(most)
    count, next_leader = list_groups(
        first,
        end,
        *kernel.numbers,
        np.zeros(len(block)),
        base,
        base,
        np.inf,
        block.max_size,
        *kernel.memo,
        stop,
        members,
        classes,
        nodes,
        reduced,
    )
    if next_leader < end:
        return None
    found: Ints = members[:count].copy()
    return found, classes[:count].copy(), kernel.settled(found, nodes[:count])
