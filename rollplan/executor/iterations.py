"""From records to iterations: how long each phase of each iteration kept its nodes busy, and which iterations count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rollplan.executor.core.chunks import WITH_SYNC
from rollplan.executor.core.records import Record, RecordKind
from rollplan.executor.core.runbook import JobRun

FIRST = "first iteration"
AGAIN = "started again"
LAST = "last iteration, beside which nothing rolls out any more"
_ROLLOUT: tuple[RecordKind, ...] = ("rollout",)
_TRAINING: tuple[RecordKind, ...] = ("train", "step")
_SAVE: tuple[RecordKind, ...] = ("save",)
_SYNC: tuple[RecordKind, ...] = ("sync",)
_SWITCH: tuple[RecordKind, ...] = ("load", "offload")
_COUNTED = ("samples", "tokens")
"""Values of a rollout that add up over its nodes: finished samples and their tokens."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Seconds of one iteration of a job.

    Phases are what the busiest of the resources that do it at once was busy: rollout of the longest node; training with the
    optimizer's step; save: writing the state, while the training nodes are held. None: nothing of it was recorded. ended_s: of
    training, since the run started; period_s: since that of the iteration before. left_out: why it says nothing of the steady
    state, None if it counts. values: `samples`, `response_mean` (tokens), and
    means of what the program reported.
    """

    number: int
    rollout_s: float | None
    train_s: float | None
    save_s: float | None
    rollout_switch_s: float | None
    train_switch_s: float | None
    sync_s: float | None
    ended_s: float
    period_s: float | None
    left_out: str | None
    values: Mapping[str, float]


def iterations(job: JobRun, records: Iterable[Record]) -> tuple[Iteration, ...]:
    """Return the trained iterations of a job, ascending; those that had to be started again are left out of the steady state.

    So is the last one of a job whose stages overlap: it has the nodes to itself.
    """
    own = [record for record in records if record.job == job.name]
    ends = _training_ends(own)
    again = _again(own)
    drained = None if job.way in WITH_SYNC else job.iterations - 1
    by_number: dict[int, list[Record]] = {number: [] for number in ends}
    for record in own:
        by_number.get(record.iteration, []).append(record)
    rollout, train = frozenset(job.rollout), frozenset([job.train])
    found = []
    for number, ended_s in sorted(ends.items()):
        now, before = by_number[number], ends.get(number - 1)
        found.append(
            Iteration(
                number=number,
                rollout_s=busy_s(now, _ROLLOUT, rollout),
                train_s=busy_s(now, _TRAINING, train),
                save_s=busy_s(now, _SAVE, train),
                rollout_switch_s=busy_s(now, _SWITCH, rollout),
                train_switch_s=busy_s(now, _SWITCH, train),
                sync_s=busy_s(now, _SYNC, train),
                ended_s=ended_s,
                period_s=None if before is None or before > ended_s else ended_s - before,
                left_out=FIRST if number == min(ends) else AGAIN if number in again else LAST if number == drained else None,
                values=_values(now),
            )
        )
    return tuple(found)


def counting(found: Sequence[Iteration]) -> tuple[Iteration, ...]:
    """Return the iterations of the steady state; all of them if there are none."""
    return tuple(iteration for iteration in found if iteration.left_out is None) or tuple(found)


def busy_s(records: Iterable[Record], kinds: Collection[RecordKind], resources: Collection[str]) -> float | None:
    """Return how long the busiest of some resources did things of these kinds; None if none of them did."""
    by_resource: dict[str, list[Record]] = {}
    for record in records:
        if record.kind in kinds and record.resource in resources:
            by_resource.setdefault(record.resource, []).append(record)
    return max(filter(None, (_union_s(found) for found in by_resource.values())), default=0.0 if by_resource else None)


def _union_s(records: Iterable[Record]) -> float | None:
    """Return the seconds in which at least one of the records runs; workers of a resource work side by side."""
    total, until = 0.0, float("-inf")
    spans = sorted((record.start_s, record.end_s) for record in records)
    for start_s, end_s in spans:
        total += max(0.0, end_s - max(start_s, until))
        until = max(until, end_s)
    return total if spans else None


def _training_ends(own: Iterable[Record]) -> dict[int, float]:
    ends: dict[int, float] = {}
    for record in own:
        if record.kind in _TRAINING:
            ends[record.iteration] = max(ends.get(record.iteration, 0.0), record.end_s)
    return ends


def _again(own: Sequence[Record]) -> set[int]:
    """Return the iterations with which the job went on after a start, and those of which something was done before it already."""
    first_s: dict[int, float] = {}
    for record in own:
        first_s[record.iteration] = min(record.start_s, first_s.get(record.iteration, record.start_s))
    starts = [(record.iteration, record.start_s) for record in own if record.kind in ("start", "restart")]
    return {number for number, begun_s in first_s.items() for goes_on, start_s in starts if goes_on <= number and begun_s <= start_s}


def _values(records: Iterable[Record]) -> dict[str, float]:
    """Return samples and mean length of the rollout, and the mean over samples of whatever else the program reported."""
    gathered: dict[str, list[tuple[float, float]]] = {}
    counted = dict.fromkeys(_COUNTED, 0.0)
    for record in records:
        if record.kind == "rollout":
            for name in counted:
                counted[name] += record.values.get(name, 0.0)
        if record.kind in ("rollout", "train"):
            samples = record.values.get("samples", 0.0)
            for name in record.values.keys() - counted.keys():
                gathered.setdefault(name, []).append((record.values[name], samples if samples > 0 else 1.0))
    lengths = {"samples": counted["samples"], "response_mean": counted["tokens"] / counted["samples"]} if counted["samples"] else {}
    return {**{name: fmean(*zip(*values, strict=True)) for name, values in gathered.items()}, **lengths}
