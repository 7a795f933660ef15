"""The smallest change that makes a setup fit: kinds of changes and pairs of them, in the order of what they cost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollplan.models.errors import InfeasibleError
from rollplan.models.memory.bill import Gpus, MemoryBill, bill
from rollplan.models.memory.changes import KINDS, Change, Kind, less_utilization
from rollplan.models.memory.setup import Role, Setup

_STRONGEST = -1


@dataclass(frozen=True, slots=True)
class Option:
    """A change that fits. words: one entry per role and field. gib: the peak per GPU where it did not fit before.

    host_gib: what the fullest node's host then holds. bill: of the changed setup; see `bill.tight`.
    """

    words: tuple[str, ...]
    gib: float
    host_gib: float
    setup: Setup
    bill: MemoryBill

    def __str__(self) -> str:
        """Return the change, and the memory that it leaves in use."""
        host = f", {self.host_gib:.0f} GiB on a host" if self.host_gib else ""
        return f"{' and '.join(self.words)}: {self.gib:.1f} GiB per GPU{host}{' (tight)' if self.bill.tight else ''}"


def smallest_change(setup: Setup, gpus: Gpus, max_gpus: int | None = None) -> tuple[Option, ...]:
    """Return the changes that make it fit, the smallest first; empty if the setup fits as it is.

    Kinds of changes are ordered by what they cost the user (`changes.KINDS`). For each kind there is at most one option:
    the kind alone, or with the cheapest of the cheaper kinds if neither suffices alone. An option has the weakest steps
    that fit, and no part that could be left out. It changes one role where that suffices, otherwise all that do not fit.
    max_gpus: GPUs of all pools together that may not be exceeded. Raises `InfeasibleError` if no pair of kinds fits.
    """
    search = _Search(setup, gpus, max_gpus)
    if search.before.fits:
        return ()
    options: list[Option] = []
    insufficient: list[Kind] = []
    for kind in KINDS:
        if alone := search.best([kind]):
            options.append(alone)
            continue
        if pair := next(filter(None, (search.best([cheaper, kind]) for cheaper in insufficient)), None):
            options.append(pair)
        insufficient.append(kind)
    if not options:
        raise InfeasibleError([*search.before.reasons, "no change of one kind and no pair of kinds makes it fit"])
    return tuple(options)


@dataclass(frozen=True, slots=True)
class _Move:
    """One step of a kind, applied to one role; the last step stands for those beyond."""

    kind: Kind
    role: Role
    step: int


class _Search:
    """Looks for steps that fit. Later steps of a kind save more, so that it bisects."""

    def __init__(self, setup: Setup, gpus: Gpus, max_gpus: int | None) -> None:
        self.setup, self.gpus, self.max_gpus = setup, gpus, max_gpus
        self.before = bill(setup, gpus)
        failing = {role for peak in (*self.before.peaks, *self.before.host_peaks) if not peak.fits for role in peak.roles}
        if self.before.kv_problem:
            failing.add("rollout")
        self.failing = tuple(role for role in setup.roles if role in failing)

    def best(self, kinds: Sequence[Kind]) -> Option | None:
        """Return the weakest steps of these kinds that fit: of one role, otherwise of all that do not fit."""
        groups = [(role,) for role in self.failing] if len(kinds) == 1 else []
        # Its strongest step may leave no room for a sequence, so that it is settled before the other kind.
        ordered = sorted(kinds, key=lambda kind: kind is not less_utilization)
        for roles in [*groups, self.failing]:
            if moves := self._weakest([], ordered, roles):
                return self._option(self._pruned(moves))
        return None

    def _weakest(self, moves: list[_Move], kinds: Sequence[Kind], roles: Sequence[Role]) -> list[_Move] | None:
        """Return `moves` and the weakest steps of `kinds` that fit together, the first kind's as weak as the others allow."""
        if not kinds:
            return moves
        kind, *rest = kinds

        def with_step(step: int) -> list[_Move]:
            return [*moves, *(_Move(kind, role, step) for role in roles)]

        others = [_Move(other, role, _STRONGEST) for other in rest for role in roles]
        steps = max(len(self._listed(kind, role, self._apply(moves)[1])) for role in roles)
        step = self._first(steps, lambda step: self._fits([*with_step(step), *others]), bisect=kind is not less_utilization)
        return None if step is None else self._weakest(with_step(step), rest, roles)

    def _first(self, steps: int, fits: Callable[[int], bool], bisect: bool) -> int | None:
        """Return the first step that fits, None if there is none."""
        if not bisect:
            return next((step for step in range(steps) if fits(step)), None)
        return bisect_left(range(steps), True, key=fits) if steps and fits(_STRONGEST) else None

    def _pruned(self, moves: list[_Move]) -> list[_Move]:
        """Leave out what is not needed, the dearest first."""
        for move in sorted(moves, key=lambda move: KINDS.index(move.kind), reverse=True):
            fewer = [other for other in moves if other is not move]
            if self._fits(fewer):
                moves = fewer
        return moves

    def _listed(self, kind: Kind, role: Role, start: Setup) -> list[Change]:
        return [change for change in kind(start, role) if self.max_gpus is None or change.setup.gpus <= self.max_gpus]

    def _apply(self, moves: Sequence[_Move]) -> tuple[list[str], Setup]:
        """Return the words and the setup after these moves; a role that a kind does not concern stays as it is."""
        setup, words = self.setup, []
        for move in moves:
            if changes := self._listed(move.kind, move.role, setup):
                change = changes[min(move.step, len(changes) - 1)]
                setup = change.setup
                words.append(change.words)
        return words, setup

    def _fits(self, moves: Sequence[_Move]) -> bool:
        return bill(self._apply(moves)[1], self.gpus).fits

    def _option(self, moves: Sequence[_Move]) -> Option:
        words, setup = self._apply(moves)
        after = bill(setup, self.gpus)
        gib = max(after.peak(role).gib for role in self.failing)
        return Option(tuple(words), gib, max(peak.gib for peak in after.host_peaks), setup, after)
