"""What exact co-location asks of the jobs of one pair of pools: fewest nodes, groups inside a subset, groups of least reduced cost.

`base[c, N]` is the cost of a group with train_nodes[c] training and N rollout nodes less the prices of the measures that it adds
to: all branching on totals and counts enters there. The reduced cost of a group is base[c, N] - sum of its jobs' prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from rollplan.models.colocation.nodes import cover, fitting_sets
from rollplan.models.colocation.pricing.block import Block, Bools, Floats, Ints
from rollplan.models.colocation.pricing.leader import search_leaders
from rollplan.models.colocation.pricing.node_count import fewest_nodes as count_nodes
from rollplan.models.colocation.pricing.node_count import memo_of_counts
from rollplan.models.colocation.pricing.one_group import fill_slots

UNLIMITED = 1 << 60
Stop = Ints
"""An array of one number; setting it to 1, from any thread, ends the searches that were given it."""


def never() -> Stop:
    """Return a stop that nobody sets."""
    return np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Found:
    """Groups of a block: places of their members, ascending, padded with -1, (m, max_size); places of their training nodes in
    `train_nodes`, (m,); rollout nodes, (m,); reduced costs, (m,)."""

    members: Ints
    train_class: Ints
    rollout_nodes: Ints
    reduced: Floats

    def __len__(self) -> int:
        return len(self.members)

    def where(self, kept: Bools) -> Found:
        """Return some of the groups."""
        return Found(self.members[kept], self.train_class[kept], self.rollout_nodes[kept], self.reduced[kept])


@dataclass(frozen=True, slots=True)
class Rules:
    """Pairs of places that a group must not have both of (`apart`), and not exactly one of (`together`), (p, 2) each.

    triples, extra: three places, (t, 3), and what a group with at least two of them pays beside its cost, (t,), not negative.
    """

    apart: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    together: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    triples: Ints = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    extra: Floats = field(default_factory=lambda: np.zeros(0))

    def allow(self, members: Ints) -> Bools:
        """Return which groups, (m, max_size), obey the rules."""
        kept = np.ones(len(members), dtype=bool)
        for first, second in self.apart:
            kept &= ~((members == first).any(axis=1) & (members == second).any(axis=1))
        for first, second in self.together:
            kept &= (members == first).any(axis=1) == (members == second).any(axis=1)
        return kept

    def inside(self, places: Ints) -> Rules:
        """Return the rules on pairs of `places`, in places of `places`."""
        number = {int(k): i for i, k in enumerate(places)}
        pairs = [
            [(number[int(a)], number[int(b)]) for a, b in some if int(a) in number and int(b) in number]
            for some in (self.apart, self.together)
        ]
        held = [i for i, triple in enumerate(self.triples) if sum(int(k) in number for k in triple) >= 2]
        triples = [[number.get(int(k), -2) for k in self.triples[i]] for i in held]
        apart, together = (np.array(some, dtype=np.int64).reshape(-1, 2) for some in pairs)
        return Rules(apart, together, np.array(triples, dtype=np.int64).reshape(-1, 3), self.extra[held])

    def surcharges(self, members: Ints) -> Floats:
        """Return what groups, (m, max_size), pay for the triples of which they hold at least two, (m,)."""
        total = np.zeros(len(members))
        for triple, extra in zip(self.triples, self.extra, strict=True):
            total += extra * (np.isin(members, triple).sum(axis=1) >= 2)
        return total


@dataclass(frozen=True, slots=True)
class Priced:
    """Least reduced cost that each job leads, 0 if none is negative, (n,); the groups found; whether no leader was left undone."""

    least: Floats
    found: Found
    complete: bool
    work: int


class Kernel:
    """The compiled searches over one block, with their memory of node counts; `threads` of them run beside each other."""

    def __init__(self, block: Block, threads: int = 1, memos: list[tuple[Ints, Ints]] | None = None) -> None:
        self.block = block
        self._numbers = np.stack([block.rollout_s, block.train_s, block.solo_s, block.limit_s, block.rollout_gib, block.train_gib], axis=1)
        self._demand = block.demand.astype(np.int64)
        self._train_class = block.train_class.astype(np.int64)
        self._gib = np.array([block.node_gib, block.train_node_gib])
        self._memos = memos or [memo_of_counts() for _ in range(threads)]
        self._known: dict[tuple[int, ...], int | None] = {}
        self._hashed: tuple[Ints, Ints] | None = None
        self._room = 1 << 10

    @property
    def numbers(self) -> tuple[Floats, Ints, Ints, Floats]:
        """The block as the compiled searches take it: numbers (n, 6), demand, train_class, memory of the two kinds of nodes."""
        return self._numbers, self._demand, self._train_class, self._gib

    @property
    def memo(self) -> tuple[Ints, Ints]:
        """The memory of node counts of the first thread."""
        return self._memos[0]

    def fewest_nodes(self, members: Sequence[int]) -> int | None:
        """Return the fewest rollout nodes of a group (places, ascending) whose training fits; None if it was found impossible."""
        key = tuple(members)
        if key in self._known:
            return self._known[key]
        chosen, block = list(key), self.block
        found = count_nodes(
            len(key),
            block.rollout_s[chosen],
            block.rollout_gib[chosen],
            self._demand[chosen],
            float(block.limit_s[chosen[0]]),
            block.node_gib,
            *self._memos[0],
        )
        return int(found) if found > 0 else self._covered(key)

    def correct(self, members: Sequence[int], nodes: int | None) -> None:
        """Note that a group needs other nodes than the closed form says, or is not possible (None); all searches know it from now on."""
        self._known[tuple(members)] = nodes
        self._hashed = None

    def enumerate(
        self, places: Ints, prices: Floats, base: Floats, threshold: float, rules: Rules | None = None, stop: Stop | None = None
    ) -> Found | None:
        """Return all feasible groups inside `places` (ascending) with reduced cost < threshold; None if stopped.

        prices: of all jobs of the block, (n,). Members of what is found are places in the block.
        """
        rules = rules or Rules()
        inner = Kernel(self.block.take(places), memos=self._memos)
        local = self._with_known_inside(inner, places)
        answer = local._search(np.arange(len(places)), prices[places], base, threshold, 0, rules.inside(places), stop, UNLIMITED, 0)
        if answer.work.min(initial=0) < 0:
            return None
        members = np.append(np.asarray(places, dtype=np.int64), -1)[answer.members]
        nodes = self.settled(members, answer.nodes)
        dear = nodes != np.abs(answer.nodes)
        found = self._found(members[~dear], nodes[~dear], answer.reduced[~dear])
        known = self._known_below(prices, base, threshold, rules)
        return _joined(found, known.where(np.asarray(np.isin(known.members, [*places, -1]).all(axis=1))))

    def price(
        self,
        prices: Floats,
        base: Floats,
        threshold: float = -1e-6,
        most: int = 6,
        rules: Rules | None = None,
        stop: Stop | None = None,
        budget: int = UNLIMITED,
    ) -> Priced:
        """Return, for every leader, the `most` groups of least reduced cost below `threshold`, which is not above 0.

        budget: work for one leader and pair of node counts; where more is needed, or after a stop, the answer is incomplete: no bound then.
        """
        rules, threads = rules or Rules(), len(self._memos)
        orders = [np.arange(thread, len(self.block), threads) for thread in range(threads)]

        def some(thread: int) -> _Answer:
            return self._search(orders[thread], prices, base, threshold, most, rules, stop, budget, thread)

        if threads == 1:
            answers = [some(0)]
        else:
            self._hashes()
            with ThreadPoolExecutor(threads) as pool:
                answers = list(pool.map(some, range(threads)))
        while wide := self._too_cheap(answers):
            answers.append(self._search(np.array(wide), prices, base, threshold, most, rules, stop, budget, 0))
        members = np.concatenate([answer.members for answer in answers])
        order = np.argsort(members[:, 0], kind="stable")
        nodes = np.abs(np.concatenate([answer.nodes for answer in answers]))
        reduced = np.concatenate([answer.reduced for answer in answers])
        found = self._found(members[order], nodes[order], reduced[order])
        found = _joined(found, self._known_below(prices, base, threshold, rules))
        least = np.zeros(len(self.block))
        np.minimum.at(least, found.members[:, 0], found.reduced)
        complete = all(bool((answer.work >= 0).all()) for answer in answers)
        return Priced(least, found, complete, int(sum(np.abs(answer.work).sum() for answer in answers)))

    def _search(
        self,
        order: Ints,
        prices: Floats,
        base: Floats,
        threshold: float,
        most: int,
        rules: Rules,
        stop: Stop | None,
        budget: int,
        thread: int,
    ) -> _Answer:
        """Search leaders for `most` groups each, or for all (0): then more room is taken where it was too small."""
        table, slots = self._hashes()
        while True:
            room = max(1, most * len(order) if most else self._room)
            members = np.empty((room, self.block.max_size), dtype=np.int64)
            nodes, reduced = np.empty(room, dtype=np.int64), np.empty(room)
            counts, work = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
            found = search_leaders(
                order,
                self._numbers,
                self._demand,
                self._train_class,
                self._gib,
                prices,
                base,
                self.block.max_size,
                threshold,
                most,
                rules.apart,
                rules.together,
                rules.triples,
                rules.extra,
                table,
                slots,
                *self._memos[thread],
                budget,
                stop if stop is not None else never(),
                members,
                nodes,
                reduced,
                counts,
                work,
            )
            if found >= 0:
                return _Answer(members[:found], nodes[:found], reduced[:found], work)
            self._room *= 4

    def _too_cheap(self, answers: list[_Answer]) -> list[int]:
        """Take out of the answers the leaders with groups whose true count is above the bound on it; return them."""
        again: set[int] = set()
        for i, answer in enumerate(answers):
            nodes = self.settled(answer.members, answer.nodes)
            dear = np.unique(answer.members[nodes != np.abs(answer.nodes), 0])
            again |= {int(leader) for leader in dear}
            kept = ~np.isin(answer.members[:, 0], dear)
            answers[i] = _Answer(answer.members[kept], nodes[kept], answer.reduced[kept], answer.work)
        return sorted(again)

    def settled(self, members: Ints, nodes: Ints) -> Ints:
        """Return true node counts where there were lower bounds (negative), and remember those that differ."""
        settled = np.abs(nodes)
        for row in np.flatnonzero(nodes < 0):
            key = tuple(int(k) for k in members[row] if k >= 0)
            settled[row] = self._covered(key)
            if settled[row] != -nodes[row]:
                self.correct(key, int(settled[row]))
        return settled

    def _covered(self, key: tuple[int, ...]) -> int:
        chosen, block = list(key), self.block
        sets = fitting_sets(
            block.rollout_s[chosen].tolist(), block.rollout_gib[chosen].tolist(), float(block.limit_s[chosen[0]]), block.node_gib
        )
        return len(cover(sets, tuple(block.demand[chosen].tolist())))

    def _hashes(self) -> tuple[Ints, Ints]:
        """Return the known groups as a table and its hash slots."""
        if self._hashed is None:
            table = np.full((len(self._known), self.block.max_size), -1, dtype=np.int64)
            for row, key in enumerate(self._known):
                table[row, : len(key)] = key
            slots = np.full(2 * len(self._known) + 1, -1, dtype=np.int64)
            fill_slots(table, slots)
            self._hashed = table, slots
        return self._hashed

    def _with_known_inside(self, inner: Kernel, places: Ints) -> Kernel:
        if self._known:
            number = {int(k): i for i, k in enumerate(places)}
            inner._known = {tuple(number[k] for k in key): nodes for key, nodes in self._known.items() if all(k in number for k in key)}
        return inner

    def _known_below(self, prices: Floats, base: Floats, threshold: float, rules: Rules) -> Found:
        """Return the groups of known node counts with reduced cost below the threshold."""
        rows = [row for row, nodes in enumerate(self._known.values()) if nodes is not None and nodes < base.shape[1]]
        members = self._hashes()[0][rows]
        nodes = np.array([nodes for nodes in self._known.values() if nodes is not None and nodes < base.shape[1]], dtype=np.int64)
        reduced = base[self._classes(members), nodes] - np.append(prices, 0.0)[members].sum(axis=1) + rules.surcharges(members)
        return self._found(members, nodes, reduced).where((reduced < threshold) & rules.allow(members))

    def _classes(self, members: Ints) -> Ints:
        return np.asarray(np.append(self._train_class, -1)[members].max(axis=1, initial=-1))

    def _found(self, members: Ints, nodes: Ints, reduced: Floats) -> Found:
        return Found(members, self._classes(members), nodes, reduced)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a search of leaders wrote: node counts negative where they are lower bounds, work of each leader negative where cut short."""

    members: Ints
    nodes: Ints
    reduced: Floats
    work: Ints


def _joined(some: Found, more: Found) -> Found:
    return Found(
        np.concatenate([some.members, more.members]),
        np.concatenate([some.train_class, more.train_class]),
        np.concatenate([some.rollout_nodes, more.rollout_nodes]),
        np.concatenate([some.reduced, more.reduced]),
    )
