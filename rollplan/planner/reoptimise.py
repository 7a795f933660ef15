"""P7: a plan after jobs came and left, with a bounded number of moved jobs, each at a price.

Admission alone never moves what runs; planning anew may move everything. Between them: at most `max_moved` of the jobs that
stay leave their group, and each of them only if the plan becomes cheaper by `move_price_per_h` for it. A job that stays has moved
if its new group does not continue its old one; a new group continues at most one old group and an old group is continued by at
most one new, so that as few jobs as possible have moved (`inheritance`). A changed order or pinning within a group is no move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from time import monotonic
from typing import Literal

from rollplan.models.certified import Certified, Limits, Report, gap, silent
from rollplan.models.colocation.closed_form import impossible
from rollplan.models.colocation.exact import lower_bound
from rollplan.models.colocation.plans.improve import Improver
from rollplan.models.colocation.plans.incumbent import Timetables
from rollplan.models.colocation.plans.moves import Moves, moved_jobs
from rollplan.models.colocation.plans.placed import Members, Partition
from rollplan.models.colocation.plans.start import inserted
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group
from rollplan.models.colocation.solution import cost_of, group_of, pools_suffice
from rollplan.models.colocation.verify import group_faults
from rollplan.models.compiled import HAVE_COMPILER
from rollplan.models.errors import InfeasibleError, NoSolutionError
from rollplan.models.native import run
from rollplan.planner.admission import Fleet
from rollplan.planner.colocation import solve
from rollplan.planner.timetables import held, law_of, rated_columns, without_slack

_WORK, _WORK_BEFORE = 100_000, 50_000
_SLOWER = 100
"""Work for each job of the last search and of those before; without a compiler so many times less."""
_SHARE = 0.5
"""Of the time that is left, for each search; what remains is for the bound."""
_FEW_JOBS = 150
"""Up to so many jobs the plan that may move all of them is a candidate, too, and brings its bound."""
_NAMED = 3
"""Most broken groups that a message names."""
_NO_PLAN = 1_000
"""More nodes than any plan would give a group that cannot exist."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A job that changes its group: old group and new group as positions in the two plans."""

    job: str
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Reoptimised:
    """A plan after a change, who moved, and what the same change costs in $/h without any move (None: admission found no room).

    plan.bound is that of planning anew without regard to moves: a plan that may move few jobs can be far from it and still be the
    best that moves so few.
    """

    plan: Certified[ColocationSolution]
    moved: tuple[Moved, ...]
    admission_cost_per_h: float | None

    @property
    def saves_per_h(self) -> float | None:
        """Dollars per hour less than admission alone, before the price of moves."""
        return None if self.admission_cost_per_h is None else round(self.admission_cost_per_h - self.plan.value, 9)


def reoptimise(
    problem: ColocationProblem,
    before: Sequence[Sequence[str]],
    max_moved: int | None = None,
    move_price_per_h: float = 0.0,
    limits: Limits | None = None,
    seed: int = 0,
    report: Report = silent,
) -> Reoptimised:
    """Return the best plan found that moves at most `max_moved` of the jobs that were in a group of `before`.

    before: the old groups by job names. Names that the problem does not have have left; jobs in none of the groups are new. Never
    costs more, moves included, than admission of the new jobs (`lossless`) into what is left of the old groups. Up to
    150 jobs the plan that may move all of them is a candidate, too. Same seed, same answer, unless a limit strikes.
    Raises `InfeasibleError` if the jobs fit into no plan, `NoSolutionError` if none was found that moves so few.
    """
    begun, limits = monotonic(), limits or Limits()
    if reasons := list(impossible(problem)):
        raise InfeasibleError(reasons)
    index = {job.name: k for k, job in enumerate(problem.jobs)}
    old = [[index[name] for name in names if name in index] for names in before]
    group_of_job: list[int | None] = [None] * len(problem.jobs)
    for number, members in enumerate(old):
        for k in members:
            if group_of_job[k] is not None:
                raise ValueError(f"job {problem.jobs[k].name} is in two of the old groups")
            group_of_job[k] = number
    law = law_of(problem, limits, seed)
    groups = _Groups(problem, law)
    alone = _admitted(problem, old, groups)
    start = inserted(problem, limits.stop) if alone is None else tuple(group.jobs for group in alone.groups)
    searched = _Searched(problem, groups, group_of_job, move_price_per_h, limits, seed)
    for cap in (caps := _caps(len(problem.jobs), max_moved)):
        start = searched.improved(start, cap, cap == caps[-1], report)
    free = _planned_anew(problem, limits.part(_SHARE), seed) if len(problem.jobs) <= _FEW_JOBS else None
    if free is not None:
        searched.found.append(free.solution)
    solution, moved = searched.best(max_moved, old)
    if free is not None:
        bound, witness, proven = free.bound, free.witness, free.witness_bound
    else:
        bound, witness = lower_bound(problem, limits, rated_columns(problem, limits.stop))
        proven = bound.value
    solution = without_slack(problem, solution)
    stopped: Literal["optimal", "heuristic"] = "optimal" if gap(solution.cost_per_h, bound.value) <= 1e-9 else "heuristic"
    plan = Certified(solution, solution.cost_per_h, bound, stopped, monotonic() - begun, seed, witness, proven)
    return Reoptimised(plan, moved, None if alone is None else alone.cost_per_h)


