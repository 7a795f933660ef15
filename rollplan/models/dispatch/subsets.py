"""P2 by enumeration: the best order of every subset of requests, then the best partition into subsets.

Requests that fit at once all start at once, so that their order says nothing; else every order is simulated.
"""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np

from rollplan.models.certified import Bound, Certified
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import DispatchSolution, instance_seconds, scored

MOST = 10
"""Requests whose partitions are enumerated."""
_MOST_ORDERS = 20_000


def applies(problem: DispatchProblem) -> bool:
    """Return whether there are few enough subsets, and few enough orders of those that have to wait."""
    return len(problem) <= MOST and sum(factorial(len(m)) for m in _subsets(problem) if not fits(problem, m)) <= _MOST_ORDERS


def fits(problem: DispatchProblem, requests: tuple[int, ...]) -> bool:
    """Return whether an instance can run these requests all at once."""
    budget = problem.admission.kv_tokens
    fit_cache = budget is None or int(problem.final_tokens[list(requests)].sum()) <= budget
    return len(requests) <= problem.admission.slots and fit_cache


def solve(problem: DispatchProblem, seed: int = 0) -> Certified[DispatchSolution]:
    """Return an optimal dispatch, proven by the enumeration."""
    members = _subsets(problem)
    orders = [(order, bits) for bits, m in enumerate(members) for order in ([m] if fits(problem, m) else permutations(m))]
    seconds = instance_seconds(problem, [np.array(order, dtype=np.int64) for order, _ in orders])
    best_s = np.full(len(members), np.inf)
    best: list[tuple[int, ...]] = list(members)
    for (order, bits), taken in zip(orders, seconds.tolist(), strict=True):
        if taken < best_s[bits]:
            best_s[bits], best[bits] = taken, order
    # last[i][S]: the part of S that the last of i + 2 instances takes; makespan[S]: the least of i + 2 instances.
    makespan, last = best_s, []
    for _ in range(problem.instances - 1):
        makespan, taken_last = _one_more(makespan, best_s)
        last.append(taken_last)
    left, chosen = len(members) - 1, []
    for taken_last in reversed(last):
        chosen.append(best[taken_last[left]])
        left ^= int(taken_last[left])
    found = scored(problem, [np.array(order, dtype=np.int64) for order in (best[left], *reversed(chosen))])
    return Certified(found, found.makespan_s, Bound(found.makespan_s, "exhaustive"), "optimal", seed=seed)


def _subsets(problem: DispatchProblem) -> list[tuple[int, ...]]:
    """Return the requests of each subset; the bits of its index are its members."""
    return [tuple(j for j in range(len(problem)) if bits >> j & 1) for bits in range(1 << len(problem))]


def _one_more(makespan: np.ndarray, alone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least makespans with one more instance, and the subset that it takes."""
    every = np.arange(makespan.size)
    result, taken = np.empty_like(makespan), np.zeros_like(every)
    for bits in range(makespan.size):
        parts = every[(every & bits) == every][: bits + 1]
        seconds = np.maximum(alone[parts], makespan[bits ^ parts])
        at = int(seconds.argmin())
        result[bits], taken[bits] = seconds[at], parts[at]
    return result, taken
