"""Is a split right, and is there a better one? From the definitions, with no code of the solver."""

from __future__ import annotations

from itertools import product
from math import isclose

from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import SplitProblem, SplitSolution, nodes


def verify(problem: SplitProblem, solution: SplitSolution) -> tuple[str, ...]:
    """Return what is wrong with a plan, in words; empty when it keeps the budgets and its times are right.

    Whether a better plan exists is the bound's matter.
    """
    pools, gpus = (solution.rollout_pool, solution.train_pool), (solution.rollout_gpus, solution.train_gpus)
    found = [] if solution.mode in ("separate", "colocated") else [f"mode {solution.mode} is neither separate nor colocated"]
    times: tuple[float, float, float] | None = None
    if solution.mode == "colocated":
        if pools[0] != pools[1] or gpus[0] != gpus[1]:
            found.append("colocated stages must share the same GPUs of one pool")
        elif (pair := problem.turns().get(pools[0], {}).get(gpus[0])) is None:
            found.append(f"colocated: {gpus[0]} GPUs are not in the tables of pool {pools[0]}")
        else:
            times = (*pair, sum(pair) + problem.switch_s + problem.sync_s)
        if solution.pipelining != "serial":
            found.append(f"colocated stages run in turn, the plan says {solution.pipelining}")
    elif solution.mode == "separate":
        missing = [
            f"{stage}: pool {pool} has no table for it"
            if pool not in tables
            else f"{stage}: {count} GPUs are not in the table of pool {pool}"
            for stage, tables, pool, count in (
                ("rollout", problem.rollout, pools[0], gpus[0]),
                ("training", problem.train, pools[1], gpus[1]),
            )
            if count not in tables.get(pool, {})
        ]
        found += missing
        if solution.pipelining not in problem.pipelining:
            found.append(f"pipelining {solution.pipelining} is not allowed, only {', '.join(problem.pipelining)}")
        elif not missing:
            times = stages(problem, solution.pipelining, pools, gpus)
    if times is not None:
        names = (f"rollout on {gpus[0]} GPUs of {pools[0]}", f"training on {gpus[1]} GPUs of {pools[1]}", "an iteration")
        claimed = (solution.rollout_s, solution.train_s, solution.iteration_s)
        found += [
            f"{name} takes {right_s:.9g} s, the plan says {claimed_s:.9g}"
            for name, right_s, claimed_s in zip(names, times, claimed, strict=True)
            if not isclose(claimed_s, right_s, rel_tol=1e-9)
        ]
    used = {pools[0]: gpus[0]}
    if solution.mode == "separate":
        used[pools[1]] = used.get(pools[1], 0) + gpus[1]
    found += [
        f"pool {pool}: {count} GPUs are used, the budget is {problem.budgets.get(pool, 0)}"
        for pool, count in used.items()
        if count > problem.budgets.get(pool, 0)
    ]
    return tuple(found)


def least_value(problem: SplitProblem) -> float | None:
    """Return the least value of the objective over all candidates, None if there is none."""
    best: float | None = None
    for (p, rollout), (q, train) in product(problem.rollout.items(), problem.train.items()):
        for x, y in product(rollout, train):
            if x <= problem.budgets[p] and y <= problem.budgets[q] and (p != q or x + y <= problem.budgets[p]):
                iteration_s = min(stages(problem, way, (p, q), (x, y))[2] for way in problem.pipelining)
                best = _less(best, _value(problem, iteration_s, nodes(problem, p, x, q, y)))
    for p, table in problem.turns().items():
        for k, pair in table.items():
            if k <= problem.budgets[p]:
                best = _less(best, _value(problem, sum(pair) + problem.switch_s + problem.sync_s, nodes(problem, p, k, p, 0)))
    return best


def _value(problem: SplitProblem, iteration_s: float, taken: dict[str, int]) -> float:
    if problem.objective == "time":
        return iteration_s
    per_h = sum(count * problem.gpus_per_node.get(pool, 1) * problem.price_per_gpu_h[pool] for pool, count in taken.items())
    return per_h * iteration_s / 3600


def _less(best: float | None, other: float) -> float:
    return other if best is None else min(best, other)
