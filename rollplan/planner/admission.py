"""Online admission by marginal cost: RollMux Algorithm 1 as printed (`paper`), and without its losses (`lossless`).

A fleet is a set of live co-execution groups. An arriving job joins the group, or opens the new one, that raises the
hourly cost least; nothing that runs is moved. All groups are looked at together with arrays, so that a decision
takes well under a millisecond at thousands of live jobs.

`paper` (arXiv 2512.11306, Algorithm 1): a group with T_load >= T_cycle is skipped; a footprint must be strictly
smaller than the free memory; training nodes are never added; of equal costs the first group and the first nodes win.
`lossless`: only what cannot be feasible is skipped; an exact fit fits; training nodes may be added; of equal costs
the group whose training pool is left with least room wins, on its fullest nodes.

Where the paper is silent (its GENERATEPLACEMENTS), this holds for both: the arriving job takes as many existing
rollout nodes as have room and adds only the rest. Periods are those of strict round robin, not of the paper's FIFO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.problem import REL_TOL, ColocationProblem, ColocationSolution, Group, JobData, NodePool, at_most
from rollplan.models.colocation.solution import cost_of
from rollplan.planner.fleet_state import FleetState

Mode = Literal["paper", "lossless"]


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a job went: its ticket, its group, its rollout nodes there, what was added, and dollars per hour more."""

    ticket: int
    group: int
    nodes: tuple[int, ...]
    new_rollout_nodes: int
    new_train_nodes: int
    extra_cost_per_h: float


