"""Runs in a file: several writers at once, restarts, resumed runs that repeat steps, lines that stand there twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rollplan.profilers.logs.framework import FALLBACK, Gathered, Record

_MIXED = 3
"""A run that falls back so often, by one step each time, is two runs whose lines are mixed."""
_FAR = 3
"""A step that falls back this far to the beginning is a new run even if it was not seen before."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run: its steps in order, and what was odd about them."""

    steps: tuple[Gathered, ...]
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line."""
        numbers = [step.line for step in self.steps]
        return min(numbers), max(numbers)


def sessions(records: Sequence[Record]) -> list[Session]:
    """Part records into runs, in the order in which they begin."""
    if any(record.part != FALLBACK for record in records):
        records = [record for record in records if record.part != FALLBACK]
    found = [session for lane in _lanes(records) for session in _runs(lane)]
    return sorted(found, key=lambda session: session.lines[0])


def _lanes(records: Sequence[Record]) -> list[list[Record]]:
    """Part records by writers that write the same keys at the same time: those are runs of their own."""
    writers: dict[tuple[str, str | None], list[Record]] = {}
    for record in records:
        writers.setdefault((record.part, record.actor), []).append(record)
    lanes: dict[str, list[list[Record]]] = {}
    for (part, _), own in writers.items():
        places = lanes.setdefault(part, [])
        for lane in places:
            if lane[-1].line <= own[0].line or own[-1].line <= lane[0].line or not _rivals(lane, own):
                lane.extend(own)
                lane.sort(key=lambda record: record.line)
                break
        else:
            places.append(list(own))
    count = max((len(places) for places in lanes.values()), default=0)
    # The trainers and the rollout sides of several runs belong together in the order in which they begin.
    runs = [[record for places in lanes.values() if number < len(places) for record in places[number]] for number in range(count)]
    return [sorted(run, key=lambda record: record.line) for run in runs]


def _rivals(lane: Sequence[Record], own: Sequence[Record]) -> bool:
    """Return whether two writers say different things of the same steps."""
    said = {record.step: record.values for record in lane}
    return any(_differ(said[record.step], record.values) for record in own if record.step in said)


def _differ(one: object, other: object) -> bool:
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    return any(one[key] != other[key] for key in one.keys() & other.keys())


@dataclass
class _Run:
    """A run that is being put together. last: the latest step of every part. resumed: where it fell back."""

    steps: dict[int, Gathered] = field(default_factory=dict)
    old: list[Gathered] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    twice: int = 0
    resumed: list[int] = field(default_factory=list)

    def restarted(self, record: Record) -> bool:
        """Return whether a record begins another run: the count is back at the beginning."""
        if record.step > self.last.get(record.part, -1) or record.step > max(min(self.steps), 1):
            return False
        known = self.steps.get(record.step)
        return self.last[record.part] - record.step >= _FAR or (known is not None and _differ(known.values, record.values))

    def add(self, record: Record) -> None:
        """Take a record of this run."""
        known = self.steps.get(record.step)
        last = self.last.get(record.part, -1)
        if known is None:
            self.steps[record.step] = Gathered(record.line, record.step, record.values, record.whole)
        elif not _differ(known.values, record.values):
            self.twice += record.values.keys() <= known.values.keys()
            self.steps[record.step] = replace(known, values={**known.values, **record.values}, whole=known.whole and record.whole)
        else:
            self.old.append(replace(known, repeated=record.line))
            self.steps[record.step] = Gathered(record.line, record.step, record.values, record.whole)
            if record.step <= last and (not self.resumed or last > self.resumed[-1]):
                self.resumed.append(record.step)
        self.last[record.part] = record.step

    def finished(self) -> Session:
        """Return the run with its steps in order."""
        notes = []
        if self.twice:
            notes.append(f"{self.twice} step{'s stand' if self.twice != 1 else ' stands'} in the log twice; each was read once")
        if len(self.resumed) >= _MIXED and len(self.old) == len(self.resumed):
            notes.append(
                f"{len(self.old)} steps stand in the log with two different sets of values: lines of two runs may be mixed; part them"
            )
        elif self.old:
            notes.append(f"the run was resumed: {len(self.old)} repeated step{'s' if len(self.old) != 1 else ''} count only the last time")
        steps = sorted([*self.steps.values(), *self.old], key=lambda step: (step.step, step.line))
        return Session(tuple(steps), tuple(notes))


def _runs(records: Sequence[Record]) -> Iterator[Session]:
    steps = [record.step for record in records]
    if len(steps) > 2 and all(before > after for before, after in pairwise(steps)):
        records = list(reversed(records))
    run = _Run()
    for record in records:
        if run.steps and run.restarted(record) and not _said_before(run, record):
            yield run.finished()
            run = _Run()
        run.add(record)
    if run.steps:
        yield run.finished()


def _said_before(run: _Run, record: Record) -> bool:
    """Return whether the run holds a record already: a file that was pasted twice is one run."""
    known = run.steps.get(record.step)
    return known is not None and record.values.items() <= known.values.items()
