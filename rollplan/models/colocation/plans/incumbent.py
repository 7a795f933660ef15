"""The best plan so far: groups on the fewest nodes that they can be shown to run on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rollplan.models.certified import Report
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group
from rollplan.models.colocation.solution import cost_of, group_of, pools_suffice

Members = tuple[int, ...]
"""Jobs of a group as indices of the problem, ascending."""


class Timetables(Protocol):
    """The law of groups for which the closed form is only a lower bound: gangs, delays, several runs per period."""

    def fewest(self, members: Members) -> tuple[Group | None, bool]:
        """Return the group on the fewest nodes found (None: on no number), and whether fewer are refuted."""


class Incumbent:
    """Keeps the cheapest plan that was offered, and reports every better one.

    plan: read from other threads; it is replaced in one assignment and never changed.
    """

    def __init__(self, problem: ColocationProblem, start: ColocationSolution | None, timetables: Timetables | None, report: Report) -> None:
        self.plan = start
        self.bound: float | None = None
        self._problem, self._timetables, self._report = problem, timetables, report
        self._known: dict[Members, tuple[Group | None, bool]] = {}
        self._told: tuple[float, float | None] | None = None

    def group(self, members: Members) -> tuple[Group | None, bool]:
        """Return a group on the fewest nodes, None if it cannot exist, and whether that is proven."""
        if members not in self._known:
            law = self._timetables
            self._known[members] = (group_of(self._problem, list(members)), True) if law is None else law.fewest(members)
        return self._known[members]

    def nodes(self, members: Members) -> int | None:
        """Return the fewest nodes found for a group, None if there are none."""
        group = self.group(members)[0]
        return None if group is None else group.rollout_nodes

    def offer(self, partition: Iterable[Members]) -> bool:
        """Keep a partition if its plan is the best so far; groups that cannot exist are parted into single jobs."""
        groups: list[Group] = []
        for members in sorted(partition):
            group = self.group(members)[0]
            parts = [group] if group is not None else [self.group((k,))[0] for k in members]
            if any(part is None for part in parts):
                return False
            groups += [part for part in parts if part is not None]
        if not pools_suffice(self._problem, groups):
            return False
        cost = cost_of(self._problem, groups)
        if self.plan is not None and cost >= self.plan.cost_per_h - 1e-9:
            return False
        self.plan = ColocationSolution(tuple(groups), cost)
        self.tell()
        return True

    def tell(self, bound: float | None = None) -> None:
        """Report the plan and the best bound so far, $/h, if one of them is news."""
        if bound is not None:
            self.bound = bound if self.bound is None else max(self.bound, bound)
        if self.plan is None:
            return
        news = (self.plan.cost_per_h, None if self.bound is None else min(self.bound, self.plan.cost_per_h))
        if news != self._told:
            self._told = news
            self._report(*news)
