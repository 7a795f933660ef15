"""What searches side by side know together: the best schedule so far and the best bound."""

from __future__ import annotations

from threading import Lock

from rollplan.models.certified import Bound, Limits, Report, gap, silent
from rollplan.models.job_shop.problem import JobShopProblem
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.verify import verify


class Board:
    """Best schedule and bound; both only improve. Safe for several threads.

    best, bound: replaced as a whole, so a reader sees one or the other. exhausted: a search has shown that nothing better is
    left. refused: what was wrong with schedules that were offered (a bug, if it ever happens).
    """

    def __init__(self, problem: JobShopProblem, limits: Limits, best: Schedule, bound: Bound, report: Report = silent) -> None:
        self.problem = problem
        self.limits = limits
        self.best = best
        self.bound = bound
        self.exhausted = False
        self.refused: tuple[str, ...] = ()
        self._report = report
        self._lock = Lock()
        report(best.makespan, bound.value)

    def offer(self, schedule: Schedule) -> None:
        """Take a schedule if it is better than the best and passes the verifier."""
        if schedule.makespan >= self.best.makespan:
            return
        faults = verify(self.problem, schedule)
        with self._lock:
            if faults:
                self.refused += faults
            elif schedule.makespan < self.best.makespan:
                self.best = schedule
                self._report(schedule.makespan, self.bound.value)

    def prove(self, bound: Bound) -> None:
        """Take a bound if it is better."""
        with self._lock:
            if bound.value > self.bound.value:
                self.bound = bound
                self._report(self.best.makespan, bound.value)

    @property
    def gap(self) -> float:
        """Relative distance of the best schedule from the bound."""
        return gap(self.best.makespan, self.bound.value)

    @property
    def closed(self) -> bool:
        """Whether there is nothing more to do, or no time for it."""
        return self.exhausted or self.gap <= max(1e-9, self.limits.target_gap) or self.limits.stop() is not None
