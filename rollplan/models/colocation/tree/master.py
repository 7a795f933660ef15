r"""The LP over the groups found so far, with limits on measures, re-solved from its last basis.

.. math::

    \min \sum_S c_S x_S \quad\text{s.t.}\quad \sum_{S \ni k} x_S \ge 1 \ \forall k, \qquad
    l_m \le \sum_S a_{S,m}\, x_S \le h_m \ \text{for every measure } m

Covering equals partitioning, because dropping a job from a group keeps it feasible and no dearer. For any prices
u_k >= 0 of jobs and d_m of measures, every plan whose measures lie in the box [l, h] costs at least

    sum_k u_k + sum_m (d_m l_m if d_m >= 0 else d_m h_m) + sum over leaders of min(0, least reduced cost they lead),

reduced cost = c_S - sum_m d_m a_{S,m} - sum_{k in S} u_k, because a plan has at most one group of each leader. Costs and prices are in
units (`block.cost_unit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite

import highspy
import numpy as np

from rollplan.models.certified import TwoOfThree
from rollplan.models.colocation.pricing.block import Block, Bools, Floats, Ints
from rollplan.models.colocation.pricing.kernel import Found
from rollplan.models.colocation.pricing.measures import Box, Counted, Priced, added_by, hold_two
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.highs import QuietHighs

_MISSING = 1e4
"""Price of leaving a limit by one, in dearest nodes: the LP stays feasible, its prices stay finite."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The LP's prices, by job of the problem, (n,), and by measure; its value and the columns' values, (m,)."""

    jobs: Floats
    measures: dict[Priced, float]
    value: float
    taken: Floats


