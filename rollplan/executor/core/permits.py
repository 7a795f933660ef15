"""Who may use a resource: at most one job at a time, in the order of the plan or in the order of asking.

Strict round robin (RollMux, arXiv 2512.11306, 4.3): turns have numbers, one per iteration of a job, and a resource serves
them in the order (turn, place in the ring), whoever is ready first. A job has the same turn on all of its resources, so
they all serve the jobs in the same cyclic order; orders that differ cost up to twice the period (docs/round_robin.md).
A timetable, in which short jobs run several times while a long one runs once, gives every turn its moment instead:
turns repeat after a period, and a resource serves them in the order of their moments, again without looking at a clock.
Jobs that left the ring are not waited for. One that (re-)joins gets the first turn that none of its resources has passed.
First in, first out serves whoever asked first (RollMux 5.1), which lets short jobs overtake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor

from rollplan.executor.core.runbook import Policy


class Permit:
    """The permit of one resource.

    ring: its jobs in the order of their turns. moments: for each of them, when its turns of one period begin, ascending;
    empty: one turn each, in the order of the ring. period: after which the moments repeat.
    """

    def __init__(self, ring: Sequence[str], policy: Policy, moments: Sequence[Sequence[float]] = (), period: float = 0.0) -> None:
        self.policy = policy
        self.holder: str | None = None
        self.asking: list[str] = []
        self._place = {job: place for place, job in enumerate(ring)}
        self._period = period if moments else float(len(ring))
        self._moments = dict(zip(ring, moments or [(float(place),) for place in range(len(ring))], strict=True))
        self._turns: dict[str, range] = {}
        self._granted = (float("-inf"), -1)

    def first_turn(self, job: str) -> int:
        """Return the first turn of a job that comes after all that were granted."""
        moment, _ = self._granted
        turn = 0
        if moment > float("-inf"):
            first = self._moments[job][0]
            turn = max(0, floor((moment - first) / self._period) - 1) * len(self._moments[job])
        while self._key(job, turn) <= self._granted:
            turn += 1
        return turn

    def join(self, job: str, turns: range) -> None:
        """Wait for a job in each of these turns."""
        if turns:
            self._turns[job] = turns

    def leave(self, job: str) -> None:
        """Do not wait for a job any longer; if it holds the permit, it keeps it."""
        self._turns.pop(job, None)
        if job in self.asking:
            self.asking.remove(job)

    def ask(self, job: str) -> None:
        """Say that a job could use the resource now; asking again changes nothing."""
        if job not in self.asking and job != self.holder:
            self.asking.append(job)

    def grant(self) -> str | None:
        """Give the free permit to the job whose turn it is, if that one asks; return the new holder."""
        if self.holder is not None or not self.asking:
            return None
        job = self._next()
        if job not in self.asking:
            return None
        self.asking.remove(job)
        self.holder = job
        if turns := self._turns.pop(job, None):
            self._granted = self._key(job, turns.start)
            self.join(job, turns[1:])
        return job

    def release(self, job: str) -> None:
        """Take the permit back, if the job has it."""
        if self.holder == job:
            self.holder = None

    def queue(self) -> tuple[str, ...]:
        """Return who asks, in the order in which they would be served if everybody asked."""
        return tuple(self.asking if self.policy == "fifo" else sorted(self.asking, key=self._next_key))

    def _next(self) -> str:
        return self.asking[0] if self.policy == "fifo" else min(self._turns, key=self._next_key)

    def _next_key(self, job: str) -> tuple[float, int]:
        return self._key(job, self._turns[job].start)

    def _key(self, job: str, turn: int) -> tuple[float, int]:
        """Return the moment of a turn; of equal ones, the first in the ring comes first."""
        periods, number = divmod(turn, len(self._moments[job]))
        return periods * self._period + self._moments[job][number], self._place[job]


def join_all(permits: Iterable[Permit], job: str, iterations: int) -> None:
    """Let a job join the rings of all its resources, with the same turns on each."""
    permits = tuple(permits)
    first = max(permit.first_turn(job) for permit in permits)
    for permit in permits:
        permit.join(job, range(first, first + iterations))
