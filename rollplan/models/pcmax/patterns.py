"""Do the jobs fit into m machines of capacity C? The LP over all patterns (Gilmore and Gomory 1961), and diving from it.

A pattern is a set of jobs that a machine of capacity C holds; equal jobs are one size. The LP takes the least number of
patterns, in fractions, that cover all jobs. Its columns are priced by `Knapsack`. Two short proofs end it early: columns
at hand already cover with at most m, or some prices y show that no m patterns do, since

    sum over jobs of y_j > m * max over patterns of (sum over its jobs of y_j).

The prices are rounded to whole numbers, so that this proof is exact. In practice the least capacity that the LP admits
is nearly always the optimum (docs/pcmax.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import floor, inf
from operator import mul

import numpy as np

from rollplan.models.certified import Limits
from rollplan.models.pcmax.knapsack import Knapsack, Pattern
from rollplan.models.pcmax.problem import PcmaxProblem

MOST_CELLS = 30_000_000
"""Jobs times capacity of the knapsack's table: 120 MB."""
_LARGEST = 2**31 - 1
"""What a pattern is worth stays below: the price of a job that fills a machine is this, divided by the jobs that one can hold."""
_EACH = 8
"""Columns from one table."""
_TOL = 1e-7
_DUAL, _PRIMAL = 1, 4
"""HiGHS' simplex strategies: with new columns a basis stays primal feasible, with new limits of columns dual feasible."""
_NEARLY = 0.3
"""What a column may lack of the whole number at which a dive fixes it at once."""


