"""P1 split: solve it, and the even split it is compared with."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from rollplan.models.certified import Certified
from rollplan.models.split.exact import exact, separate
from rollplan.models.split.problem import SplitProblem, SplitSolution


def solve(problem: SplitProblem, seed: int = 0) -> Certified[SplitSolution]:
    """Return the plan of the problem's trim with its proven bound; nothing is random, `seed` is only recorded.

    Raises `InfeasibleError` when the budgets admit no candidate.
    """
    started = monotonic()
    found = exact(problem)
    return replace(found, seconds=monotonic() - started, seed=seed)


def even_split(problem: SplitProblem) -> SplitSolution | None:
    """Return what people do without a planner, at its fastest; None if no pools hold both stages apart.

    On one site, the counts nearest to half of the budget each (of several, those that leave fewest GPUs idle). On two
    sites, the largest count within each budget.
    """
    plans = [even for p in problem.rollout for q in problem.train if (even := _even_pair(problem, p, q)) is not None]
    return min(plans, key=lambda plan: (plan.iteration_s, plan.gpus, plan.rollout_gpus, plan.rollout_pool, plan.train_pool), default=None)


def _even_pair(problem: SplitProblem, rollout_pool: str, train_pool: str) -> SplitSolution | None:
    budget = problem.budgets[rollout_pool]
    rollout_counts = [gpus for gpus in problem.rollout[rollout_pool] if gpus <= budget]
    train_counts = [gpus for gpus in problem.train[train_pool] if gpus <= problem.budgets[train_pool]]
    if rollout_pool != train_pool:
        return (
            separate(problem, rollout_pool, max(rollout_counts), train_pool, max(train_counts)) if rollout_counts and train_counts else None
        )
    plans = (separate(problem, rollout_pool, x, train_pool, y) for x in rollout_counts for y in train_counts if x + y <= budget)
    return min(plans, key=lambda plan: (*_unevenness(plan, budget), plan.iteration_s, plan.rollout_gpus), default=None)


def _unevenness(plan: SplitSolution, budget: int) -> tuple[int, int]:
    """Return the distance of both counts from half of the budget, in half GPUs, then the GPUs left idle."""
    return abs(2 * plan.rollout_gpus - budget) + abs(2 * plan.train_gpus - budget), budget - plan.gpus
