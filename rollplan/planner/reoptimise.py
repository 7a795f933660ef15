"""P7: a plan after jobs came and left, with a bounded number of moved jobs, each at a price.

Admission alone never moves what runs; planning anew may move everything. Between them: at most `max_moved` of the jobs that
stay leave their group, and each of them only if the plan becomes cheaper by `move_price_per_h` for it. A job that stays has moved
if its new group does not continue its old one; a new group continues at most one old group and an old group is continued by at
most one new, so that as few jobs as possible have moved (`inheritance`). A changed order or pinning within a group is no move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from rollplan.models.certified import Certified, Limits, Report, gap, silent
from rollplan.models.colocation.closed_form import impossible
from rollplan.models.colocation.exact import lower_bound
from rollplan.models.colocation.plans.improve import Improver
from rollplan.models.colocation.plans.incumbent import Timetables
from rollplan.models.colocation.plans.moves import Moves, moved_jobs
from rollplan.models.colocation.plans.placed import Members
from rollplan.models.colocation.plans.start import inserted
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group
from rollplan.models.colocation.solution import cost_of, group_of, pools_suffice
from rollplan.models.colocation.verify import group_faults
from rollplan.models.compiled import HAVE_COMPILER
from rollplan.models.errors import InfeasibleError, NoSolutionError
from rollplan.models.native import run
from rollplan.planner.admission import Fleet
from rollplan.planner.timetables import held, law_of, rated_columns, without_slack

_WORK = 100_000
_SLOWER = 100
"""Work of the search for each job; without a compiler so many times less."""
_SHARE = 0.7
"""Of the time that is left, for plans; the rest is for their bound."""
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
    costs more, moves included, than admission of the new jobs (`lossless`) into what is left of the old groups. At most 60 jobs are
    searched to the end, unless a limit strikes. Same seed, same answer, unless a limit strikes.
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
    moves = Moves(tuple(group_of_job), move_price_per_h, max_moved)
    law = law_of(problem, limits, seed)
    alone = admitted(problem, old, law)
    start = inserted(problem, limits.stop) if alone is None else tuple(group.jobs for group in alone.groups)
    groups = _Groups(problem, law)
    improver = Improver(problem, seed, moves, None if law is None else groups.nodes)

    def tell(cost: float) -> None:
        report(cost, None)

    work = _WORK * len(problem.jobs) // (1 if HAVE_COMPILER else _SLOWER)
    part = limits.part(_SHARE)
    partition = run(lambda: improver.run(start, work, part.stop, report=tell), part) or improver.best or start
    solution = groups.solution(partition)
    moved = _moved(problem, moves, solution)
    if not pools_suffice(problem, solution.groups) or len(moved) > (len(problem.jobs) if max_moved is None else max_moved):
        raise NoSolutionError(f"no plan was found that moves at most {max_moved} jobs and fits into the pools (raise --max-moved)")
    bound, witness = lower_bound(problem, limits, rated_columns(problem, limits.stop))
    solution = without_slack(problem, solution)
    stopped: Literal["optimal", "heuristic"] = "optimal" if gap(solution.cost_per_h, bound.value) <= 1e-9 else "heuristic"
    plan = Certified(solution, solution.cost_per_h, bound, stopped, monotonic() - begun, seed, witness, bound.value)
    return Reoptimised(plan, moved, None if alone is None else alone.cost_per_h)


def admitted(problem: ColocationProblem, old: Sequence[Sequence[int]], law: Timetables | None = None) -> ColocationSolution | None:
    """Return what admission alone makes of old groups and of the jobs in none of them; None if one finds no room.

    Old groups stay together, on the fewest nodes for those who are left; what no longer keeps its limits together, because numbers
    changed, is taken apart and admitted again.
    """
    groups = _Groups(problem, law)
    live = [group for members in old if members and (group := groups.feasible(tuple(sorted(members)))) is not None]
    fleet, tickets = Fleet.resumed(problem, live)
    for k, job in enumerate(problem.jobs):
        if tickets[k] is None:
            placed = fleet.admit(job)
            if placed is None:
                return None
            tickets[k] = placed.ticket
    plan = fleet.solution(problem, [ticket for ticket in tickets if ticket is not None])
    if law is not None:
        return held(problem, plan, law)
    again = tuple(group_of(problem, sorted(group.jobs)) for group in plan.groups)
    return ColocationSolution(again, cost_of(problem, again))


class _Groups:
    """Groups on their fewest nodes, by the closed form or by a law of timetables, each asked for once."""

    def __init__(self, problem: ColocationProblem, law: Timetables | None) -> None:
        self.problem, self.law = problem, law

    def feasible(self, members: Members) -> Group | None:
        """Return the group of these jobs, None if they cannot share nodes."""
        # Old groups may hold what no longer goes together; the laws are only asked about pools, sizes and memory that fit.
        if len({(self.problem.jobs[k].rollout_pool, self.problem.jobs[k].train_pool) for k in members}) > 1:
            return None
        if len(members) > self.problem.max_group_size:
            return None
        group = group_of(self.problem, list(members)) if self.law is None else self.law.fewest(members)[0]
        return None if group is None or group_faults(self.problem, group) else group

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