class Master:
    """The LP. Columns are only added; the box of a solve sets the limits of the rows, and closes columns that break its rules.

    block_of, members, train_class, nodes: of every column, (m,), members as places in the block, padded with -1, (m, max_size).
    """

    def __init__(self, problem: ColocationProblem, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.block_of: Ints = np.zeros(0, dtype=np.int64)
        self.members: Ints = np.zeros((0, problem.max_group_size), dtype=np.int64)
        self.train_class: Ints = np.zeros(0, dtype=np.int64)
        self.nodes: Ints = np.zeros(0, dtype=np.int64)
        self._scale = max(max(block.rollout_price, block.train_price) for block in blocks) or 1.0
        self._seen: dict[tuple[int, ...], int] = {}
        self._place: Ints = np.zeros(0, dtype=np.int32)
        self._dead: Bools = np.zeros(0, dtype=bool)
        self._closed: Bools = np.zeros(0, dtype=bool)
        self._rows: dict[Counted, int] = {}
        self._cuts: dict[TwoOfThree, int] = {}
        self._jobs = len(problem.jobs)
        self._block_of_job, self._where = np.zeros(self._jobs, dtype=np.int64), np.zeros(self._jobs, dtype=np.int64)
        for number, block in enumerate(blocks):
            self._block_of_job[block.index], self._where[block.index] = number, np.arange(len(block))
        self._lp = QuietHighs()
        for k in range(self._jobs):
            self._lp.addRow(1.0, highspy.kHighsInf, 0, [], [])
            self._lp.addCol(_MISSING, 0.0, highspy.kHighsInf, 1, [k], [1.0])
        for number, block in enumerate(blocks):
            alone = np.full((len(block), problem.max_group_size), -1, dtype=np.int64)
            alone[:, 0] = np.arange(len(block))
            self.add(number, Found(alone, block.train_class.astype(np.int64), block.demand.astype(np.int64), np.zeros(len(block))))

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, number: int, found: Found) -> int:
        """Add the groups of a block that are not there yet; return how many."""
        before = len(self)
        fresh: list[int] = []
        for i, (row, nodes) in enumerate(zip(found.members.tolist(), found.rollout_nodes.tolist(), strict=True)):
            if self._seen.setdefault((number, nodes, *row), before + len(fresh)) == before + len(fresh):
                fresh.append(i)
        if not fresh:
            return 0
        block, count = self.blocks[number], len(fresh)
        members, classes, nodes = found.members[fresh], found.train_class[fresh], found.rollout_nodes[fresh]
        inside = members >= 0
        entries = [(np.repeat(np.arange(count), inside.sum(axis=1)), block.index[members[inside]], np.ones(int(inside.sum())))]
        for measure, row in self._rows.items():
            grid = added_by(measure, block)
            if grid is not None:
                held = np.flatnonzero(grid[classes, nodes])
                entries.append((held, np.full(len(held), row), grid[classes[held], nodes[held]]))
        for cut, row in self._cuts.items():
            if (places := self._places_of(cut, number)) is not None:
                held = np.flatnonzero(hold_two(members, places))
                entries.append((held, np.full(len(held), row), np.ones(len(held))))
        column, rows, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        order = np.lexsort((rows, column))
        starts = np.searchsorted(column[order], np.arange(count))
        first = self._lp.getNumCol()
        self._lp.addCols(
            count,
            block.base()[classes, nodes] / self._scale,
            np.zeros(count),
            np.full(count, highspy.kHighsInf),
            len(rows),
            starts.astype(np.int32),
            rows[order].astype(np.int32),
            values[order],
        )
        self._place = np.append(self._place, np.arange(first, first + count, dtype=np.int32))
        self.block_of = np.append(self.block_of, np.full(count, number))
        self.members = np.concatenate([self.members, members])
        self.train_class, self.nodes = np.append(self.train_class, classes), np.append(self.nodes, nodes)
        self._dead = np.append(self._dead, np.zeros(count, dtype=bool))
        self._closed = np.append(self._closed, np.zeros(count, dtype=bool))
        return count

    def basic(self) -> tuple[Bools, Bools]:
        """Return which columns, (m,), and which jobs' rows, (n,), are basic."""
        basis = self._lp.getBasis()
        basic = highspy.HighsBasisStatus.kBasic
        columns = np.array([status == basic for status in basis.col_status])[self._place]
        return columns, np.array([status == basic for status in basis.row_status[: self._jobs]])

    def begin_from(self, columns: Bools, rows: Bools) -> None:
        """Begin the next solve from a basis: `basic()` of LPs that this one consists of."""
        basis = self._lp.getBasis()
        status = [highspy.HighsBasisStatus.kLower] * self._lp.getNumCol()
        for column in np.flatnonzero(columns):
            status[int(self._place[column])] = highspy.HighsBasisStatus.kBasic
        lower = (highspy.HighsBasisStatus.kLower, highspy.HighsBasisStatus.kBasic)
        others = [highspy.HighsBasisStatus.kBasic] * (self._lp.getNumRow() - self._jobs)
        basis.col_status, basis.row_status, basis.valid = status, [*(lower[bool(row)] for row in rows), *others], True
        self._lp.setBasis(basis)

    @contextmanager
    def fixing(self) -> Iterator[Callable[[Sequence[int]], None]]:
        """Give a function that takes columns whole; all are released in the end, and the basis is that of the beginning."""
        basis, fixed = self._lp.getBasis(), list[int]()

        def fix(columns: Sequence[int]) -> None:
            for column in columns:
                self._lp.changeColBounds(int(self._place[column]), 1.0, 1.0)
                fixed.append(int(column))
            self._lp.setOptionValue("simplex_strategy", 1)

        try:
            yield fix
        finally:
            for column in fixed:
                self._lp.changeColBounds(int(self._place[column]), 0.0, 0.0 if self._closed[column] else highspy.kHighsInf)
            self._lp.setBasis(basis)

    def drop(self, column: int) -> bool:
        """Close a column for good, its group needs other nodes than were counted; return whether it was open."""
        was_open = not self._dead[column]
        self._dead[column] = True
        return was_open

    def amounts(self, measure: Counted) -> Floats:
        """Return what each column adds to a measure, (m,)."""
        amounts = np.zeros(len(self))
        for number, block in enumerate(self.blocks):
            grid = added_by(measure, block)
            if grid is not None:
                here = self.block_of == number
                amounts[here] = grid[self.train_class[here], self.nodes[here]]
        return amounts

    def cut(self, cut: TwoOfThree) -> bool:
        """Add the row that a plan has at most one group with two of three jobs; return whether it is new."""
        if cut in self._cuts:
            return False
        held = np.zeros(len(self), dtype=bool)
        for number in range(len(self.blocks)):
            if (places := self._places_of(cut, number)) is not None:
                here = np.flatnonzero(self.block_of == number)
                held[here] = hold_two(self.members[here], places)
        columns = np.flatnonzero(held)
        self._cuts[cut] = self._lp.getNumRow()
        self._lp.addRow(-highspy.kHighsInf, 1.0, len(columns), self._place[columns], np.ones(len(columns)))
        return True

    def _places_of(self, cut: TwoOfThree, number: int) -> tuple[int, ...] | None:
        """Return the jobs of a cut as places in a block, None if they are in another."""
        places = tuple(int(self._where[k]) for k in (cut.first, cut.second, cut.third))
        return places if int(self._block_of_job[cut.first]) == number else None

    def enter(self, box: Box) -> None:
        """Set the limits of a box; measures that it does not name are free."""
        limits = dict(box.counted())
        for measure in limits.keys() - self._rows.keys():
            self._add_row(measure)
        for measure, row in self._rows.items():
            self._bound(row, limits.get(measure, (-inf, inf)))
        closed = self._dead.copy()
        for number, block in enumerate(self.blocks):
            rules = box.rules(block)
            if len(rules.apart) + len(rules.together):
                here = np.flatnonzero(self.block_of == number)
                closed[here] |= ~rules.allow(self.members[here])
        for column in np.flatnonzero(closed != self._closed):
            self._lp.changeColBounds(int(self._place[column]), 0.0, 0.0 if closed[column] else highspy.kHighsInf)
        self._closed = closed
        self._lp.setOptionValue("simplex_strategy", 1)  # dual: the basis stays dual feasible when bounds change

    def solve(self, box: Box, left_s: float, primal: bool = False) -> Prices | None:
        """Solve the LP in the box that was entered; None if the time was up. primal: columns came since the last solve."""
        if primal:
            self._lp.setOptionValue("simplex_strategy", 4)
        self._lp.setOptionValue("time_limit", self._lp.getRunTime() + left_s)
        self._lp.run()
        status = self._lp.getModelStatus()
        if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
            raise ArithmeticError(f"LP over groups ended with {status}")
        if status == highspy.HighsModelStatus.kTimeLimit:
            return None
        solution = self._lp.getSolution()
        dual = np.array(solution.row_dual) * self._scale
        limits = dict(box.counted())
        measures: dict[Priced, float] = {cut: price for cut, row in self._cuts.items() if (price := min(0.0, float(dual[row])))}
        for measure, row in self._rows.items():
            price = float(dual[row])
            if measure in limits and price and not (price < 0 and not isfinite(limits[measure][1])):
                measures[measure] = price
        taken = np.array(solution.col_value)[self._place]
        return Prices(np.maximum(0.0, dual[: self._jobs]) + 0.0, measures, float(self._lp.getObjectiveValue()) * self._scale, taken)

    def peek(self, measure: Counted, limits: tuple[float, float], now: Box, steps: int) -> float:
        """Return the LP's value with other limits of one measure, after at most so many steps; then go back to the box `now`."""
        self._add_row(measure)
        basis, row = self._lp.getBasis(), self._rows[measure]
        self._bound(row, limits)
        self._lp.setOptionValue("simplex_strategy", 1)
        self._lp.setOptionValue("simplex_iteration_limit", steps)
        self._lp.run()
        value = float(self._lp.getObjectiveValue()) * self._scale
        self._lp.setOptionValue("simplex_iteration_limit", highspy.kHighsIInf)
        self._bound(row, dict(now.counted()).get(measure, (-inf, inf)))
        self._lp.setBasis(basis)
        return value

    def _bound(self, row: int, limits: tuple[float, float]) -> None:
        self._lp.changeRowBounds(row, *limits)

    def _add_row(self, measure: Counted) -> None:
        if measure in self._rows:
            return
        amounts = self.amounts(measure)
        held = np.flatnonzero(amounts)
        row = self._rows[measure] = self._lp.getNumRow()
        self._lp.addRow(-highspy.kHighsInf, highspy.kHighsInf, len(held), self._place[held], amounts[held])
        for sign in (1.0, -1.0):
            self._lp.addCol(_MISSING, 0.0, highspy.kHighsInf, 1, [row], [sign])
