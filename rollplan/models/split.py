"""P1 split: how many GPUs of one job roll out and how many train.

A table R_p says how many seconds the rollout of one iteration takes on so many GPUs of pool p, a table T_q says the
same of training; both hold the best parallel layout of each count. b_p GPUs of pool p may be used. Candidates:

    separate   x GPUs of p roll out, y GPUs of q train:  max(R_p(x), T_q(y)) + sync
               x <= b_p and y <= b_q; on one site (p = q) x + y <= b_p
    colocated  k GPUs of p roll out, then train:         R_p(k) + T_p(k) + sync,  k <= b_p

The least time wins. Times closer than 1e-9 of the best are equal; then fewer GPUs, then less difference between the
stages, then smaller x (which prefers separate to colocated), then pools by name. So each side of a separate plan gives
back what it does not need (trim `safe`). Trim `paper` replaces the candidates on two sites by the one of StreamRL's Algorithm 1 (Zhong et
al. 2025), which may be slower: it takes the time nearest to the bottleneck, from above as well as from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import isclose, isfinite
from typing import Literal, get_args

from rollplan.models.certified import Bound, Certified, Stopped, gap
from rollplan.models.errors import InfeasibleError
from rollplan.models.workload import Split

REL_TOL = 1e-9
"""Two times that differ by less, relative to the iteration, are equal."""

Mode = Literal["separate", "colocated"]
Trim = Literal["paper", "safe"]
Tables = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class SplitProblem:
    """One job. rollout, train: seconds per iteration of the stage, by pool and number of GPUs; only these counts are candidates.

    budgets: GPUs that may be used of each pool. price_per_gpu_h: dollars per GPU and hour. sync_s: seconds of weight
    transfer that nothing hides. The mappings are copied and sorted by pool and count, so that their order says nothing.
    Raises `ValueError` for a value out of range, and for a pool that has a table but no budget or price.
    """

    budgets: Mapping[str, int]
    rollout: Tables
    train: Tables
    price_per_gpu_h: Mapping[str, float]
    sync_s: float = 0.0
    trim: Trim = "safe"

    def __post_init__(self) -> None:
        """Refuse values out of range; copy and sort the mappings."""
        for stage, tables in (("rollout", self.rollout), ("train", self.train)):
            if not tables:
                raise ValueError(f"{stage} must hold the table of at least one pool, got none")
            for pool, table in tables.items():
                if not table:
                    raise ValueError(f"{stage} of {pool} must hold at least one GPU count, got none")
                for gpus, seconds in table.items():
                    _at_least(1, f"GPU counts in {stage} of {pool}", gpus)
                    _at_least(0, f"{stage} of {pool} on {gpus} GPUs", seconds)
            object.__setattr__(self, stage, {pool: dict(sorted(tables[pool].items())) for pool in sorted(tables)})
        for name, least, values in (("budgets", 1, self.budgets), ("price_per_gpu_h", 0, self.price_per_gpu_h)):
            if missing := sorted({*self.rollout, *self.train} - values.keys()):
                raise ValueError(f"{name} must hold every pool that has a table, got none for {', '.join(missing)}")
            for pool, value in values.items():
                _at_least(least, f"{name} of {pool}", value)
            object.__setattr__(self, name, dict(sorted(values.items())))
        _at_least(0, "sync_s", self.sync_s)
        if self.trim not in get_args(Trim):
            raise ValueError(f"trim must be one of {', '.join(get_args(Trim))}, got {self.trim}")


@dataclass(frozen=True, slots=True)
class SplitSolution:
    """A split and its seconds per iteration; when `mode` is colocated, both stages name the same GPUs of one pool."""

    mode: Mode
    rollout_pool: str
    rollout_gpus: int
    train_pool: str
    train_gpus: int
    rollout_s: float
    train_s: float
    iteration_s: float

    @property
    def gpus(self) -> int:
        """GPUs in use, each counted once."""
        return self.rollout_gpus if self.mode == "colocated" else self.rollout_gpus + self.train_gpus


def split_problem(split: Split, price_per_gpu_h: Mapping[str, float]) -> SplitProblem:
    """Return the problem of a scenario's `split`, with dollars per GPU and hour for each of its pools."""
    return SplitProblem(split.budget, split.rollout, split.train, price_per_gpu_h, split.sync_s, split.trim)


def separate(problem: SplitProblem, rollout_pool: str, rollout_gpus: int, train_pool: str, train_gpus: int) -> SplitSolution:
    """Return the plan whose stages overlap on GPUs of their own; budgets are not checked."""
    rollout_s, train_s = problem.rollout[rollout_pool][rollout_gpus], problem.train[train_pool][train_gpus]
    iteration_s = max(rollout_s, train_s) + problem.sync_s
    return SplitSolution("separate", rollout_pool, rollout_gpus, train_pool, train_gpus, rollout_s, train_s, iteration_s)


