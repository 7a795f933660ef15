"""Fewest rollout nodes of a group, compiled: the dynamic program of `nodes` without its pinning.

A node hosts a set of jobs if their rollouts fit into the period and their footprints into its memory; job k needs
`demand[k]` different nodes. Groups whose demands have too many combinations get a lower bound, which says so.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Bools, Floats, Ints
from rollplan.models.compiled import compiled

MAX_SIZE = 10
"""Most jobs of a group whose sets the arrays below can hold."""
STATES = 20_000
"""Most combinations of open demands up to which the dynamic program is run."""
_MEMO_SIZE = 5
_MEMO_DEMAND = 63
_MEMO_SLOTS = 1 << 16


def memo_of_counts() -> tuple[Ints, Ints]:
    """Return an empty memory of counts: keys and counts, one for each thread."""
    return np.full(_MEMO_SLOTS, -1, dtype=np.int64), np.zeros(_MEMO_SLOTS, dtype=np.int32)


@compiled
def fewest_nodes(size: int, rollout_s: Floats, gib: Floats, demand: Ints, limit_s: float, node_gib: float, keys: Ints, counts: Ints) -> int:
    """Return the fewest nodes of the first `size` jobs of three arrays; as a negative number where it is only a lower bound.

    limit_s, node_gib: with the tolerance of `at_most` in them. keys, counts: from `memo_of_counts`.
    """
    if size == 1:
        return int(demand[0])
    full = 1 << size
    seconds = np.zeros(full)
    memory = np.zeros(full)
    fits = np.zeros(full, dtype=np.bool_)
    pattern = 0
    for mask in range(1, full):
        low = 0
        while not mask >> low & 1:
            low += 1
        rest = mask & (mask - 1)
        seconds[mask] = seconds[rest] + rollout_s[low]
        memory[mask] = memory[rest] + gib[low]
        fits[mask] = rest == 0 or (seconds[mask] <= limit_s and memory[mask] <= node_gib)
        if fits[mask] and size <= _MEMO_SIZE:
            pattern |= 1 << mask
    widest = 0
    for k in range(size):
        widest = max(widest, demand[k])
    if size > _MEMO_SIZE or widest > _MEMO_DEMAND:
        return _count(size, fits, demand)
    key = pattern
    for k in range(size):
        key |= int(demand[k]) << (32 + 6 * k)
    slots = len(keys)
    slot = ((key ^ key >> 31) * 40503 + (key >> 17)) % slots
    for _ in range(8):
        if keys[slot] == key:
            return int(counts[slot])
        if keys[slot] == -1:
            break
        slot = (slot + 1) % slots
    found = _count(size, fits, demand)
    keys[slot] = key
    counts[slot] = found
    return found


@compiled
def _count(size: int, fits: Bools, demand: Ints) -> int:
    """Return the fewest nodes for given fitting sets, negative for a lower bound."""
    low = _least(size, fits, demand)
    if low == _greedy(size, fits, demand):
        return low
    states = 1
    for k in range(size):
        states *= demand[k] + 1
        if states > STATES:
            return -low
    return _program(size, fits, demand, states)


@compiled
def _least(size: int, fits: Bools, demand: Ints) -> int:
    """Return a lower bound: of any jobs, a node hosts no more than the largest fitting set among them."""
    low = 0
    for jobs in range(1, 1 << size):
        needed = 0
        for k in range(size):
            if jobs >> k & 1:
                needed += demand[k]
        largest = 1
        part = jobs
        while part:
            if fits[part]:
                bits = 0
                for k in range(size):
                    bits += part >> k & 1
                largest = max(largest, bits)
            part = (part - 1) & jobs
        low = max(low, -(-needed // largest))
    return low


@compiled
def _greedy(size: int, fits: Bools, demand: Ints) -> int:
    """Return an upper bound: again and again the fitting set with the largest open demands, as often as it serves all its jobs."""
    left = demand[:size].copy()
    used = 0
    while True:
        best = 0
        most = 0
        for mask in range(1, 1 << size):
            if not fits[mask]:
                continue
            total = 0
            least = 1 << 30
            for k in range(size):
                if mask >> k & 1:
                    total += left[k]
                    least = min(least, left[k])
            if least > 0 and total > most:
                best, most = mask, total
        if best == 0:
            return used
        times = 1 << 30
        for k in range(size):
            if best >> k & 1:
                times = min(times, left[k])
        for k in range(size):
            if best >> k & 1:
                left[k] -= times
        used += times


@compiled
def _program(size: int, fits: Bools, demand: Ints, states: int) -> int:
    """Return the fewest nodes by a dynamic program over the open demands."""
    step = np.ones(size + 1, dtype=np.int64)
    for k in range(size):
        step[k + 1] = step[k] * (demand[k] + 1)
    offset = np.zeros(1 << size, dtype=np.int64)
    for mask in range(1, 1 << size):
        for k in range(size):
            if mask >> k & 1:
                offset[mask] += step[k]
    largest = np.zeros(1 << size, dtype=np.int64)
    sets = 0
    for mask in range(1, 1 << size):
        inside = False
        for k in range(size):
            if not mask >> k & 1 and fits[mask | 1 << k]:
                inside = True
        if fits[mask] and not inside:
            largest[sets] = mask
            sets += 1
    open_demand = np.zeros(size, dtype=np.int64)
    fewest = np.zeros(states, dtype=np.int32)
    for state in range(1, states):
        k = 0
        while open_demand[k] == demand[k]:
            open_demand[k] = 0
            k += 1
        open_demand[k] += 1
        jobs = 0
        for k in range(size):
            if open_demand[k] > 0:
                jobs |= 1 << k
        first = jobs & -jobs
        best = 1 << 30
        for i in range(sets):
            useful = largest[i] & jobs
            if useful & first:
                best = min(best, fewest[state - offset[useful]] + 1)
        fewest[state] = best
    return int(fewest[states - 1])
