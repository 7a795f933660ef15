"""What the prices at one end of a witness prove: sums over leaders of the least reduced cost, each searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import fsum, inf
from threading import Thread
from typing import TypeAlias

import numpy as np

from rollplan.models.certified import Leaf, Limits, TwoOfThree
from rollplan.models.colocation.certificate import search
from rollplan.models.colocation.certificate.groups import timetable_tolerance
from rollplan.models.colocation.certificate.limits import Box, Pairs, class_price, ends, jobs_of
from rollplan.models.colocation.certificate.nodes import Reals
from rollplan.models.colocation.certificate.search import Cuts, Items
from rollplan.models.colocation.problem import REL_TOL, ColocationProblem
from rollplan.models.native import run

Arguments: TypeAlias = tuple[Items, Cuts, Reals, Reals, float]
_WIDER = (1 + REL_TOL) * (1 + 1e-14)
"""A group that `at_most` accepts in whatever order it is summed is accepted here."""
_MOST_NODES = 10_000
"""Wider groups are not searched: nothing is proven then."""
_PLAIN_WORK = 20_000
"""Times of searching, each the square of the jobs, that plain Python has done sooner than the search is compiled."""
_MANY_JOBS = 150
"""From so many on, leaders are searched by two threads."""


@dataclass
class Prover:
    """Proves what prices prove, for one problem, until `stop` answers. `stopped` says whether some answer was cut short.

    times: how often it will be asked about, which decides whether compiling the search pays.
    """

    problem: ColocationProblem
    stop: Callable[[], object]
    times: int = 1
    stopped: bool = False
    _known: dict[tuple[Pairs, Pairs], list[_Block] | None] = field(default_factory=dict)

    def __call__(self, box: Box, prices: Leaf) -> float:
        """Return a bound on the cost of plans in the box: infinite if there is none, -infinite if nothing was proven.

        The bound is weaker, but one, if the search is stopped.
        """
        known = ends(box, prices)
        if self.stop():
            self.stopped = True
            return -inf
        if box.pairs not in self._known:
            # Neighbouring ends of a tree often have the same pairs; those of all ends would not fit into memory.
            self._known = {box.pairs: _blocks(self.problem, *box.pairs)}
        blocks = self._known[box.pairs]
        if blocks is None:
            return inf
        violation = [self._violation(box, prices, block) for block in blocks]
        return fsum([*prices.jobs, known, *violation])

    def _violation(self, box: Box, prices: Leaf, block: _Block) -> float:
        """Return a lower bound on the sum over leaders of min(0, least reduced cost)."""
        if block.most_nodes > _MOST_NODES:
            return -inf
        arguments = block.arguments(box, prices)
        compiled = search.compiled() if self.times * len(self.problem.jobs) ** 2 > _PLAIN_WORK else None
        if compiled is not None:
            return self._compiled(compiled, arguments)
        asking = _Asking(self.stop)
        least = [search.least_reduced_cost(*arguments, leader, True, asking) for leader in range(len(block.members))]
        self.stopped |= not all(sure for _, sure in least)
        return fsum(value for value, _ in least)

    def _compiled(self, compiled: Callable[..., tuple[float, bool]], arguments: Arguments) -> float:
        """Return the violation: multipliers alone for all leaders first, then a search for those whose bound is below 0."""
        count = len(arguments[0].size)
        least, halt = np.full(count, -inf), np.zeros(1, np.int64)
        sure = np.zeros(count, np.bool_)

        def settle(leaders: Sequence[int], dig: bool) -> None:
            todo = iter(leaders)

            def work() -> None:
                for leader in todo:
                    if halt[0] and dig:
                        return
                    least[leader], sure[leader] = compiled(*arguments, leader, dig, halt)

            beside = [Thread(target=work, daemon=True)] if count >= _MANY_JOBS else []
            for thread in beside:
                thread.start()
            work()
            for thread in beside:
                thread.join()

        def whole() -> bool:
            settle(range(count), dig=False)
            settle([leader for leader in range(count) if not sure[leader]], dig=True)
            return True

        def asked() -> bool:
            if self.stop():
                halt[0] = 1
            return bool(halt[0])

        ended = run(whole, Limits(inf, interrupted=asked))
        self.stopped |= not ended or not sure.all()
        return fsum(least)


class _Asking:
    """Stands for an array whose one number becomes true when the search shall end."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    def __getitem__(self, index: int) -> bool:
        return bool(self._stop())