def colocated(problem: SplitProblem, pool: str, gpus: int) -> SplitSolution:
    """Return the plan whose stages take turns on the same GPUs; the budget is not checked."""
    rollout_s, train_s = problem.rollout[pool][gpus], problem.train[pool][gpus]
    return SplitSolution("colocated", pool, gpus, pool, gpus, rollout_s, train_s, rollout_s + train_s + problem.sync_s)


def cost_per_h(problem: SplitProblem, solution: SplitSolution) -> float:
    """Return dollars per hour of the GPUs in use, each paid once."""
    rollout = solution.rollout_gpus * problem.price_per_gpu_h[solution.rollout_pool]
    return rollout if solution.mode == "colocated" else rollout + solution.train_gpus * problem.price_per_gpu_h[solution.train_pool]


def colocated_evaluated(problem: SplitProblem) -> bool:
    """Return whether time-sharing could be compared: some pool has a count within its budget in both tables."""
    return any(True for _ in _colocated_candidates(problem))


def exact(problem: SplitProblem) -> Certified[SplitSolution]:
    """Return the plan of the problem's trim, bounded by the least time of all candidates (`exhaustive`).

    With trim `safe` the two are equal. With trim `paper` the gap, in the relative terms of `Certified`, is what the
    printed rule loses. Raises `InfeasibleError` when the budgets admit no candidate, with the constraints that bind.
    """
    candidates = _all_candidates(problem)
    chosen = _choose(problem, candidates)
    bound_s = min(candidate.iteration_s for candidate in candidates)
    stopped: Stopped = "optimal" if gap(chosen.iteration_s, bound_s) <= REL_TOL else "heuristic"
    return Certified(chosen, chosen.iteration_s, Bound(bound_s, "exhaustive"), stopped)


def ranking(problem: SplitProblem, limit: int = 3) -> list[SplitSolution]:
    """Return the plan of `exact` and the next best ones, at most `limit`, in the order of the objective and its ties.

    A candidate that only adds GPUs to one ranked before it, without being faster, is left out. With trim `paper` the
    second may be faster than the first. Raises `InfeasibleError` as `exact` does.
    """
    remaining = _all_candidates(problem)
    ranked: list[SplitSolution] = []
    while remaining and len(ranked) < limit:
        ranked.append(_best(remaining) if ranked else _choose(problem, remaining))
        remaining = [candidate for candidate in remaining if not _only_adds_gpus(candidate, ranked[-1])]
    return ranked


def verify(problem: SplitProblem, solution: SplitSolution) -> tuple[str, ...]:
    """Return what is wrong with a plan, in words; empty when it keeps the budgets and its times are right.

    Recomputed from the definitions, with no code of the solver. Whether a faster plan exists is the bound's matter.
    """
    stages = (
        ("rollout", problem.rollout, solution.rollout_pool, solution.rollout_gpus, solution.rollout_s),
        ("training", problem.train, solution.train_pool, solution.train_gpus, solution.train_s),
    )
    found: list[str] = []
    times: list[float] = []
    for stage, tables, pool, gpus, claimed_s in stages:
        if pool not in tables:
            found.append(f"{stage}: pool {pool} has no table for it")
        elif gpus not in tables[pool]:
            found.append(f"{stage}: {gpus} GPUs are not in the table of pool {pool}")
        else:
            times.append(tables[pool][gpus])
            if not isclose(claimed_s, times[-1], rel_tol=1e-9):
                found.append(f"{stage} on {gpus} GPUs of {pool} takes {times[-1]:.9g} s, the plan says {claimed_s:.9g}")
    used = {solution.rollout_pool: solution.rollout_gpus}
    if solution.mode == "separate":
        used[solution.train_pool] = used.get(solution.train_pool, 0) + solution.train_gpus
    elif solution.mode != "colocated":
        return (*found, f"mode {solution.mode} is neither separate nor colocated")
    elif (solution.rollout_pool, solution.rollout_gpus) != (solution.train_pool, solution.train_gpus):
        found.append("colocated stages must share the same GPUs of one pool")
    for pool, gpus in used.items():
        if gpus > problem.budgets.get(pool, 0):
            found.append(f"pool {pool}: {gpus} GPUs are used, the budget is {problem.budgets.get(pool, 0)}")
    if len(times) == len(stages):
        iteration_s = (max(times) if solution.mode == "separate" else sum(times)) + problem.sync_s
        if not isclose(solution.iteration_s, iteration_s, rel_tol=1e-9):
            found.append(f"an iteration takes {iteration_s:.9g} s, the plan says {solution.iteration_s:.9g}")
    return tuple(found)


def least_iteration_s(problem: SplitProblem) -> float | None:
    """Return the least time of all candidates, None if there is none: proves a bound again with no code of the solver."""
    times = (
        (rollout_s + train_s if shared else max(rollout_s, train_s)) + problem.sync_s
        for (p, rollout), (q, train) in product(problem.rollout.items(), problem.train.items())
        for (x, rollout_s), (y, train_s), shared in product(rollout.items(), train.items(), (False, True))
        if x <= problem.budgets[p] and y <= problem.budgets[q]
        if ((p, x) == (q, y) if shared else p != q or x + y <= problem.budgets[p])
    )
    return min(times, default=None)


