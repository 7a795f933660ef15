r"""Set partitioning over feasible groups: the LP with its duals, and the MILP.

.. math::

    \min \sum_S c_S x_S \quad\text{s.t.}\quad \sum_{S \ni k} x_S \ge 1 \ \forall k, \qquad
    \sum_S n_{S,p}\, x_S \le N_p \ \forall \text{pools } p \text{ with a limit}

Covering equals partitioning, because dropping a job from a group keeps it feasible and no dearer. LP duals u >= 0 and
s >= 0 give, for any feasible group, reduced cost c_S + sum_p s_p n_{S,p} - sum_{k in S} u_k, and the bound
sum_k u_k - sum_p s_p N_p + sum over leaders of min(0, least reduced cost of the groups they lead): at most one group of
a partition has a given leader.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt
import pulp

from rollplan.models.certified import Limits, Report
from rollplan.models.colocation.columns import Columns, Floats, Ints
from rollplan.models.colocation.problem import ColocationProblem

_PER_LEADER = 6
"""Columns of each leader added per pricing round; more rounds or more columns were both slower at 100 to 300 jobs."""
_SLACK_PRICE = 1e3
"""Price of a missing node in the LP, in units of the dearest node: the LP stays feasible, the duals stay finite."""


class QuietHighs(highspy.Highs):  # type: ignore[misc]  # highspy is not typed here
    """HiGHS on one thread that prints nothing: its banner comes with the first callback unless output is off by then."""

    def enableCallbacks(self) -> None:  # noqa: N802  # HiGHS calls it from its constructor
        """Switch output off before callbacks are set."""
        self.setOptionValue("output_flag", False)
        self.setOptionValue("threads", 1)
        super().enableCallbacks()


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The LP's answer: a valid bound, its witness, and the reduced cost of every column."""

    bound: float
    duals: Floats
    capacity_duals: Floats
    reduced_cost: Floats
    finished: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns chosen by the MILP (None: none found), and its bound on the best choice among the columns it saw."""

    chosen: tuple[int, ...] | None
    bound: float
    proven: bool
    stopped: str


def pool_use(problem: ColocationProblem, columns: Columns) -> Ints:
    """Return the nodes of each pool that each group takes, shape (m, pools)."""
    use = np.zeros((len(columns), len(problem.pools)), dtype=np.int32)
    first = columns.members[:, 0]
    rollout_pool = np.array([job.rollout_pool for job in problem.jobs])[first]
    train_pool = np.array([job.train_pool for job in problem.jobs])[first]
    rows = np.arange(len(columns))
    use[rows, rollout_pool] += columns.rollout_nodes
    use[rows, train_pool] += columns.train_nodes
    return use


def relax(problem: ColocationProblem, columns: Columns, limits: Limits) -> Relaxation:
    """Solve the LP by pricing the enumerated columns until none improves; every round's bound is valid, the best is kept."""
    master = _Master(problem, columns, pool_use(problem, columns))
    master.add(np.flatnonzero((columns.members >= 0).sum(axis=1) == 1))
    best = Relaxation(-np.inf, np.zeros(len(problem.jobs)), np.zeros(len(problem.pools)), columns.cost_per_h, False)
    while (prices := master.solve(limits)) is not None:
        duals, capacity_duals = prices
        reduced = columns.cost_per_h + master.use @ capacity_duals - columns.dual_sum(duals)
        least, attractive = _price(columns.members[:, 0], reduced, len(problem.jobs), -1e-7 * master.scale)
        bound = float(duals.sum() - capacity_duals @ master.capacity + np.minimum(0.0, least).sum())
        finished = not len(attractive)
        if bound > best.bound or finished:
            best = Relaxation(bound, duals, capacity_duals, reduced, finished)
        if finished:
            break
        master.add(attractive)
    return best