def admitted(problem: ColocationProblem, old: Sequence[Sequence[int]], law: Timetables | None = None) -> ColocationSolution | None:
    """Return what admission alone makes of old groups and of the jobs in none of them; None if one finds no room.

    Old groups stay together, on the fewest nodes for those who are left; of what no longer keeps its limits together, because
    numbers changed, as few jobs as possible leave and are admitted again.
    """
    return _admitted(problem, old, _Groups(problem, law))


def _admitted(problem: ColocationProblem, old: Sequence[Sequence[int]], groups: _Groups) -> ColocationSolution | None:
    live = [group for members in old if (group := groups.feasible(groups.largest_part(members))) is not None]
    fleet, tickets = Fleet.resumed(problem, live)
    for k, job in enumerate(problem.jobs):
        if tickets[k] is None:
            placed = fleet.admit(job)
            if placed is None:
                return None
            tickets[k] = placed.ticket
    plan = fleet.solution(problem, [ticket for ticket in tickets if ticket is not None])
    if groups.law is not None:
        return held(problem, plan, groups.law)
    again = tuple(group_of(problem, sorted(group.jobs)) for group in plan.groups)
    return ColocationSolution(again, cost_of(problem, again))


def _planned_anew(problem: ColocationProblem, limits: Limits, seed: int) -> Certified[ColocationSolution] | None:
    """Return the plan that may move every job, None if the limits came first."""
    try:
        return solve(problem, "exact", limits, seed)
    except NoSolutionError:
        return None


def _caps(jobs: int, most: int | None) -> list[int | None]:
    """Return limits of moves to be searched one after the other, each from the plan of the one before: 1, 2, 3, 4, 6, 8, 12, ..., `most`.

    In a large fleet one search takes long enough.
    """
    if jobs > _FEW_JOBS:
        return [most]
    last = jobs if most is None else min(most, jobs)
    steps = (step for power in range(last.bit_length()) for step in (1 << power, 3 << power >> 1))
    return [*dict.fromkeys(step for step in steps if step < last), most]


