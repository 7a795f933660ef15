"""Why a split of a scenario has no plan, or misses its target, beside what the other splits of the scenario take."""

from __future__ import annotations

from rollplan.models.certified import Limits
from rollplan.models.plan import Plan
from rollplan.models.resolve import reserved_nodes
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split, budgets
from rollplan.planner.infeasible.split import MOST_S, explain


def why_no_split(scenario: Scenario, name: str, asked: Split, limits: Limits | None = None) -> list[str]:
    """Return what `split.explain` says of a job's split; empty if it has a plan that keeps its target."""
    own = budgets(asked, scenario.pools)
    elsewhere = {pool: reserved_nodes(scenario, pool) - -(-own.get(pool, 0) // each.gpus_per_node) for pool, each in scenario.pools.items()}
    return explain(name, asked, scenario.pools, scenario.links, limits, elsewhere)


def missed_targets(plan: Plan) -> dict[str, list[str]]:
    """Return, for each split whose target no candidate keeps, the requirements that exclude each other and what would do.

    All of them together take a few seconds at most.
    """
    missed = {split.name for split in plan.splits if split.target_s is not None and split.fewest is None}
    if not missed:
        return {}
    scenario, limits = Scenario.from_dict(plan.scenario.content, plan.scenario.name), Limits(MOST_S)
    asked = {job.name: job.split for job in scenario.jobs if job.name in missed}
    return {name: why_no_split(scenario, name, split, limits) for name, split in asked.items() if split is not None}
