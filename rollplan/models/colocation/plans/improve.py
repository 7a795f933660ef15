"""Large-neighbourhood search on partitions: the jobs of some groups are regrouped, again and again, as well as they can be.

A neighbourhood is the jobs of groups that are near in tolerable period or linked by groups of small reduced cost. Within it the
choice is exact up to a budget of search nodes (`regroup`), so the search needs no LP: the prices that a neighbourhood learns are
kept for the next. LP duals, where they exist, make it sharper. Everything is counted in work, never in seconds, and the
neighbourhoods of a round have no job in common, so that threads change the time a run takes and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from rollplan.models.colocation.plans.exact_cover import MAX_JOBS
from rollplan.models.colocation.plans.few_jobs import enumerate_groups
from rollplan.models.colocation.plans.moves import Moves
from rollplan.models.colocation.plans.placed import FewestNodes, Members, Partition, Placed, Placement
from rollplan.models.colocation.plans.regroup import Regrouped, regroup
from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.node_count import memo_of_counts
from rollplan.models.colocation.problem import ColocationProblem

_ROOM = 3000
"""Groups that one neighbourhood may list; the threshold of reduced cost falls until they are so few."""
_SEARCH_NODES = 20_000
_LEAST_WORK = 2_000
"""Of a neighbourhood with moves, whose limits may end the search at once: it takes time all the same."""
_ROUNDS = 120
_SMALLEST, _STEP, _LARGEST = 24, 6, 54
_WIDTHS = (1.0, 1.0, 2.5, 6.0, 15.0)
"""How far chance may outweigh distance in tolerable period, in sizes of the neighbourhood."""
_PULLS = (0.0, 0.5, 1.0, 1.0, 2.0)
"""How much nearer wasteful groups seem."""
_LINKED_JOBS = 500
"""Up to so many jobs LP prices link neighbourhoods."""
_LINKING = 20_000
_LINK_THRESHOLDS = (10.0, 3.0, 1.0)
"""Most groups that do, and their largest reduced cost in units: the first of these that leaves so few."""
_LEAST_WASTE = 0.002
_LITTLE = 0.003
"""Neighbourhoods grow when two passes over the jobs save less than this share."""
_PATIENCE = 12
"""After so many passes without success the search goes back to the best partition of this beginning."""
_ANEW = 2
_FEW_JOBS = 400
"""After so many times the patience up to so many jobs begin anew, each alone."""
_TASKS = 8
"""Most neighbourhoods of a round."""
_THRESHOLD = 150.0
"""Largest reduced cost, in units, of the groups that a neighbourhood lists."""
_HEAT = 0.06
"""How much worse a neighbourhood may become when nothing better is found, on average, in prices of the dearest node."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A neighbourhood to regroup: groups by place, rows of their jobs, their cost, and how the search may depart from them."""

    groups: tuple[int, ...]
    jobs: Ints
    now: float
    target: float
    threshold: float
    banned: int
    present: Ints
    present_nodes: Ints
    caps: Ints
    old: Ints
    heirs: tuple[int, ...]


