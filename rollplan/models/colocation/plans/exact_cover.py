"""The cheapest groups that hold every one of a few jobs once, compiled: prices by subgradients, then depth-first search.

At most 60 jobs, whose sets are bits of one word.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.compiled import compiled

MAX_JOBS = 60
_MEMO_BITS = 14
_EPS = 1e-6


@compiled
def reduced_costs(members: Ints, cost: Floats, prices: Floats, reduced: Floats) -> None:
    """Write cost - sum of the members' prices of every group; `prices` by place."""
    for c in range(len(members)):
        total = cost[c]
        for i in range(members.shape[1]):
            place = members[c, i]
            if place < 0:
                break
            total -= prices[place]
        reduced[c] = total


@compiled
def ascend(members: Ints, cost: Floats, prices: Floats, upper: float, rounds: int) -> float:
    """Improve prices in place by subgradients until no group costs less than its members' prices; return their sum, a lower bound.

    Each job leads at most one group, so sum of prices + sum over leaders of min(0, least reduced cost) bounds every choice.
    """
    m, n = len(members), len(prices)
    reduced = np.empty(m)
    least = np.empty(n)
    which = np.empty(n, dtype=np.int64)
    slope = np.empty(n)
    now = prices.copy()
    best, scale, stalled = -np.inf, 1.0, 0
    for _ in range(rounds):
        reduced_costs(members, cost, now, reduced)
        least[:] = 0.0
        which[:] = -1
        for c in range(m):
            leader = members[c, 0]
            if reduced[c] < least[leader]:
                least[leader], which[leader] = reduced[c], c
        bound = now.sum() + least.sum()
        if bound > best + 1e-9 * abs(bound):
            best, stalled = bound, 0
            prices[:] = now
        else:
            stalled += 1
            if stalled == 8:
                scale, stalled = 0.6 * scale, 0
                now[:] = prices
                continue
        slope[:] = 1.0
        for leader in range(n):
            if which[leader] >= 0:
                for i in range(members.shape[1]):
                    if members[which[leader], i] < 0:
                        break
                    slope[members[which[leader], i]] -= 1.0
        norm = (slope * slope).sum()
        if norm == 0 or bound >= upper - _EPS:
            break
        step = scale * (upper - bound) / norm
        for k in range(n):
            now[k] = max(0.0, now[k] + step * slope[k])
    reduced_costs(members, cost, prices, reduced)
    least[:] = 0.0
    for c in range(m):
        least[members[c, 0]] = min(least[members[c, 0]], reduced[c])
    prices += least
    return float(prices.sum())


@compiled
def choose(
    masks: Ints, marks: Ints, reduced: Floats, use: Ints, caps: Ints, jobs: int, cutoff: float, budget: int
) -> tuple[int, Ints, float, int]:
    """Choose columns that hold every job exactly once at the least sum of reduced costs (none negative) below `cutoff`.

    masks: jobs of each column. marks: what at most one chosen column may have. use, caps: (m, R) and (R,): resources and how
    much there is. Return how many were chosen (-1: none found), which, their sum, and search nodes; exact if nodes < budget.
    """
    m, resources = len(reduced), use.shape[1]
    # Jobs that few columns hold come first, and the search goes on with the first job that is open.
    often = np.zeros(jobs, dtype=np.int64)
    for c in range(m):
        if reduced[c] < cutoff:
            for k in range(jobs):
                often[k] += masks[c] >> k & 1
    rank = np.empty(jobs, dtype=np.int64)
    rank[np.argsort(often, kind="mergesort")] = np.arange(jobs)
    ranked = np.zeros(m, dtype=np.int64)
    first = np.full(m, -1, dtype=np.int64)
    start = np.zeros(jobs + 1, dtype=np.int64)
    for c in range(m):
        if reduced[c] < cutoff:
            first[c] = jobs
            for k in range(jobs):
                if masks[c] >> k & 1:
                    ranked[c] |= 1 << rank[k]
                    first[c] = min(first[c], rank[k])
            start[first[c] + 1] += 1
    start = np.cumsum(start)
    fill = start.copy()
    column = np.empty(start[jobs], dtype=np.int64)
    for c in np.argsort(reduced, kind="mergesort"):
        if first[c] >= 0:
            column[fill[first[c]]] = c
            fill[first[c]] += 1
    full = (1 << jobs) - 1
    best, size, nodes, depth = cutoff, -1, 0, 0
    chosen = np.empty(jobs, dtype=np.int64)
    at = np.zeros(jobs + 1, dtype=np.int64)
    covered = np.zeros(jobs + 1, dtype=np.int64)
    marked = np.zeros(jobs + 1, dtype=np.int64)
    spent = np.zeros((jobs + 1, resources), dtype=np.int64)
    value = np.zeros(jobs + 1)
    place = np.zeros(jobs + 1, dtype=np.int64)
    # What was reached before at no more cost need not be looked at again; with resources or marks it could.
    remember = resources == 0 and marks.max() == 0
    seen = np.full(1 << _MEMO_BITS, -1, dtype=np.int64)
    paid = np.empty(1 << _MEMO_BITS)
    while depth >= 0:
        i = at[depth]
        if i >= start[place[depth] + 1] or value[depth] + reduced[column[i]] >= best - _EPS:
            depth -= 1
            continue
        at[depth] = i + 1
        c = column[i]
        if ranked[c] & covered[depth] or marks[c] & marked[depth]:
            continue
        fits = True
        for q in range(resources):
            spent[depth + 1, q] = spent[depth, q] + use[c, q]
            fits = fits and spent[depth + 1, q] <= caps[q]
        if not fits:
            continue
        if nodes >= budget:
            break
        nodes += 1
        depth += 1
        covered[depth] = covered[depth - 1] | ranked[c]
        marked[depth] = marked[depth - 1] | marks[c]
        value[depth] = value[depth - 1] + reduced[c]
        if covered[depth] == full:
            best, size = value[depth], depth
            for d in range(depth):
                chosen[d] = column[at[d] - 1]
            depth -= 1
            continue
        if remember:
            slot = ((covered[depth] ^ covered[depth] >> 29) & 0x7FFFFFFF) * 461845907
            slot = (slot ^ slot >> 17) & ((1 << _MEMO_BITS) - 1)
            if seen[slot] == covered[depth] and paid[slot] <= value[depth] + _EPS:
                depth -= 1
                continue
            seen[slot], paid[slot] = covered[depth], value[depth]
        k = place[depth - 1] + 1
        while covered[depth] >> k & 1:
            k += 1
        place[depth], at[depth] = k, start[k]
    return size, chosen, best, nodes
