"""Timetables of groups with gangs or delays: the fewest rollout nodes, the pinning and the schedule, decided together.

A gang rollout holds all its nodes at the same moment, a delay parts a job's phases without holding anything. Then the
closed form of the period is only a lower bound, and so is the node count that follows from it. CP-SAT decides how many
nodes host which set of jobs (sets that fit a node, as in `nodes`, so that equal nodes need not be told apart) and when
every phase starts, such that the schedule repeats within the least tolerable period. See docs/cyclic_shop.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Any

from rollplan.models.certified import Limits
from rollplan.models.colocation.nodes import cover, fitting_sets, pin
from rollplan.models.colocation.problem import ColocationProblem, Group, JobData, Timetable, at_most
from rollplan.models.cyclic_shop.exact import one_after_another
from rollplan.models.cyclic_shop.fixed import Window, keep_apart, solver_of
from rollplan.models.cyclic_shop.grid import Grid, grid_of
from rollplan.models.cyclic_shop.groups import shop_of, timetable_of
from rollplan.models.cyclic_shop.orders import at_least_period
from rollplan.models.cyclic_shop.parts import parts_of

Members = tuple[int, ...]
_EFFORT = 1.0
"""Deterministic time for one group, about as many seconds; groups of five jobs take a few thousandths of it."""


def needs_timetable(jobs: Sequence[JobData]) -> bool:
    """Return whether the closed form of the period is only a lower bound for jobs that share nodes."""
    return len(jobs) > 1 and any((job.gang and job.rollout_nodes > 1) or job.delay_s > 0 for job in jobs)


class GangTimetables:
    """The fewest rollout nodes of groups in which every job runs once per period; answers are kept.

    limits: when to stop searching; then every job that needs it gets nodes of its own. The same seed gives the same
    answers unless the clock strikes.
    """

    def __init__(self, problem: ColocationProblem, limits: Limits | None = None, seed: int = 0) -> None:
        self.problem = problem
        self.limits = limits or Limits()
        self.seed = seed
        self._known: dict[Members, tuple[Group | None, bool]] = {}

    def fewest(self, members: Members) -> tuple[Group | None, bool]:
        """Return the group on the fewest rollout nodes that were found, and whether fewer are refuted.

        It has a timetable if the closed form is not exact for it. None: the jobs cannot share nodes, on any number of them.
        """
        members = tuple(sorted(members))
        if members not in self._known:
            found = self._fewest(members)
            if self.limits.stop():
                return found  # the clock's answer is not the group's
            self._known[members] = found
        return self._known[members]

    def _fewest(self, members: Members) -> tuple[Group | None, bool]:
        group = _Members.of(self.problem, members)
        if not group.can_share():
            return None, True
        sets = fitting_sets(
            [job.rollout_s for job in group.jobs], [job.rollout_memory_gib for job in group.jobs], group.limit_s, group.memory_gib
        )
        nodes = cover(sets, tuple(job.rollout_nodes for job in group.jobs))
        if not needs_timetable(group.jobs):
            return group.built(pin(nodes, len(members))), True
        in_turn = group.in_turn(pin(nodes, len(members)))
        if group.keeps_limit(in_turn):
            return in_turn, True
        found, refuted = None, len(nodes) - 1
        if not self.limits.stop():
            found, refuted = _Model(group, sets, len(nodes), self.limits, self.seed).fewest()
        if found is None:
            # Jobs with nodes of their own share the training pool only, and that has room for them.
            found = group.in_turn(pin([1 << k for k, job in enumerate(group.jobs) for _ in range(job.rollout_nodes)], len(members)))
        return found, found.rollout_nodes <= refuted + 1


@dataclass(frozen=True, slots=True)
class _Members:
    """The jobs of one group and what they may take."""

    problem: ColocationProblem
    members: Members
    jobs: tuple[JobData, ...]
    limit_s: float
    memory_gib: float

    @classmethod
    def of(cls, problem: ColocationProblem, members: Members) -> _Members:
        jobs = tuple(problem.jobs[k] for k in members)
        return cls(problem, members, jobs, min(job.tolerable_s for job in jobs), problem.pools[jobs[0].rollout_pool].memory_gib)

    def can_share(self) -> bool:
        """Return whether the jobs can share a training pool, if need be with rollout nodes of their own."""
        return (
            len(self.jobs) <= self.problem.max_group_size
            and len({(job.rollout_pool, job.train_pool) for job in self.jobs}) == 1
            and at_most(max(job.solo_s for job in self.jobs), self.limit_s)
            and at_most(sum(job.train_s for job in self.jobs), self.limit_s)
            and (
                len(self.jobs) == 1
                or at_most(sum(job.train_memory_gib for job in self.jobs), self.problem.pools[self.jobs[0].train_pool].memory_gib)
            )
        )

    def built(self, pinning: tuple[tuple[int, ...], ...], timetable: Timetable | None = None) -> Group:
        """Return the group on the nodes of a pinning."""
        nodes = 1 + max(node for pinned in pinning for node in pinned)
        return Group(self.members, pinning, nodes, max(job.train_nodes for job in self.jobs), timetable)

    def in_turn(self, pinning: tuple[tuple[int, ...], ...]) -> Group:
        """Return the group with the jobs in turn: strict round robin in the order of the list, whatever its period."""
        shop = shop_of(self.jobs, pinning)
        return self.built(pinning, timetable_of(one_after_another(shop, parts_of(shop))))

    def tightened(self, pinning: tuple[tuple[int, ...], ...], starts: dict[tuple[int, int], int], trains: list[int], period: int) -> Group:
        """Return the group with the orders of a solution, whatever its period; starts[k, node] are those of rollouts."""
        shop = shop_of(self.jobs, pinning)
        parts = parts_of(shop)
        units = [float(starts[part.job, part.resources[0] - 1] if part.resources[0] else trains[part.job]) for part in parts.items]
        return self.built(pinning, timetable_of(at_least_period(shop, parts, units, period)))

    def keeps_limit(self, group: Group) -> bool:
        """Return whether the timetable of a group repeats in time for all its jobs."""
        return group.timetable is not None and at_most(group.timetable.period_s, self.limit_s)


class _Model:
    """CP-SAT: the fewest nodes such that a schedule of the tolerable period exists.

    How many nodes host each set is a variable. The rollout of a gang has one start; any other has one for each set, which
    all nodes of this set can use: copying the starts of one node to its equals keeps every constraint.
    """

    def __init__(self, group: _Members, sets: tuple[int, ...], least: int, limits: Limits, seed: int) -> None:
        self.group, self.sets, self.least = group, sets, least
        self.limits, self.seed = limits, seed
        self.most = sum(job.rollout_nodes for job in group.jobs)
        times = [seconds for job in group.jobs for seconds in (job.rollout_s, job.train_s, job.delay_s, job.train_s + job.delay_s)]
        self.grid: Grid = grid_of([*times, group.limit_s], group.limit_s)

    def fewest(self) -> tuple[Group | None, int]:
        """Return the group that was found, if any, and the largest number of nodes that is refuted, twice if CP-SAT did it."""
        periods = [self.grid.down(self.group.limit_s)]
        if self.grid.rounded:
            # Durations are rounded up. Asked first with as much more time as that can cost, so that what is refuted is refuted.
            periods.insert(0, self.grid.up(self.group.limit_s) + 2 * len(self.group.jobs) + self.most)
        found, bound = self._solve(periods[0])
        if bound > self.least:
            bound = min(bound, self._solve(periods[0], presolve=True)[1])
        if found is None and self.grid.rounded:
            found, _ = self._solve(periods[1])
        return found, bound - 1

    def _solve(self, period: int, presolve: bool = False) -> tuple[Group | None, int]:
        """Return the group on the fewest nodes for one period, and a lower bound on its nodes."""
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        counts, starts, trains = self._build(model, period)
        solver = solver_of(self.limits, self.seed, presolve, _EFFORT)
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return None, self.most + 1
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, self.least
        hosted = [mask for mask, count in zip(self.sets, counts, strict=True) for _ in range(solver.value(count))]
        placed = {(k, node): solver.value(starts[k, mask]) for node, mask in enumerate(hosted) for k in _jobs_of(mask)}
        at = [solver.value(train) for train in trains]
        found = self.group.tightened(pin(hosted, len(self.group.jobs)), placed, at, period)
        bound = max(self.least, ceil(solver.best_objective_bound - 1e-6))
        return found if self.group.keeps_limit(found) else None, bound

    def _build(self, model: Any, period: int) -> tuple[list[Any], dict[tuple[int, int], Any], list[Any]]:
        """Fill the model; return nodes per set, starts of rollouts by job and set, starts of trainings."""
        jobs, up = self.group.jobs, self.grid.up
        counts = [model.new_int_var(0, min(jobs[k].rollout_nodes for k in _jobs_of(mask)), "") for mask in self.sets]
        model.add_linear_constraint(sum(counts), self.least, self.most)
        model.minimize(sum(counts))
        for k, job in enumerate(jobs):
            model.add(sum(count for mask, count in zip(self.sets, counts, strict=True) if mask >> k & 1) == job.rollout_nodes)
        # The schedule may be turned: the first job trains at 0.
        training = [Window(0, 0 if k == 0 else period - 1) for k in range(len(jobs))]
        trains = [model.new_int_var(window.first, window.last, "") for window in training]
        rolling = [
            Window(up(job.train_s + job.delay_s) - period, window.last - up(job.rollout_s))
            for job, window in zip(jobs, training, strict=True)
        ]
        starts: dict[tuple[int, int], Any] = {}
        for k, job in enumerate(jobs):
            own = [mask for mask in self.sets if mask >> k & 1]
            for group in [own] if job.gang else [[mask] for mask in own]:
                start = model.new_int_var(rolling[k].first, rolling[k].last, "")
                model.add(start + up(job.rollout_s) <= trains[k])
                model.add(start >= trains[k] + up(job.train_s + job.delay_s) - period)
                starts |= {(k, mask): start for mask in group}
        for a, b in combinations(range(len(jobs)), 2):
            if jobs[a].train_s > 0 and jobs[b].train_s > 0:
                keep_apart(model, (trains[a], training[a], up(jobs[a].train_s)), (trains[b], training[b], up(jobs[b].train_s)), period)
            if jobs[a].rollout_s > 0 and jobs[b].rollout_s > 0:
                self._rollouts_apart(model, a, b, counts, starts, rolling, period)
        return counts, starts, trains

    def _rollouts_apart(
        self, model: Any, a: int, b: int, counts: list[Any], starts: dict[tuple[int, int], Any], rolling: list[Window], period: int
    ) -> None:
        """Keep two rollouts apart on every set of jobs that has both and is used; two gangs at once for all such sets."""
        jobs, up = self.group.jobs, self.grid.up
        both = [(mask, count) for mask, count in zip(self.sets, counts, strict=True) if mask >> a & 1 and mask >> b & 1]
        gangs = jobs[a].gang and jobs[b].gang
        for shared in [both] if gangs and both else [[one] for one in both]:
            meet = model.new_bool_var("")
            for _, count in shared:
                model.add(count == 0).only_enforce_if(meet.negated())
            mask = shared[0][0]
            placed_a = (starts[a, mask], rolling[a], up(jobs[a].rollout_s))
            placed_b = (starts[b, mask], rolling[b], up(jobs[b].rollout_s))
            keep_apart(model, placed_a, placed_b, period, [meet])


def _jobs_of(mask: int) -> list[int]:
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