class _Searched:
    """Plans found under ever looser limits of moves."""

    def __init__(
        self,
        problem: ColocationProblem,
        groups: _Groups,
        group_of_job: Sequence[int | None],
        move_price_per_h: float,
        limits: Limits,
        seed: int,
    ) -> None:
        self.problem, self.groups, self.limits, self.seed = problem, groups, limits, seed
        self.moves = Moves(tuple(group_of_job), move_price_per_h)
        self.found: list[ColocationSolution] = []

    def improved(self, start: Partition, most: int | None, last: bool, report: Report) -> Partition:
        """Search from a partition for plans that move at most `most` jobs; return the best. last: takes the most work."""
        fewest = None if self.groups.law is None else self.groups.nodes
        improver = Improver(self.problem, self.seed, replace(self.moves, most=most), fewest)
        work = (_WORK if last else _WORK_BEFORE) * len(self.problem.jobs) // (1 if HAVE_COMPILER else _SLOWER)
        part = self.limits.part(_SHARE)
        partition = (
            run(lambda: improver.run(start, work, part.stop, report=lambda cost: report(cost, None)), part) or improver.best or start
        )
        self.found.append(self.groups.solution(partition))
        return tuple(group.jobs for group in self.found[-1].groups)

    def best(self, most: int | None, old: Sequence[Sequence[int]]) -> tuple[ColocationSolution, tuple[Moved, ...]]:
        """Return the plan that is cheapest with its moves, of equals the one that moves fewest, and who moved in it."""
        choice = []
        for solution in self.found:
            moved = _moved(self.problem, self.moves, solution)
            if pools_suffice(self.problem, solution.groups) and (most is None or len(moved) <= most):
                choice.append((round(solution.cost_per_h + self.moves.price_per_h * len(moved), 6), len(moved), solution, moved))
        if not choice:
            raise NoSolutionError(f"no plan was found that moves at most {most} jobs{self._why(most, old)} (raise --max-moved)")
        _, _, solution, moved = min(choice, key=lambda each: each[:2])
        return solution, moved

    def _why(self, most: int | None, old: Sequence[Sequence[int]]) -> str:
        """Return which old groups no longer keep their limits, if they alone need more moves; else what else is in the way."""
        broken = [(members, len(members) - len(self.groups.largest_part(members))) for members in old]
        broken = [(members, leaving) for members, leaving in broken if leaving]
        if most is None or sum(leaving for _, leaving in broken) <= most:
            return " and fits into the pools" if any(pool.nodes is not None for pool in self.problem.pools) else ""
        named = "; ".join(f"{leaving} of {', '.join(self.problem.jobs[k].name for k in members)}" for members, leaving in broken[:_NAMED])
        more = f"; and {len(broken) - _NAMED} more groups" if len(broken) > _NAMED else ""
        return f": old groups no longer keep their limits, and so many jobs must leave them: {named}{more}"


class _Groups:
    """Groups on their fewest nodes, by the closed form or by a law of timetables, each asked for once."""

    def __init__(self, problem: ColocationProblem, law: Timetables | None) -> None:
        self.problem, self.law = problem, law

    def feasible(self, members: Members) -> Group | None:
        """Return the group of these jobs, None if they cannot share nodes."""
        if not members:
            return None
        # Old groups may hold what no longer goes together; the laws are only asked about pools, sizes and memory that fit.
        if len({(self.problem.jobs[k].rollout_pool, self.problem.jobs[k].train_pool) for k in members}) > 1:
            return None
        if len(members) > self.problem.max_group_size:
            return None
        group = group_of(self.problem, list(members)) if self.law is None else self.law.fewest(members)[0]
        return None if group is None or group_faults(self.problem, group) else group

    def largest_part(self, members: Sequence[int]) -> Members:
        """Return as many of these jobs as still can share nodes, ascending; of equals those that cost most alone."""
        ordered = tuple(sorted(members))
        for size in range(len(ordered), 0, -1):
            parts = [part for part in combinations(ordered, size) if self.feasible(part) is not None]
            if parts:
                return max(parts, key=lambda part: replace(self.problem, jobs=tuple(self.problem.jobs[k] for k in part)).solo_cost_per_h())
        return ()

    def nodes(self, members: Members) -> int:
        """Return the fewest rollout nodes, very many if the jobs cannot share nodes."""
        group = self.feasible(members)
        return group.rollout_nodes if group is not None else _NO_PLAN + sum(self.problem.jobs[k].rollout_nodes for k in members)

    def solution(self, partition: Sequence[Members]) -> ColocationSolution:
        """Return the plan of a partition; groups that cannot be are taken apart."""
        found: list[Group] = []
        for members in sorted(partition):
            group = self.feasible(members)
            parts = [group] if group is not None else [self.feasible((k,)) for k in members]
            found += [part for part in parts if part is not None]
        return ColocationSolution(tuple(found), cost_of(self.problem, found))


def _moved(problem: ColocationProblem, moves: Moves, solution: ColocationSolution) -> tuple[Moved, ...]:
    new = {k: number for number, group in enumerate(solution.groups) for k in group.jobs}
    moved = moved_jobs(moves.group_of, [group.jobs for group in solution.groups])
    return tuple(Moved(problem.jobs[k].name, old, new[k]) for k in moved if (old := moves.group_of[k]) is not None)
