"""A whole plan from a scenario: resolve, decide (P3 and P1), describe, certify, seal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollplan import __version__
from rollplan.models.certified import Branch, Certified, Limits, Report, silent
from rollplan.models.colocation.certificate import checked_bound, counts_less
from rollplan.models.colocation.frozen_order import frozen_period
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group
from rollplan.models.describe import describe_groups, describe_pools, plan_warnings
from rollplan.models.describe_split import planned_split
from rollplan.models.errors import Finding, InfeasibleError, InputError
from rollplan.models.plan import Certificate, Comparison, Origin, Plan, Settings, Tool
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.plan_witness import MOST_PRICES, prices_in, with_names
from rollplan.models.resolve import reserved_nodes, resolve
from rollplan.models.round_robin import period
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split
from rollplan.models.stages.compile import compiled
from rollplan.models.workload import Job
from rollplan.planner import colocation, split
from rollplan.planner.colocation import Method
from rollplan.planner.infeasible.colocation import any_plan
from rollplan.planner.infeasible.colocation import explain as why_jobs_do_not_fit
from rollplan.planner.infeasible.scenario_splits import why_no_split
from rollplan.planner.reoptimise import reoptimise
from rollplan.planner.since import groups_of
from rollplan.planner.timetables import law_of

SINCE = "since"
"""What `Settings.method` says of a plan that was made since an earlier one."""


def plan(
    scenario: Scenario,
    method: Method = "exact",
    limits: Limits | None = None,
    seed: int = 0,
    report: Report = silent,
    since: Plan | None = None,
    max_moved: int | None = None,
    move_price_per_h: float = 0.0,
) -> Plan:
    """Plan all jobs of a scenario.

    method: `exact` (never worse than any heuristic), or a heuristic by name. limits: when the exact search stops; with
    the same scenario, seed and node limit the plan is the same to the byte, unless the time limit struck.
    report: called with incumbent and bound in $/h whenever one improves.
    since: a plan whose co-execution groups run; at most `max_moved` of their jobs (None: any number) change their group, each only
    for `move_price_per_h` that it saves. The certificate's bound remains that of planning anew.
    Raises `InputError`, `InfeasibleError` with the reasons, or `NoSolutionError`.
    """
    limits = limits or Limits()
    resolved = resolve(scenario)
    splits = plan_splits(scenario)
    problem = resolved.problem(scenario)
    # Before the search, which takes all the time that it is given.
    comparison = _compare(problem) if problem.jobs else None

    def decide() -> Certified[ColocationSolution]:
        if since is None:
            return colocation.solve(problem, method, limits, seed, report)
        return reoptimise(problem, groups_of(since), max_moved, move_price_per_h, limits, seed, report).plan

    found = _or_why_not(decide, scenario, problem, limits, seed) if problem.jobs else None
    groups = describe_groups(problem, resolved, found.solution, period_of_group) if found else ()
    pools = describe_pools(scenario, groups, splits)
    return Plan(
        tool=Tool(version=__version__),
        scenario=Origin(name=scenario.name, sha256=scenario.sha256(), content=scenario.content()),
        settings=Settings(
            method=method if since is None else SINCE,
            guarantee=scenario.guarantee,
            max_group_size=scenario.max_group_size,
            max_rate=scenario.max_rate,
            seed=seed,
            node_limit=limits.node_limit,
            target_gap=limits.target_gap,
        ),
        groups=groups,
        splits=splits,
        pools=pools,
        cost_per_h=round(sum(use.cost_per_h for use in pools.values()), 9),
        comparison=comparison,
        certificate=_certificate(problem, found) if found else None,
        provenance=resolved.provenance,
        warnings=plan_warnings(resolved, groups, splits, found.stopped if found else None),
    ).sealed()


def period_of_group(problem: ColocationProblem, group: Group, rollout_s: Sequence[float], train_s: Sequence[float]) -> float:
    """Return the seconds of a group's period if its jobs took these seconds: of strict round robin, or of its timetable's order."""
    if group.timetable is not None:
        return frozen_period(problem, group, rollout_s, train_s)
    return period(rollout_s, train_s, group.pinning).seconds


def _or_why_not(
    decide: Callable[[], Certified[ColocationSolution]], scenario: Scenario, problem: ColocationProblem, limits: Limits, seed: int
) -> Certified[ColocationSolution]:
    """Return the decision; raise `InfeasibleError` with the requirements that exclude each other."""
    try:
        return decide()
    except InfeasibleError:
        set_aside = {name: reserved_nodes(scenario, name) for name in scenario.pools}
        solver = any_plan if law_of(problem, limits) is None else _any_plan_by_law
        raise InfeasibleError(why_jobs_do_not_fit(problem, colocation.best_heuristic, limits, seed, set_aside, solver)) from None


def _any_plan_by_law(problem: ColocationProblem, limits: Limits, seed: int) -> ColocationSolution:
    return colocation.solve(problem, "exact", limits, seed).solution


def plan_splits(scenario: Scenario, job: str | None = None) -> tuple[PlannedSplit, ...]:
    """Return the splits of the jobs that ask for one, or of one job; raise `InputError` if there is none, `InfeasibleError`."""
    asking = [entry for entry in scenario.jobs if entry.split is not None]
    if job is not None and job not in (entry.name for entry in asking):
        names = ", ".join(entry.name for entry in asking) or "none: there is none"
        raise InputError(scenario.name, [Finding("job", f"`{job}`", "is not a job that asks for a split", f"choose from {names}")])
    return tuple(_plan_split(scenario, entry, entry.split) for entry in asking if entry.split is not None and job in (None, entry.name))


def _plan_split(scenario: Scenario, job: Job, asked: Split) -> PlannedSplit:
    try:
        ready = compiled(asked, scenario.pools, scenario.links)
        decision, bound = split.decide(ready.problem, asked.noise, asked.target_s)
    except InfeasibleError as error:
        raise InfeasibleError([*error.reasons, *why_no_split(scenario, job.name, asked)]) from None
    return planned_split(job.name, asked, ready, decision, bound)


def _compare(problem: ColocationProblem) -> Comparison:
    paper = colocation.admit_all(problem, "paper")
    return Comparison(solo=problem.solo_cost_per_h(), paper_admission=None if paper is None else paper.cost_per_h)


def _certificate(problem: ColocationProblem, found: Certified[ColocationSolution]) -> Certificate:
    witness, witness_bound, proof = found.witness, found.witness_bound, found.bound.proof
    if isinstance(witness, Branch) and prices_in(witness) > MOST_PRICES:
        # A file that nobody could read proves nothing: the root alone proves less, but something.
        witness, proof = witness.prices, "branch and bound"
        witness_bound = checked_bound(problem, witness).value
    elif counts_less(problem):
        witness_bound = min(witness_bound, checked_bound(problem, witness, Limits().stop).value)
    return Certificate(
        value=found.value,
        claimed_bound=found.bound.value,
        claimed_gap=found.gap,
        claimed_proof=proof,
        witness_bound=witness_bound,
        stopped=found.stopped,
        witness=None if witness is None else with_names(problem, witness),
    )
