"""The best split, the next best ones, the Pareto front, and the fewest GPUs for a target: all by comparing everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rollplan.models.certified import Bound, Certified, Stopped, gap
from rollplan.models.errors import InfeasibleError
from rollplan.models.split.candidates import undominated, within_budget
from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import REL_TOL, SplitProblem, SplitSolution, cost_per_iteration, objective_value


def exact(problem: SplitProblem) -> Certified[SplitSolution]:
    """Return the plan of the problem's trim, bounded by the least value of all candidates (`exhaustive`).

    With trim `safe` the two are equal. With trim `paper` the gap, in the relative terms of `Certified`, is what the
    printed rule loses. Raises `InfeasibleError` when the budgets admit no candidate, with the constraints that bind.
    """
    candidates = _all(problem)
    chosen = _choose(problem, candidates)
    bound = min(objective_value(problem, candidate) for candidate in candidates)
    stopped: Stopped = "optimal" if gap(objective_value(problem, chosen), bound) <= REL_TOL else "heuristic"
    return Certified(chosen, objective_value(problem, chosen), Bound(bound, "exhaustive"), stopped)


def ranking(problem: SplitProblem, limit: int = 3) -> list[SplitSolution]:
    """Return the plan of `exact` and the next best ones, at most `limit`, in the order of the objective and its ties.

    A candidate that only adds GPUs to one ranked before it, without being faster, is left out. With trim `paper` the
    second may be faster than the first. Raises `InfeasibleError` as `exact` does.
    """
    remaining = _all(problem)
    ranked: list[SplitSolution] = []
    while remaining and len(ranked) < limit:
        ranked.append(_best(problem, remaining) if ranked else _choose(problem, remaining))
        remaining = [candidate for candidate in remaining if not _only_adds_gpus(candidate, ranked[-1])]
    return ranked


def pareto_front(problem: SplitProblem) -> list[SplitSolution]:
    """Return the candidates that no other beats in all of time, cost per iteration and staleness, fastest first.

    Of equals the one with fewer GPUs stays. Raises `InfeasibleError` as `exact` does.
    """
    ordered = sorted(_all(problem), key=lambda plan: (plan.iteration_s, cost_per_iteration(problem, plan), plan.staleness, *_ties(plan)))
    front: list[SplitSolution] = []
    cheapest: dict[int, float] = {}
    for plan in ordered:
        cost = cost_per_iteration(problem, plan)
        if all(cost < least * (1 - REL_TOL) for staleness, least in cheapest.items() if staleness <= plan.staleness):
            front.append(plan)
            cheapest[plan.staleness] = cost
    return front


def fewest_gpus(problem: SplitProblem, target_s: float) -> SplitSolution | None:
    """Return the candidate with fewest GPUs that takes at most `target_s` seconds per iteration, None if there is none."""
    fitting = [candidate for candidate in _all(problem) if candidate.iteration_s <= target_s * (1 + REL_TOL)]
    return min(fitting, key=lambda plan: (plan.gpus, plan.iteration_s, *_ties(plan)), default=None)


def separate(problem: SplitProblem, rollout_pool: str, rollout_gpus: int, train_pool: str, train_gpus: int) -> SplitSolution:
    """Return the plan whose stages have GPUs of their own, in the best allowed pipelining; budgets are not checked."""
    plans = []
    for way in problem.pipelining:
        rollout_s, train_s, iteration_s = stages(problem, way, (rollout_pool, train_pool), (rollout_gpus, train_gpus))
        plans.append(SplitSolution("separate", rollout_pool, rollout_gpus, train_pool, train_gpus, rollout_s, train_s, iteration_s, way))
    return min(plans, key=lambda plan: plan.iteration_s)


def _all(problem: SplitProblem) -> list[SplitSolution]:
    candidates = undominated(problem)
    if not candidates:
        raise InfeasibleError(_binding(problem))
    return candidates


def _choose(problem: SplitProblem, candidates: list[SplitSolution]) -> SplitSolution:
    """Return the plan of the problem's trim, given all candidates."""
    if problem.trim == "safe":
        return _best(problem, candidates)
    one_site = [candidate for candidate in candidates if candidate.rollout_pool == candidate.train_pool]
    return _best(problem, [*one_site, *_paper_plans(problem)])


