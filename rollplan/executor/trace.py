"""A run as a Chrome trace (opens in Perfetto): what was executed and what was predicted, drawn alike, in one file.

Two processes, `executed` and `predicted`; a thread for each resource and rank. Complete events (`X`) on a thread either lie
one after the other or one inside of the other; what would overlap otherwise gets a thread beside it. Arrows lead from a rollout
to its training and from there to the sync; counters show the host memory that jobs hold; remarks are instants.
Format: "Trace Event Format", Google. Times are microseconds since the run started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from rollplan.executor.core.records import Held, Record, Remark
from rollplan.executor.core.runbook import Runbook
from rollplan.executor.supervise import Ended
from rollplan.models.files import write_whole

Event = dict[str, Any]
_COLOURS = (
    "thread_state_running", "rail_animation", "thread_state_runnable", "rail_load", "cq_build_passed", "thread_state_iowait",
    "rail_response", "cq_build_failed",
)  # fmt: skip
"""Colour names that Chrome's viewer knows; Perfetto colours by name, which is the job's here, too."""
_EXECUTED, _PREDICTED = 1, 2
_NEXT = {"rollout": "train", "train": "sync"}
"""Where arrows lead."""


def chrome_trace(runbook: Runbook, ended: Ended, predicted: Sequence[Record]) -> dict[str, Any]:
    """Return the trace as plain data. predicted: a rehearsal; it is drawn from where the first phase was executed."""
    predicted = _drawn(runbook, predicted, min((one.start_s for one in ended.records if one.kind in ("load", "rollout")), default=0.0))
    colours = {job.name: _COLOURS[place % len(_COLOURS)] for place, job in enumerate(runbook.jobs)}
    order = [resource.name for resource in runbook.resources]
    events: list[Event] = []
    for process, name, records in ((_EXECUTED, "executed", ended.records), (_PREDICTED, "predicted", predicted)):
        events.append({"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}})
        events += _tracks(process, order, records, colours)
    events += _memory(ended.held)
    events += [
        {"ph": "i", "s": "p", "name": _named(remark), "cat": "remark", "pid": _EXECUTED, "tid": 0, "ts": _us(remark.at_s), "args": {}}
        for remark in ended.remarks
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"plan": runbook.seal, "policy": runbook.policy}}


def save_trace(path: Path, runbook: Runbook, ended: Ended, predicted: Sequence[Record]) -> None:
    """Write the trace whole or not at all; raise `InputError` if it cannot be written."""
    write_whole(path, json.dumps(chrome_trace(runbook, ended, predicted)) + "\n")


def _drawn(runbook: Runbook, predicted: Iterable[Record], from_s: float) -> list[Record]:
    """Return a rehearsal later by `from_s`, with the switch that opens its phases as a slice of its own."""
    promised = {job.name: job.predicted for job in runbook.jobs}
    begun: set[tuple[str, str, int]] = set()
    found = []
    for record in predicted:
        moved = replace(record, start_s=record.start_s + from_s, end_s=record.end_s + from_s)
        key = (record.job, record.resource, record.iteration)
        times = promised[record.job]
        switch_s = {"rollout": times.rollout_switch_s, "train": times.train_switch_s}.get(record.kind, 0.0)
        if 0 < switch_s <= moved.seconds and key not in begun:
            found.append(replace(moved, kind="load", end_s=moved.start_s + switch_s))
            moved = replace(moved, start_s=moved.start_s + switch_s)
        begun.add(key)
        found.append(moved)
    return found


def _tracks(process: int, order: Sequence[str], records: Iterable[Record], colours: Mapping[str, str]) -> Iterator[Event]:
    """Yield the threads of one process with their slices, and the arrows between these."""
    rank = {name: place for place, name in enumerate(order)}
    tracks: dict[tuple[int, str, int], list[Record]] = {}
    for record in records:
        tracks.setdefault((rank.get(record.resource, len(rank)), record.resource, record.worker), []).append(record)
    thread = 0
    placed: list[tuple[int, Record]] = []
    for (_, resource, worker), found in sorted(tracks.items()):
        for lane, inside in enumerate(_lanes(found)):
            thread += 1
            title = resource + (f" rank {worker}" if worker else "") + (f" ({lane + 1})" if lane else "")
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": title}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}
            for record in inside:
                placed.append((thread, record))
                yield _slice(process, thread, record, colours.get(record.job))
    yield from _arrows(process, placed)


def _lanes(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records of a track in as few lanes as first fit finds, so that no two overlap in part."""
    lanes: list[tuple[list[Record], list[int]]] = []
    for record in sorted(records, key=lambda record: (_us(record.start_s), -_us(record.end_s))):
        lane = next((lane for lane in lanes if _has_room(lane[1], record)), None)
        if lane is None:
            lane = ([], [])
            lanes.append(lane)
        lane[0].append(record)
        lane[1].append(_us(record.end_s))
    return [inside for inside, _ in lanes]


