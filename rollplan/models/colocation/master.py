r"""The LP over all feasible groups, with limits on how many nodes each pool gives in total.

.. math::

    \min \sum_S c_S x_S \quad\text{s.t.}\quad \sum_{S \ni k} x_S \ge 1 \ \forall k, \qquad
    l_p \le \sum_S n_{S,p}\, x_S \le h_p \ \forall p

Covering equals partitioning, because dropping a job from a group keeps it feasible and no dearer. For any prices
u_k >= 0 of jobs and d_p of pools, every plan whose totals lie in the box [l, h] costs at least

    sum_k u_k + sum_p (d_p l_p if d_p >= 0 else d_p h_p) + sum over leaders of min(0, least reduced cost they lead),

reduced cost = c_S - sum_p d_p n_{S,p} - sum_{k in S} u_k, because a plan has at most one group of each leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import highspy
import numpy as np
import numpy.typing as npt

from rollplan.models.certified import Limits
from rollplan.models.colocation.columns import Columns, Floats, Ints
from rollplan.models.colocation.problem import ColocationProblem

_PER_LEADER = 6
"""Columns of each leader added per pricing round, so that rounds are few and the LP stays small."""
_MISSING_NODE = 1e3
"""Price of leaving the box by a node, in units of the dearest node: the LP stays feasible, its prices stay finite."""


class QuietHighs(highspy.Highs):  # type: ignore[misc]  # highspy is not typed here
    """HiGHS on one thread that prints nothing: its banner comes with the first callback unless output is off by then."""

    def enableCallbacks(self) -> None:  # noqa: N802  # HiGHS calls it from its constructor
        """Switch output off before callbacks are set."""
        self.setOptionValue("output_flag", False)
        self.setOptionValue("threads", 1)
        super().enableCallbacks()


@dataclass(frozen=True, slots=True)
class Box:
    """Limits on the total nodes of each pool: low[p] <= total <= high[p] (infinite: no limit)."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, problem: ColocationProblem) -> Box:
        """Return the box of all plans."""
        return cls((0.0,) * len(problem.pools), tuple(inf if pool.nodes is None else float(pool.nodes) for pool in problem.pools))

    def cut(self, pool: int, at: int) -> tuple[Box, Box]:
        """Return the parts with total <= at and total >= at + 1."""
        high = (*self.high[:pool], min(self.high[pool], float(at)), *self.high[pool + 1 :])
        low = (*self.low[:pool], max(self.low[pool], float(at + 1)), *self.low[pool + 1 :])
        return Box(self.low, high), Box(low, self.high)

    @property
    def point(self) -> bool:
        """Whether every total is fixed."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The LP's answer in a box: a valid bound, the prices that prove it, reduced costs (m,), total nodes per pool."""

    bound: float
    job_prices: Floats
    pool_prices: Floats
    reduced_cost: Floats
    totals: Floats


def pool_use(problem: ColocationProblem, columns: Columns) -> Ints:
    """Return the nodes of each pool that each group takes, shape (m, pools)."""
    use = np.zeros((len(columns), len(problem.pools)), dtype=np.int32)
    first = columns.members[:, 0]
    rows = np.arange(len(columns))
    np.add.at(use, (rows, np.array([job.rollout_pool for job in problem.jobs])[first]), columns.rollout_nodes)
    np.add.at(use, (rows, np.array([job.train_pool for job in problem.jobs])[first]), columns.train_nodes)
    return use