class Patterns:
    """The LP, kept from capacity to capacity with the columns found so far."""

    def __init__(self, problem: PcmaxProblem) -> None:
        from highspy import HighsModelStatus, kHighsInf

        from rollplan.models.highs import QuietHighs

        counted = Counter(problem.times)
        self.machines = problem.machines
        self.sizes = sorted(counted, reverse=True)
        self.copies = [counted[size] for size in self.sizes]
        self._index = {size: d for d, size in enumerate(self.sizes)}
        self._columns: list[Pattern] = []
        self._loads: list[int] = []
        self._known: set[Pattern] = set()
        self.capacity = self._unit = 0
        self._any, self._optimal = kHighsInf, HighsModelStatus.kOptimal
        self._lp = QuietHighs()
        for copies in self.copies:
            self._lp.addRow(float(copies), self._any, 0, [], [])
        for d in range(len(self.sizes)):
            self._add(((d, 1),))

    def add(self, machines: Iterable[Sequence[int]]) -> None:
        """Add what machines hold, given as processing times."""
        for times in machines:
            self._add(tuple(sorted(Counter(self._index[time] for time in times).items())))

    def fits(self, capacity: int, limits: Limits) -> bool | None:
        """Return whether m patterns of this capacity cover the jobs in fractions: False is a proof, None that time is up."""
        self._restrict(capacity, _PRIMAL)
        while (cost := self._cost(limits)) < inf:
            if cost <= self.machines * (1 + _TOL):
                return True
            best, added = self._price()
            if sum(map(mul, self.copies, best.prices)) > self.machines * best.worth:
                return False
            if not added:
                return True
        return None

    def prices(self, limits: Limits) -> list[int] | None:
        """Return whole prices of the sizes, those of the LP's optimum at the capacity asked for last; None if time is up."""
        self._release()
        while self._cost(limits) < inf:
            best, added = self._price()
            if not added:
                return list(best.prices)
        return None

    def dive(self, capacity: int, limits: Limits, tries: int, seed: int = 0) -> list[Pattern] | None:
        """Return patterns of this capacity that cover all jobs, at most m, if some way of rounding leads there.

        Columns are fixed at whole numbers: those nearly whole and the one nearest to it; then the LP is solved again, with
        new columns. From the second try on, chance decides which one counts as nearest.
        """
        chance = np.random.default_rng(seed)
        self._restrict(capacity, _DUAL)
        for attempt in range(tries):
            found = self._one_dive(limits, chance if attempt else None)
            self._release()
            if found is not None:
                return found
        return None

    def _one_dive(self, limits: Limits, chance: np.random.Generator | None) -> list[Pattern] | None:
        """Return a cover by at most m patterns, None where the columns that are fixed do not lead to one, or time is up."""
        fixed = np.zeros(len(self._columns))
        while True:
            while (cost := self._cost(limits)) > self.machines * (1 + _TOL):
                if cost == inf or not self._price()[1]:
                    return None
            uses = np.array(self._lp.getSolution().col_value)
            fixed = np.pad(fixed, (0, uses.size - fixed.size))
            whole = np.ceil(uses - _TOL)
            if whole.sum() <= self.machines:
                return [self._columns[column] for column in np.flatnonzero(whole).tolist() for _ in range(int(whole[column]))]
            part = uses - np.floor(uses + _TOL)
            nearest = int(np.argmax(part if chance is None else part * chance.uniform(0.5, 1.0, part.size)))
            raised = np.maximum(fixed, np.floor(uses + _NEARLY))
            raised[nearest] = max(raised[nearest], np.ceil(uses[nearest] - _TOL))
            for column in np.flatnonzero(raised > fixed).tolist():
                self._lp.changeColBounds(column, float(raised[column]), self._any)
            fixed = raised

    def machines_of(self, cover: Iterable[Pattern]) -> list[list[int]]:
        """Return machines that hold each job once, as processing times; what patterns cover twice is left out."""
        left = list(self.copies)
        machines = []
        for pattern in cover:
            held: list[int] = []
            for d, copies in pattern:
                taken = min(copies, left[d])
                left[d] -= taken
                held += [self.sizes[d]] * taken
            machines.append(held)
        return machines

    def _add(self, pattern: Pattern) -> bool:
        """Add a column unless it is there; return whether it was new."""
        if pattern in self._known or not pattern:
            return False
        self._known.add(pattern)
        self._columns.append(pattern)
        self._loads.append(sum(self.sizes[d] * copies for d, copies in pattern))
        rows = np.array([d for d, _ in pattern], dtype=np.int32)
        most = self._any if self._loads[-1] <= self.capacity else 0.0
        self._lp.addCol(1.0, 0.0, most, rows.size, rows, np.array([float(copies) for _, copies in pattern]))
        return True

    def _restrict(self, capacity: int, simplex: int) -> None:
        self.capacity = capacity
        held = np.cumsum(np.repeat(self.sizes[::-1], self.copies[::-1]))
        self._unit = _LARGEST // max(1, int(np.searchsorted(held, capacity, side="right")))
        self._lp.setOptionValue("simplex_strategy", simplex)
        self._release()

    def _release(self) -> None:
        """Free all columns that the capacity admits."""
        for column, load in enumerate(self._loads):
            self._lp.changeColBounds(column, 0.0, self._any if load <= self.capacity else 0.0)

    def _cost(self, limits: Limits) -> float:
        """Return the least cost of a cover by the columns at hand; infinite when it is time to stop."""
        if limits.stop():
            return inf
        self._lp.setOptionValue("time_limit", self._lp.getRunTime() + limits.left_s)
        self._lp.run()
        return float(self._lp.getObjectiveValue()) if self._lp.getModelStatus() == self._optimal else inf

    def _price(self) -> tuple[Knapsack, bool]:
        """Return the knapsack at the LP's prices, add the patterns that it favours, and say whether one of them is new."""
        duals = self._lp.getSolution().row_dual
        prices = [min(max(0, floor(dual * self._unit)), self._unit) for dual in duals]
        best = Knapsack(self.sizes, self.copies, prices, self.capacity)
        added = [self._add(pattern) for pattern in best.patterns(self._unit, _EACH)]
        return best, any(added)
