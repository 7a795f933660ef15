"""Groups of a partition with what they take: nodes, cost, jobs that moved; and how far a partition is over its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rollplan.models.colocation.nodes import cover, fitting_sets
from rollplan.models.colocation.plans.fleet_arrays import FleetArrays
from rollplan.models.colocation.plans.moves import Moves, inheritance
from rollplan.models.colocation.pricing.block import Ints
from rollplan.models.colocation.problem import ColocationProblem

Members = tuple[int, ...]
Partition = tuple[Members, ...]
"""Groups of job indices, each ascending."""
FewestNodes = Callable[[Members], int]
"""Rollout nodes of a group: the closed form's, or more where a timetable needs them."""
_TIE = 1e-4
"""What a move costs at least, in units: of equal plans the one that moves fewest jobs."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A group of the present partition: rows of its jobs, nodes, cost in units, the old group it continues, jobs that moved."""

    rows: Members
    rollout_nodes: int
    train_nodes: int
    cost: float
    heir: int | None
    moved: int


class Placement:
    """What groups of a problem cost; each group's nodes are asked for once.

    caps: limits of pools, then of moved jobs; empty if nothing couples groups. move_price: of a moved job, in units.
    """

    def __init__(self, problem: ColocationProblem, moves: Moves | None, fewest: FewestNodes | None) -> None:
        self.fleet = FleetArrays.of(problem)
        self.moves = moves
        self._fewest = fewest or (lambda members: closed_form_nodes(problem, members))
        self._asked: dict[Members, int] = {}
        self.move_price = 0.0 if moves is None else moves.price_per_h / self.fleet.unit + _TIE
        most = 1 << 40 if moves is None or moves.most is None else moves.most
        self.caps = np.append(self.fleet.limits, most) if moves is not None or len(self.fleet.limits) else np.empty(0, dtype=np.int64)

    def place(self, partition: Iterable[Sequence[int]]) -> list[Placed]:
        """Return the groups of a partition, continuing old groups so that as few jobs as possible move."""
        row_of = {int(k): row for row, k in enumerate(self.fleet.index)}
        groups = [list(members) for members in partition]
        heirs = [None] * len(groups) if self.moves is None else inheritance(self.moves.group_of, groups)
        return [self.group(tuple(sorted(row_of[k] for k in members)), heir) for members, heir in zip(groups, heirs, strict=True)]

    def group(self, rows: Members, heir: int | None) -> Placed:
        """Return the group of some rows, which continues old group `heir`."""
        if rows not in self._asked:
            self._asked[rows] = self._fewest(tuple(sorted(int(self.fleet.index[row]) for row in rows)))
        nodes, trainers = self._asked[rows], int(self.fleet.whole[list(rows), 1].max())
        pair = self.fleet.pairs[self.fleet.whole[rows[0], 2]]
        moved = 0 if self.moves is None else sum(self.moves.group_of[self.fleet.index[row]] not in (None, heir) for row in rows)
        return Placed(rows, nodes, trainers, float(pair[0] * nodes + pair[1] * trainers), heir, moved)

    def value(self, groups: Sequence[Placed]) -> tuple[int, float]:
        """Return by how much limits are exceeded, and the cost in units, moves included."""
        excess = int(np.maximum(0, self.used(groups) - self.caps).sum()) if len(self.caps) else 0
        value = sum(group.cost + self.move_price * group.moved for group in groups)
        return excess, round(value, 0 if self.fleet.whole_units and self.moves is None else 6)

    def used(self, groups: Iterable[Placed]) -> Ints:
        """Return what groups take of each limited pool, and how many of their jobs moved."""
        used = np.zeros(len(self.caps), dtype=np.int64)
        for group in groups:
            pair = self.fleet.resource[self.fleet.whole[group.rows[0], 2]]
            for row, nodes in zip(pair, (group.rollout_nodes, group.train_nodes), strict=True):
                if row >= 0:
                    used[row] += nodes
            used[-1] += group.moved
        return used

    def named(self, groups: Iterable[Placed]) -> Partition:
        """Return groups by jobs of the problem."""
        return tuple(sorted(tuple(sorted(int(self.fleet.index[row]) for row in group.rows)) for group in groups))

    def step(self, now: float) -> float:
        """Return by how much a better value is less than the present one."""
        return 0.5 if self.fleet.whole_units and self.moves is None else min(0.1 * _TIE, 1e-7 * now)

    def continued(self, jobs: Ints, groups: Sequence[Placed], all_groups: Sequence[Placed]) -> tuple[Ints, tuple[int, ...]]:
        """Return, by place, the old group that may be continued here (see `with_heirs`), and which those are."""
        if self.moves is None:
            return np.full(len(jobs), -1, dtype=np.int64), ()
        taken = {group.heir for group in all_groups} - {group.heir for group in groups}
        before = [self.moves.group_of[self.fleet.index[row]] for row in jobs]
        heirs = tuple(sorted({old for old in before if old is not None and old not in taken}))
        local = {old: i for i, old in enumerate(heirs)}
        return np.array([-1 if old is None else local.get(old, -2) for old in before], dtype=np.int64), heirs


def closed_form_nodes(problem: ColocationProblem, members: Members) -> int:
    """Return the fewest rollout nodes of a group by the closed form."""
    jobs = [problem.jobs[k] for k in members]
    if len(jobs) == 1:
        return jobs[0].rollout_nodes
    limit, pool = min(job.tolerable_s for job in jobs), problem.pools[jobs[0].rollout_pool]
    sets = fitting_sets([job.rollout_s for job in jobs], [job.rollout_memory_gib for job in jobs], limit, pool.memory_gib)
    return len(cover(sets, tuple(job.rollout_nodes for job in jobs)))
