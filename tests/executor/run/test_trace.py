"""The trace is one that viewers take: well-formed events, no overlap in part, executed and predicted drawn alike."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.core.records import Held, Record, Remark
from rollplan.executor.core.rehearse import rehearse
from rollplan.executor.runbook_of_plan import runbook
from rollplan.executor.trace import chrome_trace, save_trace

from .made import a_runbook, ended, executed, planned, record


def slices(trace: dict[str, Any], process: int) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == process]


def assert_sound(trace: dict[str, Any]) -> None:
    """Every event has what its kind needs; on a thread, slices follow each other or lie inside of each other."""
    named = {(event["pid"], event["tid"]) for event in trace["traceEvents"] if event["name"] == "thread_name"}
    threads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    arrows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] in "MXCisf"
        assert event["ph"] == "M" or (isinstance(event["ts"], int) and event["ts"] >= 0)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
    for spans in threads.values():
        open_ends: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)
    for source, target in arrows.values():
        assert (source["ph"], target["ph"], target["bp"]) == ("s", "f", "e")
        assert source["ts"] <= target["ts"]
        for end in (source, target):
            assert any(start <= end["ts"] <= stop for start, stop in threads[end["pid"], end["tid"]]), "an arrow begins and ends in a slice"


KINDS = st.sampled_from(["start", "load", "rollout", "train", "step", "save", "offload", "sync", "migrate"])
RECORDS = st.lists(
    st.builds(
        lambda job, resource, kind, iteration, start, length, worker: Record(
            job, resource, kind, iteration, start, start + length, worker, {"x": 1.0}
        ),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["g1/rollout-0", "g1/train", "gone"]),
        KINDS,
        st.integers(0, 3),
        st.floats(0, 20),
        st.floats(0, 8),
        st.integers(0, 1),
    ),
    max_size=30,
)


@given(RECORDS, RECORDS)
def test_whatever_was_recorded_the_trace_is_sound(one: list[Record], other: list[Record]) -> None:
    """Workers of a resource overlap, faults leave anything; nothing is left out."""
    book = runbook(planned())
    trace = chrome_trace(book, ended(one), other)
    assert_sound(trace)
    assert len(slices(trace, 1)) == len(one)
    json.dumps(trace, allow_nan=False)


def test_executed_and_predicted_look_the_same() -> None:
    """The same threads, the same slices in the same order on each; the prediction begins where the first phase was executed."""
    book = runbook(planned())
    shown = ("load", "rollout", "train", "sync")
    # After its last training a job needs no weights.
    records = [
        one for one in executed(4) + executed(4, job="b", from_s=9.0) if one.kind in shown and (one.kind, one.iteration) != ("sync", 3)
    ]
    trace = chrome_trace(book, ended(records), rehearse(book)[0])
    assert_sound(trace)
    titles = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    drawn = [
        [(titles[process, event["tid"]], event["name"], event["args"]["iteration"]) for event in slices(trace, process)]
        for process in (1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert {(event["name"], event.get("cname")) for event in slices(trace, 1)} == {
        (event["name"], event.get("cname")) for event in slices(trace, 2)
    }
    assert min(event["ts"] for event in slices(trace, 2)) == min(event["ts"] for event in slices(trace, 1)) == 2_000_000


def test_arrows_lead_from_rollout_to_training_to_sync() -> None:
    """One of each in every iteration."""
    trace = chrome_trace(a_runbook(), ended(executed(3)), [])
    arrows = [(event["ph"], event["ts"]) for event in trace["traceEvents"] if event["ph"] in "sf"]
    assert len(arrows) == 2 * 2 * 3
    assert all(later - earlier >= 1 for (_, earlier), (_, later) in pairwise(arrows[:2]))


def test_memory_is_a_counter_and_remarks_are_instants() -> None:
    """GiB of every job on a resource, stacked by the viewer."""
    held = (Held(1.0, "a", "g1/train", 2**30), Held(2.0, "b", "g1/train", 2**29), Held(3.0, "a", "g1/train", 2**31))
    trace = chrome_trace(a_runbook(), ended([], [Remark(1.5, "a", "restart")], held=held), [])
    assert_sound(trace)
    counters = [(event["ts"], event["args"]) for event in trace["traceEvents"] if event["ph"] == "C"]
    assert counters == [(1_000_000, {"a": 1.0}), (2_000_000, {"a": 1.0, "b": 0.5}), (3_000_000, {"a": 2.0, "b": 0.5})]
    assert [(event["name"], event["ts"], event["s"]) for event in trace["traceEvents"] if event["ph"] == "i"] == [
        ("a: restart", 1_500_000, "p")
    ]


def test_ranks_have_threads_of_their_own(tmp_path: Path) -> None:
    """They work at the same time; the file is JSON and says which plan it is of."""
    records = [record("train", 0.0, 2.0, worker=0), record("train", 0.0, 2.5, worker=1), record("step", 1.5, 2.0, worker=0)]
    save_trace(tmp_path / "t.json", a_runbook(), ended(records), [])
    trace = json.loads((tmp_path / "t.json").read_text())
    assert_sound(trace)
    assert trace["otherData"] == {"plan": "0" * 64, "policy": "round-robin"}
    titles = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"]
    assert titles == ["g1/train", "g1/train rank 1"]


def test_numbers_that_json_has_no_word_for_are_text() -> None:
    """`NaN` is no JSON, and a viewer would refuse the whole file for one loss."""
    trace = chrome_trace(a_runbook(), ended([record("train", 0.0, 1.0, values={"loss": nan, "reward": 1.0})]), [])
    assert slices(json.loads(json.dumps(trace, allow_nan=False)), 1)[0]["args"] == {"iteration": 0, "loss": "nan", "reward": 1.0}
