"""P3 solved by name: heuristics that answer at once, and the exact solver that starts from the best of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Literal

from rollplan.models.certified import Certified, Limits, Report, gap, silent
from rollplan.models.colocation.closed_form import impossible
from rollplan.models.colocation.exact import exact, lower_bound
from rollplan.models.colocation.plans.start import inserted
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.colocation.solution import pools_suffice, solution_of
from rollplan.models.errors import InfeasibleError, NoSolutionError
from rollplan.planner.admission import Fleet, Mode
from rollplan.planner.baselines import greedy, random_groups, solo
from rollplan.planner.timetables import held, law_of, rated_columns, without_slack

Method = Literal["exact", "lossless", "paper", "greedy", "random", "solo"]
_FEW_JOBS = 1000
_SHARE = 0.3
"""Of the time that is left: for strict round robin, where jobs may run several times, and for the list of all groups then."""
METHODS: tuple[Method, ...] = ("exact", "lossless", "paper", "greedy", "random", "solo")


def solve(
    problem: ColocationProblem, method: Method = "exact", limits: Limits | None = None, seed: int = 0, report: Report = silent
) -> Certified[ColocationSolution]:
    """Return a plan and a proven bound; `exact` is never worse than any heuristic.

    Raises `InfeasibleError` if a job or the jobs together do not fit, `NoSolutionError` if the heuristic or the limit
    found no plan although there may be one.
    """
    begun = monotonic()
    limits = limits or Limits()
    if reasons := list(impossible(problem)):
        raise InfeasibleError(reasons)
    law = law_of(problem, limits, seed)
    if method == "exact":
        start = best_heuristic(problem, seed, limits.interrupted)
        if start is not None and law is not None:
            start = held(problem, start, law)
        columns = None
        if problem.max_rate > 1:
            start = _strict_or(start, problem, limits, seed)
            # A list that is not complete proves nothing; what is left of the time is better spent on plans.
            columns = rated_columns(problem, limits.part(_SHARE).stop)
            columns = columns if columns is not None and columns.complete else None
        found = exact(problem, limits, start, seed, report, law, columns)
        return replace(found, solution=without_slack(problem, found.solution), seconds=monotonic() - begun)
    solution = heuristic(problem, method, seed, limits.stop)
    if solution is not None and law is not None:
        solution = held(problem, solution, law)
    if solution is None and (struck := limits.stop()):
        raise NoSolutionError(f"the {struck} came before method {method} had placed every job")
    if solution is None:
        raise NoSolutionError(f"method {method} found no plan within the pools' nodes; method exact may find one")
    bound, witness = lower_bound(problem, limits, rated_columns(problem, limits.stop))
    solution = without_slack(problem, solution)
    report(solution.cost_per_h, bound.value)
    stopped: Literal["optimal", "heuristic"] = "optimal" if gap(solution.cost_per_h, bound.value) <= 1e-9 else "heuristic"
    return Certified(solution, solution.cost_per_h, bound, stopped, monotonic() - begun, seed, witness, bound.value)


def _strict_or(start: ColocationSolution | None, problem: ColocationProblem, limits: Limits, seed: int) -> ColocationSolution | None:
    """Return the best plan of strict round robin if it is cheaper than `start`: several runs per period never cost more."""
    strict, part = replace(problem, max_rate=1), limits.part(_SHARE)
    try:
        found = exact(strict, part, None, seed, silent, law_of(strict, part, seed)).solution
    except (InfeasibleError, NoSolutionError):
        return start
    return found if start is None or found.cost_per_h < start.cost_per_h else start


def heuristic(
    problem: ColocationProblem, method: Method, seed: int = 0, stop: Callable[[], object] = lambda: None
) -> ColocationSolution | None:
    """Return the plan of one heuristic, None if it does not fit into the pools, or if `stop` ended greedy or random."""
    if method in ("paper", "lossless"):
        return admit_all(problem, "paper" if method == "paper" else "lossless")
    if method == "greedy":
        return greedy(problem, stop=stop)
    if method == "random":
        return random_groups(problem, seed, stop=stop)
    plan = solo(problem)
    return plan if pools_suffice(problem, plan.groups) else None


def admit_all(problem: ColocationProblem, mode: Mode) -> ColocationSolution | None:
    """Admit all jobs in their order; None if one finds no room."""
    fleet = Fleet(problem.pools, problem.max_group_size, mode)
    tickets = []
    for job in problem.jobs:
        placed = fleet.admit(job)
        if placed is None:
            return None
        tickets.append(placed.ticket)
    return fleet.solution(problem, tickets)


def best_heuristic(problem: ColocationProblem, seed: int = 0, stop: Callable[[], object] = lambda: None) -> ColocationSolution | None:
    """Return the cheapest heuristic plan; of equals the first of lossless, paper, solo, greedy, random, insertion in several orders.

    Greedy and random, whose effort grows with the square of the jobs, are left out above 1,000 jobs.
    """
    methods: tuple[Method, ...] = ("lossless", "paper", "solo", "greedy", "random")
    if len(problem.jobs) > _FEW_JOBS:
        methods = methods[:3]
    plans = [plan for method in methods if (plan := heuristic(problem, method, seed, stop)) is not None]
    best_inserted = solution_of(problem, map(list, inserted(problem, stop)))
    if pools_suffice(problem, best_inserted.groups):
        plans.append(best_inserted)
    return min(plans, key=lambda plan: plan.cost_per_h) if plans else None
