"""All feasible groups of some jobs that cost little more than the prices of their members, compiled.

The groups that a job leads are found by depth-first search, for each number of training nodes: node work at its price and training
time at a price that is tuned for the leader bound what more jobs can bring.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.node_count import fewest_nodes
from rollplan.models.compiled import compiled


@compiled
def multiplier(gain: Floats, share: Floats, count: int, room: float, picks: int) -> float:
    """Return a price of training time that makes the bound room * price + best `picks` of (gain - price * share) small."""
    best_price, best_value = 0.0, np.inf
    top = np.empty(max(1, picks))
    for trial in range(7):
        price = 0.0
        if trial:
            # Densities of seven candidates: the least bound is at one of all densities.
            k = (count - 1) * trial // 6
            price = gain[k] / max(share[k], 1e-9)
        if price < 0:
            continue
        top[:] = 0.0
        for k in range(count):
            value = gain[k] - price * share[k]
            if picks > 0 and value > top[picks - 1]:
                i = picks - 1
                while i > 0 and top[i - 1] < value:
                    top[i] = top[i - 1]
                    i -= 1
                top[i] = value
        total = price * room + (top.sum() if picks > 0 else 0.0)
        if total < best_value:
            best_value, best_price = total, price
    return best_price


@compiled
def enumerate_groups(
    jobs: Ints,
    numbers: Floats,
    whole: Ints,
    pairs: Floats,
    prices: Floats,
    max_size: int,
    threshold: float,
    keys: Ints,
    counts: Ints,
    members: Ints,
    nodes: Ints,
) -> tuple[int, int]:
    """Write the feasible groups of `jobs` with reduced cost < threshold; return how many (-1: more than there is room), and work.

    jobs: rows of the arrays, (n,), by pair and tolerable period. numbers: rollout_s, train_s, solo_s, limit_s, rollout_gib,
    train_gib. whole: rollout nodes, training nodes, pair. pairs: rollout price, train price, node memory, training node memory.
    members: places in `jobs`, the leader first, padded with -1, (room, max_size). nodes: rollout (negative: only a lower bound) and
    training, (room, 2).
    """
    n, room, count, work = len(jobs), len(members), 0, 0
    mates = np.empty(n, dtype=np.int64)
    able = np.empty(n, dtype=np.int64)
    gain = np.empty(n)
    share = np.empty(n)
    ahead = np.zeros(n + 1)
    at = np.empty(max_size + 1, dtype=np.int64)
    seconds = np.empty(max_size)
    gib = np.empty(max_size)
    wide = np.empty(max_size, dtype=np.int64)
    # Per depth: priced node work less prices, share of training time, training footprint, training nodes.
    value = np.empty(max_size)
    busy = np.empty(max_size)
    kept = np.empty(max_size)
    trainers = np.empty(max_size, dtype=np.int64)
    for a in range(n):
        leader = jobs[a]
        pair = whole[leader, 2]
        rollout_price, train_price, node_gib, train_gib = pairs[pair, 0], pairs[pair, 1], pairs[pair, 2], pairs[pair, 3]
        limit = numbers[leader, 3]
        mated = 0
        most = whole[leader, 1]
        for b in range(a + 1, n):
            k = jobs[b]
            if (
                whole[k, 2] == pair
                and numbers[k, 2] <= limit
                and numbers[leader, 1] + numbers[k, 1] <= limit
                and numbers[leader, 5] + numbers[k, 5] <= train_gib
            ):
                mates[mated] = b
                mated += 1
                most = max(most, whole[k, 1])
        for level in range(whole[leader, 1], most + 1):
            held = 0
            reached = whole[leader, 1] == level
            for i in range(mated):
                k = jobs[mates[i]]
                if whole[k, 1] <= level:
                    reached = reached or whole[k, 1] == level
                    able[held] = mates[i]
                    gain[held] = prices[k] - rollout_price * whole[k, 0] * numbers[k, 0] / limit
                    share[held] = numbers[k, 1] / limit
                    held += 1
            if not reached:
                continue
            lam = multiplier(gain, share, held, 1 - numbers[leader, 1] / limit, max_size - 1)
            for i in range(held):
                gain[i] -= lam * share[i]
            order = np.argsort(-gain[:held], kind="mergesort")
            for i in range(held):
                ahead[i + 1] = ahead[i] + max(0.0, gain[order[i]])
            fixed = train_price * level
            value[0] = rollout_price * whole[leader, 0] * numbers[leader, 0] / limit - prices[leader]
            busy[0], kept[0], trainers[0] = numbers[leader, 1] / limit, numbers[leader, 5], whole[leader, 1]
            seconds[0], gib[0], wide[0] = numbers[leader, 0], numbers[leader, 4], whole[leader, 0]
            work += 1
            if trainers[0] == level and fixed + rollout_price * wide[0] - prices[leader] < threshold:
                if count == room:
                    return -1, work
                members[count] = -1
                members[count, 0] = a
                nodes[count, 0], nodes[count, 1] = wide[0], level
                count += 1
            depth = 0
            at[1] = -1
            while depth >= 0:
                more = max_size - depth - 1
                i = at[depth + 1] + 1
                if (
                    more == 0
                    or i >= held
                    or value[depth] + fixed - lam * (1 - busy[depth]) - (ahead[min(held, i + more)] - ahead[i]) >= threshold
                ):
                    depth -= 1
                    continue
                at[depth + 1] = i
                k = jobs[able[order[i]]]
                deeper = depth + 1
                busy[deeper] = busy[depth] + numbers[k, 1] / limit
                kept[deeper] = kept[depth] + numbers[k, 5]
                if busy[deeper] > 1 or kept[deeper] > train_gib:
                    continue
                work += 1
                value[deeper] = value[depth] + rollout_price * whole[k, 0] * numbers[k, 0] / limit - prices[k]
                bound = value[deeper] + fixed - lam * (1 - busy[deeper])
                if bound - (ahead[min(held, i + more)] - ahead[i + 1]) >= threshold:
                    continue
                trainers[deeper] = max(trainers[depth], whole[k, 1])
                seconds[deeper], gib[deeper], wide[deeper] = numbers[k, 0], numbers[k, 4], whole[k, 0]
                depth = deeper
                if depth + 1 < max_size:
                    at[depth + 1] = i
                if trainers[depth] != level or value[depth] + fixed >= threshold:
                    continue
                work += 1
                fewest = fewest_nodes(depth + 1, seconds, gib, wide, limit, node_gib, keys, counts)
                reduced = fixed + rollout_price * abs(fewest) - prices[leader]
                for d in range(1, depth + 1):
                    reduced -= prices[jobs[able[order[at[d]]]]]
                if reduced < threshold:
                    if count == room:
                        return -1, work
                    members[count] = -1
                    members[count, 0] = a
                    for d in range(1, depth + 1):
                        members[count, d] = able[order[at[d]]]
                    nodes[count, 0], nodes[count, 1] = fewest, level
                    count += 1
    return count, work
