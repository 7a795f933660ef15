"""Local improvement: relieve the instance that ends last.

Neighbours of a dispatch: the worst instance gives a run of 1, 4 or 16 consecutive requests of its order to another one, or
exchanges one request for a shorter one. All neighbours of a round are simulated together; the best is taken if it
leaves both instances faster than the worst one was, so that the search ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import instance_seconds
from rollplan.models.latency import IntArray
from rollplan.planner.dispatch.deal import ranked

_TARGETS = 2
_PICKS = 5
_EFFORT = 500_000
"""Requests simulated in all, so that the effort does not depend on the machine: about half a second."""
_RUNS = (1, 4, 16)
_REL_TOL = 1e-9


def improve(problem: DispatchProblem, orders: Sequence[IntArray], stop: Callable[[], object] = lambda: None) -> list[IntArray]:
    """Return orders that are never worse, longest first where they changed; `stop` ends the search early."""
    rank = np.argsort(ranked(problem))
    best = list(orders)
    seconds = instance_seconds(problem, best)
    spent = 0
    while spent < _EFFORT:
        worst = int(seconds.argmax())
        targets = [int(i) for i in np.argsort(seconds, kind="stable")[:_TARGETS] if i != worst]
        changed = [
            (target, given, kept)
            for target in targets
            for kept, given in _neighbours(best[worst], best[target], rank, problem.output_tokens)
        ]
        if not changed or stop():
            break
        pairs = [order[np.argsort(rank[order])] for _, given, kept in changed for order in (kept, given)]
        taken = instance_seconds(problem, pairs).reshape(-1, 2)
        spent += sum(order.size for order in pairs)
        at = int(taken.max(axis=1).argmin())
        if taken[at].max() >= seconds[worst] * (1 - _REL_TOL):
            break
        target = changed[at][0]
        best[worst], best[target] = pairs[2 * at], pairs[2 * at + 1]
        seconds[worst], seconds[target] = taken[at]
    return best


def _neighbours(worst: IntArray, target: IntArray, rank: IntArray, lengths: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield what the worst instance and the target hold after each move and each exchange."""
    worst, target = worst[np.argsort(rank[worst])], target[np.argsort(rank[target])]
    for run in _RUNS:
        for at in _spread(worst.size - run + 1):
            yield np.delete(worst, slice(at, at + run)), np.concatenate([target, worst[at : at + run]])
    for at in _spread(worst.size):
        shorter = np.flatnonzero(lengths[target] < lengths[worst[at]])
        for to in shorter[_spread(shorter.size)]:
            kept, given = worst.copy(), target.copy()
            kept[at], given[to] = target[to], worst[at]
            yield kept, given


def _spread(size: int) -> IntArray:
    """Return at most `_PICKS` evenly spread positions of `size`, with the first and the last."""
    return np.unique(np.linspace(0, size - 1, min(size, _PICKS)).astype(np.int64)) if size > 0 else np.zeros(0, dtype=np.int64)
