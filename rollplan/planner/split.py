"""P1 split: solve it, and what people do without a planner beside it."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from rollplan.models.certified import Certified
from rollplan.models.describe_split import SplitDecision
from rollplan.models.plan_split import Rule
from rollplan.models.split.candidates import colocated, undominated
from rollplan.models.split.exact import exact, fewest_gpus, pareto_front, ranking, separate
from rollplan.models.split.problem import SplitProblem, SplitSolution, objective_value

_FRONT = 12
"""Most plans of a Pareto front that are shown."""


def solve(problem: SplitProblem, seed: int = 0) -> Certified[SplitSolution]:
    """Return the plan of the problem's trim with its proven bound; nothing is random, `seed` is only recorded.

    Raises `InfeasibleError` when the budgets admit no candidate.
    """
    started = monotonic()
    found = exact(problem)
    return replace(found, seconds=monotonic() - started, seed=seed)


def decide(problem: SplitProblem, noise: float = 0.0, target_s: float | None = None) -> tuple[SplitDecision, float]:
    """Return the decision about one job with what is shown beside it, and the least value of all candidates.

    noise: relative difference that means nothing. target_s: also look for the fewest GPUs that take at most so many
    seconds per iteration. Raises `InfeasibleError`.
    """
    found = solve(problem)
    everything = undominated(problem)
    shared = [plan for plan in everything if plan.mode == "colocated"]
    equal = [plan for plan in everything if objective_value(problem, plan) <= found.value * (1 + noise)]
    rules: dict[Rule, SplitSolution | None] = {
        "7+1: one instance rolls out": _one_instance(problem),
        "colocated on all GPUs": _everything_colocated(problem),
    }
    decision = SplitDecision(
        choice=found.solution,
        next_best=tuple(ranking(problem, 4)[1:]),
        thrifty=min(equal, key=lambda plan: (plan.gpus, objective_value(problem, plan)), default=found.solution),
        even=even_split(problem),
        colocated=min(shared, key=lambda plan: (objective_value(problem, plan), plan.gpus), default=None),
        rules=tuple((name, plan) for name, plan in rules.items() if plan is not None),
        front=_thinned(pareto_front(problem), found.solution),
        fewest=None if target_s is None else fewest_gpus(problem, target_s),
    )
    return decision, found.bound.value


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
    if not (rollout_counts and train_counts):
        return None
    if rollout_pool != train_pool:
        return separate(problem, rollout_pool, max(rollout_counts), train_pool, max(train_counts))
    pairs = [(x, y) for x in rollout_counts for y in train_counts if x + y <= budget]
    least = min((_unevenness(x, y, budget) for x, y in pairs), default=None)
    plans = [separate(problem, rollout_pool, x, train_pool, y) for x, y in pairs if _unevenness(x, y, budget) == least]
    return min(plans, key=lambda plan: (plan.iteration_s, plan.rollout_gpus), default=None)


def _unevenness(x: int, y: int, budget: int) -> tuple[int, int]:
    """Return the distance of both counts from half of the budget, in half GPUs, then the GPUs left idle."""
    return abs(2 * x - budget) + abs(2 * y - budget), budget - x - y


def _one_instance(problem: SplitProblem) -> SplitSolution | None:
    """Return the plan that gives rollout the fewest GPUs of one site and training the most of the rest; None on two sites."""
    plans = []
    for pool in sorted(problem.rollout.keys() & problem.train.keys()):
        fewest = min(problem.rollout[pool])
        left = [gpus for gpus in problem.train[pool] if gpus <= problem.budgets[pool] - fewest]
        if left:
            plans.append(separate(problem, pool, fewest, pool, max(left)))
    return min(plans, key=lambda plan: plan.iteration_s, default=None)


def _everything_colocated(problem: SplitProblem) -> SplitSolution | None:
    """Return the plan whose stages take turns on the most GPUs of one pool; None if no pool can hold both."""
    plans = []
    for pool, table in problem.turns().items():
        if counts := [gpus for gpus in table if gpus <= problem.budgets[pool]]:
            plans.append(colocated(problem, pool, max(counts)))
    return min(plans, key=lambda plan: plan.iteration_s, default=None)


def _thinned(front: list[SplitSolution], kept: SplitSolution) -> tuple[SplitSolution, ...]:
    """Return at most `_FRONT` of the front: both ends, evenly spread ones between, and `kept` if it is in the front."""
    if len(front) <= _FRONT:
        return tuple(front)
    places = {round(place * (len(front) - 1) / (_FRONT - 1)) for place in range(_FRONT)}
    if kept in front and (place := front.index(kept)) not in places:
        places -= {min(places - {0, len(front) - 1}, key=lambda other: abs(other - place))}
        places |= {place}
    return tuple(front[place] for place in sorted(places))