class Improver:
    """Improves partitions of a problem within a budget of work; never returns a worse one than it was given.

    moves: old groups and what it costs to leave them; costs then include the moves. fewest: true node counts, where the closed form
    is only a lower bound. Same seed and budgets, same answers, on any number of threads.
    best: the best partition of the present run, replaced in one assignment, for whoever leaves the run behind.
    """

    def __init__(
        self, problem: ColocationProblem, seed: int = 0, moves: Moves | None = None, fewest: FewestNodes | None = None, threads: int = 2
    ) -> None:
        self.problem = problem
        self.placement = Placement(problem, moves, fewest)
        self.fleet = self.placement.fleet
        self.prices = self.fleet.fluid_prices()
        self.best: Partition = ()
        self.work = 0
        self._random = np.random.default_rng(seed)
        self._raised: dict[Members, int] = {}
        self._duals: Floats | None = None
        self._near: list[list[int]] = []
        self._links: dict[int, list[Members]] = {}
        self._memos = [memo_of_counts() for _ in range(threads)]
        self._largest = _SMALLEST
        self._groups: list[Placed] = []

    def run(
        self,
        partition: Iterable[Sequence[int]] | None,
        work: int,
        stop: Callable[[], object] = lambda: None,
        duals: Sequence[float] | None = None,
        columns: Iterable[Sequence[int]] = (),
        report: Callable[[float], None] = lambda cost: None,
    ) -> Partition:
        """Return the best partition found with about so much `work`; without a `partition` every job begins alone.

        duals: $/h per job, from an LP. columns: groups of small reduced cost, which link jobs to neighbourhoods. report: called
        with the cost in $/h, moves included, of every better partition. Where it began over a limit (pool nodes, moved jobs), the
        result may still be over it.
        """
        if not self.problem.jobs:
            return ()
        if duals is not None:
            fresh = np.asarray(duals, dtype=np.float64)[self.fleet.index] / self.fleet.unit
            if self._duals is None or (fresh != self._duals).any():
                self._duals, self.prices = fresh, fresh.copy()
                self._near = self._of_small_reduced_cost(fresh) if len(fresh) <= _LINKED_JOBS else []
        self._links = self._linked([*columns, *self._near])
        self._groups = self.placement.place([[k] for k in range(len(self.problem.jobs))] if partition is None else partition)
        value = self.placement.value(self._groups)
        self.best, least = self.placement.named(self._groups), value
        near, near_value = list(self._groups), value  # the best since the last new beginning
        end, jobs = self.work + work, len(self.fleet)
        windows = self._windows(_SMALLEST) if partition is None else []
        visited, before, idle, tries, tried_at = 0, value[1], 0, 0, 0
        with ThreadPoolExecutor(len(self._memos)) as pool:
            while self.work < end and not stop():
                # With moves a group exists once for each old group, so that the whole may take long: neighbourhoods go on beside it.
                everything = not windows and jobs <= MAX_JOBS and idle > (0 if self.placement.moves is None else tried_at)
                if windows:
                    at_once = min(len(windows), 1 if len(self.placement.caps) else _TASKS)
                    drawn, windows = self._at(windows[:at_once]), windows[at_once:]
                elif everything:
                    drawn = [list(range(len(self._groups)))]
                    tries, tried_at = tries + 1, idle
                else:
                    drawn = self._drawn(int(self._random.integers(_SMALLEST, self._largest + 1)))
                margin = 10.0 * 4.0 ** min(20, tries) if everything else 0.0
                tasks = [self._task(places, idle > 1 and not everything, margin) for places in drawn]
                proven = self._round(tasks, pool, _ROOM << min(5, tries), _SEARCH_NODES << min(8, tries))
                value = self.placement.value(self._groups)
                if value < near_value:
                    near, near_value = list(self._groups), value
                elif everything and proven and near_value[0] == 0:
                    break
                if value < least:
                    self.best, least = self.placement.named(self._groups), value
                    report(value[1] * self.fleet.unit)
                visited += sum(len(task.jobs) for task in tasks)
                if visited > 2 * jobs and not windows and not everything:
                    gained = (before - near_value[1]) / before if before > 0 else 0.0
                    self._largest = min(_LARGEST, self._largest + _STEP) if gained < _LITTLE else self._largest
                    idle = 0 if gained > 0 else idle + 1
                    visited, before, tried_at = 0, near_value[1], min(tried_at, idle)
                    if idle % _PATIENCE == _PATIENCE - 1:
                        self._groups = list(near)
                    if idle == _ANEW * _PATIENCE and jobs <= _FEW_JOBS and not len(self.placement.caps):
                        self._groups = self.placement.place([[k] for k in range(jobs)])
                        windows = self._windows(int(self._random.integers(_SMALLEST // 2, 2 * _SMALLEST)))
                        near, near_value = list(self._groups), self.placement.value(self._groups)
                        before, idle, tried_at = near_value[1], 0, 0
        return self.best

    # Neighbourhoods.

    def _windows(self, size: int) -> list[list[int]]:
        """Return jobs in stretches of equal tolerable periods, twice, the second time half a stretch on."""
        rows = np.arange(len(self.fleet))
        stretches = [part for begin in (0, size // 2) for part in np.split(rows, range(begin, len(rows), size))]
        return [[int(row) for row in part] for part in stretches if len(part)]

    def _at(self, windows: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the groups whose leaders are in each window; windows may overlap, what is returned does not."""
        place = {group.rows[0]: i for i, group in enumerate(self._groups)}
        within = (self._no_more([place.pop(row) for row in window if row in place], MAX_JOBS) for window in windows)
        return [places for places in within if places]

    def _no_more(self, places: Sequence[int], size: int) -> list[int]:
        """Return the first groups of a list that have at most `size` jobs together, but at least one."""
        total = np.cumsum([len(self._groups[i].rows) for i in places])
        return list(places[: max(1, int(np.searchsorted(total, size, side="right")))])

    def _drawn(self, size: int) -> list[list[int]]:
        """Draw neighbourhoods of about `size` jobs without a common group; only one where limits couple them.

        Groups that cost much more than the prices of their jobs are drawn more often, and seem nearer than they are.
        """
        count = 1 if len(self.placement.caps) else max(1, min(_TASKS, len(self.fleet) // (2 * size)))
        leaders = np.array([group.rows[0] for group in self._groups])
        rank, pair = self.fleet.rank[leaders].astype(np.float64), self.fleet.whole[leaders, 2]
        worth = self.prices if self._duals is None else self._duals
        waste = np.array([1 - float(worth[list(group.rows)].sum()) / group.cost if group.cost else 0.0 for group in self._groups])
        waste = np.maximum(waste, _LEAST_WASTE)
        near = np.minimum(waste / waste.mean(), 3.0)
        free = np.ones(len(leaders), dtype=bool)
        drawn: list[list[int]] = []
        while len(drawn) < count and free.any():
            odds = np.where(free, waste, 0.0)
            seed = int(self._random.choice(len(odds), p=odds / odds.sum()))
            far = np.abs(rank - rank[seed]) + self._random.random(len(rank)) * size * float(self._random.choice(_WIDTHS))
            far *= np.exp(-near * float(self._random.choice(_PULLS)))
            if not len(self.placement.caps):
                far[pair != pair[seed]] = np.inf
            far[seed] = -np.inf
            far[~free] = np.inf
            order = [int(i) for i in np.argsort(far, kind="stable") if far[i] < np.inf]
            if self._links and self._random.random() < 0.5:
                order = list(dict.fromkeys([*(i for i in self._linked_to(seed, size) if free[i]), *order]))
            drawn.append(self._no_more(order, size))
            free[drawn[-1]] = False
        return drawn

    def _linked_to(self, seed: int, size: int) -> list[int]:
        """Return groups that columns link to a group, directly or by others, the group itself first."""
        place = {row: i for i, group in enumerate(self._groups) for row in group.rows}
        chosen = [seed]
        for i in chosen:
            if len(chosen) > size:
                break
            columns = [column for row in self._groups[i].rows for column in self._links.get(row, ())]
            for at in self._random.permutation(len(columns))[:6]:
                chosen += [place[row] for row in columns[at] if place[row] not in chosen]
        return chosen

    def _of_small_reduced_cost(self, duals: Floats) -> list[list[int]]:
        """Return groups of small reduced cost, which LP plans are made of."""
        members = np.empty((_LINKING, self.problem.max_group_size), dtype=np.int64)
        nodes = np.empty((_LINKING, 2), dtype=np.int64)
        rows = np.arange(len(self.fleet))
        fleet, memo = self.fleet, self._memos[0]
        for threshold in _LINK_THRESHOLDS:
            count, work = enumerate_groups(
                rows, fleet.numbers, fleet.whole, fleet.pairs, duals, self.problem.max_group_size, threshold, *memo, members, nodes
            )
            self.work += work
            if count >= 0:
                return [[int(fleet.index[row]) for row in group if row >= 0] for group in members[:count]]
        return []

    def _linked(self, columns: Iterable[Sequence[int]]) -> dict[int, list[Members]]:
        row_of = {int(k): row for row, k in enumerate(self.fleet.index)}
        links: dict[int, list[Members]] = {}
        for column in columns:
            rows = tuple(row_of[k] for k in column)
            for row in rows:
                links.setdefault(row, []).append(rows)
        return links

    # One round.

    def _task(self, places: Sequence[int], restless: bool, margin: float) -> _Task:
        groups = [self._groups[i] for i in places]
        jobs = np.array(sorted(row for group in groups for row in group.rows), dtype=np.int64)
        now = sum(group.cost + self.placement.move_price * group.moved for group in groups)
        caps, target = self.placement.caps, now - self.placement.step(now)
        if len(caps):
            used, here = self.placement.used(self._groups), self.placement.used(groups)
            caps = np.where(used <= caps, caps - used + here, np.maximum(caps - used + here, here - 1))
            if (used > self.placement.caps).any():
                target = np.inf  # what keeps the limits may cost more
        place = {int(row): i for i, row in enumerate(jobs)}
        present = np.full((len(groups), self.problem.max_group_size), -1, dtype=np.int64)
        for i, group in enumerate(groups):
            present[i, : len(group.rows)] = [place[row] for row in group.rows]
        nodes = np.array([[group.rollout_nodes, group.train_nodes] for group in groups], dtype=np.int64)
        banned, slack = 0, 0.0
        if restless and self._random.random() < 0.7:
            banned = sum(1 << place[row] for row in groups[int(self._random.integers(len(groups)))].rows)
            slack = _HEAT * float(self.fleet.pairs[:, :2].max()) * float(self._random.exponential())
        old, heirs = self.placement.continued(jobs, groups, self._groups)
        threshold = max(10.0, target + slack - float(self.prices[jobs].sum())) + margin
        if not margin:
            threshold = min(_THRESHOLD, threshold)
        return _Task(tuple(places), jobs, now, target + slack, threshold, banned, present, nodes, caps, old, heirs)

    def _round(self, tasks: Sequence[_Task], pool: ThreadPoolExecutor, room: int, budget: int) -> bool:
        """Regroup each neighbourhood and take over what is better; return whether all were searched to their end."""
        threads = len(self._memos)

        def some(thread: int) -> list[Regrouped]:
            return [self._regroup(task, room, budget, thread) for task in tasks[thread::threads]]

        answers = list(pool.map(some, range(min(threads, len(tasks)))))
        gone: set[int] = set()
        new: list[Placed] = []
        proven = True
        for i, task in enumerate(tasks):
            found = answers[i % threads][i // threads]
            self.work += found[-2] + (0 if self.placement.moves is None else _LEAST_WORK)
            proven = proven and found[-1]
            share = 1.0 if len(task.jobs) == len(self.fleet) else 0.5
            self.prices[task.jobs] += share * (found[5] - self.prices[task.jobs])
            made = self._made(task, found)
            if made is not None:
                gone |= set(task.groups)
                new += made
        self._groups = [group for i, group in enumerate(self._groups) if i not in gone] + new
        return proven

    def _regroup(self, task: _Task, room: int, budget: int, thread: int) -> Regrouped:
        place = {int(row): i for i, row in enumerate(task.jobs)}
        inside = [(rows, nodes) for rows, nodes in self._raised.items() if all(row in place for row in rows)]
        fleet = self.fleet
        return regroup(
            task.jobs,
            fleet.numbers,
            fleet.whole,
            fleet.pairs,
            self.prices,
            self.problem.max_group_size,
            task.threshold,
            room,
            task.now,
            task.target,
            task.banned,
            task.present,
            task.present_nodes,
            np.array([sum(1 << place[row] for row in rows) for rows, _ in inside], dtype=np.int64),
            np.array([nodes for _, nodes in inside], dtype=np.int64),
            fleet.resource,
            task.caps,
            task.old,
            self.placement.move_price,
            _ROUNDS,
            budget,
            *self._memos[thread],
        )

    def _made(self, task: _Task, found: Regrouped) -> list[Placed] | None:
        """Return the groups found with their true node counts; None if there are none, or if they need more nodes than was thought."""
        size, members, nodes, marks = found[:4]
        if size < 0:
            return None
        made = []
        surprised = False
        for chosen, count, mark in zip(members, nodes, marks, strict=True):
            rows = tuple(sorted(int(task.jobs[place]) for place in chosen if place >= 0))
            heir = task.heirs[int(mark).bit_length() - 1] if mark else None
            made.append(self.placement.group(rows, heir))
            if made[-1].rollout_nodes != abs(int(count[0])):
                self._raised[rows] = made[-1].rollout_nodes
                surprised = True
        return None if surprised else made
