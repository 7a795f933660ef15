"""A start for the LP of a large fleet: the LPs of jobs that tolerate nearly equal periods, put together.

Their sum is no bound, because groups across windows are missing; but their groups and their basis begin the LP of all jobs so near to
its optimum that few groups are left to be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from rollplan.models.certified import Limits
from rollplan.models.colocation.pricing.block import Block, Bools, Floats, Ints, blocks_of
from rollplan.models.colocation.pricing.kernel import Found, Kernel
from rollplan.models.colocation.pricing.measures import Box
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.colocation.tree.relax import Relaxation

_WINDOW = 120
_NEAR = 0.1
"""Groups with reduced cost below this share of the dearest node's price are taken over."""
_DEARER = (1.0, 1.05)
"""Multiples of the first prices at which a window's first groups are found."""
_PER_LEADER = 4


@dataclass(frozen=True, slots=True)
class _Window:
    """Groups of a window as places in the block, which of them are basic, and which jobs' rows are, by place in the block."""

    found: Found
    basic: Bools
    places: Ints
    rows: Bools


def begin(relaxation: Relaxation, prices: Sequence[Floats], limits: Limits, threads: int) -> None:
    """Fill the LP of a relaxation with the groups of windows, and put it on their basis.

    prices: a guess at the jobs' prices for each block, (n,), in units.
    """
    master, basic_rows = relaxation.master, np.zeros(len(relaxation.problem.jobs), dtype=bool)
    basic: set[tuple[int, ...]] = set()
    for number, (block, guess) in enumerate(zip(relaxation.blocks, prices, strict=True)):
        parts = np.array_split(np.arange(len(block)), max(1, len(block) // _WINDOW))
        with ThreadPoolExecutor(threads) as pool:
            waiting = [pool.submit(_solved, relaxation, block, places, guess[places], limits) for places in parts]
            windows = [each.result() for each in waiting]
        for window in windows:
            master.add(number, window.found)
            basic |= {(number, *row) for row in window.found.members[window.basic].tolist()}
            basic_rows[block.index[window.places]] = window.rows
    keys = zip(master.block_of.tolist(), master.members.tolist(), strict=True)
    columns = np.array([(number, *row) in basic for number, row in keys])
    if columns.sum() + basic_rows.sum() == len(basic_rows):
        master.begin_from(columns, basic_rows)


def _solved(relaxation: Relaxation, block: Block, places: Ints, guess: Floats, limits: Limits) -> _Window:
    """Solve the LP of some jobs of a block; `places` follow each other."""
    problem = _only(relaxation.problem, block, places)
    inner = blocks_of(problem)[0]
    kernel = Kernel(inner)
    window = Relaxation(problem, [inner], [kernel], relaxation.halt)
    for factor in _DEARER:
        window.master.add(0, kernel.price(guess * factor, inner.base(), 0.0, _PER_LEADER, stop=relaxation.halt).found)
    relaxed = window.solve(Box(problem), limits)
    master = window.master
    reduced = np.zeros(len(master))
    if relaxed is not None:
        jobs = np.array(relaxed.prices.jobs)[inner.index] / relaxation.unit
        reduced = inner.base()[master.train_class, master.nodes] - np.append(jobs, 0.0)[master.members].sum(axis=1)
    columns, rows = master.basic()
    near = columns | (reduced < _NEAR * max(block.rollout_price, block.train_price))
    members = np.where(master.members[near] >= 0, master.members[near] + places[0], -1)
    classes = np.searchsorted(block.train_nodes, inner.train_nodes)[master.train_class[near]]
    return _Window(Found(members, classes, master.nodes[near], reduced[near]), columns[near], places, rows[inner.index])


def _only(problem: ColocationProblem, block: Block, places: Ints) -> ColocationProblem:
    """Return the problem of some jobs, in the block's order, with as many nodes as they like."""
    pools = tuple(replace(pool, nodes=None) for pool in problem.pools)
    return replace(problem, pools=pools, jobs=tuple(problem.jobs[int(k)] for k in block.index[places]))
