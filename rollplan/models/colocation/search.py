"""Best-first branch and bound on the pools' total nodes, with the LP as bound and the MILP at integral totals."""

from __future__ import annotations

import heapq
from math import floor, inf
from typing import Literal

import numpy as np

from rollplan.models.certified import Bound, Branch, Leaf, Limits, Report, Witness, gap
from rollplan.models.colocation.choose import MilpEnd, Selection, choose
from rollplan.models.colocation.columns import Columns, Ints
from rollplan.models.colocation.master import Box, Master, Relaxation
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.colocation.solution import solution_of

_MANY_COLUMNS = 100_000
"""Most columns given to the MILP: so many take about 2 s to build."""
_FEW_COLUMNS = 2_500
"""Columns of the MILPs that only look for a good plan, and up to which one MILP is better than one for each total."""
_FIRST_NODES = 20
"""Search nodes of the first of them: HiGHS finds its good plans at the root."""
_MAX_BOXES = 200
"""Boxes of totals looked at; the certificate carries one set of prices for each."""
_INTEGRAL = 1e-6


Ended = MilpEnd | Literal["search limit"]
"""Why a search ended. `search limit`: a limit of its own, on boxes or columns, that no option raises."""


class _Node:
    """A box of totals: its LP, the bound claimed for it, and where it was cut in two."""

    def __init__(self, number: int, box: Box, relaxed: Relaxation, claimed: float) -> None:
        self.number, self.box, self.relaxed, self.claimed = number, box, relaxed, claimed
        self.pool = self.at = -1
        self.children: tuple[_Node, _Node] | None = None


