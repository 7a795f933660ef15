"""All groups that several runs per period may make possible, with the fewest nodes that the necessary tests leave them.

What the tests allow is hereditary: with a job taken away, the rest passes on no more nodes (docs/multi_rate.md). So a
group of s + 1 jobs is looked at only if its first s jobs passed, and all its pairs did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.problem import REL_TOL, ColocationProblem
from rollplan.models.colocation.rates.necessary import Groups, least_nodes

Members = npt.NDArray[np.int32]
_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class RateGroups:
    """Groups as arrays.

    members: job indices, shape (m, max_group_size), padded with -1; the job that tolerates least comes first.
    rollout_nodes: no timetable of the group takes fewer, shape (m,). train_nodes: as many as its largest job needs.
    complete: whether no other group can have a timetable.
    """

    members: Members
    rollout_nodes: Members
    train_nodes: Members
    complete: bool

    def __len__(self) -> int:
        return len(self.members)


def candidates(problem: ColocationProblem, stop: Callable[[], object] = lambda: None) -> RateGroups:
    """Return every group of a problem that passes the necessary tests; tens of thousands at 40 jobs, a million at 60.

    stop: asked between chunks of work; when it answers, what has been found so far is returned as incomplete.
    """
    found: list[tuple[Members, Members, Members]] = []
    complete = True
    for pools in sorted({(job.rollout_pool, job.train_pool) for job in problem.jobs}):
        levels = _Levels(problem, *pools)
        complete = levels.run(stop, found) and complete
    none = np.zeros(0, dtype=np.int32)  # out of time before the first chunk
    found.append((np.zeros((0, problem.max_group_size), dtype=np.int32), none, none))
    members, rollout_nodes, train_nodes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return RateGroups(members, rollout_nodes, train_nodes, complete)


class _Levels:
    """Enumeration for the jobs of one pair of pools, sorted by the period they tolerate."""

    def __init__(self, problem: ColocationProblem, rollout_pool: int, train_pool: int) -> None:
        self.problem = problem
        self.rollout, self.train = problem.pools[rollout_pool], problem.pools[train_pool]
        jobs = [k for k, job in enumerate(problem.jobs) if (job.rollout_pool, job.train_pool) == (rollout_pool, train_pool)]
        jobs.sort(key=lambda k: (problem.jobs[k].tolerable_s, k))
        self.index = np.array(jobs, dtype=np.int32)
        self.all = Groups.of(problem, [[k] for k in jobs])
        self.train_nodes = np.array([problem.jobs[k].train_nodes for k in jobs], dtype=np.int32)
        self.train_memory = np.array([problem.jobs[k].train_memory_gib for k in jobs])
        self.share = self.all.train_s[:, 0] / self.all.tolerable_s[:, 0]
        self.pairs = np.ones((len(jobs), len(jobs)), dtype=bool)

    def run(self, stop: Callable[[], object], found: list[tuple[Members, Members, Members]]) -> bool:
        """Append the groups of 1, 2, ... jobs; return whether none was left out."""
        level = np.arange(len(self.index))[:, None]
        for size in range(1, self.problem.max_group_size + 1):
            kept = []
            for start in range(0, len(level), _CHUNK):
                if stop():
                    return False
                kept.append(self._passing(level[start : start + _CHUNK], found))
            if size == self.problem.max_group_size or not kept:
                return True
            level = np.concatenate(kept)
            if size == 2:
                self.pairs[:] = False
                self.pairs[level[:, 0], level[:, 1]] = True
            level = self._extended(level)
        return True

    def _passing(self, level: npt.NDArray[np.intp], found: list[tuple[Members, Members, Members]]) -> npt.NDArray[np.intp]:
        """Append the groups of a level that pass, and return them."""
        rollout_nodes = least_nodes(self.all.joined(level), self.problem.max_rate)
        train_nodes = self.train_nodes[level].max(axis=1)
        passes = rollout_nodes > 0
        if self.rollout.nodes is not None:
            passes &= rollout_nodes <= self.rollout.nodes
        if self.train.nodes is not None:
            passes &= train_nodes <= self.train.nodes
        members = np.full((int(passes.sum()), self.problem.max_group_size), -1, dtype=np.int32)
        members[:, : level.shape[1]] = self.index[level[passes]]
        found.append((members, rollout_nodes[passes].astype(np.int32), train_nodes[passes]))
        return level[passes]

    def _extended(self, level: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the groups with one more job at the end whose pairs pass and whose training fits."""
        counts = len(self.index) - 1 - level[:, -1]
        rows = np.repeat(np.arange(len(level)), counts)
        added = level[rows, -1] + 1 + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        fits = self.pairs[level[rows], added[:, None]].all(axis=1)
        longer = np.concatenate([level[rows[fits]], added[fits, None]], axis=1)
        fits = (self.share[longer].sum(axis=1) <= 1 + 2 * REL_TOL) & (
            self.train_memory[longer].sum(axis=1) <= self.train.memory_gib * (1 + REL_TOL)
        )
        return np.asarray(longer[fits])
