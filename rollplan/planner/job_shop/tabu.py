"""Tabu search for shops without a choice of machines: one walk from a given order, as a kernel that numba compiles.

Operations are numbered job after job. A schedule is a graph: each operation follows the one before it in its job and the one
before it on its machine, and the makespan is the longest path. Only moves on a longest path can shorten it: within a block
(operations that follow each other on a machine) one goes before the block's first or after its last, or these go inside
(Zhang et al., Computers & Operations Research 34, 2007, neighbourhood N6 of Balas and Vazacopoulos extended). A move that
cannot close a cycle is valued by an estimate from the heads and tails that it changes (Balas and Vazacopoulos, Management
Science 44, 1998). For some steps it is forbidden to turn an order just reversed back again, unless the move promises a new best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rollplan.models.compiled import compiled

Ints = np.ndarray[Any, np.dtype[np.int64]]


@compiled
def longest_paths(work: Ints, chain: Ints, before: Ints, after: Ints, heads: Ints, tails: Ints, order: Ints, degree: Ints) -> int:
    """Fill heads (earliest starts) and tails (longest path from the start of an operation on); return the makespan, -1 for a cycle.

    work: durations. chain[i]: 1 if operation i follows i - 1 in its job. before, after: neighbours on the machine, -1 for none.
    order: filled with a topological order; degree is scratch space.
    """
    n = work.size
    filled = 0
    for i in range(n):
        degree[i] = chain[i] + (1 if before[i] >= 0 else 0)
        if degree[i] == 0:
            order[filled] = i
            filled += 1
    makespan = 0
    at = 0
    while at < filled:
        i = order[at]
        at += 1
        head = 0
        if chain[i] and heads[i - 1] + work[i - 1] > head:
            head = heads[i - 1] + work[i - 1]
        j = before[i]
        if j >= 0 and heads[j] + work[j] > head:
            head = heads[j] + work[j]
        heads[i] = head
        makespan = max(makespan, head + work[i])
        if i + 1 < n and chain[i + 1]:
            degree[i + 1] -= 1
            if degree[i + 1] == 0:
                order[filled] = i + 1
                filled += 1
        j = after[i]
        if j >= 0:
            degree[j] -= 1
            if degree[j] == 0:
                order[filled] = j
                filled += 1
    if filled < n:
        return -1
    for at in range(n - 1, -1, -1):
        i = order[at]
        tail = 0
        if i + 1 < n and chain[i + 1]:
            tail = tails[i + 1]
        j = after[i]
        if j >= 0 and tails[j] > tail:
            tail = tails[j]
        tails[i] = tail + work[i]
    return makespan


@compiled
def move(first: int, last: int, forward: bool, before: Ints, after: Ints) -> None:
    """Put `first` right after `last` on their machine (forward), or `last` right before `first`."""
    if forward:
        ahead, behind = before[first], after[first]
        if ahead >= 0:
            after[ahead] = behind
        before[behind] = ahead
        beyond = after[last]
        after[last] = first
        before[first] = last
        after[first] = beyond
        if beyond >= 0:
            before[beyond] = first
    else:
        ahead, behind = before[last], after[last]
        after[ahead] = behind
        if behind >= 0:
            before[behind] = ahead
        above = before[first]
        before[first] = last
        after[last] = first
        before[last] = above
        if above >= 0:
            after[above] = last


@compiled
def estimate(
    first: int,
    last: int,
    forward: bool,
    work: Ints,
    chain: Ints,
    before: Ints,
    after: Ints,
    heads: Ints,
    tails: Ints,
    row: Ints,
    ends: Ints,
) -> int:
    """Return a lower estimate of the longest path after a move through the operations moved; row and ends are scratch space."""
    n = work.size
    count = 0
    if not forward:
        row[0] = last
        count = 1
    i = after[first] if forward else first
    while True:
        if i == last:
            break
        row[count] = i
        count += 1
        i = after[i]
    if forward:
        row[count] = last
        row[count + 1] = first
        count += 2
    j = before[first]
    end = heads[j] + work[j] if j >= 0 else 0
    for at in range(count):
        i = row[at]
        if chain[i] and heads[i - 1] + work[i - 1] > end:
            end = heads[i - 1] + work[i - 1]
        ends[at] = end
        end += work[i]
    j = after[last]
    tail = tails[j] if j >= 0 else 0
    worst = 0
    for at in range(count - 1, -1, -1):
        i = row[at]
        if i + 1 < n and chain[i + 1] and tails[i + 1] > tail:
            tail = tails[i + 1]
        tail += work[i]
        worst = max(worst, ends[at] + tail)
    return worst


@compiled
def forbidden(first: int, last: int, forward: bool, after: Ints, until: Ints, step: int) -> bool:
    """Return whether a move would restore an order that was reversed a short while ago."""
    if forward:
        i = first
        while i != last:
            i = after[i]
            if until[i, first] > step:
                return True
    else:
        i = first
        while i != last:
            if until[last, i] > step:
                return True
            i = after[i]
    return False


@compiled
def draw(dice: Ints, count: int) -> int:
    """Return a number below `count`, the same ones with and without numba (linear congruences)."""
    dice[0] = (dice[0] * 1103515245 + 12345) % 2147483648
    return int(dice[0] >> 8) % count


@compiled
def critical_block(i: int, work: Ints, chain: Ints, after: Ints, heads: Ints, tails: Ints, block: Ints, dice: Ints) -> tuple[int, int]:
    """Fill `block` with the operations from i on that follow each other on a machine along a longest path.

    Return how many they are, and the operation with which the path goes on, -1 at its end.
    """
    size = 0
    while True:
        block[size] = i
        size += 1
        end, tail = heads[i] + work[i], tails[i] - work[i]
        j = after[i]
        by_machine = j >= 0 and heads[j] == end and tails[j] == tail
        by_job = i + 1 < work.size and chain[i + 1] == 1 and heads[i + 1] == end and tails[i + 1] == tail
        if not by_machine or (by_job and draw(dice, 2) == 0):
            return size, i + 1 if by_job else -1
        i = j


@compiled
def walk(
    work: Ints,
    chain: Ints,
    job: Ints,
    before: Ints,
    after: Ints,
    steps: int,
    most: int,
    tenure: int,
    target: int,
    seed: int,
    best_heads: Ints,
) -> int:
    """Walk from the order in `before` and `after`; return the best makespan met, -1 if the order is not one.

    It ends when `steps` steps brought nothing new, after `most` steps, or at the makespan `target`. best_heads: filled with the
    starts of the best schedule. before and after are changed. The same arguments give the same walk.
    """
    n = work.size
    heads, tails = np.zeros(n, np.int64), np.zeros(n, np.int64)
    order, degree = np.zeros(n, np.int64), np.zeros(n, np.int64)
    row, ends, block = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    until = np.zeros((n, n), np.int64)
    dice = np.zeros(1, np.int64)
    dice[0] = seed
    best = makespan = longest_paths(work, chain, before, after, heads, tails, order, degree)
    best_heads[:] = heads
    step = gained = 0
    while step - gained < steps and step < most and best > target:
        step += 1
        first = last = spare_first = spare_last = i = -1
        forward = spare_forward = True
        least = 0
        ties = spares = beginnings = 0
        for k in range(n):  # each beginning of a longest path is as likely
            if heads[k] == 0 and tails[k] == makespan:
                beginnings += 1
                if draw(dice, beginnings) == 0:
                    i = k
        while i >= 0:
            size, i = critical_block(i, work, chain, after, heads, tails, block, dice)
            for a in range(size):
                for b in range(a + 1, size):
                    u, v = block[a], block[b]
                    if (a > 0 and b < size - 1) or job[u] == job[v]:
                        continue
                    for onward in (True, False):
                        if onward and u + 1 < n and chain[u + 1] and tails[v] < tails[u + 1]:
                            continue
                        if not onward and (b == a + 1 or (chain[v] and heads[u] + work[u] < heads[v - 1] + work[v - 1])):
                            continue
                        value = estimate(u, v, onward, work, chain, before, after, heads, tails, row, ends)
                        if value >= best and forbidden(u, v, onward, after, until, step):
                            spares += 1
                            if draw(dice, spares) == 0:
                                spare_first, spare_last, spare_forward = u, v, onward
                            continue
                        if first < 0 or value < least:
                            least, ties = value, 0
                        if value == least:
                            ties += 1
                            if draw(dice, ties) == 0:
                                first, last, forward = u, v, onward
        if first < 0:
            first, last, forward = spare_first, spare_last, spare_forward
        if first < 0:
            break  # nothing on this longest path can be exchanged: no schedule is shorter
        neighbour = after[first] if forward else before[last]
        lasting = step + tenure + draw(dice, tenure // 2 + 1)
        k = first
        while k != last:
            if forward:
                until[first, after[k]] = lasting
            else:
                until[k, last] = lasting
            k = after[k]
        move(first, last, forward, before, after)
        makespan = longest_paths(work, chain, before, after, heads, tails, order, degree)
        if makespan < 0:  # durations of 0 can deceive the test for cycles
            if forward:
                move(neighbour, first, False, before, after)
                until[last, first] = lasting
            else:
                move(last, neighbour, True, before, after)
                until[last, first] = lasting
            makespan = longest_paths(work, chain, before, after, heads, tails, order, degree)
        elif makespan < best:
            best, gained = makespan, step
            best_heads[:] = heads
    return best
