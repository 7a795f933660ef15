"""What changed since an earlier plan: jobs that came, left and moved, and what the moves save."""

from __future__ import annotations

from dataclasses import dataclass

from rollplan.models.certified import Limits
from rollplan.models.colocation.plans.moves import inheritance
from rollplan.models.plan import Plan
from rollplan.models.resolve import resolve
from rollplan.models.scenario import Scenario
from rollplan.planner.reoptimise import admitted
from rollplan.planner.timetables import law_of


@dataclass(frozen=True, slots=True)
class Since:
    """Jobs that stayed, came, left; those that moved, each with its old and new group; $/h less than admission without moves.

    saves_per_h: None where admission alone finds no room.
    """

    stayed: tuple[str, ...]
    came: tuple[str, ...]
    left: tuple[str, ...]
    moved: tuple[tuple[str, str, str], ...]
    saves_per_h: float | None


def groups_of(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return the co-execution groups of a plan by job names."""
    return tuple(tuple(job.name for job in group.jobs) for group in plan.groups)


def since(scenario: Scenario, before: Plan, after: Plan, limits: Limits | None = None) -> Since:
    """Return what `after`, a plan of the scenario, changed in `before`."""
    old, new = groups_of(before), groups_of(after)
    old_group = {name: number for number, names in enumerate(old) for name in names}
    names = [name for members in new for name in members]
    index = {name: k for k, name in enumerate(names)}
    heirs = inheritance([old_group.get(name) for name in names], [[index[name] for name in members] for members in new])
    moved = tuple(
        (name, before.groups[old_group[name]].name, after.groups[number].name)
        for number, (members, heir) in enumerate(zip(new, heirs, strict=True))
        for name in members
        if old_group.get(name) not in (None, heir)
    )
    problem = resolve(scenario).problem(scenario)
    place = {job.name: k for k, job in enumerate(problem.jobs)}
    law = law_of(problem, limits or Limits(), after.settings.seed)
    alone = admitted(problem, [[place[name] for name in members if name in place] for members in old], law)
    cost = sum(group.cost_per_h for group in after.groups)
    return Since(
        stayed=tuple(name for name in names if name in old_group),
        came=tuple(name for name in names if name not in old_group),
        left=tuple(name for name in old_group if name not in index),
        moved=moved,
        saves_per_h=None if alone is None else round(alone.cost_per_h - cost, 9),
    )
