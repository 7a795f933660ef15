"""How many rollout nodes a group needs at least, for the certificate: shares of a node, and the fewest nodes exactly.

Written so that numba can compile it (`search.py`); nothing is shared with the solver.
"""

from __future__ import annotations

from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Counts = NDArray[np.int64]
KINDS = 5
"""Shares that a job has of a node: its rollout time, three step functions of it, its memory."""
_STATES = 20_000
"""Most combinations of node counts up to which the fewest nodes are searched exactly."""
_WIDEST = 16
"""Most jobs of a group for which that is done."""


def share(kind: int, rollout: float, memory: float, limit: float, node_memory: float) -> float:
    """Return the share of a node that a job takes at least: jobs on one node have at most 1 in total, whatever the kind.

    Dual feasible functions f: if x_1 + ... + x_i <= 1, then f(x_1) + ... + f(x_i) <= 1. For k steps f(x) is
    floor((k + 1) x) / k, or x if (k + 1) x is whole (Fekete and Schepers 2001).
    """
    if kind == KINDS - 1:
        return memory / node_memory if node_memory > 0 else 0.0
    x = rollout / limit
    if kind == 0:
        return x
    y = (kind + 1) * x
    return x if y == floor(y) else floor(y) / kind


def fewest_nodes(rollout: Reals, nodes: Counts, memory: Reals, count: int, limit: float, node_memory: float) -> tuple[int, int]:
    """Return two counts between which the fewest nodes of `count` jobs lie: equal unless there are too many ways to search.

    Each of the jobs' nodes is another one; a node is busy for at most `limit` seconds and keeps at most `node_memory` GiB.
    """
    least, separate, states = 0, 0, 1
    for k in range(count):
        least, separate = max(least, nodes[k]), separate + nodes[k]
        if states <= _STATES:
            states *= nodes[k] + 1
    for kind in range(KINDS):
        taken = 0.0
        for k in range(count):
            taken += nodes[k] * share(kind, rollout[k], memory[k], limit, node_memory)
        least = max(least, ceil(taken * (1 - 1e-12) - 1e-12))
    most = _first_fit(rollout, nodes, memory, count, limit, node_memory, separate)
    if most <= least or states > _STATES or count > _WIDEST:
        return min(least, most), most
    sets = _full_nodes(rollout, memory, count, limit, node_memory)
    # The fewest nodes for every demand, smaller ones first: one node hosts a set of jobs, and a smaller demand is left.
    fewest = np.zeros(states, np.int64)
    for state in range(1, states):
        fewest[state] = separate
        for chosen in sets:
            left, stride, after = state, 1, state
            for k in range(count):
                if chosen >> k & 1 and left % (nodes[k] + 1) > 0:
                    after -= stride
                left //= nodes[k] + 1
                stride *= nodes[k] + 1
            if after < state:
                fewest[state] = min(fewest[state], fewest[after] + 1)
    return fewest[states - 1], fewest[states - 1]


def _first_fit(rollout: Reals, nodes: Counts, memory: Reals, count: int, limit: float, node_memory: float, separate: int) -> int:
    """Return how many nodes are used if the longest rollouts are placed first, each on the first nodes with room."""
    busy, kept = np.zeros(separate), np.zeros(separate)
    used = 0
    for k in np.argsort(-rollout[:count]):
        left = nodes[k]
        for node in range(separate):
            if left > 0 and busy[node] + rollout[k] <= limit and kept[node] + memory[k] <= node_memory:
                busy[node] += rollout[k]
                kept[node] += memory[k]
                left -= 1
                used = max(used, node + 1)
    return used


def _full_nodes(rollout: Reals, memory: Reals, count: int, limit: float, node_memory: float) -> Counts:
    """Return the sets of jobs, as bits, that one node can host and that no other job can join."""
    sets = np.empty(1 << count, np.int64)
    found = 0
    for chosen in range(1, 1 << count):
        busy, kept = 0.0, 0.0
        for k in range(count):
            if chosen >> k & 1:
                busy += rollout[k]
                kept += memory[k]
        full = busy <= limit and kept <= node_memory
        for k in range(count):
            if not chosen >> k & 1 and busy + rollout[k] <= limit and kept + memory[k] <= node_memory:
                full = False
        if full:
            sets[found] = chosen
            found += 1
    return sets[:found]
