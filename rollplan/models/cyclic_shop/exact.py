"""The least period: ask CP-SAT for schedules of ever shorter periods, and tighten each by the max-plus law of its orders.

A schedule of period T has orders whose least period, an exact ratio of seconds and a whole number of shifts, is often far
below T: the search leaps. It ends when the next shorter period is refuted. If all durations are whole numbers of a unit
and there are N parts, periods are fractions of at most N such units, two of which differ by 1 / N^2 at least; on a grid as
fine as that a refuted period proves the optimum exactly.
"""

from __future__ import annotations

from math import ceil

from rollplan.models.certified import Bound, Certified, Limits, Stopped
from rollplan.models.cyclic_shop.bounds import lower_bound
from rollplan.models.cyclic_shop.fixed import starts_at
from rollplan.models.cyclic_shop.grid import Grid, grid_of
from rollplan.models.cyclic_shop.orders import at_least_period
from rollplan.models.cyclic_shop.parts import Parts, parts_of
from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem

_EQUAL = 1e-9
"""Relative difference below which two periods are the same."""


def exact(
    problem: CyclicShopProblem, limits: Limits | None = None, seed: int = 0, start: CyclicSchedule | None = None
) -> Certified[CyclicSchedule]:
    """Return the schedule of least period found within `limits`, with a proven bound; value and bound are in seconds.

    start: a schedule to begin with. Refuted periods are refuted twice, with and without presolve.
    """
    limits = limits or Limits()
    parts = parts_of(problem)
    best = start or one_after_another(problem, parts)
    least = lower_bound(problem)
    grid = grid_of([arc.seconds for arc in parts.arcs] + [part.seconds for part in parts.items], best.period_s, len(parts.items) ** 2)
    search = _Search(problem, parts, grid, limits, seed, best, least.seconds)
    stopped = search.run()
    value = search.best.period_s
    closed = value <= least.seconds * (1 + _EQUAL)
    bound = (
        Bound(value, "closed form")
        if closed
        else Bound(min(value, search.bound_s), "CP-SAT" if search.bound_s > least.seconds else "closed form")
    )
    return Certified(search.best, value, bound, "optimal" if value <= bound.value * (1 + _EQUAL) else stopped, seed=seed)


def at_period(
    problem: CyclicShopProblem, period_s: float, limits: Limits | None = None, seed: int = 0
) -> tuple[CyclicSchedule | None, bool]:
    """Return a schedule of at most this period if one is found, and whether it is proven that there is none.

    The schedule has the least period of its orders, which may be shorter.
    """
    limits = limits or Limits()
    parts = parts_of(problem)
    grid = grid_of([arc.seconds for arc in parts.arcs] + [part.seconds for part in parts.items] + [period_s], period_s)
    if period_s * (1 + _EQUAL) < lower_bound(problem).seconds:
        return None, True
    # A period longer by what rounding adds to a cycle of phases refutes the true one; a schedule for it may yet do.
    period = grid.up(period_s) + grid.rounded * len(parts.items)
    found = starts_at(parts, grid, period, limits, seed)
    if isinstance(found, str):
        return None, found == "refuted" and starts_at(parts, grid, period, limits, seed, presolve=True) == "refuted"
    schedule = at_least_period(problem, parts, [float(start) for start in found], period)
    if schedule.period_s <= period_s * (1 + _EQUAL):
        return schedule, False
    found = starts_at(parts, grid, grid.down(period_s), limits, seed)
    return (
        None if isinstance(found, str) else at_least_period(problem, parts, [float(start) for start in found], grid.down(period_s))
    ), False


def one_after_another(problem: CyclicShopProblem, parts: Parts) -> CyclicSchedule:
    """Return the schedule in which each job runs alone: always possible, and the longest that makes sense."""
    starts = [0.0] * len(parts.items)
    at_s = 0.0
    for number, job in enumerate(problem.jobs):
        for run in range(job.runs):
            for position, phase in enumerate(job.phases):
                for index, part in enumerate(parts.items):
                    if (part.job, part.run, part.phase) == (number, run, position):
                        starts[index] = at_s
                at_s += phase.seconds
    return at_least_period(problem, parts, starts, at_s)


class _Search:
    """What is known while periods are asked for: the best schedule, and the longest period that is refuted."""

    def __init__(
        self, problem: CyclicShopProblem, parts: Parts, grid: Grid, limits: Limits, seed: int, best: CyclicSchedule, bound_s: float
    ) -> None:
        self.problem, self.parts, self.grid, self.limits, self.seed = problem, parts, grid, limits, seed
        self.best, self.bound_s = best, bound_s
        self.error = len(parts.items) if grid.rounded else 0

    def run(self) -> Stopped:
        """Ask until the least period is proven or the limits strike; return why it ended."""
        asked = ceil(self.bound_s * self.grid.per_s - 1e-6) + self.error
        while self.best.period_s > self.bound_s * (1 + _EQUAL):
            if reason := self.limits.stop():
                return reason
            below = self._next_below()
            period = min(asked, below)
            answer = self._ask(period)
            if answer == "unknown":
                return self.limits.stop() or "search limit"
            if answer == "refuted":
                self.bound_s = max(self.bound_s, (period - self.error) / self.grid.per_s)
                if period == below:
                    self._conclude()
                    return "optimal"
                # The middle between what is refuted and what is reached; after a leap, at once the next shorter period.
                asked = (period + below + 1) // 2
            else:
                asked = below
        return "optimal"

    def _ask(self, period: int) -> str:
        found = starts_at(self.parts, self.grid, period, self.limits, self.seed)
        if found == "refuted":
            found = starts_at(self.parts, self.grid, period, self.limits, self.seed, presolve=True)
        if isinstance(found, str):
            return found
        schedule = at_least_period(self.problem, self.parts, [float(start) for start in found], period)
        if schedule.period_s < self.best.period_s:
            self.best = schedule
        return "found"

    def _next_below(self) -> int:
        """Return the longest period of the grid that is shorter than the best."""
        return ceil(self.best.period_s * self.grid.per_s - 1e-3) - 1

    def _conclude(self) -> None:
        if not self.grid.rounded:
            self.bound_s = self.best.period_s
