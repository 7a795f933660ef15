"""All feasible groups of a co-location problem, enumerated level by level with arrays.

Feasibility is hereditary (a part of a feasible group is feasible) and cost is monotone, so a group of s + 1 jobs is
only looked at if its first s jobs form a feasible group. Jobs are sorted by the period they tolerate; the first of a
group, its leader, sets the limit for all (leader decomposition).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.nodes import cover
from rollplan.models.colocation.problem import REL_TOL, ColocationProblem

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
MAX_COLUMNS = 1_500_000
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True)
class Columns:
    """Groups as arrays.

    members: job indices, shape (m, max_group_size), padded with -1; the leader comes first.
    rollout_nodes, train_nodes: fewest nodes, shape (m,). cost_per_h: dollars per hour, shape (m,).
    complete: whether every feasible group is here, which an LP bound needs.
    """

    members: Ints
    rollout_nodes: Ints
    train_nodes: Ints
    cost_per_h: Floats
    complete: bool

    def __len__(self) -> int:
        return len(self.members)


def enumerate_groups(
    problem: ColocationProblem, stop: Callable[[], object], max_columns: int = MAX_COLUMNS, or_neighbours: bool = True
) -> Columns:
    """Return all feasible groups; if they are more than `max_columns`, those of neighbours in tolerable period only.

    stop: asked between chunks of work; when it answers, what has been found so far is returned as incomplete.
    or_neighbours: False gives up at `max_columns` instead.
    """
    columns = _within(problem, len(problem.jobs), max_columns, stop)
    if len(columns) <= max_columns or not or_neighbours:
        return columns
    return _within(problem, _window(len(problem.jobs), problem.max_group_size, max_columns), max_columns, stop)


def _window(jobs: int, size: int, max_columns: int) -> int:
    """Return how many followers each leader may have so that there are at most `max_columns` groups."""
    window = size
    while jobs * sum(comb(window + 1, others) for others in range(size)) <= max_columns:
        window += 1
    return window


def _within(problem: ColocationProblem, window: int, max_columns: int, stop: Callable[[], object]) -> Columns:
    """Return the groups whose members are at most `window` places behind their leader."""
    parts: list[Columns] = []
    room = max_columns
    for rollout_pool, train_pool in sorted({(job.rollout_pool, job.train_pool) for job in problem.jobs}):
        for part in _Levels(problem, rollout_pool, train_pool, window).run(stop, room):
            parts.append(part)
            room -= len(part)
    return Columns(
        members=np.concatenate([part.members for part in parts]),
        rollout_nodes=np.concatenate([part.rollout_nodes for part in parts]),
        train_nodes=np.concatenate([part.train_nodes for part in parts]),
        cost_per_h=np.concatenate([part.cost_per_h for part in parts]),
        complete=window >= len(problem.jobs) and all(part.complete for part in parts),
    )


class _Levels:
    """Enumeration for the jobs of one pair of pools."""

    def __init__(self, problem: ColocationProblem, rollout_pool: int, train_pool: int, window: int) -> None:
        jobs = [(k, job) for k, job in enumerate(problem.jobs) if (job.rollout_pool, job.train_pool) == (rollout_pool, train_pool)]
        jobs.sort(key=lambda item: (item[1].tolerable_s, item[0]))
        self.problem, self.rollout_pool, self.train_pool, self.window = problem, rollout_pool, train_pool, window
        self.index = np.array([k for k, _ in jobs], dtype=np.int32)
        self.rollout_s = np.array([job.rollout_s for _, job in jobs])
        self.train_s = np.array([job.train_s for _, job in jobs])
        self.solo_s = np.array([job.solo_s for _, job in jobs])
        self.limit_s = np.array([job.tolerable_s for _, job in jobs]) * (1 + REL_TOL)
        self.rollout_memory = np.array([job.rollout_memory_gib for _, job in jobs])
        self.train_memory = np.array([job.train_memory_gib for _, job in jobs])
        self.demand = np.array([job.rollout_nodes for _, job in jobs], dtype=np.int32)
        self.train_nodes = np.array([job.train_nodes for _, job in jobs], dtype=np.int32)
        self.node_memory = problem.pools[rollout_pool].memory_gib * (1 + REL_TOL)
        self.train_node_memory = problem.pools[train_pool].memory_gib * (1 + REL_TOL)

    def run(self, stop: Callable[[], object], room: int) -> Iterator[Columns]:
        """Yield the groups of 1, 2, ... jobs, until there are more than `room` of them."""
        level = np.arange(len(self.index), dtype=np.int32)[:, None]
        complete = True
        while len(level) or not complete:
            yield self._columns(level, complete)
            room -= len(level)
            if not complete or level.shape[1] == self.problem.max_group_size:
                return
            level, complete = self._extend(level, stop, room)

    def _extend(self, level: Ints, stop: Callable[[], object], room: int) -> tuple[Ints, bool]:
        """Return the feasible groups with one more job at the end, and whether none was left out."""
        last = level[:, -1]
        end = np.minimum(len(self.index), level[:, 0] + self.window + 1)
        counts = np.maximum(0, end - last - 1)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        found: list[Ints] = [np.empty((0, level.shape[1] + 1), dtype=np.int32)]
        start = 0
        while start < len(level):
            if stop() or room < 0:
                return np.concatenate(found), False
            after = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _CHUNK)) - 1)
            found.append(self._extend_some(level[start:after], counts[start:after]))
            room -= len(found[-1])
            start = after
        return np.concatenate(found), True

    def _extend_some(self, level: Ints, counts: Ints) -> Ints:
        rows = np.repeat(np.arange(len(level)), counts)
        step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        added = level[rows, -1] + 1 + step
        leader = level[rows, 0]
        fits = (self.solo_s[added] <= self.limit_s[leader]) & (self.train_s[leader] + self.train_s[added] <= self.limit_s[leader])
        rows, added = rows[fits], added[fits]
        groups = np.concatenate([level[rows], added[:, None].astype(np.int32)], axis=1)
        fits = (self.train_s[groups].sum(axis=1) <= self.limit_s[groups[:, 0]]) & (
            self.train_memory[groups].sum(axis=1) <= self.train_node_memory
        )
        return np.asarray(groups[fits])

    def _columns(self, groups: Ints, complete: bool) -> Columns:
        rollout_nodes = self._fewest_nodes(groups)
        train_nodes = self.train_nodes[groups].max(axis=1) if len(groups) else np.empty(0, dtype=np.int32)
        rollout, train = self.problem.pools[self.rollout_pool], self.problem.pools[self.train_pool]
        fits = np.ones(len(groups), dtype=bool)
        if rollout.nodes is not None:
            fits &= rollout_nodes <= rollout.nodes
        if train.nodes is not None:
            fits &= train_nodes <= train.nodes
        members = np.full((len(groups), self.problem.max_group_size), -1, dtype=np.int32)
        members[:, : groups.shape[1]] = self.index[groups]
        cost = rollout_nodes * rollout.price_per_node_h + train_nodes * train.price_per_node_h
        return Columns(members[fits], rollout_nodes[fits], train_nodes[fits], cost[fits], complete)

    def _fewest_nodes(self, groups: Ints) -> Ints:
        """Return the fewest rollout nodes of each group: groups with equal fitting sets and demands share one answer."""
        count, size = groups.shape
        if count == 0:
            return np.empty(0, dtype=np.int32)
        subsets = [subset for length in range(2, size + 1) for subset in combinations(range(size), length)]
        fits: Bools = np.empty((count, len(subsets)), dtype=bool)
        for column, subset in enumerate(subsets):
            part = groups[:, subset]
            fits[:, column] = (self.rollout_s[part].sum(axis=1) <= self.limit_s[groups[:, 0]]) & (
                self.rollout_memory[part].sum(axis=1) <= self.node_memory
            )
        demand = np.ascontiguousarray(self.demand[groups])
        keys = np.concatenate([np.packbits(fits, axis=1), demand.view(np.uint8).reshape(count, -1)], axis=1)
        _, first, inverse = np.unique(
            np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel(), return_index=True, return_inverse=True
        )
        singles = tuple(1 << k for k in range(size))
        masks = [sum(1 << k for k in subset) for subset in subsets]
        answers = [
            len(cover((*singles, *(mask for mask, fit in zip(masks, fits[row], strict=True) if fit)), tuple(map(int, demand[row]))))
            for row in first
        ]
        return np.asarray(np.array(answers, dtype=np.int32)[inverse])