def _has_room(open_ends: list[int], record: Record) -> bool:
    """Return whether a record lies inside of, or after, what is still open in a lane; close what has ended before."""
    while open_ends and open_ends[-1] <= _us(record.start_s):
        open_ends.pop()
    return not open_ends or _us(record.end_s) <= open_ends[-1]


def _slice(process: int, thread: int, record: Record, colour: str | None) -> Event:
    start, end = _us(record.start_s), _us(record.end_s)
    name = f"{record.job}: {record.kind}"
    event = {"ph": "X", "name": name, "cat": record.kind, "pid": process, "tid": thread, "ts": start, "dur": end - start}
    # JSON has no word for what is not finite.
    values = {name: value if isfinite(value) else str(value) for name, value in record.values.items()}
    return {**event, **({"cname": colour} if colour else {}), "args": {"iteration": record.iteration, **values}}


def _arrows(process: int, placed: Sequence[tuple[int, Record]]) -> Iterator[Event]:
    """Yield the start and the end of each arrow: last rollout of an iteration to its training, training to the sync after it."""
    first: dict[tuple[str, str, int], tuple[int, Record]] = {}
    last: dict[tuple[str, str, int], tuple[int, Record]] = {}
    for thread, record in sorted(placed, key=lambda item: item[1].start_s):
        key = (record.job, record.kind, record.iteration)
        first.setdefault(key, (thread, record))
        if key not in last or record.end_s >= last[key][1].end_s:
            last[key] = (thread, record)
    number = 0
    for job, kind, iteration in sorted(last):
        source, target = last[job, kind, iteration], first.get((job, _NEXT.get(kind, ""), iteration))
        # A trainer that streams has begun before the last rollout ended.
        if target is None or target[1].start_s < source[1].end_s - 1e-6:
            continue
        number += 1
        common = {"name": f"{job}: {kind}", "cat": "flow", "pid": process, "id": number + process * 1_000_000}
        yield {"ph": "s", **common, "tid": source[0], "ts": max(_us(source[1].start_s), _us(source[1].end_s) - 1), "args": {}}
        yield {"ph": "f", "bp": "e", **common, "tid": target[0], "ts": _us(target[1].start_s), "args": {}}


def _memory(seen: Iterable[Held]) -> Iterator[Event]:
    """Yield a counter for each resource: GiB that every job was last seen to hold there."""
    held: dict[str, dict[str, float]] = {}
    for one in seen:
        jobs = held.setdefault(one.resource, {})
        jobs[one.job] = one.held_bytes / 2**30
        name = f"memory {one.resource}, GiB"
        yield {"ph": "C", "name": name, "pid": _EXECUTED, "tid": 0, "ts": _us(one.at_s), "args": dict(jobs)}


def _named(remark: Remark) -> str:
    return remark.text if remark.job is None else f"{remark.job}: {remark.text}"


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
