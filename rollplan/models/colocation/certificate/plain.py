"""Fewest rollout nodes in plain Python, for the few groups of a small fleet: branching on where the next job goes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import combinations
from math import ceil, fsum, prod

from rollplan.models.colocation.problem import ColocationProblem, at_most

_SEARCHED_SHAPES = 20_000
"""Most combinations of node counts up to which the fewest nodes are searched exactly."""


def few_shapes(copies: Sequence[int]) -> bool:
    """Return whether the fewest nodes for jobs with so many copies are searched, so that the answer is no mere bound."""
    return prod(count + 1 for count in copies) <= _SEARCHED_SHAPES


def wide(problem: ColocationProblem) -> bool:
    """Return whether some group may be too wide for its node count to be searched."""
    widest = sorted((job.rollout_nodes for job in problem.jobs), reverse=True)
    return not few_shapes(widest[: problem.max_group_size])


def nodes_between(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> tuple[int, int]:
    """Return two counts between which the fewest nodes lie: equal, unless the jobs are too wide to be searched.

    jobs: (copies, seconds, GiB) each; all copies of a job go to different nodes.
    """
    return _between(tuple(sorted(jobs)), period_s, memory_gib)


@lru_cache(maxsize=100_000)
def _between(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> tuple[int, int]:
    """Return two counts between which the fewest nodes lie: equal, unless the jobs are too wide to be searched."""
    if few_shapes([copies for copies, _, _ in jobs]):
        exact = _fewest_nodes(jobs, period_s, memory_gib)
        return exact, exact
    sets = [
        chosen
        for size in range(1, len(jobs) + 1)
        for chosen in combinations(range(len(jobs)), size)
        if size == 1 or (at_most(fsum(jobs[k][1] for k in chosen), period_s) and at_most(fsum(jobs[k][2] for k in chosen), memory_gib))
    ]
    copies = [count for count, _, _ in jobs]
    return nodes_by_weights(copies, sets), sum(copies)


def nodes_by_weights(copies: Sequence[int], sets: Sequence[Collection[int]]) -> int:
    """Return a lower bound on the nodes: if no node can host jobs of more than total weight 1, sum of copies * weight.

    sets: what one node can host, by positions in `copies`. Any weights prove a bound, so it does not matter here that a library's LP
    finds good ones.
    """
    from scipy.optimize import linprog

    rows = [[float(k in chosen) for k in range(len(copies))] for chosen in sets]
    found = linprog([-count for count in copies], rows, [1.0] * len(sets))
    weights = [max(0.0, float(weight)) for weight in found.x] if found.x is not None else [0.0] * len(copies)
    heaviest = max(1.0, *(fsum(weights[k] for k in chosen) for chosen in sets))
    return ceil(fsum(count * weight for count, weight in zip(copies, weights, strict=True)) / heaviest - 1e-6)


@lru_cache(maxsize=100_000)
def _fewest_nodes(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> int:
    """Return the fewest nodes that host jobs (copies, seconds, GiB), by branching on where the next job goes.

    Each job's copies go to different nodes, at most `period_s` seconds and `memory_gib` on each node.
    """
    upper = sum(copies for copies, _, _ in jobs)
    best = upper

    def place(index: int, loads: tuple[tuple[float, float, int], ...]) -> None:
        """loads: (seconds, GiB, how many nodes stand exactly so), all nodes in use."""
        nonlocal best
        used = sum(count for _, _, count in loads)
        if used >= best:
            return
        if index == len(jobs):
            best = used
            return
        copies, seconds, memory = jobs[index]
        fitting = [kind for kind in loads if at_most(kind[0] + seconds, period_s) and at_most(kind[1] + memory, memory_gib)]
        for chosen in _choices(copies, [count for _, _, count in fitting]):
            after = [kind for kind in loads if kind not in fitting]
            for (busy, kept, count), taken in zip(fitting, chosen, strict=True):
                after += [(busy + seconds, kept + memory, taken)] if taken else []
                after += [(busy, kept, count - taken)] if count > taken else []
            new = copies - sum(chosen)
            after += [(seconds, memory, new)] if new else []
            place(index + 1, tuple(after))

    place(0, ())
    return best


def _choices(copies: int, counts: list[int]) -> list[tuple[int, ...]]:
    """Return all ways to take at most `copies` from kinds of `counts` nodes, fullest use first."""
    ways: list[tuple[int, ...]] = [()]
    for count in counts:
        ways = [(*way, taken) for way in ways for taken in range(min(count, copies - sum(way)), -1, -1)]
    return sorted(ways, key=lambda way: -sum(way))