@dataclass(frozen=True)
class _Block:
    """The items of one pair of (rollout, training) pools; members: the jobs of each. train_nodes: of the rows of classes."""

    pools: tuple[int, int]
    items: Items
    members: tuple[tuple[int, ...], ...]
    train_nodes: tuple[int, ...]

    @cached_property
    def most_nodes(self) -> int:
        """Most rollout nodes that a group can have, each job on its own."""
        return int(np.sort(self.items.job_nodes)[::-1][: self.items.max_group_size].sum())

    def arguments(self, box: Box, prices: Leaf) -> Arguments:
        """Return what the search needs: items, cuts, the cost of every class, the price of every item, and the slack."""
        price = np.array([fsum(prices.jobs[k] for k in members) for members in self.members])
        base = np.full((len(self.train_nodes), self.most_nodes + 1), inf)
        for row, trainers in enumerate(self.train_nodes):
            for nodes in range(1, self.most_nodes + 1):
                base[row, nodes] = class_price(box, prices, self.pools, trainers, nodes)
        place = {k: item for item, members in enumerate(self.members) for k in members}
        sets: list[tuple[list[int], float]] = []
        for measure, paid in prices.measures:
            if isinstance(measure, TwoOfThree) and paid < 0:
                held = [place[k] for k in jobs_of(measure) if k in place]
                distinct = sorted(set(held))
                if len(distinct) < len(held):  # an item that holds two of the jobs pays always
                    price[max(distinct, key=held.count)] += paid
                elif len(distinct) > 1:
                    sets.append((distinct, -paid))
        scale = float(np.abs(base[base < inf]).max(initial=0.0)) + self.items.max_group_size * float(np.abs(price).max())
        scale += sum(paid for _, paid in sets)
        return self.items, _cuts(len(price), sets), base, price, 1e-9 + 1e-12 * scale


def _cuts(items: int, sets: list[tuple[list[int], float]]) -> Cuts:
    rows = np.full((len(sets), 3), -1)
    of_item: list[list[int]] = [[] for _ in range(items)]
    for number, (members, _) in enumerate(sets):
        rows[number, : len(members)] = members
        for item in members:
            of_item[item].append(number)
    first = np.cumsum([0, *map(len, of_item)])
    return Cuts(rows, np.array([paid for _, paid in sets], float), first, np.array([*chain.from_iterable(of_item)], np.int64))


def _blocks(problem: ColocationProblem, apart: Pairs, together: Pairs) -> list[_Block] | None:
    """Return the items of every pair of pools; None if jobs that must be together cannot be."""
    root = list(range(len(problem.jobs)))
    for one, other in sorted(together):
        first, second = root[one], root[other]
        root = [first if name == second else name for name in root]
    sets: dict[int, list[int]] = {}
    for k, name in enumerate(root):
        sets.setdefault(name, []).append(k)
    by_pools: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for found in sets.values():
        if len(found) > 1 and not _possible(problem, found, apart):
            return None
        # What leads an item is its job that tolerates least.
        members = tuple(sorted(found, key=lambda k: (problem.jobs[k].tolerable_s, k)))
        by_pools.setdefault((problem.jobs[found[0]].rollout_pool, problem.jobs[found[0]].train_pool), []).append(members)
    return [_block(problem, pools, members, apart) for pools, members in sorted(by_pools.items())]


def _possible(problem: ColocationProblem, members: list[int], apart: Pairs) -> bool:
    """Return whether jobs that must be together may be a part of a group."""
    jobs = [problem.jobs[k] for k in members]
    limit = min(job.tolerable_s for job in jobs) * _WIDER * (1 + timetable_tolerance(problem))
    return (
        len(jobs) <= problem.max_group_size
        and len({(job.rollout_pool, job.train_pool) for job in jobs}) == 1
        and max(job.solo_s for job in jobs) <= limit
        and fsum(job.train_s for job in jobs) <= limit
        and fsum(job.train_memory_gib for job in jobs) <= problem.pools[jobs[0].train_pool].memory_gib * _WIDER
        and not any(one in members and other in members for one, other in apart)
    )


def _block(problem: ColocationProblem, pools: tuple[int, int], members: list[tuple[int, ...]], apart: Pairs) -> _Block:
    members = sorted(members, key=lambda item: (problem.jobs[item[0]].tolerable_s, item[0]))
    place = {k: number for number, item in enumerate(members) for k in item}
    jobs = [[problem.jobs[k] for k in item] for item in members]
    train_nodes = tuple(sorted({job.train_nodes for item in jobs for job in item}))
    kept = [(place[one], place[other]) for one, other in apart if one in place and other in place]
    forbidden = np.zeros((len(members), len(members)) if kept else (0, 0), np.bool_)
    for one, other in kept:
        forbidden[one, other] = forbidden[other, one] = True
    items = Items(
        tolerable=np.array([item[0].tolerable_s * _WIDER * (1 + timetable_tolerance(problem)) for item in jobs]),
        solo=np.array([max(job.solo_s for job in item) for item in jobs]),
        train=np.array([fsum(job.train_s for job in item) for item in jobs]),
        train_memory=np.array([fsum(job.train_memory_gib for job in item) for item in jobs]),
        size=np.array([len(item) for item in jobs]),
        row=np.array([train_nodes.index(max(job.train_nodes for job in item)) for item in jobs]),
        nodes=np.array([max(job.rollout_nodes for job in item) for item in jobs]),
        first=np.cumsum([0, *map(len, jobs)]),
        job_rollout=np.array([job.rollout_s for item in jobs for job in item]),
        job_nodes=np.array([job.rollout_nodes for item in jobs for job in item]),
        job_memory=np.array([job.rollout_memory_gib for item in jobs for job in item]),
        apart=forbidden,
        node_memory=problem.pools[pools[0]].memory_gib * _WIDER,
        train_node_memory=problem.pools[pools[1]].memory_gib * _WIDER,
        max_group_size=problem.max_group_size,
        rollout_price=problem.pools[pools[0]].price_per_node_h,
    )
    return _Block(pools, items, tuple(members), train_nodes)