def _at_least(least: int, name: str, value: float) -> None:
    if not (isfinite(value) and value >= least):
        raise ValueError(f"{name} must be finite and at least {least}, got {value}")


def _within_budget(problem: SplitProblem, tables: Tables) -> dict[str, dict[int, float]]:
    """Return the part of each table that fits its pool's budget, counts ascending; pools without any are left out."""
    fitting = {pool: {x: seconds for x, seconds in table.items() if x <= problem.budgets[pool]} for pool, table in tables.items()}
    return {pool: table for pool, table in fitting.items() if table}


def _separate_candidates(problem: SplitProblem) -> Iterator[SplitSolution]:
    """Yield, for every time that a stage can take, the fewest GPUs of each side that keep it.

    Any other pair has at least the GPUs of one of these on each side and is not faster: it loses on time or on GPUs.
    """
    training = _within_budget(problem, problem.train)
    for p, rollout in _within_budget(problem, problem.rollout).items():
        for q, train in training.items():
            pairs = {(_fewest(rollout, limit_s), _fewest(train, limit_s)) for limit_s in (*rollout.values(), *train.values())}
            for x, y in pairs:
                if x and y and (p != q or x + y <= problem.budgets[p]):
                    yield separate(problem, p, x, q, y)


def _fewest(table: Mapping[int, float], limit_s: float) -> int | None:
    return next((gpus for gpus, seconds in table.items() if seconds <= limit_s), None)


def _colocated_candidates(problem: SplitProblem) -> Iterator[SplitSolution]:
    for pool, rollout in _within_budget(problem, problem.rollout).items():
        yield from (colocated(problem, pool, gpus) for gpus in rollout if gpus in problem.train.get(pool, {}))


def _all_candidates(problem: SplitProblem) -> list[SplitSolution]:
    candidates = [*_separate_candidates(problem), *_colocated_candidates(problem)]
    if not candidates:
        raise InfeasibleError(_binding(problem))
    return candidates


def _choose(problem: SplitProblem, candidates: list[SplitSolution]) -> SplitSolution:
    """Return the plan of the problem's trim, given all candidates."""
    if problem.trim == "safe":
        return _best(candidates)
    one_site = [candidate for candidate in candidates if candidate.rollout_pool == candidate.train_pool]
    return _best([*one_site, *_paper_plans(problem)])


def _best(candidates: list[SplitSolution]) -> SplitSolution:
    least_s = min(candidate.iteration_s for candidate in candidates)
    tied = [candidate for candidate in candidates if candidate.iteration_s <= least_s * (1 + REL_TOL)]
    fewest = min(candidate.gpus for candidate in tied)
    tied = [candidate for candidate in tied if candidate.gpus == fewest]
    balance_s = min(abs(candidate.rollout_s - candidate.train_s) for candidate in tied) + least_s * REL_TOL
    tied = [candidate for candidate in tied if abs(candidate.rollout_s - candidate.train_s) <= balance_s]
    return min(tied, key=lambda plan: (plan.rollout_gpus, plan.rollout_pool, plan.train_pool))


def _only_adds_gpus(candidate: SplitSolution, ranked: SplitSolution) -> bool:
    return (
        (candidate.mode, candidate.rollout_pool, candidate.train_pool) == (ranked.mode, ranked.rollout_pool, ranked.train_pool)
        and candidate.rollout_gpus >= ranked.rollout_gpus
        and candidate.train_gpus >= ranked.train_gpus
        and candidate.iteration_s >= ranked.iteration_s * (1 - REL_TOL)
    )


def _paper_plans(problem: SplitProblem) -> Iterator[SplitSolution]:
    """Yield, for each two sites, the plan of StreamRL's Algorithm 1 as printed: trim the faster side."""
    training = _within_budget(problem, problem.train)
    for p, rollout in _within_budget(problem, problem.rollout).items():
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
    nowhere = [stage for stage, tables in stages if not _within_budget(problem, tables)]
    for stage, tables in stages:
        for pool, table in tables.items():
            if (least := min(table)) > problem.budgets[pool] and (stage in nowhere or not nowhere):
                yield (
                    f"{stage} on pool {pool} needs at least {least} GPUs, the fewest in its table, and the budget is "
                    f"{problem.budgets[pool]} (raise `budget.{pool}`, or add fewer GPUs to `{stage}.{pool}`)"
                )
    for pool in sorted(problem.rollout.keys() & problem.train.keys()):
        x, y, budget = min(problem.rollout[pool]), min(problem.train[pool]), problem.budgets[pool]
        shared = min(problem.rollout[pool].keys() & problem.train[pool].keys(), default=None)
        sharing = "no count is in both tables to share in time" if shared is None else f"sharing in time at least {shared}"
        yield f"rollout and train on pool {pool} need at least {x} + {y} = {x + y} GPUs, {sharing}; raise `budget.{pool}`, now {budget}"