def _price(leader: Ints, reduced: Floats, jobs: int, threshold: float) -> tuple[Floats, Ints]:
    """Return the least reduced cost of each leader, and the best few attractive columns of each."""
    least = np.full(jobs, np.inf)
    np.minimum.at(least, leader, reduced)
    negative = np.flatnonzero(reduced < threshold)
    order = negative[np.lexsort((reduced[negative], leader[negative]))]
    starts = np.flatnonzero(np.diff(leader[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return least, np.asarray(order[rank < _PER_LEADER], dtype=np.int32)


class _Master:
    """The LP over the columns added so far, re-solved from its last basis."""

    def __init__(self, problem: ColocationProblem, columns: Columns, use: Ints) -> None:
        self.columns, self.use, self.jobs = columns, use, len(problem.jobs)
        self.limited = [p for p, pool in enumerate(problem.pools) if pool.nodes is not None]
        self.capacity = np.array([float(pool.nodes or 0) for pool in problem.pools])
        self.scale = max([pool.price_per_node_h for pool in problem.pools] + [1e-9])
        self.lp = QuietHighs()
        self.lp.setOptionValue("simplex_strategy", 4)  # primal: adding columns keeps the basis primal feasible
        for _ in range(self.jobs):
            self.lp.addRow(1.0, highspy.kHighsInf, 0, [], [])
        for pool in self.limited:
            self.lp.addRow(-highspy.kHighsInf, self.capacity[pool], 0, [], [])
        for row in range(self.jobs, self.jobs + len(self.limited)):
            self.lp.addCol(_SLACK_PRICE * self.scale, 0.0, highspy.kHighsInf, 1, [row], [-1.0])

    def add(self, chosen: npt.NDArray[np.integer]) -> None:
        for column in chosen:
            members = self.columns.members[column]
            rows = [int(k) for k in members if k >= 0] + [self.jobs + i for i, p in enumerate(self.limited) if self.use[column, p]]
            values = [1.0] * int((members >= 0).sum()) + [float(self.use[column, p]) for p in self.limited if self.use[column, p]]
            self.lp.addCol(float(self.columns.cost_per_h[column]), 0.0, highspy.kHighsInf, len(rows), rows, values)

    def solve(self, limits: Limits) -> tuple[Floats, Floats] | None:
        """Return the duals of jobs and pools, None if the limit came first."""
        if limits.stop():
            return None
        self.lp.setOptionValue("time_limit", self.lp.getRunTime() + limits.left_s)
        self.lp.run()
        status = self.lp.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(f"LP over groups ended with {status}")
        row_dual = np.array(self.lp.getSolution().row_dual)
        capacity_duals = np.zeros(len(self.capacity))
        capacity_duals[self.limited] = np.maximum(0.0, -row_dual[self.jobs :])
        return np.maximum(0.0, row_dual[: self.jobs]), capacity_duals


def select(
    problem: ColocationProblem, columns: Columns, kept: Ints, limits: Limits, seed: int, start: set[int] | None, report: Report
) -> Selection:
    """Choose groups among the columns `kept` by MILP; `start` is a known choice."""
    unit = problem.cost_unit() or max(pool.price_per_node_h for pool in problem.pools) or 1.0
    use = pool_use(problem, columns)
    model = pulp.LpProblem("co_location", pulp.LpMinimize)
    take = [pulp.LpVariable(f"x{i}", cat=pulp.LpBinary) for i in range(len(kept))]
    # Whole multiples of the unit: the solver sees integer costs and rounds its bounds up.
    exact_units = problem.cost_unit() is not None
    cost = [round(c) if exact_units else float(c) for c in columns.cost_per_h[kept] / unit]
    model += pulp.LpAffineExpression(zip(take, cost, strict=True))
    groups_of: list[list[int]] = [[] for _ in problem.jobs]
    for i, column in enumerate(kept):
        for k in columns.members[column]:
            if k >= 0:
                groups_of[k].append(i)
    for k, groups in enumerate(groups_of):
        model += pulp.LpAffineExpression((take[i], 1) for i in groups) == 1, f"job{k}"
    for p, pool in enumerate(problem.pools):
        if pool.nodes is not None:
            model += pulp.LpAffineExpression((take[i], int(use[c, p])) for i, c in enumerate(kept) if use[c, p]) <= pool.nodes, f"pool{p}"
    solver = _AnytimeHighs(limits, seed, unit, report)
    first = None if start is None else [1.0 if int(column) in start else 0.0 for column in kept]
    return solver.select(model, take, kept, first)


class _AnytimeHighs(pulp.HiGHS):  # type: ignore[misc]  # PuLP is not typed here
    """PuLP's HiGHS with a start, a stop from outside, and the solver's own status and bound.

    PuLP calls an incumbent at the time limit "Optimal" and does not know the status of the node limit, so the answer
    is read from HiGHS itself.
    """

    def __init__(self, limits: Limits, seed: int, unit: float, report: Report) -> None:
        super().__init__(msg=False)
        self._options = {
            "mip_rel_gap": limits.target_gap,
            "time_limit": max(0.01, limits.left_s),
            "mip_max_nodes": limits.node_limit,
            "random_seed": seed % 2**31,
            "mip_feasibility_tolerance": 1e-9,
        }
        self._limits, self._unit, self._report = limits, unit, report
        self._best: tuple[float, float] | None = None
        self._stopped: str | None = None

    def select(self, model: pulp.LpProblem, take: list[pulp.LpVariable], kept: Ints, start: list[float] | None) -> Selection:
        """Solve the model and translate the answer; take[i] stands for column kept[i]."""
        solver = model.solverModel = QuietHighs()
        for name, setting in self._options.items():
            solver.setOptionValue(name, setting)
        self.buildSolverModel(model)
        solver.setCallback(self._watch, None)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)
        position = [variable.index for variable in take]
        if start is not None:
            solution = highspy.HighsSolution()
            values = np.zeros(len(take))
            values[position] = start
            solution.col_value = list(values)
            solver.setSolution(solution)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        stopped = self._stopped or _STOPPED.get(status)
        if stopped is None:
            raise ArithmeticError(f"MILP over groups ended with {status}")
        proven = stopped in ("optimal", "infeasible")
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Selection(None, float(info.mip_dual_bound) * self._unit, proven, stopped)
        value = np.array(solver.getSolution().col_value)[position]
        return Selection(tuple(map(int, kept[value > 0.5])), float(info.mip_dual_bound) * self._unit, proven, stopped)

    def _watch(self, kind: object, message: str, data_out: object, data_in: object, user: object) -> None:
        best = (getattr(data_out, "mip_primal_bound", np.inf), getattr(data_out, "mip_dual_bound", -np.inf))
        if best != self._best and np.isfinite(best[0]):
            self._best = best
            self._report(best[0] * self._unit, best[1] * self._unit)
        self._stopped = self._limits.stop()
        if self._stopped and data_in is not None:
            data_in.user_interrupt = True  # type: ignore[attr-defined]


_STOPPED = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kSolutionLimit: "node limit",
    highspy.HighsModelStatus.kTimeLimit: "time limit",
    highspy.HighsModelStatus.kInterrupt: "interrupted",
}
