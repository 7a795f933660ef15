"""Why nothing fits: a smallest set of requirements that exclude each other, and the smallest change that ends it.

For any problem whose requirements can be dropped one by one: fewer requirements never make a plan impossible. The
search is a deletion filter (Chinneck 2008, ch. 6) that tries whole groups, then halves, as QuickXplain does (Junker
2004), so that a conflict of k among n requirements takes about k log n questions. Each question is a solve of its own:
what a solver calls its core is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Requirement = TypeVar("Requirement", bound=Hashable)
Feasible = Callable[[frozenset[Requirement]], bool | None]
"""Whether there is a plan that keeps these requirements; None if that could not be found out."""


@dataclass(frozen=True, slots=True)
class Conflict(Generic[Requirement]):
    """Requirements that exclude each other, in the order given.

    unproven: those of which nobody could say whether the others suffice; without any other one there is a plan.
    parts: the same requirements by the groups given. unproven_parts: parts of which nobody could say whether the others
    suffice without the whole of them.
    """

    requirements: tuple[Requirement, ...]
    unproven: frozenset[Requirement] = frozenset()
    parts: tuple[tuple[Requirement, ...], ...] = ()
    unproven_parts: frozenset[tuple[Requirement, ...]] = frozenset()

    @property
    def minimal(self) -> bool:
        """Whether without any one of the requirements there is a plan that keeps the others."""
        return not self.unproven


def minimal_conflict(
    groups: Sequence[Sequence[Requirement]], feasible: Feasible[Requirement], stop: Callable[[], object] = lambda: None
) -> Conflict[Requirement]:
    """Return a conflict of requirements that no plan keeps all together, which the caller knows.

    groups: requirements that are likely to be dropped together, those that one would rather not hear of first.
    stop: asked before each question; once it answers, what is left is kept as unproven. A question without an answer
    keeps what it asked about, so that the result is a conflict in any case. Deterministic if `feasible` is.
    """
    search = _Deletion([requirement for group in groups for requirement in group], feasible, stop)
    for group in groups:
        search.drop(group)
    for group in groups:
        search.drop_parts(group)
    for requirement in search.undecided():
        search.drop([requirement])  # with less beside it, the question may be easier now
    parts = [tuple(requirement for requirement in group if requirement in search.kept) for group in groups]
    kept_parts = tuple(part for part in parts if part)
    undecided = frozenset(part for part in kept_parts if not search.needs(part))
    return Conflict(tuple(search.kept), frozenset(search.undecided()), kept_parts, undecided)


def weakest_change(steps: int, suffices: Callable[[int], bool | None]) -> int | None:
    """Return the first of `steps` changes, each stronger than the one before, that is known to suffice; None if none is.

    Bisection: a change without an answer counts as too weak. The returned one has been asked about and suffices.
    """
    if steps < 1 or not suffices(steps - 1):
        return None
    low, high = 0, steps - 1
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return high


class _Deletion(Generic[Requirement]):
    """What is kept so far, and every answer: a part of a feasible set is feasible, a superset of a conflict is one."""

    def __init__(self, requirements: Iterable[Requirement], feasible: Feasible[Requirement], stop: Callable[[], object]) -> None:
        self.kept = dict.fromkeys(requirements)
        self.feasible, self.stop = feasible, stop
        self.plans: list[frozenset[Requirement]] = []

    def drop(self, part: Sequence[Requirement]) -> None:
        """Drop a part if the others exclude each other without it."""
        if any(requirement in self.kept for requirement in part) and self._answer(part) is False:
            for requirement in part:
                self.kept.pop(requirement, None)

    def drop_parts(self, part: Sequence[Requirement]) -> None:
        """Drop as much of a part as can be."""
        part = [requirement for requirement in part if requirement in self.kept]
        if self.stop():
            return
        self.drop(part)
        if len(part) > 1 and part[0] in self.kept:
            self.drop_parts(part[: len(part) // 2])
            self.drop_parts(part[len(part) // 2 :])

    def undecided(self) -> list[Requirement]:
        """Return what is kept although no plan without it is known."""
        return [requirement for requirement in self.kept if not self.needs([requirement])]

    def needs(self, part: Sequence[Requirement]) -> bool:
        """Return whether a plan without this part is known."""
        return self._known(frozenset(self.kept) - frozenset(part))

    def _answer(self, part: Sequence[Requirement]) -> bool | None:
        if self.stop():
            return None
        rest = frozenset(self.kept) - frozenset(part)
        if self._known(rest):
            return True
        answer = self.feasible(rest)
        if answer:
            self.plans.append(rest)
        return answer

    def _known(self, rest: frozenset[Requirement]) -> bool:
        return any(rest <= plan for plan in self.plans)
