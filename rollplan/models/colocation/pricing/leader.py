"""The search for groups of least reduced cost, compiled: one leader at a time, one pair (training nodes, rollout nodes) at a time.

For a leader m the limit on the period is known, and for given training nodes T and rollout nodes N so is the cost. What is left
is a knapsack: at most `max_size - 1` jobs that tolerate at least as much as m, greatest sum of prices, such that

    training times, training footprints, and for every dual feasible function f of the rollouts: sum r_k f(rollout_k / limit) <= N

fit. Lagrangian prices of these rows, tuned towards the sum that is needed, bound it, drop jobs that cannot help, and order the rest;
a depth-first search does the remainder. Exact node counts decide at its leaves.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.colocation.pricing.knapsack import ROUNDS, ROWS, fill_rows, keep, sort_by_gain, top, tune
from rollplan.models.colocation.pricing.node_count import fewest_nodes
from rollplan.models.colocation.pricing.one_group import allowed, ascending, known_group, record, surcharge, widest_clash
from rollplan.models.compiled import compiled

_SLACK = 1e-9
"""Relative rounding forgiven in knapsack rows; exact checks follow."""


@compiled
def search_leader(
    leader: int,
    numbers: Floats,
    demand: Ints,
    train_class: Ints,
    limits: Floats,
    prices: Floats,
    base: Floats,
    max_size: int,
    threshold: float,
    most: int,
    pairs_apart: Ints,
    pairs_together: Ints,
    triples: Ints,
    extra: Floats,
    table: Ints,
    slots: Ints,
    keys: Ints,
    counts: Ints,
    budget: int,
    stop: Ints,
    out_members: Ints,
    out_nodes: Ints,
    out_cost: Floats,
) -> tuple[int, int]:
    """Find the `most` groups of least reduced cost below `threshold` that a job leads; return how many, and work done.

    numbers: (n, 6): rollout_s, train_s, solo_s, limit_s, rollout_gib, train_gib. limits: node_gib, train_node_gib. prices: (n,).
    base: (c, N + 1). table, slots: groups to leave out (`fill_slots`). out_*: room for `most` groups: places padded with -1,
    (most, max_size), rollout nodes, (most,), negative where they are only a lower bound, and reduced cost, (most,), ascending.
    The work is negative if a pair of node counts took more than the budget, or stop[0] was set: the answer is not complete then.
    How many is -1 if there are more groups than room in the mode in which none may be left out (`most` negative: keep all, room
    for -most).
    """
    keep_all = most < 0
    room_for = -most if keep_all else most
    members_here, nodes_here, cost_here = out_members[:room_for], out_nodes[:room_for], out_cost[:room_for]
    count_out = 0
    work = 0
    cut_short = False
    n = len(prices)
    limit = numbers[leader, 3]
    node_gib, train_gib = limits[0], limits[1]
    classes = base.shape[0]
    widest = base.shape[1] - 1
    own_class = int(train_class[leader])
    own_demand = int(demand[leader])
    # Jobs without a price only add nodes: the best groups do without them where more nodes never cost less.
    rising = len(pairs_together) == 0 and not keep_all
    for c in range(classes):
        for nodes in range(widest + 1):
            if nodes > 0 and base[c, nodes] < base[c, nodes - 1]:
                rising = False
            if c > 0 and base[c, nodes] < base[c - 1, nodes]:
                rising = False
    mates = np.empty(n - leader, dtype=np.int64)
    held = 0
    for k in range(leader + 1, n):
        if (
            (prices[k] > 0 or not rising)
            and numbers[k, 2] <= limit
            and numbers[leader, 1] + numbers[k, 1] <= limit
            and numbers[leader, 5] + numbers[k, 5] <= train_gib
        ):
            mates[held] = k
            held += 1
    picks = max_size - 1
    own = np.empty((ROWS, 1))
    fill_rows(numbers, demand, leader, limit, node_gib, own, 0)
    rows = np.empty((ROWS, held))
    rows_all = np.empty((ROWS, held))
    for i in range(held):
        fill_rows(numbers, demand, mates[i], limit, node_gib, rows_all, i)
    price = np.empty(held)
    gain = np.empty(held)
    trial = np.empty(held)
    who = np.empty(held, dtype=np.int64)
    rows_in = np.empty((ROWS, held))
    price_in = np.empty(held)
    gain_in = np.empty(held)
    who_in = np.empty(held, dtype=np.int64)
    ahead = np.empty(held + max_size)
    best = np.empty(max(1, picks))
    place = np.empty(max(1, picks), dtype=np.int64)
    room = np.empty(ROWS)
    room_in = np.empty(ROWS)
    weight = np.zeros(ROWS)
    chosen = np.empty(max_size, dtype=np.int64)
    group = np.empty(max_size, dtype=np.int64)
    at = np.empty(max_size + 1, dtype=np.int64)
    used = np.empty((max_size + 1, ROWS))
    sum_price = np.empty(max_size + 1)
    sum_gain = np.empty(max_size + 1)
    rollout = np.empty(max_size)
    gib = np.empty(max_size)
    wide = np.empty(max_size, dtype=np.int64)
    for c in range(own_class, classes):
        some = 0
        for i in range(held):
            some += train_class[mates[i]] == c
        if own_class < c and some == 0:
            continue
        weight[:] = 0.0
        for i in range(held):
            trial[i] = demand[mates[i]] if train_class[mates[i]] <= c else 0.0
        widest_here = own_demand + (top(trial, held, picks, best, place) if picks > 0 else 0.0)
        for nodes in range(own_demand, widest + 1):
            if nodes > widest_here:
                break
            work += 1
            begun = work
            cost = base[c, nodes]
            need = cost - threshold - prices[leader]
            count = 0
            for i in range(held):
                k = mates[i]
                if train_class[k] > c or demand[k] > nodes:
                    continue
                clash = numbers[k, 0] + numbers[leader, 0] > limit or numbers[k, 4] + numbers[leader, 4] > node_gib
                if clash and demand[k] + own_demand > nodes:
                    continue
                who[count] = k
                price[count] = prices[k]
                for j in range(ROWS):
                    rows[j, count] = rows_all[j, i]
                count += 1
            for j in range(2):
                room[j] = (limit if j == 0 else train_gib) - own[j, 0]
                room[j] += _SLACK * abs(room[j])
            for j in range(2, ROWS):
                room[j] = nodes * (1 + _SLACK) - own[j, 0]
            if picks > 0 and count > 0:
                # How dear the rows may be: once without them, then tuned from the last prices.
                if top(price, count, picks, best, place) < need:
                    count = 0
                else:
                    before = 2 * count + 2
                    for _ in range(6):
                        if count == 0 or count > 0.9 * before:
                            break
                        before = count
                        bound = tune(rows, price, count, room, picks, need, weight, gain, trial, ROUNDS)
                        work += count // 8
                        count = 0 if bound < need else keep(rows, price, gain, who, count, picks, bound, need, best, place)
                    if count:
                        sort_by_gain(rows, price, gain, who, count)
            else:
                count = 0
            if count == 0 and not (nodes == own_demand and c == own_class and need < 0):
                continue
            # Depth 0: the leader alone. Depth 1 chooses the job of largest gain, and tunes anew for what may join it.
            for first in range(-1, count):
                if stop[0] != 0:
                    return count_out, -work - 1
                if work - begun > budget:
                    cut_short = True
                    break
                chosen[0] = leader
                if first < 0:
                    size = 1
                    total = 0.0
                else:
                    bound = 0.0
                    for j in range(ROWS):
                        bound += weight[j] * room[j]
                    for k in range(first, min(count, first + picks)):
                        bound += max(0.0, gain[k])
                    if bound < need:
                        break
                    size = 2
                    total = price[first]
                    chosen[1] = who[first]
                count_in = 0
                lift = 0.0
                work += 1
                if size == 2 and picks > 1:
                    a = who[first]
                    for j in range(ROWS):
                        room_in[j] = room[j] - rows[j, first]
                    for k in range(first + 1, count):
                        b = who[k]
                        fits = True
                        for j in range(ROWS):
                            if rows[j, k] > room_in[j]:
                                fits = False
                                break
                        if not fits:
                            continue
                        clash = numbers[a, 0] + numbers[b, 0] > limit or numbers[a, 4] + numbers[b, 4] > node_gib
                        if clash and demand[a] + demand[b] > nodes:
                            continue
                        price_in[count_in] = price[k]
                        gain_in[count_in] = gain[k]
                        who_in[count_in] = b
                        for j in range(ROWS):
                            rows_in[j, count_in] = rows[j, k]
                        count_in += 1
                    own_weight = weight
                    if count_in > 0:
                        rest = need - total
                        weight_in = weight.copy()
                        own_weight = weight_in
                        if top(price_in, count_in, picks - 1, best, place) < rest:
                            count_in = 0
                        else:
                            if count_in > 6:
                                for _ in range(2):
                                    bound = tune(rows_in, price_in, count_in, room_in, picks - 1, rest, weight_in, gain_in, trial, ROUNDS)
                                    work += count_in // 8
                                    if bound < rest:
                                        count_in = 0
                                        break
                                    count_in = keep(rows_in, price_in, gain_in, who_in, count_in, picks - 1, bound, rest, best, place)
                            if count_in > 0:
                                sort_by_gain(rows_in, price_in, gain_in, who_in, count_in)
                    for j in range(ROWS):
                        lift += own_weight[j] * room_in[j]
                    lift += total
                # Sums of the gains from the front, so that the best of the next jobs are one difference.
                ahead[0] = 0.0
                for k in range(count_in):
                    ahead[k + 1] = ahead[k] + max(0.0, gain_in[k])
                depth = 0
                at[0] = 0
                sum_price[0] = total
                sum_gain[0] = lift
                for j in range(ROWS):
                    used[0, j] = 0.0
                fresh = True
                while True:
                    if fresh:
                        fresh = False
                        # A group is here: the leader, perhaps the first, and `depth` more.
                        here = size + depth
                        highest = 0
                        for i in range(here):
                            highest = max(highest, train_class[chosen[i]])
                        if sum_price[depth] > need and highest == c:
                            ascending(chosen, here, group)
                            for i in range(here):
                                rollout[i] = numbers[group[i], 0]
                                gib[i] = numbers[group[i], 4]
                                wide[i] = demand[group[i]]
                            work += 1
                            found = fewest_nodes(here, rollout, gib, wide, limit, node_gib, keys, counts)
                            reduced = cost - prices[leader] - sum_price[depth] + surcharge(group, here, triples, extra)
                            if (
                                abs(found) == nodes
                                and reduced < threshold
                                and known_group(group, here, table, slots) < 0
                                and allowed(group, here, pairs_apart, pairs_together)
                            ):
                                if keep_all and count_out == room_for:
                                    return -1, work
                                count_out = record(
                                    group, here, found, reduced, count_out, not keep_all, members_here, nodes_here, cost_here
                                )
                                if not keep_all and count_out == room_for:
                                    threshold = min(threshold, out_cost[room_for - 1])
                                    need = cost - threshold - prices[leader]
                        if here == max_size:
                            depth -= 1
                            if depth < 0:
                                break
                            continue
                    more = picks - (size - 1) - depth
                    k = at[depth]
                    if k >= count_in or more == 0 or sum_gain[depth] + ahead[min(count_in, k + more)] - ahead[k] < need:
                        depth -= 1
                        if depth < 0:
                            break
                        continue
                    at[depth] = k + 1
                    work += 1
                    if work - begun > budget:
                        cut_short = True
                        break
                    fits = True
                    for j in range(ROWS):
                        used[depth + 1, j] = used[depth, j] + rows_in[j, k]
                        if used[depth + 1, j] > room_in[j]:
                            fits = False
                            break
                    if not fits:
                        continue
                    b = who_in[k]
                    if nodes < demand[b] + widest_clash(chosen, size + depth, b, numbers, demand, limit, node_gib):
                        continue
                    chosen[size + depth] = b
                    sum_price[depth + 1] = sum_price[depth] + price_in[k]
                    sum_gain[depth + 1] = sum_gain[depth] + gain_in[k]
                    depth += 1
                    at[depth] = k + 1
                    fresh = True
    return count_out, -work - 1 if cut_short else work


@compiled
def search_leaders(
    order: Ints,
    numbers: Floats,
    demand: Ints,
    train_class: Ints,
    limits: Floats,
    prices: Floats,
    base: Floats,
    max_size: int,
    threshold: float,
    most: int,
    pairs_apart: Ints,
    pairs_together: Ints,
    triples: Ints,
    extra: Floats,
    table: Ints,
    slots: Ints,
    keys: Ints,
    counts: Ints,
    budget: int,
    stop: Ints,
    out_members: Ints,
    out_nodes: Ints,
    out_cost: Floats,
    out_found: Ints,
    out_work: Ints,
) -> int:
    """Search several leaders (`search_leader`), `most` groups each or, if it is 0, all; return how many, -1 if there was no room.

    out_found, out_work: how many groups each leader of `order` has, one after the other in out_members, and its work.
    """
    start = 0
    for i in range(len(order)):
        room = most if most > 0 else start - len(out_members)
        if room == 0:
            return -1
        found, work = search_leader(
            order[i],
            numbers,
            demand,
            train_class,
            limits,
            prices,
            base,
            max_size,
            threshold,
            room,
            pairs_apart,
            pairs_together,
            triples,
            extra,
            table,
            slots,
            keys,
            counts,
            budget,
            stop,
            out_members[start:],
            out_nodes[start:],
            out_cost[start:],
        )
        if found < 0:
            return -1
        out_found[i] = found
        out_work[i] = work
        start += found
    return start
