"""Best-first branch and price: parts the plans by measures, bounds each part by the LP, and keeps the tree as the proof."""

from __future__ import annotations

import heapq
from math import inf

import numpy as np

from rollplan.models.certified import Branch, Limits, Measure, Stopped, Together, Witness
from rollplan.models.colocation.plans.incumbent import Incumbent, Members
from rollplan.models.colocation.pricing.block import Ints
from rollplan.models.colocation.pricing.measures import Box
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.colocation.tree.choice import fractional_counts, fractional_pair, total_to_part
from rollplan.models.colocation.tree.cuts import violated
from rollplan.models.colocation.tree.dive import dive
from rollplan.models.colocation.tree.relax import Relaxation, Relaxed

_PEEKED, _STEPS = 8, 60
"""Measures looked at before one is branched on, and simplex steps of a look."""
_ROOT_ROUNDS, _ROUNDS = 8, 1
"""Rounds of cuts at the root and at other nodes."""
_CUTS, _CUTS_PER_JOB = 40, 4
_DIVED = 24
"""Cheapest parts from whose LPs plans are sought."""
_INTEGRAL = 1e-6
_REL = 1e-9


class _Node:
    """A part of the plans: its LP, the bound claimed for it in $/h, and how it was parted."""

    def __init__(self, number: int, box: Box, relaxed: Relaxed, claimed: float) -> None:
        self.number, self.box, self.relaxed, self.claimed = number, box, relaxed, claimed
        # What a witness can write: corrections that come later replace `relaxed` only.
        self.written = relaxed if relaxed.plain else None
        self.measure: Measure | None = None
        self.at = 0
        self.children: tuple[_Node, _Node] | None = None


