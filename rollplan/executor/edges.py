"""How long data waits between the stages of a job, from records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from rollplan.executor.core.records import Record
from rollplan.executor.core.runbook import JobRun

_EPS_S = 1e-6


@dataclass(frozen=True, slots=True)
class Edge:
    """Latencies of one edge in seconds. count: how many were seen. p95_s: 95 of 100 are at most so long (nearest rank)."""

    name: str
    mean_s: float
    p95_s: float
    count: int


def edges(job: JobRun, own: Iterable[Record]) -> Iterator[Edge]:
    """Yield the edges of a job that were used.

    `rollout -> train`: from the end of a rollout on a node to the start of the next training of its iteration, which holds the
    wait for the other nodes and for the permit. `train -> rollout`: from the end of training to the end of the sync.
    """
    records = sorted(own, key=lambda record: record.start_s)
    training: dict[int, list[Record]] = {}
    for record in records:
        if record.kind == "train":
            training.setdefault(record.iteration, []).append(record)
    rollouts = (record for record in records if record.kind == "rollout")
    forth = [wait for one in rollouts if (wait := _wait_s(one, training.get(one.iteration, ()))) is not None]
    trained = {record.iteration: record.end_s for record in sorted(records, key=_end) if record.kind in ("train", "step")}
    synced = {record.iteration: record.end_s for record in sorted(records, key=_end) if record.kind == "sync"}
    back = [end_s - trained[iteration] for iteration, end_s in synced.items() if iteration in trained]
    for name, waits in (("rollout -> train", forth), ("train -> rollout", back)):
        if waits:
            yield Edge(name, fmean(waits), _p95(waits), len(waits))


def _wait_s(rollout: Record, training: Sequence[Record]) -> float | None:
    """Return how long what a rollout made waited for its trainer; None if it was never trained."""
    starts = (record.start_s for record in training if record.end_s >= rollout.end_s - _EPS_S)
    # A trainer that streams has taken the samples before the rollout ended.
    return next((max(0.0, start - rollout.end_s) for start in starts), None)


def _end(record: Record) -> float:
    return record.end_s


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[ceil(0.95 * len(values)) - 1]
