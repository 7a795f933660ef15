"""P4 b decided: a schedule by dispatching rules, by tabu search, or proven by searches side by side."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Literal, get_args

from rollplan.models import native
from rollplan.models.certified import Certified, Limits, Report, Stopped, silent
from rollplan.models.job_shop.board import Board
from rollplan.models.job_shop.bounds import lower_bound
from rollplan.models.job_shop.exact import Improver, exact
from rollplan.models.job_shop.problem import JobShopProblem
from rollplan.models.job_shop.solution import Schedule
from rollplan.planner.job_shop.rules import RULES, best_dispatched, dispatched

Method = Literal["exact", "repeatable", "tabu", "rules", "work", "operations", "shortest", "longest", "first"]
METHODS: tuple[Method, ...] = get_args(Method)


def solve(
    problem: JobShopProblem, method: Method = "exact", limits: Limits | None = None, seed: int = 0, report: Report = silent
) -> Certified[Schedule]:
    """Return a schedule and a bound that no schedule can undercut.

    exact: two cores until proven or `limits` strike. repeatable: one core, as far as `limits.node_limit` goes, the same answer
    every time. tabu: tabu search on one core; without numba, or for shops too large for it, there is none, and the
    schedule is that of `rules`. rules: the best dispatching rule; or one of them by its name.
    """
    limits = limits or Limits()
    begun = monotonic()
    start = dispatched(problem, method) if method in RULES else best_dispatched(problem)
    if method in ("exact", "repeatable"):
        return exact(problem, limits, start, seed, report, _improver(problem, seed), method == "repeatable")
    board = Board(problem, limits, start, lower_bound(problem), report)
    improver = _improver(problem, seed)
    if method == "tabu" and improver is not None:
        native.run(partial(improver, board), limits)
    best = board.best
    stopped: Stopped = "optimal" if board.gap <= 1e-9 else limits.stop() or "heuristic"
    return Certified(best, best.makespan, board.bound, stopped, monotonic() - begun, seed)


def _improver(problem: JobShopProblem, seed: int) -> Improver | None:
    """Return the tabu search where it applies and is compiled; as plain Python it would be a hundred times slower."""
    from rollplan.models.compiled import HAVE_COMPILER
    from rollplan.planner.job_shop import population

    return partial(population.improve, seed=seed) if HAVE_COMPILER and population.applies(problem) else None
