"""The MILP over groups: choose columns that hold every job once."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from threading import Thread
from time import monotonic
from typing import Literal

import highspy
import numpy as np
import pulp

from rollplan.models.certified import Limits, Report
from rollplan.models.colocation.columns import Columns, Ints
from rollplan.models.colocation.master import Box, QuietHighs, pool_use
from rollplan.models.colocation.problem import ColocationProblem

MilpEnd = Literal["optimal", "infeasible", "node limit", "time limit", "interrupted"]
_PATIENCE_S = 3.0
"""Seconds that the solver has to stop once it was asked to."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns chosen (None: none found), a bound on the best choice among those seen, search nodes used, why it ended."""

    chosen: tuple[int, ...] | None
    bound: float
    nodes: int
    stopped: MilpEnd


def choose(
    problem: ColocationProblem, columns: Columns, kept: Ints, box: Box, limits: Limits, node_limit: int, seed: int, report: Report
) -> Selection:
    """Choose groups among the columns `kept`, with total nodes in `box` (at a point: at most those), at least cost (PuLP, HiGHS).

    No start is passed, although a plan is known: with one, HiGHS 1.16 called a plan of 414.08 $/h optimal where 371.84
    exists, because it compared the start's objective with others from which presolve had taken a constant.
    """
    unit = problem.cost_unit()
    scale = unit or max(pool.price_per_node_h for pool in problem.pools) or 1.0
    use = pool_use(problem, columns)
    model = pulp.LpProblem("co_location", pulp.LpMinimize)
    take = [model.add_variable(f"x{i}", 0, 1, cat=pulp.LpInteger) for i in range(len(kept))]
    # Whole multiples of the unit: the solver sees integer costs and rounds its bounds up.
    cost = [round(c) if unit else float(c) for c in columns.cost_per_h[kept] / scale]
    model += pulp.LpAffineExpression(zip(take, cost, strict=True))
    groups_of: list[list[int]] = [[] for _ in problem.jobs]
    for i, column in enumerate(kept):
        for k in columns.members[column]:
            if k >= 0:
                groups_of[k].append(i)
    for k, groups in enumerate(groups_of):
        model += pulp.LpAffineExpression((take[i], 1) for i in groups) == 1, f"job{k}"
    for pool, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
        total = pulp.LpAffineExpression((take[i], int(use[column, pool])) for i, column in enumerate(kept) if use[column, pool])
        if isfinite(high):
            model += total <= high, f"high{pool}"
        # At a point a plan with fewer nodes would do as well, and HiGHS refutes upper limits far sooner than equations.
        if low > 0 and not box.point:
            model += total >= low, f"low{pool}"
    return _AnytimeHighs(limits, node_limit, seed, scale, report).select(model, take, cost, kept)


class _AnytimeHighs(pulp.HiGHS):  # type: ignore[misc]  # PuLP is not typed here
    """PuLP's HiGHS with a stop from outside, and the solver's own status and bound.

    PuLP calls an incumbent at the time limit "Optimal" and does not know the status of the node limit, so the answer
    is read from HiGHS itself.
    """

    def __init__(self, limits: Limits, node_limit: int, seed: int, scale: float, report: Report) -> None:
        super().__init__(msg=False)
        self._options = {
            "mip_rel_gap": limits.target_gap,
            "time_limit": max(0.01, limits.left_s),
            "mip_max_nodes": max(1, node_limit),
            "random_seed": seed % 2**31,
            "mip_feasibility_tolerance": 1e-9,
        }
        self._limits, self._scale, self._report = limits, scale, report
        self._best: tuple[float, float] | None = None
        self._stopped: Literal["time limit", "interrupted"] | None = None

    def select(self, model: pulp.LpProblem, take: list[pulp.LpVariable], cost: list[float], kept: Ints) -> Selection:
        """Solve the model and translate the answer; take[i] stands for column kept[i] and costs cost[i] * scale."""
        solver = model.solverModel = QuietHighs()
        for name, setting in self._options.items():
            solver.setOptionValue(name, setting)
        self.buildSolverModel(model)
        solver.setCallback(self._watch, None)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)
        if not self._run(solver):
            return Selection(None, -inf, 0, self._limits.stop() or "time limit")
        status, info = solver.getModelStatus(), solver.getInfo()
        stopped = self._stopped or _STOPPED.get(status)
        if stopped is None:
            raise ArithmeticError(f"MILP over groups ended with {status}")
        nodes = max(0, int(info.mip_node_count))
        bound = float(info.mip_dual_bound) * self._scale
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Selection(None, inf if stopped == "infeasible" else bound, nodes, stopped)
        chosen = np.flatnonzero(np.array(solver.getSolution().col_value)[[variable.index for variable in take]] > 0.5)
        value = sum(cost[i] for i in chosen)
        if abs(value - info.objective_function_value) > 1e-6 * max(1.0, abs(value)):
            bound = -inf  # the solver does not know what its own answer costs: its bound is worth nothing
        return Selection(tuple(map(int, kept[chosen])), bound, nodes, stopped)

    def _run(self, solver: highspy.Highs) -> bool:
        """Run the solver beside the main thread, so that signals are heard; False if it did not stop when asked to.

        HiGHS asks its callback rarely inside a sub-MIP. A solver that is left behind ends at its next question.
        """
        thread = Thread(target=solver.run, daemon=True)
        thread.start()
        asked: float | None = None
        while thread.is_alive():
            thread.join(0.02)
            if asked is None and self._limits.stop():
                asked = monotonic()
            if asked is not None and monotonic() - asked > _PATIENCE_S:
                return False
        return True

    def _watch(self, kind: object, message: str, data_out: object, data_in: object, user: object) -> None:
        self._stopped = self._limits.stop()
        if self._stopped:
            if data_in is not None:
                data_in.user_interrupt = True  # type: ignore[attr-defined]  # highspy's callback data is not typed
            return  # whoever waited may be gone: say nothing more
        best = (getattr(data_out, "mip_primal_bound", inf), getattr(data_out, "mip_dual_bound", -inf))
        if best != self._best and isfinite(best[0]):
            self._best = best
            self._report(best[0] * self._scale, best[1] * self._scale)


_STOPPED: dict[highspy.HighsModelStatus, MilpEnd] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kSolutionLimit: "node limit",
    highspy.HighsModelStatus.kTimeLimit: "time limit",
    highspy.HighsModelStatus.kInterrupt: "interrupted",
}
