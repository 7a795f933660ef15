"""Bin packing settled: all patterns that m machines can have, and CP-SAT to choose among them.

With the prices y of the LP's optimum, let K be the most that a pattern is worth, and Y what all jobs are worth. In a
packing into m machines the patterns are worth Y together, hence each at least K - (m K - Y). The maximal patterns that
are worth so much are listed, and CP-SAT covers the jobs with m of them: if it cannot, that is a proof, too. The list is
complete, since numbers are whole, and since a pattern that is not maximal can be replaced by one that is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Literal

from rollplan.models.certified import Limits
from rollplan.models.pcmax.knapsack import Knapsack, Pattern
from rollplan.models.pcmax.patterns import Patterns

MOST_PATTERNS = 20_000


def complete(patterns: Patterns, limits: Limits, seed: int) -> list[Pattern] | Literal[False] | None:
    """Return patterns of the capacity asked for last that cover all jobs; False if there are none, None if this stays open.

    It stays open if there are more than `MOST_PATTERNS` patterns, or if time is up.
    """
    prices = patterns.prices(limits)
    if prices is None:
        return None
    each = [max(1, price) for price in prices]  # any prices will do; without zeros the table knows all sizes
    best = Knapsack(patterns.sizes, patterns.copies, each, patterns.capacity)
    worth = sum(copies * price for copies, price in zip(patterns.copies, each, strict=True))
    listed = worth_at_least(best, patterns.copies, worth - (patterns.machines - 1) * best.worth, limits)
    return None if listed is None else _cover(listed, patterns, limits, seed)


def worth_at_least(best: Knapsack, copies: list[int], least: int, limits: Limits) -> list[Pattern] | None:
    """Return the maximal patterns that are worth at least `least`; None if there are more than `MOST_PATTERNS`, or time is up.

    copies (d): how many jobs there are of each size; every size has a price, and fits.
    """
    sizes, prices = best.sizes, best.prices
    first = [best.rows.index(d) for d in range(len(sizes))]
    found: list[Pattern] = []
    # (size to decide next, counted down; room; worth; what is taken)
    pending: list[tuple[int, int, int, Pattern]] = [(len(sizes) - 1, best.capacity, 0, ())]
    while pending:
        d, room, worth, taken = pending.pop()
        if d < 0:
            held = dict(taken)
            if all(size > room for each, size in enumerate(sizes) if held.get(each, 0) < copies[each]):
                found.append(taken)
            if len(found) > MOST_PATTERNS or limits.stop():
                return None
            continue
        for count in range(min(copies[d], room // sizes[d]) + 1):
            after, gained = room - count * sizes[d], worth + count * prices[d]
            if gained + int(best.table[first[d], after]) >= least:
                pending.append((d - 1, after, gained, ((d, count), *taken) if count else taken))
    return found


def _cover(listed: list[Pattern], patterns: Patterns, limits: Limits, seed: int) -> list[Pattern] | Literal[False] | None:
    """Return at most m of the patterns that cover all jobs; False if there are none, None if time is up."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    uses = [model.new_int_var(0, max(patterns.copies[d] for d, _ in pattern), "") for pattern in listed]
    model.add(sum(uses) <= patterns.machines)
    holds: list[list[Any]] = [[] for _ in patterns.sizes]
    for use, pattern in zip(uses, listed, strict=True):
        for d, count in pattern:
            holds[d].append(count * use)
    for d, copies in enumerate(patterns.copies):
        model.add(sum(holds[d]) >= copies)
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limits.left_s
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(solver.solve, model)
        while not wait([search], timeout=0.05).done:
            if limits.interrupted():
                solver.stop_search()
    status = search.result()
    if status == cp_model.INFEASIBLE:
        return False
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [pattern for use, pattern in zip(uses, listed, strict=True) for _ in range(solver.value(use))]