class Fleet:
    """Live groups; `admit` and `remove` keep every guarantee.

    skip_saturated: the paper's pruning (line 4); without it only what cannot be feasible is skipped.
    """

    def __init__(self, pools: Sequence[NodePool], max_group_size: int, mode: Mode = "lossless", skip_saturated: bool | None = None) -> None:
        self.pools = tuple(pools)
        self.max_group_size = max_group_size
        self.mode = mode
        self.skip_saturated = mode == "paper" if skip_saturated is None else skip_saturated
        self.used = [0] * len(self.pools)
        self._state = FleetState()
        self._members: dict[int, list[int]] = {}
        self._jobs: dict[int, tuple[JobData, int, tuple[int, ...]]] = {}
        self._arrived = 0

    @classmethod
    def resumed(cls, problem: ColocationProblem, groups: Sequence[Group], mode: Mode = "lossless") -> tuple[Fleet, list[int | None]]:
        """Return a fleet in which `groups` are live, and the ticket of each job of the problem, None for those in no group."""
        fleet = cls(problem.pools, problem.max_group_size, mode)
        tickets: list[int | None] = [None] * len(problem.jobs)
        for group in groups:
            first = problem.jobs[group.jobs[0]]
            row = fleet._state.open(fleet.pools, first.rollout_pool, first.train_pool)
            for k, nodes in zip(group.jobs, group.pinning, strict=True):
                tickets[k] = fleet._arrived
                fleet._members.setdefault(row, []).append(fleet._arrived)
                fleet._jobs[fleet._arrived] = (problem.jobs[k], row, nodes)
                fleet._state.add(row, problem.jobs[k], nodes)
                fleet._arrived += 1
            fleet.used[first.rollout_pool] += int(fleet._state.nodes[row])
            fleet.used[first.train_pool] += int(fleet._state.trainers[row])
        return fleet, tickets

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def cost_per_h(self) -> float:
        """Dollars per hour of all nodes in use."""
        return round(sum(nodes * pool.price_per_node_h for nodes, pool in zip(self.used, self.pools, strict=True)), 9)

    def admit(self, job: JobData) -> Admission | None:
        """Place a job and return where it went; None if the pools have no room for it."""
        placed = self._cheapest(job) or self._isolated(job)
        if placed is None:
            return None
        self._arrived += 1
        self._members.setdefault(placed.group, []).append(placed.ticket)
        self._jobs[placed.ticket] = (job, placed.group, placed.nodes)
        self._state.add(placed.group, job, placed.nodes)
        self.used[job.rollout_pool] += placed.new_rollout_nodes
        self.used[job.train_pool] += placed.new_train_nodes
        return placed

    def remove(self, ticket: int) -> None:
        """Take a job out; nodes that hold nobody any more are given back, the others are renumbered in order."""
        job, group, _ = self._jobs.pop(ticket)
        self.used[job.rollout_pool] -= int(self._state.nodes[group])
        self.used[job.train_pool] -= int(self._state.trainers[group])
        self._state.close(group)
        stay = [other for other in self._members.pop(group) if other != ticket]
        if not stay:
            return
        held = sorted({node for other in stay for node in self._jobs[other][2]})
        renumbered = {node: position for position, node in enumerate(held)}
        row = self._state.open(self.pools, job.rollout_pool, job.train_pool)
        self._members[row] = stay
        for other in stay:
            moved, _, nodes = self._jobs[other]
            self._jobs[other] = (moved, row, tuple(renumbered[node] for node in nodes))
            self._state.add(row, moved, self._jobs[other][2])
        self.used[job.rollout_pool] += len(held)
        self.used[job.train_pool] += int(self._state.trainers[row])

    def solution(self, problem: ColocationProblem, tickets: Sequence[int]) -> ColocationSolution:
        """Return the fleet as a plan of `problem`, whose job k holds ticket tickets[k]."""
        index = {ticket: k for k, ticket in enumerate(tickets)}
        groups = sorted(
            (
                Group(
                    tuple(index[ticket] for ticket in members),
                    tuple(self._jobs[ticket][2] for ticket in members),
                    int(self._state.nodes[row]),
                    int(self._state.trainers[row]),
                )
                for row, members in self._members.items()
            ),
            key=lambda group: min(group.jobs),
        )
        return ColocationSolution(tuple(groups), cost_of(problem, groups))

    def _cheapest(self, job: JobData) -> Admission | None:
        """Return the cheapest way into a live group, None if there is none."""
        state, live = self._state, slice(0, self._state.rows)
        limit = np.minimum(state.limit_s[live], job.tolerable_s) * (1 + REL_TOL)
        fits = (
            (state.size[live] > 0)
            & (state.size[live] < self.max_group_size)
            & (state.rollout_pool[live] == job.rollout_pool)
            & (state.train_pool[live] == job.train_pool)
            & (np.maximum(np.maximum(state.cycle_s[live], state.fullest_s[live]), job.solo_s) <= limit)
            & (state.train_s[live] + job.train_s <= limit)
            & self._memory_fits(job.train_memory_gib, state.train_free_gib[live], self.pools[job.train_pool])
        )
        if self.skip_saturated:
            fits &= np.maximum(state.train_s[live], state.fullest_s[live]) < state.cycle_s[live] * (1 - REL_TOL)
        if self.mode == "paper":
            fits &= state.trainers[live] >= job.train_nodes
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        rollout = self.pools[job.rollout_pool]
        room = (state.load_s[rows] + job.rollout_s <= limit[rows, None]) & self._memory_fits(
            job.rollout_memory_gib, state.free_gib[rows], rollout
        )
        nodes = np.maximum(0, job.rollout_nodes - room.sum(axis=1))
        trainers = np.maximum(0, job.train_nodes - state.trainers[rows])
        extra = nodes * float(rollout.price_per_node_h) + trainers * float(self.pools[job.train_pool].price_per_node_h)
        extra[~self._pools_have(job, nodes, trainers)] = np.inf
        # Line 8 rejects even the exact fit on an added, empty node.
        extra[(nodes > 0) & ~self._memory_fits(job.rollout_memory_gib, np.array(rollout.memory_gib), rollout)] = np.inf
        best = int(np.argmin(extra))
        if not np.isfinite(extra[best]):
            return None
        if self.mode == "lossless":
            ties = np.flatnonzero(extra == extra[best])
            best = int(ties[np.argmin(limit[rows[ties]] - state.train_s[rows[ties]])])
        row, added = int(rows[best]), int(nodes[best])
        taken = self._choose(row, np.flatnonzero(room[best]), job.rollout_nodes - added)
        placed = (*taken, *range(int(state.nodes[row]), int(state.nodes[row]) + added))
        return Admission(self._arrived, row, placed, added, int(trainers[best]), float(extra[best]))

    def _choose(self, row: int, open_nodes: npt.NDArray[np.int64], count: int) -> tuple[int, ...]:
        """Return `count` of the nodes with room: the first (`paper`) or the fullest (`lossless`)."""
        if self.mode == "lossless":
            open_nodes = open_nodes[np.argsort(-self._state.load_s[row, open_nodes], kind="stable")]
        return tuple(sorted(int(node) for node in open_nodes[:count]))

    def _isolated(self, job: JobData) -> Admission | None:
        """Return a new group for the job alone, None if it does not fit."""
        rollout, train = self.pools[job.rollout_pool], self.pools[job.train_pool]
        fits = at_most(job.rollout_memory_gib, rollout.memory_gib) and at_most(job.train_memory_gib, train.memory_gib)
        if not (fits and self._pools_have(job, np.array(job.rollout_nodes), np.array(job.train_nodes))):
            return None
        cost = job.rollout_nodes * rollout.price_per_node_h + job.train_nodes * train.price_per_node_h
        row = self._state.open(self.pools, job.rollout_pool, job.train_pool)
        return Admission(self._arrived, row, tuple(range(job.rollout_nodes)), job.rollout_nodes, job.train_nodes, cost)

    def _memory_fits(self, need_gib: float, free_gib: npt.NDArray[np.float64], pool: NodePool) -> npt.NDArray[np.bool_]:
        """`paper` rejects the exact fit (line 8: mem_req >= free)."""
        tolerance = pool.memory_gib * REL_TOL
        return np.asarray(need_gib < free_gib - tolerance if self.mode == "paper" else need_gib <= free_gib + tolerance)

    def _pools_have(self, job: JobData, nodes: npt.NDArray[np.int64], trainers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the pools have so many nodes left."""
        enough = np.ones(np.shape(nodes), dtype=bool)
        for index in {job.rollout_pool, job.train_pool}:
            limit = self.pools[index].nodes
            if limit is not None:
                need = (nodes if index == job.rollout_pool else 0) + (trainers if index == job.train_pool else 0)
                enough &= self.used[index] + need <= limit
        return enough
