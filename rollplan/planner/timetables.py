"""Groups beyond the closed form in a plan: which law decides them, and every group of a plan held to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rollplan.models.certified import Limits
from rollplan.models.colocation.frozen_order import tightened
from rollplan.models.colocation.plans.incumbent import Timetables
from rollplan.models.colocation.pricing.columns import Columns
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group
from rollplan.models.colocation.rates.groups import candidates
from rollplan.models.colocation.rates.timetables import RateTimetables
from rollplan.models.colocation.solution import cost_of, pools_suffice
from rollplan.models.colocation.timetables import GangTimetables, needs_timetable

MOST_RATED_JOBS = 60
"""Most jobs of which all multi-rate groups are listed, so that a bound on them is an LP bound."""

MOST_GROUPS = 1_000_000
"""Most multi-rate groups of a list: `check` lists no more, so that nobody could prove again what an LP over more says."""


def law_of(problem: ColocationProblem, limits: Limits, seed: int = 0) -> Timetables | None:
    """Return what decides the nodes and timetables of groups, None where the closed form does."""
    gangs = GangTimetables(problem, limits, seed) if needs_timetable(problem.jobs) else None
    if problem.max_rate > 1:
        return RateTimetables(problem, limits, seed, None if gangs is None else gangs.fewest)
    return gangs


def rated_columns(problem: ColocationProblem, stop: Callable[[], object]) -> Columns | None:
    """Return all groups that several runs per period may allow, on the fewest nodes that necessary tests leave them.

    None where the closed form knows all groups, and where they are too many to list, or `stop` answers first: a part proves nothing.
    """
    if problem.max_rate == 1 or len(problem.jobs) > MOST_RATED_JOBS:
        return None
    found = candidates(problem, stop)
    if not found.complete or len(found) > MOST_GROUPS:
        return None
    jobs = [problem.jobs[k] for k in found.members[:, 0]]
    rollout = np.array([problem.pools[job.rollout_pool].price_per_node_h for job in jobs])
    train = np.array([problem.pools[job.train_pool].price_per_node_h for job in jobs])
    cost = rollout * found.rollout_nodes + train * found.train_nodes
    return Columns(found.members, found.rollout_nodes, found.train_nodes, cost, complete=True)


def held(problem: ColocationProblem, plan: ColocationSolution, law: Timetables) -> ColocationSolution | None:
    """Return the plan with every group as its law has it, groups that it refuses taken apart; None if the pools are too small."""
    groups = tuple(sorted((each for group in plan.groups for each in _allowed(group, law)), key=lambda group: min(group.jobs)))
    return ColocationSolution(groups, cost_of(problem, groups)) if pools_suffice(problem, groups) else None


def _allowed(group: Group, law: Timetables) -> Iterator[Group]:
    """Yield the group as its law has it, or its first half and its second half."""
    found, _ = law.fewest(tuple(sorted(group.jobs)))
    if found is not None:
        yield found
        return
    middle = len(group.jobs) // 2
    for part in (group.jobs[:middle], group.jobs[middle:]):
        yield from _allowed(Group(part, (), 0, 0), law)


def without_slack(problem: ColocationProblem, plan: ColocationSolution) -> ColocationSolution:
    """Return the plan with the slack taken out of its timetables: the same orders, their least periods."""
    groups = tuple(group if group.timetable is None else tightened(problem, group) for group in plan.groups)
    return ColocationSolution(groups, plan.cost_per_h)
