"""Tabu search from many orders: a small population, and walks that begin between two of its members.

The starts of two schedules, mixed in any proportion, give an order that keeps every job's own; so a point between two good
schedules is a schedule, too (a simple form of path relinking; Peng, Lu and Cheng, Computers & Operations Research 53, 2015).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import numpy as np

from rollplan.models.job_shop.board import Board
from rollplan.models.job_shop.fluid import fluid
from rollplan.models.job_shop.problem import JobShopProblem, Operation
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.timing import timed
from rollplan.models.job_shop.whole import whole
from rollplan.planner.job_shop.rules import best_dispatched
from rollplan.planner.job_shop.tabu import Ints, walk

MEMBERS = 10
STEPS = 12_500
"""A walk ends when so many steps brought nothing new; fewer where a step is dear, so that it soon hands over what it found."""
_STEPS_TIMES_OPERATIONS = 7_500_000
_FIRST = 20
"""The first walk is so many times shorter: it makes most of the gain, and others wait for it."""
MOST_OPERATIONS = 3000
"""The table of orders reversed lately grows with the square."""
_PATIENCE_S = 2.0


def applies(problem: JobShopProblem) -> bool:
    """Return whether the search can be used: there are not too many operations."""
    return problem.size <= MOST_OPERATIONS


def improve(board: Board, seed: int = 0, walks: int | None = None, steps: int = STEPS) -> None:
    """Offer better and better schedules to a board until it is closed.

    A walk knows orders, not choices: where operations have a choice of machines, it is made before, once as in the best
    schedule and once as the fluid bound's LP shares them out, and both shops are searched in turn.
    It also ends when it has found nothing new for twice the time of the last success and 2 s, or after so many walks.
    """
    shops = [Population(problem, start, seed) for problem, start in _fixed(board)]
    began = gained = monotonic()
    done = 0
    while not board.closed and (done < walks if walks is not None else monotonic() - gained < _PATIENCE_S + 2 * (gained - began)):
        before = board.best.makespan
        board.offer(shops[done % len(shops)].walk(steps, board.bound.value))
        if board.best.makespan < before:
            gained = monotonic()
        done += 1


def _fixed(board: Board) -> Iterator[tuple[JobShopProblem, Schedule]]:
    """Yield shops without a choice whose schedules are the problem's, too, each with a schedule to begin from."""
    problem, best = board.problem, board.best
    if not problem.flexible:
        yield problem, best
        return
    chains: list[list[Operation]] = [[] for _ in problem.jobs]
    for job, k, operation in problem.operations():
        chains[job].append(tuple(way for way in operation if way.machine == best.machines[job][k]))
    yield replace(problem, jobs=tuple(map(tuple, chains))), best
    if relaxed := fluid(problem, board.limits.part(0.2)):
        start = best_dispatched(relaxed.rounded)
        board.offer(start)
        yield relaxed.rounded, start


class Population:
    """The best schedules of walks, as starts of all operations in whole numbers."""

    def __init__(self, problem: JobShopProblem, start: Schedule, seed: int) -> None:
        self.problem = problem
        self.rng = np.random.default_rng(seed)
        self.shop = whole(problem, start.makespan)
        chains = self.shop.jobs
        self.work: Ints = np.array([modes[0].duration for chain in chains for modes in chain], dtype=np.int64)
        self.machine: Ints = np.array([modes[0].resource for chain in chains for modes in chain], dtype=np.int64)
        self.job: Ints = np.array([job for job, chain in enumerate(chains) for _ in chain], dtype=np.int64)
        self.chain: Ints = np.array([int(k > 0) for chain in chains for k in range(len(chain))], dtype=np.int64)
        self.tenure = 10 + len(chains) // len(self.shop.resources)
        self.members: list[tuple[int, Ints]] = []
        self.first: Ints | None = np.array([start for row in self.shop.hint(start)[1] for start in row], dtype=np.int64)

    def walk(self, steps: int, target: float) -> Schedule:
        """Return the best schedule of one more walk."""
        steps = max(1, min(steps, _STEPS_TIMES_OPERATIONS // self.work.size))
        first = not self.members
        if first:
            steps = max(1, steps // _FIRST)
        before, after = self._neighbours(self._beginning())
        starts = np.zeros_like(self.work)
        seed = int(self.rng.integers(2**31))
        least = self.shop.least_units(target)
        makespan = walk(self.work, self.chain, self.job, before, after, steps, 3 * steps, self.tenure, least, seed, starts)
        assert makespan >= 0, "a mixture of orders is an order"
        self._keep(int(makespan), starts)
        if first:
            self.first = starts  # the next walk goes on from there
        return self._schedule(starts)

    def _beginning(self) -> Ints | np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return times by which the operations are ordered: the given schedule's, then random ones, then between two members."""
        if self.first is not None:
            first, self.first = self.first, None
            return first
        if len(self.members) < MEMBERS:
            times = self.rng.uniform(0, 0.3 * self.members[0][0], self.work.size)
            for i in np.flatnonzero(self.chain):
                times[i] = times[i - 1] + self.work[i - 1] * self.rng.uniform(0.1, 1.0)
            return times
        one, other = self.rng.choice(len(self.members), 2, replace=False)
        share = self.rng.uniform(0.3, 0.7)
        return np.asarray(share * self.members[one][1] + (1 - share) * self.members[other][1])

    def _keep(self, makespan: int, starts: Ints) -> None:
        """Take a schedule in, in place of the worst, unless its like is there."""
        if any(makespan == known and np.array_equal(starts, theirs) for known, theirs in self.members):
            return
        if len(self.members) < MEMBERS:
            self.members.append((makespan, starts))
            return
        worst = max(range(MEMBERS), key=lambda place: self.members[place][0])
        if makespan <= self.members[worst][0]:
            self.members[worst] = (makespan, starts)

    def _neighbours(self, times: np.ndarray[tuple[int], np.dtype[np.float64]] | Ints) -> tuple[Ints, Ints]:
        """Return the operations before and after each on its machine; those that take no time have none."""
        before: Ints = np.full(self.work.size, -1, dtype=np.int64)
        after: Ints = np.full(self.work.size, -1, dtype=np.int64)
        timed_ones = np.flatnonzero(self.work)
        ranked = timed_ones[np.lexsort((timed_ones, times[timed_ones], self.machine[timed_ones]))]
        same = self.machine[ranked[1:]] == self.machine[ranked[:-1]]
        after[ranked[:-1][same]] = ranked[1:][same]
        before[ranked[1:][same]] = ranked[:-1][same]
        return before, after

    def _schedule(self, starts: Ints) -> Schedule:
        order = []
        for i, (job, k, operation) in enumerate(self.problem.operations()):
            order.append((int(starts[i]), int(starts[i] + self.work[i]), job, k, operation))
        return timed(self.problem, [(job, k, operation) for _, _, job, k, operation in sorted(order, key=lambda each: each[:4])])
