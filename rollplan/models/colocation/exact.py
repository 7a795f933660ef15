"""P3 solved exactly: enumerate the feasible groups, bound by the LP, branch on the pools' totals, choose by the MILP.

Plans of equal totals cost the same, so the search asks for each pair of totals, cheapest first, whether a plan has it.
The LP in a box of totals answers most of them; the MILP answers those at which the LP is integral.
"""

from __future__ import annotations

from rollplan.models.certified import Bound, Certified, Limits, Report, Stopped, Witness, gap, silent
from rollplan.models.colocation.closed_form import fluid_bound, impossible
from rollplan.models.colocation.columns import enumerate_groups
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.colocation.search import Search
from rollplan.models.errors import InfeasibleError, NoSolutionError


def exact(
    problem: ColocationProblem,
    limits: Limits | None = None,
    start: ColocationSolution | None = None,
    seed: int = 0,
    report: Report = silent,
) -> Certified[ColocationSolution]:
    """Return the best plan found within `limits`, never worse than `start`, with a proven bound and its witness.

    Raises `InfeasibleError` if the pools cannot hold the jobs, `NoSolutionError` if the limit came first.
    """
    limits = limits or Limits()
    if reasons := list(impossible(problem)):
        raise InfeasibleError(reasons)
    if not problem.jobs:
        return Certified(ColocationSolution((), 0.0), 0.0, Bound(0.0, "fluid"), "optimal", seed=seed)
    floor = problem.next_cost(fluid_bound(problem))
    if start is not None:
        report(start.cost_per_h, floor)
    part = limits.part(0.4)
    columns = enumerate_groups(problem, part.stop)
    cut_short = part.stop()
    search = Search(problem, columns, limits, seed, start, floor, report)
    ended = search.prove() if columns.complete else search.improve()
    if cut_short and not columns.complete:
        ended = cut_short
    best = search.best
    if best is None:
        if ended == "infeasible":
            raise InfeasibleError(_capacity_reasons(problem))
        raise NoSolutionError(f"the {ended} was reached before any plan was found{_ADVICE.get(ended, '')}")
    bound = search.bound()
    proven = gap(best.cost_per_h, bound.value) <= 1e-9
    # A search that came to its end without a proof was content with the gap.
    stopped: Stopped = "target gap" if ended == "optimal" or ended == "infeasible" else ended
    stopped = "optimal" if proven else stopped
    return Certified(best, best.cost_per_h, bound, stopped, seed=seed, witness=search.witness(), witness_bound=search.witness_bound())


_ADVICE = {"node limit": "; raise --node-limit", "time limit": "; raise --time-limit"}


def lower_bound(problem: ColocationProblem, limits: Limits, max_columns: int = 200_000) -> tuple[Bound, Witness | None]:
    """Return the LP bound and its witness where all groups are few enough to enumerate, else the fluid bound."""
    floor = problem.next_cost(fluid_bound(problem))
    columns = enumerate_groups(problem, limits.stop, max_columns, or_neighbours=False)
    if not columns.complete:
        return Bound(floor, "fluid"), None
    search = Search(problem, columns, limits, 0, None, floor, silent)
    search.branch_on_totals()
    return search.bound(), search.witness()


def _capacity_reasons(problem: ColocationProblem) -> list[str]:
    limited = [pool for pool in problem.pools if pool.nodes is not None]
    return [
        f"{len(problem.jobs)} jobs do not fit into {' and '.join(f'{pool.nodes} nodes of {pool.name}' for pool in limited)} "
        "without breaking an SLO, memory or group-size limit (raise `nodes`, loosen `slo`, or remove jobs)"
    ]
