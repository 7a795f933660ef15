"""The least reduced cost among the groups of one leader, for the certificate: plain Python, or the same compiled by numba.

The leader of a group is its item that tolerates least, so its limit is a constant of the search. Groups of one leader are
parted into classes of equal node counts (T training, N rollout nodes), in which the cost is a constant. What is left is a
knapsack: at most so many items, whose training times and memory fit, and whose rollouts fit into N nodes. For any
multipliers l, m, v >= 0 what the items of a group earn is at most

    l N + m limit + v memory + sum over them of (price - l share - m train_s - v train_memory),

so the largest brackets bound every class, cut the items that no violated group has, and end the depth-first search early.
What a group pays for cuts lowers what it earns in the depth-first search; the bounds before it leave cuts out. An item is a
job, or several jobs that must be together. Nothing here is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollplan.models.colocation.certificate import ceiling as earning
from rollplan.models.colocation.certificate import nodes as counting
from rollplan.models.colocation.certificate.ceiling import (
    COLUMNS,
    EARNS,
    MEMORY,
    SHARE,
    TRAIN,
    Company,
    bracket,
    ceiling,
    choose_share,
    sieved,
    tuned,
)
from rollplan.models.colocation.certificate.nodes import KINDS, Counts, Reals, fewest_nodes, share

_FEW = 10
"""So few candidates are searched without multipliers."""


class Items(NamedTuple):
    """Items of one pair of pools in the order of what they tolerate (ties: index), limits widened against rounding.

    tolerable, solo, train, train_memory, size, row (of `base`), nodes (at least): one entry per item. The jobs of item i are
    first[i] .. first[i + 1] - 1 of job_rollout, job_nodes, job_memory. apart[i, k]: may not share a group (or 0 x 0).
    """

    tolerable: Reals
    solo: Reals
    train: Reals
    train_memory: Reals
    size: Counts
    row: Counts
    nodes: Counts
    first: Counts
    job_rollout: Reals
    job_nodes: Counts
    job_memory: Reals
    apart: NDArray[np.bool_]
    node_memory: float
    train_node_memory: float
    max_group_size: int
    rollout_price: float


class Cuts(NamedTuple):
    """Sets of two or three items; a group that holds two of a set or more pays its price, once.

    sets: (cuts, 3), -1 for none. price: of each, positive. The cuts of item i are which[first[i]] .. which[first[i + 1] - 1].
    """

    sets: Counts
    price: Reals
    first: Counts
    which: Counts


def least_reduced_cost(
    items: Items, cuts: Cuts, base: Reals, price: Reals, slack: float, leader: int, dig: bool, ask: Any
) -> tuple[float, bool]:
    """Return a lower bound on min(0, least reduced cost of the groups that an item leads), and whether it is within `slack`.

    base[row, N]: dollars per hour of N rollout nodes and the training nodes of a row, less the prices of measures; inf for
    classes that no plan has. price: of each item. dig: search depth first; otherwise the multipliers alone give the bound.
    ask: `ask[0]` is true when the search shall end early.
    """
    limit, memory = items.tolerable[leader], items.train_node_memory
    places = items.max_group_size - items.size[leader]
    if places < 0 or items.solo[leader] > limit or items.train[leader] > limit or items.train_memory[leader] > memory:
        return 0.0, True
    own = _row(items, leader, limit, 0.0)
    most = len(price) - leader
    company = Company(np.empty((most, COLUMNS)), np.zeros(most, np.bool_), np.empty(most, np.int64))
    count = 0
    for k in range(leader + 1, len(price)):
        fits = items.size[k] <= places and items.solo[k] <= limit and items.train[leader] + items.train[k] <= limit
        if fits and items.train_memory[leader] + items.train_memory[k] <= memory and not _apart(items, leader, k):
            company.rows[count], company.item[count] = _row(items, k, limit, price[k]), k
            count += 1
    best, sure = 0.0, True
    for row in range(items.row[leader], len(base)):
        for nodes in range(items.nodes[leader], base.shape[1]):
            cost = base[row, nodes] - price[leader]
            if cost < inf and (count > 0 or cost < best - slack):
                value, done = _class(items, cuts, company, count, own, cost, price[leader], best, slack, leader, row, nodes, dig, ask)
                best, sure = min(best, value), sure and done
    return best - slack, sure


def _apart(items: Items, one: int, other: int) -> bool:
    return len(items.apart) > 0 and items.apart[one, other]


def _row(items: Items, item: int, limit: float, price: float) -> Reals:
    row = np.zeros(COLUMNS)
    row[EARNS], row[TRAIN], row[MEMORY] = price, items.train[item], items.train_memory[item]
    for job in range(items.first[item], items.first[item + 1]):
        for kind in range(KINDS):
            taken = share(kind, items.job_rollout[job], items.job_memory[job], limit, items.node_memory)
            row[SHARE + kind] += items.job_nodes[job] * taken
    return row


def _class(
    items: Items,
    cuts: Cuts,
    company: Company,
    count: int,
    own: Reals,
    cost: float,
    price: float,
    best: float,
    slack: float,
    leader: int,
    row: int,
    nodes: int,
    dig: bool,
    ask: Any,
) -> tuple[float, bool]:
    """Return the least reduced cost of the groups of one class, or any number above `best` - slack; a bound if not done.

    cost: dollars per hour of the class less the leader's price, which the prices of the other items must exceed.
    """
    places, demanding = items.max_group_size - items.size[leader], row > items.row[leader]
    room = np.empty(COLUMNS)
    room[EARNS], room[TRAIN], room[MEMORY] = 0.0, items.tolerable[leader] - own[TRAIN], items.train_node_memory - own[MEMORY]
    room[SHARE:] = nodes * (1 + 1e-12) - own[SHARE:]
    if room.min() < 0:
        return best, True
    fits = Company(np.empty((count, COLUMNS)), np.zeros(count, np.bool_), np.empty(count, np.int64))
    left = 0
    for i in range(count):
        k = company.item[i]
        inside = items.nodes[k] <= nodes and items.row[k] <= row
        for column in range(SHARE, COLUMNS):
            inside = inside and company.rows[i, column] <= room[column]
        if inside:
            fits.rows[left], fits.makes[left], fits.item[left] = company.rows[i], items.row[k] == row, k
            left += 1
    need = cost - best + slack
    brackets, top, factors = np.empty(left), np.zeros(places + 1), np.zeros(COLUMNS)
    earned = ceiling(fits, left, room, factors, places, demanding, brackets, top)
    if left > _FEW and earned > need:
        training = max(cost + price - nodes * items.rollout_price, 0.01 * items.rollout_price)
        factors[TRAIN] = training / items.tolerable[leader]
        factors[MEMORY] = 0.1 * training / items.train_node_memory if items.train_node_memory > 0 else 0.0
        choose_share(fits, left, room, factors, places, demanding, brackets, top, items.rollout_price)
        before, mixed = 2 * left, False
        while earned > need and (left < 0.9 * before or not mixed):
            mixed = left >= 0.9 * before
            earned = tuned(fits, left, room, factors, places, demanding, need, mixed, brackets, top)
            if earned > need:
                before, left = left, sieved(fits, left, room, factors, places, demanding, need, brackets, top)
    if earned <= need:
        return best, True
    if not dig or ask[0]:
        return min(best, cost - earned), False
    return _descent(items, cuts, fits, left, room, factors, cost, best, slack, leader, nodes, demanding, ask)


def _descent(
    items: Items,
    cuts: Cuts,
    unsorted: Company,
    count: int,
    room: Reals,
    factors: Reals,
    cost: float,
    best: float,
    slack: float,
    leader: int,
    nodes: int,
    demanding: bool,
    ask: Any,
) -> tuple[float, bool]:
    """Search one class depth first, largest brackets first; return the least reduced cost, or a bound if asked to end."""
    places = items.max_group_size - items.size[leader]
    fixed = -bracket(room, factors)
    brackets = np.empty(count)
    for i in range(count):
        brackets[i] = bracket(unsorted.rows[i], factors)
    order = np.argsort(-brackets)
    brackets = brackets[order]
    fits = Company(unsorted.rows[order], unsorted.makes[order], unsorted.item[order])
    ahead = np.zeros(count + 1)
    for i in range(count):
        ahead[i + 1] = ahead[i] + max(0.0, brackets[i])
    # Of the group so far, by depth: item added last, where to go on, sums of rows, of brackets, sizes, makers of the class, cuts paid.
    added, at = np.empty(places + 1, np.int64), np.zeros(places + 1, np.int64)
    sums, earned = np.zeros((places + 1, COLUMNS)), np.zeros(places + 1)
    size, makers = np.zeros(places + 1, np.int64), np.zeros(places + 1, np.int64)
    paid = np.zeros(places + 1)
    depth, visited, new = 0, 0, True
    while depth >= 0:
        if new and sums[depth, EARNS] - paid[depth] > cost - best:
            least, enough = _nodes_of(items, fits, added, depth, leader)
            if least > nodes:
                depth -= 1  # more items need no fewer nodes
                new = False
                continue
            if enough >= nodes and (makers[depth] > 0 or not demanding):
                best = cost - (sums[depth, EARNS] - paid[depth])
        new = False
        visited += 1
        if visited % 1024 == 0 and ask[0]:
            return min(best, cost - fixed - ahead[min(places, count)]), False
        i, free = at[depth], places - size[depth]
        most = fixed + earned[depth] - paid[depth] + ahead[min(i + free, count)] - ahead[min(i, count)]
        if free == 0 or i >= count or most <= cost - best + slack:
            depth -= 1
            continue
        at[depth] = i + 1
        # The last item must earn enough, and make the class if no other does.
        inside = free > 1 or (
            sums[depth, EARNS] + fits.rows[i, EARNS] - paid[depth] > cost - best and (fits.makes[i] or makers[depth] > 0 or not demanding)
        )
        if not inside or items.size[fits.item[i]] > free:
            continue
        for column in range(TRAIN, COLUMNS):
            inside = inside and sums[depth, column] + fits.rows[i, column] <= room[column]
        for d in range(depth if len(items.apart) > 0 else 0):
            inside = inside and not items.apart[fits.item[added[d]], fits.item[i]]
        if inside:
            added[depth] = i
            for column in range(COLUMNS):
                sums[depth + 1, column] = sums[depth, column] + fits.rows[i, column]
            earned[depth + 1] = earned[depth] + brackets[i]
            size[depth + 1], makers[depth + 1] = size[depth] + items.size[fits.item[i]], makers[depth] + fits.makes[i]
            at[depth + 1], paid[depth + 1] = i + 1, paid[depth] + _paid(cuts, fits, added, depth, leader)
            depth, new = depth + 1, True
    return best, True


def _paid(cuts: Cuts, fits: Company, added: Counts, depth: int, leader: int) -> float:
    """Return what the item added at `depth` makes the group pay: for sets of which it is the second item in the group."""
    total = 0.0
    item = fits.item[added[depth]]
    for place in range(cuts.first[item], cuts.first[item + 1]):
        cut = cuts.which[place]
        before = 0
        for member in range(3):
            before += cuts.sets[cut, member] == leader
            for d in range(depth):
                before += cuts.sets[cut, member] == fits.item[added[d]]
        if before == 1:
            total += cuts.price[cut]
    return total


def _nodes_of(items: Items, fits: Company, added: Counts, depth: int, leader: int) -> tuple[int, int]:
    """Return two counts between which the fewest nodes of a leader with the items added so far lie."""
    rollout, copies = np.empty(items.max_group_size), np.empty(items.max_group_size, np.int64)
    memory = np.empty(items.max_group_size)
    count = 0
    for d in range(-1, depth):
        item = leader if d < 0 else fits.item[added[d]]
        for job in range(items.first[item], items.first[item + 1]):
            rollout[count], copies[count], memory[count] = items.job_rollout[job], items.job_nodes[job], items.job_memory[job]
            count += 1
    return fewest_nodes(rollout, copies, memory, count, items.tolerable[leader], items.node_memory)


@cache
def compiled() -> Callable[..., tuple[float, bool]] | None:
    """Return `least_reduced_cost` compiled to run without the GIL; None without numba. Compiling takes seconds, once."""
    from rollplan.models import compiled as numba  # slow to load, and not needed for small fleets

    if not numba.HAVE_COMPILER:
        return None
    known: dict[str, Any] = {**vars(counting), **vars(earning), **globals()}
    functions: tuple[Callable[..., Any], ...] = (share, counting._first_fit, counting._full_nodes, fewest_nodes, _apart, _row)
    functions += (bracket, ceiling, choose_share, tuned, sieved, _nodes_of, _paid, _descent, _class, least_reduced_cost)
    for function in functions:
        # A copy that sees the compiled copies of the others; the originals stay what they are.
        known[function.__name__] = numba.compiled(FunctionType(function.__code__, known, function.__name__))
    found: Callable[..., tuple[float, bool]] = known["least_reduced_cost"]
    return found
