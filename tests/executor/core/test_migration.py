"""Long-tail migration: nothing lost, nothing doubled, and the freed nodes go to the next job at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.core.decide import Core
from rollplan.executor.core.events import (
    Instruction,
    Interrupt,
    JobReady,
    Rollout,
    RolloutEnded,
    SamplesDone,
    SyncEnded,
    Train,
    TrainEnded,
)
from rollplan.executor.core.migration import begin
from rollplan.executor.core.rehearse import rehearse

from .books import book, job

NODES = ("a", "b", "c", "d")


def test_migration_waits_for_its_share_and_for_more_nodes_than_it_keeps() -> None:
    """At 80 % of 10 samples, and never if the rest is consolidated already."""
    run = job("A", NODES, samples=10, migrate_at=0.8, migrate_to=1)
    assert begin(run, 7, {"a": {1}, "b": {2, 3}}) is None
    assert begin(run, 8, {"a": set(), "b": {2, 3}}) is None
    due = begin(run, 8, {"a": {1}, "b": {2}})
    assert due is not None
    assert (due.keepers, due.waiting) == (("a",), {"a", "b"})
    assert begin(job("A", NODES), 6, {"a": {1}, "b": {2}}) is None


def test_nodes_with_most_left_keep_it_and_all_keepers_end_with_about_as_many() -> None:
    """Least is moved; what the other nodes began is dealt to the keeper that has least."""
    due = begin(job("A", NODES, samples=40, migrate_at=0.7, migrate_to=2), 30, {"a": {0}, "b": {1, 2, 3, 4}, "c": {5, 6}, "d": {7, 8}})
    assert due is not None
    assert due.keepers == ("b", "c")
    for node, rest in (("d", (8, 7)), ("b", (1, 2, 3, 4)), ("a", (0,)), ("c", (5, 6))):
        due.report(node, rest)
    assert due.consolidated() == {"b": (1, 2, 3, 4, 8), "c": (5, 6, 0, 7)}


def long_tail(task: Rollout) -> Sequence[float]:
    """Samples 0 and 1, on the nodes a and b, take 10 s, all others 2 s."""
    return [10.0 if sample < 2 else 2.0 for sample in task.samples]


def test_the_next_job_starts_on_the_freed_node_while_the_rest_goes_on() -> None:
    """At 2 s node b is given up; its rest runs on a until 10 s, beside the other job on b."""
    first = job("A", ("a", "b"), samples=8, iterations=1, migrate_at=0.7)
    second = job("B", ("b",), iterations=1)
    records, journal = rehearse(book(first, second), finish=long_tail)
    rollouts = [(one.job, one.resource, one.start_s, one.end_s) for one in records if one.kind == "rollout"]
    assert rollouts == [("A", "a", 0.0, 2.0), ("A", "b", 0.0, 2.0), ("A", "a", 2.0, 10.0), ("B", "b", 2.0, 12.0)]
    resumed = [task for _, answer in journal for task in answer if isinstance(task, Rollout) and task.resumed]
    assert [(task.node, task.samples, task.resumed) for task in resumed] == [("a", (0, 1), (0, 1))]


def test_without_migration_the_next_job_waits_for_the_tail() -> None:
    """The same jobs: B starts at 10 s on b."""
    first = job("A", ("a", "b"), samples=8, iterations=1)
    records, _ = rehearse(book(first, job("B", ("b",), iterations=1)), finish=long_tail)
    assert [one.start_s for one in records if (one.job, one.kind) == ("B", "rollout")] == [10.0]


def test_a_sample_that_goes_on_under_newer_weights_is_as_stale_as_its_beginning() -> None:
    """Weights arrived in the meantime; the rest is made by them, and the sample keeps the version of its first token."""
    core = Core(book(job("A", ("a", "b"), samples=4, way="async-batch", staleness=1, migrate_at=0.5)))
    core.start(0.0)
    core.handle(JobReady(0.0, "A", 0))
    for node, samples in (("a", (0, 2)), ("b", (1, 3))):
        core.handle(SamplesDone(1.0, "A", 0, node, samples))
        core.handle(RolloutEnded(1.0, "A", 0, node, ()))
    core.handle(TrainEnded(2.0, "A", 0, 0))
    core.handle(SyncEnded(3.0, "A", 1))
    core.handle(SamplesDone(4.0, "A", 1, "a", (0,)))
    assert core.handle(SamplesDone(4.0, "A", 1, "b", (1,))) == [Interrupt("A", 1, "a"), Interrupt("A", 1, "b")]
    core.handle(RolloutEnded(4.0, "A", 1, "a", (2,)))
    resumed, *_ = core.handle(RolloutEnded(4.0, "A", 1, "b", (3,)))
    assert resumed == Rollout("A", 1, "a", 1, (2, 3), 256, resumed=(2, 3), keep=True)
    (train,) = core.handle(SamplesDone(5.0, "A", 1, "a", (2, 3)))
    assert isinstance(train, Train)
    assert train.versions == (0, 0, 0, 0)


@st.composite
def tails(draw: st.DrawFn) -> tuple[dict[str, Any], list[float]]:
    nodes = draw(st.integers(1, 4))
    samples = draw(st.integers(1, 16))
    settings = {"migrate_at": draw(st.floats(0.05, 0.95)), "migrate_to": draw(st.integers(1, nodes)), "samples": samples, "iterations": 2}
    ends = draw(st.lists(st.integers(0, 9).map(float), min_size=samples, max_size=samples))
    return {"nodes": NODES[:nodes], **settings}, ends


@given(tails())
def test_every_sample_is_finished_once_and_no_sample_later_than_without_migration(tail: tuple[dict[str, Any], list[float]]) -> None:
    """The rest of a sample takes as long as it would have taken, so a migration only frees nodes."""
    settings, ends = tail
    records, journal = rehearse(book(job("A", **settings)), finish=lambda task: [ends[sample] for sample in task.samples])
    done = [(event.iteration, sample) for event, _ in journal if isinstance(event, SamplesDone) for sample in event.samples]
    assert sorted(done) == [(iteration, sample) for iteration in range(2) for sample in range(settings["samples"])]
    trains = [one for one in records if one.kind == "train"]
    assert [one.start_s for one in trains] == [max(ends), 2 * max(ends) + 1.0]
    answered(journal)


def answered(journal: Sequence[tuple[object, Sequence[Instruction]]]) -> None:
    """Every interruption is answered before the rest goes on, and at most `migrate_to` nodes go on."""
    asked = [(one.iteration, one.node) for _, answer in journal for one in answer if isinstance(one, Interrupt)]
    ended = {(event.iteration, event.node) for event, _ in journal if isinstance(event, RolloutEnded)}
    assert len(asked) == len(set(asked))
    assert set(asked) <= ended