def _best(problem: SplitProblem, candidates: list[SplitSolution]) -> SplitSolution:
    least = min(objective_value(problem, candidate) for candidate in candidates)
    tied = [candidate for candidate in candidates if objective_value(problem, candidate) <= least * (1 + REL_TOL)]
    fewest = min(candidate.gpus for candidate in tied)
    tied = [candidate for candidate in tied if candidate.gpus == fewest]
    balance_s = min(abs(plan.rollout_s - plan.train_s) + plan.iteration_s * REL_TOL for plan in tied)
    tied = [candidate for candidate in tied if abs(candidate.rollout_s - candidate.train_s) <= balance_s]
    order = {way: place for place, way in enumerate(problem.pipelining)}
    return min(tied, key=lambda plan: (*_ties(plan), order.get(plan.pipelining, -1)))


def _ties(plan: SplitSolution) -> tuple[int, int, str, str]:
    return plan.gpus, plan.rollout_gpus, plan.rollout_pool, plan.train_pool


def _only_adds_gpus(candidate: SplitSolution, ranked: SplitSolution) -> bool:
    return (
        (candidate.mode, candidate.rollout_pool, candidate.train_pool) == (ranked.mode, ranked.rollout_pool, ranked.train_pool)
        and candidate.rollout_gpus >= ranked.rollout_gpus
        and candidate.train_gpus >= ranked.train_gpus
        and candidate.iteration_s >= ranked.iteration_s * (1 - REL_TOL)
    )


def _paper_plans(problem: SplitProblem) -> Iterator[SplitSolution]:
    """Yield, for each two sites, the plan of StreamRL's Algorithm 1 as printed: trim the faster side."""
    training = within_budget(problem, problem.train)
    for p, rollout in within_budget(problem, problem.rollout).items():
        for q, train in training.items():
            m, n = max(rollout), max(train)
            if p != q and rollout[m] < train[n]:
                yield separate(problem, p, _nearest(rollout, train[n]), q, n)
            elif p != q:
                yield separate(problem, p, m, q, _nearest(train, rollout[m]))


def _nearest(table: Mapping[int, float], target_s: float) -> int:
    """Return the count whose time is nearest to `target_s`, above or below; of several the smallest."""
    least_s = min(abs(seconds - target_s) for seconds in table.values())
    return min(gpus for gpus, seconds in table.items() if abs(seconds - target_s) <= least_s + target_s * REL_TOL)


def _binding(problem: SplitProblem) -> Iterator[str]:
    """Yield the constraints that exclude every candidate: stages that exceed their budget, then sums on one site."""
    stages = (("rollout", problem.rollout), ("train", problem.train))
    nowhere = [stage for stage, tables in stages if not within_budget(problem, tables)]
    for stage, tables in stages:
        for pool, table in tables.items():
            if (least := min(table)) > problem.budgets[pool] and (stage in nowhere or not nowhere):
                yield (
                    f"{stage} on pool {pool} needs at least {least} GPUs, the fewest in its table, and the budget is "
                    f"{problem.budgets[pool]} (raise `budget.{pool}`, or add fewer GPUs to `{stage}.{pool}`)"
                )
    for pool in sorted(problem.rollout.keys() & problem.train.keys()):
        x, y, budget = min(problem.rollout[pool]), min(problem.train[pool]), problem.budgets[pool]
        shared = min(problem.turns().get(pool, ()), default=None)
        sharing = "no count is in both tables to share in time" if shared is None else f"sharing in time at least {shared}"
        yield f"rollout and train on pool {pool} need at least {x} + {y} = {x + y} GPUs, {sharing}; raise `budget.{pool}`, now {budget}"
