"""What items can earn at most in one class of groups, by multipliers, for the certificate (`search.py`).

Written so that numba can compile it; nothing is shared with the solver.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollplan.models.colocation.certificate.nodes import KINDS, Counts, Reals

EARNS, TRAIN, MEMORY, SHARE = 0, 1, 2, 3
"""Columns of an item's row: price, training seconds, training memory, and from there its shares of rollout nodes."""
COLUMNS = SHARE + KINDS


class Company(NamedTuple):
    """Items that may join a leader: their rows of `COLUMNS` numbers, whether each makes the class, which item it is."""

    rows: Reals
    makes: NDArray[np.bool_]
    item: Counts


def bracket(row: Reals, factors: Reals) -> float:
    """Return an item's price less what the multipliers `factors` charge for what it takes; both have `COLUMNS` numbers."""
    total = float(row[EARNS])
    for column in range(TRAIN, COLUMNS):
        total -= factors[column] * row[column]
    return total


def ceiling(fits: Company, count: int, room: Reals, factors: Reals, places: int, demanding: bool, brackets: Reals, top: Reals) -> float:
    """Return what the first `count` items can earn at most by the multipliers `factors`; -inf if none makes the class.

    brackets: filled for all items. top: filled with the largest positive brackets in order, the best item that makes the
    class apart if one is demanded.
    """
    forced = -1
    for i in range(count):
        brackets[i] = bracket(fits.rows[i], factors)
        if demanding and fits.makes[i] and (forced < 0 or brackets[i] > brackets[forced]):
            forced = i
    if demanding and (forced < 0 or places == 0):
        return -inf
    if demanding:
        places -= 1
    top[:] = 0.0
    for i in range(count):
        if places > 0 and brackets[i] > top[places - 1] and i != forced:
            at = places - 1
            while at > 0 and top[at - 1] < brackets[i]:
                top[at] = top[at - 1]
                at -= 1
            top[at] = brackets[i]
    # The bracket of the room, which earns nothing, is what the multipliers give away.
    return float(top[:places].sum()) - bracket(room, factors) + (brackets[forced] if demanding else 0.0)


def choose_share(
    fits: Company, count: int, room: Reals, factors: Reals, places: int, demanding: bool, brackets: Reals, top: Reals, price: float
) -> None:
    """Give the price of a rollout node to the share that gives the lowest ceiling."""
    least, chosen = inf, SHARE
    for column in range(SHARE, COLUMNS):
        factors[column] = price
        value = ceiling(fits, count, room, factors, places, demanding, brackets, top)
        factors[column] = 0.0
        if value < least:
            least, chosen = value, column
    factors[chosen] = price


def tuned(
    fits: Company,
    count: int,
    room: Reals,
    factors: Reals,
    places: int,
    demanding: bool,
    need: float,
    mix: bool,
    brackets: Reals,
    top: Reals,
) -> float:
    """Lower the ceiling, one multiplier after the other, until it is at most `need` or no step helps; return it.

    mix: also try to move a part of the multiplier of one share to another.
    """
    best = ceiling(fits, count, room, factors, places, demanding, brackets, top)
    for step in (2.0, 1.4, 1.15, 1.05):
        for column in range(TRAIN, COLUMNS):
            for factor in (step, 1 / step):
                improved = False
                while best > need and factors[column] > 0:
                    kept = factors[column]
                    factors[column] = kept * factor
                    value = ceiling(fits, count, room, factors, places, demanding, brackets, top)
                    if value >= best - 1e-9 * abs(best):
                        factors[column] = kept
                        break
                    best, improved = value, True
                if improved:
                    break
            for other in range(SHARE, COLUMNS):
                if mix and best > need and column >= SHARE and other != column and factors[column] > 0:
                    moved = factors[column] * (1 - 1 / step)
                    factors[column] -= moved
                    factors[other] += moved
                    value = ceiling(fits, count, room, factors, places, demanding, brackets, top)
                    if value < best - 1e-9 * abs(best):
                        best = value
                    else:
                        factors[column] += moved
                        factors[other] -= moved
    factors[:] = np.maximum(factors, 0.0)
    return ceiling(fits, count, room, factors, places, demanding, brackets, top)


def sieved(
    fits: Company, count: int, room: Reals, factors: Reals, places: int, demanding: bool, need: float, brackets: Reals, top: Reals
) -> int:
    """Drop the items that earn too little with the best company; return how many are left. brackets and top: of the ceiling."""
    fixed = -bracket(room, factors)
    others = places - 1 if demanding else places
    rest = top[:others].sum()
    forced = -inf
    for i in range(count):
        if demanding and fits.makes[i]:
            forced = max(forced, brackets[i])
    left = 0
    for i in range(count):
        if not demanding:
            company = rest - top[others - 1]
        elif others > 0:
            company = forced + rest - top[others - 1]
            if fits.makes[i]:
                company = max(company, rest)
        else:
            company = 0.0 if fits.makes[i] else -inf
        if fixed + brackets[i] + company > need:
            fits.rows[left], fits.makes[left], fits.item[left] = fits.rows[i], fits.makes[i], fits.item[i]
            brackets[left] = brackets[i]
            left += 1
    return left
