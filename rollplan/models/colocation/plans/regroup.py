"""The best groups of a few jobs, compiled: all their groups worth looking at, and the cheapest choice that holds every job once.

Work is counted in groups looked at and search nodes, the same on every machine and with or without a compiler.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.plans.exact_cover import ascend, choose, reduced_costs
from rollplan.models.colocation.plans.few_jobs import enumerate_groups
from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.compiled import compiled

Regrouped = tuple[int, Ints, Ints, Ints, float, Floats, float, int, bool]
"""What `regroup` returns."""


@compiled
def with_heirs(members: Ints, nodes: Ints, cost: Floats, old: Ints, move_price: float) -> tuple[Ints, Ints, Ints, Ints, Floats, Ints]:
    """Return every group once for each old group that it may continue, and once as a new one.

    old: by place: number of the old group that may be continued here, -1 for a job that has none, -2 for one whose old group goes
    on elsewhere. Return members, nodes, mask, mark of the continued group, cost with its moves, number of moved jobs.
    """
    m, size = members.shape
    room = 0
    for c in range(m):
        room += 1
        for i in range(size):
            if members[c, i] >= 0 and old[members[c, i]] >= 0:
                room += 1
    out_members = np.empty((room, size), dtype=np.int64)
    out_nodes = np.empty((room, 2), dtype=np.int64)
    masks = np.zeros(room, dtype=np.int64)
    marks = np.zeros(room, dtype=np.int64)
    out_cost = np.empty(room)
    moved = np.zeros(room, dtype=np.int64)
    count = 0
    for c in range(m):
        mask, staying = 0, 0
        for i in range(size):
            if members[c, i] < 0:
                break
            mask |= 1 << members[c, i]
            staying += old[members[c, i]] != -1
        for heir in range(-1, size):
            kept = 0
            if heir >= 0:
                if members[c, heir] < 0:
                    break
                group = old[members[c, heir]]
                if group < 0:
                    continue
                first = True
                for i in range(size):
                    if members[c, i] >= 0 and old[members[c, i]] == group:
                        first = first and i >= heir
                        kept += 1
                if not first:
                    continue
                marks[count] = 1 << group
            out_members[count] = members[c]
            out_nodes[count] = nodes[c]
            masks[count] = mask
            moved[count] = staying - kept
            out_cost[count] = cost[c] + move_price * (staying - kept)
            count += 1
    return out_members[:count], out_nodes[:count], masks[:count], marks[:count], out_cost[:count], moved[:count]


@compiled
def regroup(
    jobs: Ints,
    numbers: Floats,
    whole: Ints,
    pairs: Floats,
    prices: Floats,
    max_size: int,
    threshold: float,
    room: int,
    upper: float,
    target: float,
    banned: int,
    present: Ints,
    present_nodes: Ints,
    raised: Ints,
    raised_nodes: Ints,
    resource: Ints,
    caps: Ints,
    old: Ints,
    move_price: float,
    rounds: int,
    budget: int,
    keys: Ints,
    counts: Ints,
) -> tuple[int, Ints, Ints, Ints, float, Floats, float, int, bool]:
    """Return the cheapest groups found for `jobs` that cost less than `target` in total.

    upper: what they cost now. present, present_nodes: their groups now, by place, padded with -1. banned: a set of places that may
    not be a group. raised, raised_nodes: sets of places that need more rollout nodes than the closed form says. resource: by pair,
    the rows of `caps` that its rollout and training nodes take (-1: unlimited); the last row of `caps` limits moved jobs. old,
    move_price: see `with_heirs`. room: groups that may be listed; the threshold falls until they are so few.
    Return how many (-1: none), members by place, nodes, marks, cost in total, improved prices by place, the bound that they prove
    for the groups looked at, work, and whether nothing cheaper than what is returned (or than `target`) exists.
    """
    local = prices[jobs]
    work = 0
    while True:
        members: Ints = np.empty((room, max_size), dtype=np.int64)
        nodes: Ints = np.empty((room, 2), dtype=np.int64)
        count, some = enumerate_groups(jobs, numbers, whole, pairs, prices, max_size, threshold, keys, counts, members, nodes)
        work += some
        if count >= 0:
            break
        threshold = 0.6 * threshold if threshold > 1 else 2 * threshold - 2
    members, nodes = np.concatenate((present, members[:count])), np.concatenate((present_nodes, nodes[:count]))
    count = len(members)
    cost = np.empty(count)
    for c in range(count):
        mask = 0
        for i in range(max_size):
            if members[c, i] < 0:
                break
            mask |= 1 << members[c, i]
        for i in range(len(raised)):
            if raised[i] == mask:
                nodes[c, 0] = raised_nodes[i]
        pair = whole[jobs[members[c, 0]], 2]
        cost[c] = pairs[pair, 0] * abs(nodes[c, 0]) + pairs[pair, 1] * nodes[c, 1]
    members, nodes, masks, marks, cost, moved = with_heirs(members, nodes, cost, old, move_price)
    use = np.zeros((len(cost), len(caps)), dtype=np.int64)
    for c in range(len(cost)):
        pair = whole[jobs[members[c, 0]], 2]
        for i in range(2):
            if resource[pair, i] >= 0:
                use[c, resource[pair, i]] += abs(nodes[c, i])
        if len(caps) > 0:
            use[c, len(caps) - 1] = moved[c]
    reduced = np.empty(len(cost))
    reduced_costs(members, cost, local, reduced)
    least = np.zeros(len(jobs))
    for c in range(len(cost)):
        least[members[c, 0]] = min(least[members[c, 0]], reduced[c])
    below = least.sum()
    bound = ascend(members, cost, local, upper, rounds)
    work += len(cost) * rounds // 20
    reduced_costs(members, cost, local, reduced)
    for c in range(len(cost)):
        reduced[c] = np.inf if masks[c] == banned else max(0.0, reduced[c])
    size, value, complete = -1, 0.0, False
    chosen: Ints = np.empty(0, dtype=np.int64)
    # What is close to the bound first: few columns are, and the search among them soon ends.
    for share in (0.0015, 0.003, 0.006, 0.012, 0.024, 0.05, 0.1, 0.0):
        cutoff = min(target - bound, share * bound) if share > 0 else target - bound
        if cutoff <= 0:
            continue
        size, chosen, value, visited = choose(masks, marks, reduced, use, caps, len(jobs), cutoff, budget)
        work += visited
        complete = visited < budget
        if size >= 0 or cutoff == target - bound or not complete:
            break
    # A group of larger reduced cost cannot be in a cheaper choice, even beside the best of all other leaders.
    complete = (complete or target <= bound) and threshold >= target - prices[jobs].sum() - below
    if size < 0:
        return -1, members[:0], nodes[:0], marks[:0], 0.0, local, bound, work, complete
    picked = chosen[:size]
    return size, members[picked], nodes[picked], marks[picked], bound + value, local, bound, work, complete