class Master:
    """The LP over the columns added so far, re-solved from its last basis. Its costs are in units of the dearest node."""

    def __init__(self, problem: ColocationProblem, columns: Columns) -> None:
        self.columns, self.jobs = columns, len(problem.jobs)
        self.use = pool_use(problem, columns)
        self.prices = np.array([pool.price_per_node_h for pool in problem.pools])
        self.scale = max(float(self.prices.max()), 1e-9)
        self.added: list[int] = []
        self._in_lp = np.zeros(len(columns), dtype=bool)
        self.lp = QuietHighs()
        for _ in range(self.jobs):
            self.lp.addRow(1.0, highspy.kHighsInf, 0, [], [])
        for pool in range(len(self.prices)):
            self.lp.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, [], [])
            for sign in (1.0, -1.0):
                self.lp.addCol(_MISSING_NODE, 0.0, highspy.kHighsInf, 1, [self.jobs + pool], [sign])
        self._add(np.flatnonzero((columns.members >= 0).sum(axis=1) == 1))

    def relax(self, box: Box, limits: Limits) -> Relaxation | None:
        """Solve the LP in a box by pricing the enumerated columns until none improves; None if the limit came first."""
        for pool, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
            self.lp.changeRowBounds(self.jobs + pool, low, highspy.kHighsInf if high == inf else high)
        self.lp.setOptionValue("simplex_strategy", 1)  # dual: the basis stays dual feasible when bounds change
        best: Relaxation | None = None
        while self._solve(limits):
            found = self._priced(box)
            least, attractive = _price(self.columns.members[:, 0], found.reduced_cost, self.jobs, -1e-7 * self.scale)
            attractive = attractive[~self._in_lp[attractive]]  # one that is there is attractive by rounding only
            bound = found.bound + float(np.minimum(0.0, least).sum())
            if best is None or bound > best.bound or not len(attractive):
                best = Relaxation(bound, found.job_prices, found.pool_prices, found.reduced_cost, found.totals)
            if not len(attractive):
                break
            self._add(attractive)
            self.lp.setOptionValue("simplex_strategy", 4)  # primal: the basis stays primal feasible when columns come
        return best

    def _solve(self, limits: Limits) -> bool:
        if limits.stop():
            return False
        self.lp.setOptionValue("time_limit", self.lp.getRunTime() + limits.left_s)
        self.lp.run()
        status = self.lp.getModelStatus()
        if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
            raise ArithmeticError(f"LP over groups ended with {status}")
        return bool(status == highspy.HighsModelStatus.kOptimal)

    def _priced(self, box: Box) -> Relaxation:
        """Return what the present prices prove, before groups that are cheaper still are counted."""
        solution = self.lp.getSolution()
        row_dual = np.array(solution.row_dual) * self.scale
        job_prices = np.maximum(0.0, row_dual[: self.jobs]) + 0.0
        pool_prices = row_dual[self.jobs :] + 0.0
        pool_prices[(pool_prices < 0) & np.isinf(box.high)] = 0.0
        reduced = self.columns.cost_per_h - self.use @ pool_prices - self.columns.dual_sum(job_prices)
        ends = [price * (low if price >= 0 else high) for price, low, high in zip(pool_prices, box.low, box.high, strict=True) if price]
        taken = np.array(solution.col_value)[2 * len(self.prices) :]
        totals = taken @ self.use[self.added]
        return Relaxation(float(job_prices.sum()) + float(sum(ends)), job_prices, pool_prices, reduced, np.asarray(totals))

    def _add(self, chosen: npt.NDArray[np.integer]) -> None:
        for column in chosen:
            members = self.columns.members[column]
            pools = np.flatnonzero(self.use[column])
            rows = [*(int(k) for k in members if k >= 0), *(self.jobs + int(pool) for pool in pools)]
            values = [*(1.0 for k in members if k >= 0), *(float(self.use[column, pool]) for pool in pools)]
            self.lp.addCol(float(self.columns.cost_per_h[column]) / self.scale, 0.0, highspy.kHighsInf, len(rows), rows, values)
            self.added.append(int(column))
            self._in_lp[column] = True


def _price(leader: Ints, reduced: Floats, jobs: int, threshold: float) -> tuple[Floats, Ints]:
    """Return the least reduced cost of each leader, and the best few attractive columns of each."""
    least = np.full(jobs, np.inf)
    np.minimum.at(least, leader, reduced)
    negative = np.flatnonzero(reduced < threshold)
    order = negative[np.lexsort((reduced[negative], leader[negative]))]
    starts = np.flatnonzero(np.diff(leader[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return least, np.asarray(order[rank < _PER_LEADER], dtype=np.int32)
