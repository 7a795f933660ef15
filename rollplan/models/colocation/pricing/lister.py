"""All feasible groups of a block, compiled: depth first in the block's order, because a part of a feasible group is feasible."""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.node_count import fewest_nodes
from rollplan.models.compiled import compiled


@compiled
def list_groups(
    first_leader: int,
    end_leader: int,
    numbers: Floats,
    demand: Ints,
    train_class: Ints,
    limits: Floats,
    prices: Floats,
    least_base: Floats,
    base: Floats,
    threshold: float,
    max_size: int,
    keys: Ints,
    counts: Ints,
    stop: Ints,
    out_members: Ints,
    out_class: Ints,
    out_nodes: Ints,
    out_cost: Floats,
) -> tuple[int, int]:
    """List the feasible groups with reduced cost below `threshold`, led by first_leader <= leader < end_leader.

    Returns how many, and the next leader: end_leader when all are done; else the room was used up, or stop[0] was set, and the
    groups of the next leader are not among those returned. numbers: (n, 6): rollout_s, train_s, solo_s, limit_s, rollout_gib,
    train_gib. limits: node_gib, train_node_gib. prices: (n,), not negative. least_base: at [c, N] the least of base[c:, N:]. Node
    counts are negative where only bounded.
    """
    n = len(prices)
    room = len(out_members)
    widest = base.shape[1] - 1
    count = 0
    mates = np.empty(n, dtype=np.int64)
    ahead = np.zeros((n + 1, max_size))
    chosen = np.empty(max_size, dtype=np.int64)
    at = np.empty(max_size + 1, dtype=np.int64)
    train_s = np.empty(max_size + 1)
    train_gib = np.empty(max_size + 1)
    paid = np.empty(max_size + 1)
    highest = np.empty(max_size + 1, dtype=np.int64)
    rollout = np.empty(max_size)
    gib = np.empty(max_size)
    wide = np.empty(max_size, dtype=np.int64)
    for leader in range(first_leader, end_leader):
        before = count
        limit = numbers[leader, 3]
        held = 0
        for k in range(leader + 1, n):
            if numbers[k, 2] <= limit and numbers[leader, 1] + numbers[k, 1] <= limit and numbers[leader, 5] + numbers[k, 5] <= limits[1]:
                mates[held] = k
                held += 1
        # ahead[i, s]: the greatest sum of s prices from mate i on.
        for s in range(max_size):
            ahead[held, s] = 0.0
        for i in range(held - 1, -1, -1):
            value = prices[mates[i]]
            ahead[i, 0] = 0.0
            for s in range(1, max_size):
                ahead[i, s] = max(ahead[i + 1, s], ahead[i + 1, s - 1] + value)
        size = 1
        chosen[0] = leader
        at[1] = 0
        train_s[1] = numbers[leader, 1]
        train_gib[1] = numbers[leader, 5]
        paid[1] = prices[leader]
        highest[1] = train_class[leader]
        fresh = True
        while size > 0:
            if fresh:
                fresh = False
                for i in range(size):
                    k = chosen[i]
                    rollout[i] = numbers[k, 0]
                    gib[i] = numbers[k, 4]
                    wide[i] = demand[k]
                nodes = fewest_nodes(size, rollout, gib, wide, limit, limits[0], keys, counts)
                low = abs(nodes)
                c = highest[size]
                if low > widest or least_base[c, low] - paid[size] - ahead[at[size], max_size - size] >= threshold:
                    size -= 1
                    continue
                if base[c, low] - paid[size] < threshold:
                    if count == room or stop[0] != 0:
                        return before, leader
                    for i in range(max_size):
                        out_members[count, i] = chosen[i] if i < size else -1
                    out_class[count] = c
                    out_nodes[count] = nodes
                    out_cost[count] = base[c, low] - paid[size]
                    count += 1
            i = at[size]
            if i == held or size == max_size:
                size -= 1
                continue
            at[size] = i + 1
            k = mates[i]
            if train_s[size] + numbers[k, 1] > limit or train_gib[size] + numbers[k, 5] > limits[1]:
                continue
            chosen[size] = k
            train_s[size + 1] = train_s[size] + numbers[k, 1]
            train_gib[size + 1] = train_gib[size] + numbers[k, 5]
            paid[size + 1] = paid[size] + prices[k]
            highest[size + 1] = max(highest[size], train_class[k])
            size += 1
            at[size] = i + 1
            fresh = True
    return count, end_leader