class Search:
    """A search that can be stopped at any time; `best`, `bound()` and `witness()` hold what is known so far."""

    def __init__(
        self,
        problem: ColocationProblem,
        columns: Columns,
        limits: Limits,
        seed: int,
        best: ColocationSolution | None,
        fluid: float,
        report: Report,
    ) -> None:
        self.best = best
        self._problem, self._columns, self._limits, self._seed = problem, columns, limits, seed
        self._fluid, self._report = fluid, report
        self._master = Master(problem, columns)
        self._nodes_left = limits.node_limit
        self._root: _Node | None = None
        self._heap: list[tuple[float, int, _Node]] = []
        self._boxes = 0
        self._searched = False
        self._alone = problem.solo_cost_per_h()

    def prove(self) -> Ended:
        """Search until the plan is proven or a limit strikes; all groups are among the columns. Return why it ended."""
        self.branch_on_totals()
        if self._root is None or self._good_enough() or not self._heap:
            return self._limits.stop() or ("optimal" if self.best else "infeasible")
        # A second time: with a good plan known, the columns that matter may be few enough for a proof.
        for nodes in (_FIRST_NODES, self._limits.node_limit):
            if self._good_enough():
                return "optimal"
            if self._search_few_columns(min(nodes, self._nodes_left)):
                return "optimal" if self.best else "infeasible"
        while self._heap and not self._good_enough():
            if struck := self._limits.stop():
                return struck
            node = self._heap[0][2]
            if node.box.point:
                heapq.heappop(self._heap)
                undecided = self._settle(node)
                if undecided is not None:
                    return undecided
            elif not self._cut(node):
                return self._limits.stop() or "search limit"
        return "optimal" if self.best else "infeasible"

    def improve(self) -> Ended:
        """Look for a better plan among columns that are not all groups; the LP proves nothing then."""
        half = self._limits.part(0.5)
        relaxed = self._master.relax(Box.of(self._problem), half)
        cut_short = half.stop()
        if relaxed is None or self._limits.stop():
            return self._limits.stop() or "time limit"
        kept, _ = self._worth_keeping(relaxed, _MANY_COLUMNS // 2)
        found = self._choose(kept, Box.of(self._problem), self._nodes_left)
        # "Infeasible" says nothing either: the groups that were left out might fit.
        return cut_short or ("search limit" if found.stopped in ("infeasible", "optimal") else found.stopped)

    def branch_on_totals(self) -> None:
        """Cut boxes at fractional totals until the LP of the cheapest one has integral totals: LPs only."""
        relaxed = self._master.relax(Box.of(self._problem), self._limits)
        if relaxed is None:
            return
        self._root = self._open(Box.of(self._problem), relaxed, self._fluid)
        while self._heap and not self._good_enough() and self._fractional(self._heap[0][2]) is not None:
            if self._limits.stop() or not self._cut(self._heap[0][2]):
                return

    def bound(self) -> Bound:
        """Return the best bound proven so far."""
        lowest = self._lowest()
        if self._root is None or lowest <= self._fluid:
            return Bound(self._fluid, "fluid")
        proven_by_lp = not self._searched or (self.best is not None and self._lowest_by_lp() >= lowest)
        return Bound(lowest, "LP relaxation" if proven_by_lp else "branch and bound")

    def witness(self) -> Witness | None:
        """Return the prices that prove the LP part of the bound, None if the fluid bound is better."""
        return None if self._root is None or self.bound().proof == "fluid" else _witness(self._root)

    def witness_bound(self) -> float:
        """Return what the witness proves, without one the fluid bound."""
        return self._fluid if self.witness() is None else min(self._lowest_by_lp(), self.bound().value)

    def _open(self, box: Box, relaxed: Relaxation, at_least: float) -> _Node:
        self._boxes += 1
        node = _Node(self._boxes, box, relaxed, max(at_least, self._problem.next_cost(relaxed.bound)))
        # On the fewest nodes no plan costs more than every job alone: a box whose bound is higher holds no plan.
        if relaxed.bound <= self._alone * (1 + 1e-6):
            self._push(node)
        return node

    def _push(self, node: _Node) -> None:
        heapq.heappush(self._heap, (node.claimed, node.number, node))

    def _cut(self, node: _Node) -> bool:
        """Cut the cheapest box at a fractional total, or around its integral totals; False if a limit forbids it."""
        where = self._fractional(node)
        pool, at = where if where is not None else self._around(node)
        boxes = node.box.cut(pool, at)
        relaxed = [self._master.relax(box, self._limits) if self._boxes < _MAX_BOXES else None for box in boxes]
        below, above = relaxed
        if below is None or above is None:
            return False
        heapq.heappop(self._heap)
        node.pool, node.at = pool, at
        node.children = (self._open(boxes[0], below, node.claimed), self._open(boxes[1], above, node.claimed))
        self._tell()
        return True

    def _fractional(self, node: _Node) -> tuple[int, int] | None:
        """Return the dearest pool whose LP total is fractional, and the whole number below; None if there is none."""
        totals = node.relaxed.totals
        for pool in sorted(range(len(totals)), key=lambda p: -self._problem.pools[p].price_per_node_h):
            # Outside its limits lies a total that the LP cannot keep: there is nothing to cut there.
            inside = node.box.low[pool] < totals[pool] < node.box.high[pool]
            if inside and abs(totals[pool] - round(totals[pool])) > _INTEGRAL:
                return pool, floor(totals[pool])
        return None

    def _around(self, node: _Node) -> tuple[int, int]:
        """Return a cut that brings the box nearer to the single point of its LP totals."""
        for pool, (low, high) in enumerate(zip(node.box.low, node.box.high, strict=True)):
            total = round(float(np.clip(node.relaxed.totals[pool], low, high)))
            if low < total:
                return pool, total - 1
            if total < high:
                return pool, total
        raise AssertionError("a point cannot be cut")

    def _search_few_columns(self, nodes: int) -> bool:
        """Search the cheapest columns for a good plan; return whether that settled everything."""
        assert self._root is not None
        kept, cut = self._worth_keeping(self._root.relaxed, _FEW_COLUMNS)
        if cut < inf and nodes > _FIRST_NODES:
            return False
        found = self._choose(kept, Box.of(self._problem), nodes)
        if cut < inf or found.stopped not in ("optimal", "infeasible"):
            return False
        self._searched = True
        least = min(self._problem.next_cost(found.bound), self.best.cost_per_h if self.best else inf)
        self._heap = [(max(claimed, least), number, node) for claimed, number, node in self._heap]
        heapq.heapify(self._heap)
        return True

    def _settle(self, node: _Node) -> Ended | None:
        """Decide by MILP whether a plan has at most these totals; return why it was not decided, if so."""
        self._searched = True
        relaxed = self._master.relax(Box((0.0,) * len(node.box.high), node.box.high), self._limits) or node.relaxed
        for most in (_FEW_COLUMNS, _MANY_COLUMNS):
            kept, cut = self._worth_keeping(relaxed, most)
            if most == _FEW_COLUMNS and cut < inf and len(self._worth_keeping(relaxed, _MANY_COLUMNS)[0]) < 4 * most:
                continue  # a refutation of some of them would not be much cheaper than one of all
            found = self._choose(kept, node.box, self._nodes_left)
            ended = found.stopped in ("optimal", "infeasible")
            if ended and (found.chosen is not None or cut == inf):
                self._tell()
                return None
            if self._limits.stop() or self._nodes_left <= 1:
                break
        self._push(node)
        return self._limits.stop() or ("node limit" if self._nodes_left <= 1 else "search limit")

    def _choose(self, kept: Ints, box: Box, nodes: int) -> Selection:
        """Run the MILP and keep what it finds."""
        found = choose(self._problem, self._columns, kept, box, self._limits, nodes, self._seed, self._progress)
        self._nodes_left = max(1, self._nodes_left - found.nodes)
        if found.chosen is not None:
            groups = ([int(k) for k in self._columns.members[column] if k >= 0] for column in found.chosen)
            plan = solution_of(self._problem, groups)
            if self.best is None or plan.cost_per_h < self.best.cost_per_h - 1e-9:
                self.best = plan
        return found

    def _worth_keeping(self, relaxed: Relaxation, most: int) -> tuple[Ints, float]:
        """Return the columns that can be part of a better plan, and the reduced cost beyond which any were left out."""
        reduced = relaxed.reduced_cost
        cut = inf
        kept = np.arange(len(reduced))
        if self.best is not None:
            kept = np.flatnonzero(reduced <= self.best.cost_per_h - relaxed.bound + 1e-6)
        if len(kept) > most:
            cut = float(np.partition(reduced[kept], most)[most])
            kept = kept[reduced[kept] < cut]
        single = np.flatnonzero((self._columns.members >= 0).sum(axis=1) == 1)
        return np.union1d(kept, single).astype(np.int32), cut

    def _good_enough(self) -> bool:
        allowed = max(self._limits.target_gap, 1e-9)
        return self.best is not None and gap(self.best.cost_per_h, self._lowest()) <= allowed

    def _lowest(self) -> float:
        """Return the least cost that no box excludes."""
        open_boxes = self._heap[0][0] if self._heap else inf
        return min(open_boxes, self.best.cost_per_h) if self.best is not None else open_boxes

    def _lowest_by_lp(self) -> float:
        """Return what the LPs alone prove."""
        assert self._root is not None
        return min(self._problem.next_cost(leaf.relaxed.bound) for leaf in _leaves(self._root))

    def _progress(self, value: float, bound: float | None) -> None:
        """Report from inside a MILP; its own bound is that of one box or of some columns only, so it is not shown."""
        known = self.best.cost_per_h if self.best is not None else inf
        self._report(min(value, known), self._shown_bound(min(value, known)))

    def _tell(self) -> None:
        if self.best is not None:
            self._report(self.best.cost_per_h, self._shown_bound(self.best.cost_per_h))

    def _shown_bound(self, value: float) -> float:
        return min(value, max(self._fluid, self._lowest() if self._heap else self._fluid))


def _leaves(node: _Node) -> list[_Node]:
    return [node] if node.children is None else [leaf for child in node.children for leaf in _leaves(child)]


def _witness(node: _Node) -> Witness:
    if node.children is None:
        return Leaf(tuple(map(float, node.relaxed.job_prices)), tuple(map(float, node.relaxed.pool_prices)))
    below, above = node.children
    return Branch(node.pool, node.at, _witness(below), _witness(above))