class Search:
    """A tree that can be stopped at any time; `bound()` and `witness()` may be asked from another thread while it grows.

    nodes: LPs of parts solved. prices: of jobs, $/h, in the last LP of all plans without cuts.
    """

    def __init__(self, problem: ColocationProblem, relaxation: Relaxation, incumbent: Incumbent, limits: Limits, floor: float) -> None:
        self.root: _Node | None = None
        self.nodes = 0
        self.prices: tuple[float, ...] | None = None
        self._problem, self._relaxation, self._incumbent, self._limits, self._floor = problem, relaxation, incumbent, limits, floor
        self._heap: list[tuple[float, int, _Node]] = []
        self._alone = problem.solo_cost_per_h()

    def open_root(self, cuts: bool = True) -> Relaxed | None:
        """Solve the LP of all plans, and add cuts; None if it was stopped before it was solved to the end."""
        box = Box(self._problem)
        relaxed = self._relaxation.solve(box, self._limits, self._cutoff(), lambda better: self._proven_for_all(box, better))
        if relaxed is None or not (relaxed.converged or relaxed.bound >= self._cutoff()):
            return None
        self.prices = relaxed.prices.jobs
        relaxed = self._tightened(box, relaxed, _ROOT_ROUNDS if cuts else 0)
        self.root = self._node(box, relaxed, self._floor)
        self._tell()
        return relaxed

    def first_bound(self, factor: float) -> None:
        """Prove a bound for all plans by the LP's prices times a factor, before the LP is solved to the end."""
        box = Box(self._problem)
        relaxed = self._relaxation.scaled(box, self._limits, factor)
        if relaxed is not None:
            self._proven_for_all(box, relaxed)

    def dive(self, number: int = 0) -> list[Members]:
        """Return the partition of a dive from the LP of an open part; what it leaves over is alone, so that it may be dear.

        number: of the part, counted from the cheapest, round and round.
        """
        cheapest = sorted(self._heap)[:_DIVED]
        box = cheapest[number % len(cheapest)][2].box if cheapest else Box(self._problem)
        return self._partition(dive(self._relaxation.master, box, self._limits))

    def _proven_for_all(self, box: Box, relaxed: Relaxed) -> None:
        """Keep and report a first bound, before the LP is solved to the end."""
        claimed = max(self._floor, self._problem.next_cost(relaxed.bound * self._relaxation.unit))
        if self.root is None or claimed > self.root.claimed:
            self.root = _Node(0, box, relaxed, claimed)
            self._incumbent.tell(claimed)

    def collect(self, budget: int, rounds: int) -> None:
        """Add groups to the LP of all plans by searches of limited work, for so many rounds at most."""
        few = len(self._problem.jobs) // 20
        prices = self._relaxation.collect(Box(self._problem), self._limits, budget, few, rounds)
        self.prices = self.prices if prices is None else prices

    def near_groups(self, share: float) -> list[Members]:
        """Return the groups in the LP of reduced cost below a share of the dearest node's price, at the prices of the first LP."""
        if self.prices is None:
            return []
        master, jobs = self._relaxation.master, np.array(self.prices) / self._relaxation.unit
        near: list[Members] = []
        for number, block in enumerate(master.blocks):
            here = np.flatnonzero(master.block_of == number)
            paid = np.append(jobs[block.index], 0.0)[master.members[here]].sum(axis=1)
            reduced = block.base()[master.train_class[here], master.nodes[here]] - paid
            near += [self._named(column) for column in here[reduced < share * max(block.rollout_price, block.train_price)]]
        return near

    def _tightened(self, box: Box, relaxed: Relaxed, rounds: int) -> Relaxed:
        """Add cuts that the LP of a box breaks, and solve it again, up to so many times."""
        for _ in range(rounds):
            if relaxed.bound >= self._cutoff() or not relaxed.converged:
                break
            fresh = violated(self._relaxation.master, relaxed.taken, _CUTS, _CUTS_PER_JOB)
            if not sum(self._relaxation.master.cut(cut) for cut in fresh):
                break
            again = self._relaxation.solve(box, self._limits, self._cutoff())
            if again is None or not (again.converged or again.bound >= self._cutoff()):
                break
            relaxed = again
        return relaxed

    def grow(self, nodes: int) -> Stopped | None:
        """Part the cheapest part so many times; return why there is nothing left to do, None if there is."""
        end = self.nodes + nodes
        while self._heap:
            if self.good_enough():
                return "optimal"
            if struck := self._limits.stop():
                return struck
            if self.nodes >= self._limits.node_limit:
                return "node limit"
            if self.nodes >= end:
                return None
            node = self._heap[0][2]
            if self._whole(node):
                if (stopped := self._settle(node)) is not None:
                    return stopped
            elif not self._part(node):
                return self._limits.stop() or "search limit"
            self._tell()
        return "optimal"

    def good_enough(self) -> bool:
        """Whether the plan is as near to the bound as was asked for."""
        plan = self._incumbent.plan
        return plan is not None and plan.cost_per_h <= self.lowest() * (1 + max(self._limits.target_gap, _REL))

    def lowest(self) -> float:
        """Return the least cost, $/h, that no part excludes."""
        if self.nodes == 0:
            return self.bound()
        lowest = self._heap[0][0] if self._heap else inf
        plan = self._incumbent.plan
        return lowest if plan is None else min(lowest, plan.cost_per_h)

    def bound(self) -> float:
        """Return the least of what the tree's parts claim, $/h."""
        return self._floor if self.root is None else max(self._floor, _claimed(self.root))

    def witness(self) -> tuple[Witness | None, float]:
        """Return the prices that prove the bound, and what they prove; None and the floor if they prove no more than that."""
        if self.root is None:
            return None, self._floor
        enough = self.bound()
        if self._incumbent.plan is not None:
            enough = min(enough, self._incumbent.plan.cost_per_h)
        witness, value = self._proof(self.root, enough)
        return (witness, value) if value > self._floor else (None, self._floor)

    def _proof(self, node: _Node, enough: float) -> tuple[Witness | None, float]:
        """Return what proves `enough`, or the most there is, with the fewest parts; corrected costs are no part of a witness."""
        written = node.written
        own = -inf if written is None else self._problem.next_cost(written.bound * self._relaxation.unit)
        leaf = None if written is None else written.prices
        if node.children is None or own >= enough:
            return leaf, own
        below, above = (self._proof(child, enough) for child in node.children)
        value = min(below[1], above[1])
        if node.measure is None or below[0] is None or above[0] is None or value <= own:
            return leaf, own
        return Branch(node.measure, node.at, below[0], above[0], leaf if node is self.root else None), value

    def _cutoff(self) -> float:
        """Return the bound, in units, from which on a part holds nothing that is wanted."""
        plan, unit = self._incumbent.plan, self._relaxation.unit
        value = self._alone + unit if plan is None else plan.cost_per_h
        step = 1.0 - 1e-5 if self._problem.cost_unit() is not None else value / unit * _REL
        return value / unit - step

    def _node(self, box: Box, relaxed: Relaxed, at_least: float) -> _Node:
        claimed = max(at_least, self._problem.next_cost(relaxed.bound * self._relaxation.unit))
        # On the fewest nodes no plan costs more than every job alone: a part whose bound is higher holds no plan.
        claimed = claimed if claimed <= self._alone * (1 + 1e-6) else inf
        self.nodes += 1
        self._round(relaxed)
        node = _Node(self.nodes, box, relaxed, claimed)
        if relaxed.bound < self._cutoff() and claimed < inf:
            heapq.heappush(self._heap, (node.claimed, -node.number, node))
        return node

    def _round(self, relaxed: Relaxed) -> None:
        """Offer the plan that takes the LP's groups in order of their shares, each without the jobs that others have."""
        taken = relaxed.taken
        columns = np.flatnonzero(taken > _INTEGRAL)
        self._incumbent.offer(self._partition(columns[np.argsort(-taken[columns], kind="stable")]))

    def _whole(self, node: _Node) -> bool:
        """Whether the LP takes whole groups only."""
        taken = node.relaxed.taken
        return bool(np.abs(taken - np.round(taken)).max(initial=0.0) <= _INTEGRAL)

    def _settle(self, node: _Node) -> Stopped | None:
        """Offer the plan of an integral LP; where its groups need more nodes than were counted, solve the LP again."""
        master = self._relaxation.master
        columns = np.flatnonzero(node.relaxed.taken > 0.5)
        self._incumbent.offer(self._partition(columns))
        dearer, unknown = 0, False
        for column in columns:
            group, proven = self._incumbent.group(self._named(column))
            nodes = None if group is None else group.rollout_nodes
            if proven and nodes != int(master.nodes[column]):
                dearer += self._relaxation.correct(int(column), nodes)
            unknown |= not proven and nodes != int(master.nodes[column])
        if dearer:
            again = self._relaxation.solve(node.box, self._limits, self._cutoff())
            if again is None:
                return self._limits.stop() or "search limit"
            heapq.heappop(self._heap)
            node.relaxed, node.claimed = again, max(node.claimed, self._problem.next_cost(again.bound * self._relaxation.unit))
            if again.bound < self._cutoff():
                heapq.heappush(self._heap, (node.claimed, -node.number, node))
            return None
        if unknown or not columns.size:
            return "search limit"
        heapq.heappop(self._heap)
        return None

    def _partition(self, columns: Ints) -> list[Members]:
        """Return groups that hold every job once: jobs that columns hold twice stay in the first."""
        seen: set[int] = set()
        groups = []
        for column in columns:
            members = tuple(k for k in self._named(column) if k not in seen)
            seen.update(members)
            groups += [members] if members else []
        return [*groups, *((k,) for k in range(len(self._problem.jobs)) if k not in seen)]

    def _named(self, column: np.integer) -> Members:
        master = self._relaxation.master
        members = master.members[column]
        return tuple(sorted(master.blocks[int(master.block_of[column])].index[members[members >= 0]].tolist()))

    def _part(self, node: _Node) -> bool:
        """Part a node's plans in two and solve both LPs; False if there is no way, or a limit struck."""
        where = self._branching(node)
        if where is None:
            return False
        boxes = node.box.cut(*where)
        solved = []
        for box in boxes:
            relaxed = self._relaxation.solve(box, self._limits, self._cutoff())
            if relaxed is None or not (relaxed.converged or relaxed.bound >= self._cutoff()):
                return False
            solved.append(self._tightened(box, relaxed, _ROUNDS))
        heapq.heappop(self._heap)
        node.measure, node.at = where
        node.children = (self._node(boxes[0], solved[0], node.claimed), self._node(boxes[1], solved[1], node.claimed))
        return True

    def _branching(self, node: _Node) -> tuple[Measure, int] | None:
        """Return the measure whose two sides promise the highest bounds, and where to part it."""
        master, taken = self._relaxation.master, node.relaxed.taken
        total = total_to_part(master, node.box, taken, [pool.price_per_node_h for pool in self._problem.pools])
        if total is not None:
            return total
        options = fractional_counts(master, node.box, taken)[:_PEEKED]
        if len(options) == 1:
            return options[0]
        if options:
            master.enter(node.box)
            if master.solve(node.box, self._limits.left_s) is None:
                return None
            value = [node.relaxed.bound, max(node.relaxed.bound, self._cutoff())]
            scores = []
            for measure, at in options:
                gains = [
                    min(max(master.peek(measure, side.of(measure), node.box, _STEPS), value[0]), value[1]) - value[0]
                    for side in node.box.cut(measure, at)
                ]
                scores.append(max(gains[0], 1e-3) * max(gains[1], 1e-3))
            return options[int(np.argmax(scores))]
        pair = fractional_pair(master, node.box, taken)
        return None if pair is None else (Together(*pair), 0)

    def _tell(self) -> None:
        lowest = self.lowest()
        self._incumbent.tell(max(self._floor, lowest) if lowest < inf else None)


def _claimed(node: _Node) -> float:
    """Return the least bound claimed by the ends of a tree."""
    least, pending = inf, [node]
    while pending:
        node = pending.pop()
        children = node.children
        if children is None:
            least = min(least, node.claimed)
        else:
            pending += children
    return least
