"""A whole plan from a scenario: resolve, decide (P3 and P1), describe, certify, seal."""

from __future__ import annotations

from rollplan import __version__
from rollplan.models.certified import Branch, Certified, Limits, Report, Witness, silent
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.describe import describe_groups, describe_pools, plan_warnings
from rollplan.models.describe_split import planned_split
from rollplan.models.errors import Finding, InputError
from rollplan.models.plan import (
    Certificate,
    Comparison,
    Origin,
    Plan,
    Prices,
    Settings,
    Tool,
    Totals,
)
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.resolve import resolve
from rollplan.models.round_robin import period
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split
from rollplan.models.stages.compile import compiled
from rollplan.models.workload import Job
from rollplan.planner import colocation, split
from rollplan.planner.colocation import Method


def plan(scenario: Scenario, method: Method = "exact", limits: Limits | None = None, seed: int = 0, report: Report = silent) -> Plan:
    """Plan all jobs of a scenario.

    method: `exact` (never worse than any heuristic), or a heuristic by name. limits: when the exact search stops; with
    the same scenario, seed and node limit the plan is the same to the byte, unless the time limit struck.
    report: called with incumbent and bound in $/h whenever one improves.
    Raises `InputError`, `InfeasibleError` with the reasons, or `NoSolutionError`.
    """
    limits = limits or Limits()
    resolved = resolve(scenario)
    splits = plan_splits(scenario)
    problem = resolved.problem(scenario)
    found = colocation.solve(problem, method, limits, seed, report) if problem.jobs else None
    groups = describe_groups(problem, resolved, found.solution, lambda r, t, pins: period(r, t, pins).seconds) if found else ()
    pools = describe_pools(scenario, groups, splits)
    return Plan(
        tool=Tool(version=__version__),
        scenario=Origin(name=scenario.name, sha256=scenario.sha256(), content=scenario.content()),
        settings=Settings(
            method=method,
            guarantee=scenario.guarantee,
            max_group_size=scenario.max_group_size,
            seed=seed,
            node_limit=limits.node_limit,
            target_gap=limits.target_gap,
        ),
        groups=groups,
        splits=splits,
        pools=pools,
        cost_per_h=round(sum(use.cost_per_h for use in pools.values()), 9),
        comparison=_compare(problem) if problem.jobs else None,
        certificate=_certificate(problem, found) if found else None,
        provenance=resolved.provenance,
        warnings=plan_warnings(resolved, groups, splits, found.stopped if found else None),
    ).sealed()


def plan_splits(scenario: Scenario, job: str | None = None) -> tuple[PlannedSplit, ...]:
    """Return the splits of the jobs that ask for one, or of one job; raise `InputError` if there is none, `InfeasibleError`."""
    asking = [entry for entry in scenario.jobs if entry.split is not None]
    if job is not None and job not in (entry.name for entry in asking):
        names = ", ".join(entry.name for entry in asking) or "none: there is none"
        raise InputError(scenario.name, [Finding("job", f"`{job}`", "is not a job that asks for a split", f"choose from {names}")])
    return tuple(_plan_split(scenario, entry, entry.split) for entry in asking if entry.split is not None and job in (None, entry.name))


def _plan_split(scenario: Scenario, job: Job, asked: Split) -> PlannedSplit:
    ready = compiled(asked, scenario.pools, scenario.links)
    decision, bound = split.decide(ready.problem, asked.noise, asked.target_s)
    return planned_split(job.name, asked, ready, decision, bound)


def _compare(problem: ColocationProblem) -> Comparison:
    paper = colocation.admit_all(problem, "paper")
    return Comparison(solo=problem.solo_cost_per_h(), paper_admission=None if paper is None else paper.cost_per_h)


def _certificate(problem: ColocationProblem, found: Certified[ColocationSolution]) -> Certificate:
    return Certificate(
        value=found.value,
        claimed_bound=found.bound.value,
        claimed_gap=found.gap,
        claimed_proof=found.bound.proof,
        witness_bound=found.witness_bound,
        stopped=found.stopped,
        witness=None if found.witness is None else _witness(problem, found.witness),
    )


def _witness(problem: ColocationProblem, witness: Witness) -> Totals | Prices:
    """Return the witness with names in place of indices."""
    if isinstance(witness, Branch):
        below, above = _witness(problem, witness.below), _witness(problem, witness.above)
        return Totals(pool=problem.pools[witness.pool].name, at=witness.at, below=below, above=above)
    return Prices(
        jobs={job.name: price for job, price in zip(problem.jobs, witness.jobs, strict=True)},
        pools={pool.name: price for pool, price in zip(problem.pools, witness.pools, strict=True)},
    )
