"""All candidates of a split, thinned to those that nothing dominates.

A candidate is dominated when another of the same pools and the same pipelining has no more GPUs in either stage and is
not slower: cost is time times a price that grows with the GPUs, so it is neither faster, nor cheaper, nor smaller. Grids
of thousands of counts are computed as arrays, pools by pools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rollplan.models.latency import FloatArray, IntArray
from rollplan.models.split.iteration import joined
from rollplan.models.split.problem import REL_TOL, SplitProblem, SplitSolution, Tables, Way


def undominated(problem: SplitProblem) -> list[SplitSolution]:
    """Return every candidate that none of its kind dominates; empty when the budgets admit none."""
    return [*_separate(problem), *colocated_candidates(problem)]


def colocated_candidates(problem: SplitProblem) -> Iterator[SplitSolution]:
    """Yield the candidates whose stages take turns; counts that only add GPUs are left out."""
    for pool, table in problem.turns().items():
        least_s = np.inf
        for gpus, pair in table.items():
            plan = _in_turn(problem, pool, gpus, pair)
            if gpus <= problem.budgets[pool] and plan.iteration_s < least_s * (1 - REL_TOL):
                least_s = plan.iteration_s
                yield plan


def colocated(problem: SplitProblem, pool: str, gpus: int) -> SplitSolution:
    """Return the plan whose stages take turns on the same GPUs; the budget is not checked."""
    return _in_turn(problem, pool, gpus, problem.turns()[pool][gpus])


def _in_turn(problem: SplitProblem, pool: str, gpus: int, pair: tuple[float, float]) -> SplitSolution:
    iteration_s = sum(pair) + problem.switch_s + problem.sync_s
    return SplitSolution("colocated", pool, gpus, pool, gpus, *pair, iteration_s, "serial")


def within_budget(problem: SplitProblem, tables: Tables) -> dict[str, dict[int, float]]:
    """Return the part of each table that fits its pool's budget, counts ascending; pools without any are left out."""
    fitting = {pool: {x: seconds for x, seconds in table.items() if x <= problem.budgets[pool]} for pool, table in tables.items()}
    return {pool: table for pool, table in fitting.items() if table}


def _separate(problem: SplitProblem) -> Iterator[SplitSolution]:
    training = within_budget(problem, problem.train)
    for p, rollout in within_budget(problem, problem.rollout).items():
        for q, train in training.items():
            x, y = np.array(list(rollout)), np.array(list(train))
            allowed = np.add.outer(x, y) <= problem.budgets[p] if p == q else np.ones((x.size, y.size), dtype=bool)
            if allowed.any():
                for way in problem.pipelining:
                    rollout_s, train_s, iteration_s = _grid(problem, way, (p, q), rollout, np.array(list(train.values())))
                    for i, j in zip(*_staircase(np.where(allowed, iteration_s, np.inf)), strict=True):
                        yield SplitSolution(
                            "separate", p, int(x[i]), q, int(y[j]), float(rollout_s[i]), float(train_s[j]), float(iteration_s[i, j]), way
                        )


def _staircase(times: FloatArray) -> tuple[IntArray, IntArray]:
    """Return rows and columns that are faster than every entry at or before them in both directions."""
    best = _least_so_far(times)
    before = np.full_like(best, np.inf)
    before[1:, :] = best[:-1, :]
    before[:, 1:] = np.minimum(before[:, 1:], best[:, :-1])
    faster = times < before * (1 - REL_TOL)
    # Steps that are each within the tolerance may add up to more.
    faster |= (times < before) & (times < _least_so_far(np.where(faster, times, np.inf)) * (1 - REL_TOL))
    rows, columns = np.nonzero(faster)
    return rows, columns


def _least_so_far(times: FloatArray) -> FloatArray:
    """Return the least entry at or before each in both directions."""
    return np.asarray(np.minimum.accumulate(np.minimum.accumulate(times, axis=0), axis=1))


def _grid(
    problem: SplitProblem, way: Way, pools: tuple[str, str], rollout: Mapping[int, float], train: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return seconds of rollout (m), training (n) and iteration (m, n)."""
    alone, sync_s, pool = np.array(list(rollout.values())), problem.sync(*pools), pools[0]
    if way == "serial":
        return alone, train, np.add.outer(alone, train) + sync_s
    slower, longer = problem.interference
    train = train * longer
    if way in ("async-batch", "async-streamed"):
        train = train + (problem.chunks * problem.chunk_s if way == "async-streamed" else 0.0)
        table = problem.steady.get(pool, {})
        steady = np.array([table.get(gpus, seconds) for gpus, seconds in rollout.items()]) * slower
        period = np.maximum.outer(steady, train)
        trained = train if way == "async-batch" else np.zeros_like(train)
        period = np.maximum(np.maximum(period, sync_s), (np.add.outer(steady, trained) + sync_s) / 2)
        return steady, train, period
    if way == "one-step":
        return alone * slower, train, np.maximum.outer(alone * slower, train) + sync_s
    done = np.empty((alone.size, train.size))
    for row, (gpus, seconds) in enumerate(rollout.items()):
        shares = [share * slower for share in problem.finish.get(pool, {}).get(gpus, (seconds,))]
        ends = np.array(shares if way == "dynamic-batch" else joined(shares, problem.chunks))
        # f_K = max over k of (g_k + the chunks k .. K): the recurrence of `iteration.stages`, unrolled.
        remaining = np.arange(ends.size, 0, -1)
        done[row] = (ends[:, None] + np.multiply.outer(remaining, train / ends.size + problem.chunk_s)).max(axis=0)
    return alone * slower, train, done + sync_s
