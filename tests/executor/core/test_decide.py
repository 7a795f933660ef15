"""What a healthy run does, step by step, and what it shows."""

from __future__ import annotations

from rollplan.executor.core.decide import Core
from rollplan.executor.core.events import (
    Estimate,
    Estimated,
    JobReady,
    Rollout,
    RolloutEnded,
    SamplesDone,
    StartJob,
    Sync,
    SyncEnded,
    Train,
    TrainEnded,
    event_from_dict,
    event_to_dict,
)
from rollplan.executor.core.rehearse import rehearse
from rollplan.executor.core.runbook import Dispatch

from .books import TRAIN, book, colocated, job


def test_an_iteration_of_two_jobs_step_by_step() -> None:
    """Starts side by side; A's rollout, then B's beside A's training; the trainer is A's until its sync has ended."""
    core = Core(book(job("A", ["n"], samples=2), job("B", ["n"], samples=2)))
    assert core.start(0.0) == [StartJob("A", 0), StartJob("B", 0)]
    assert core.handle(JobReady(1.0, "A", 0)) == [Rollout("A", 0, "n", 0, (0, 1), 256)]
    assert core.handle(JobReady(1.0, "B", 0)) == []
    assert core.handle(SamplesDone(2.0, "A", 0, "n", (1,))) == []
    assert core.handle(SamplesDone(2.0, "A", 0, "n", (0,))) == [Train("A", 0, 0, (0, 1), (0, 0), last=True)]
    assert core.handle(RolloutEnded(2.0, "A", 0, "n", ())) == [Rollout("B", 0, "n", 0, (0, 1), 256)]
    assert core.handle(SamplesDone(3.0, "B", 0, "n", (0, 1))) == []
    assert core.handle(RolloutEnded(3.0, "B", 0, "n", ())) == []
    assert core.handle(TrainEnded(4.0, "A", 0, 0)) == [Sync("A", 1)]
    assert core.handle(SyncEnded(5.0, "A", 1)) == [Rollout("A", 1, "n", 1, (0, 1), 256), Train("B", 0, 0, (0, 1), (0, 0), last=True)]


def test_the_status_says_who_does_what_and_who_waits() -> None:
    """What a screen shows while A trains its first iteration and B has rolled out."""
    core = Core(book(job("A", ["n"], samples=2), job("B", ["n"], samples=2)))
    core.start(0.0)
    for event in (
        JobReady(1.0, "A", 0), JobReady(1.0, "B", 0), SamplesDone(2.0, "A", 0, "n", (0, 1)), RolloutEnded(2.0, "A", 0, "n", ()),
        SamplesDone(3.0, "B", 0, "n", (0, 1)),
    ):  # fmt: skip
        core.handle(event)
    assert core.status()["resources"] == {
        "n": {"holder": "B", "does": "rollout 0", "queue": [], "lost": False},
        TRAIN: {"holder": "A", "does": "training 0", "queue": ["B"], "lost": False},
    }
    shown = core.status()["jobs"]["B"]
    counts = {"iteration": 0, "iterations": 3, "version": 0, "restarts": 0, "samples": 2, "samples_done": 2}
    assert shown == {"state": "running", "reason": "", **counts}


def test_lengths_are_asked_for_as_early_as_possible_and_decide_the_deal() -> None:
    """At the start for the first two iterations, so that no answer waits for a rollout that others have ended; a rollout waits for it."""
    core = Core(book(job("A", ["n", "m"], samples=4, dispatch=Dispatch("lpt", slots=3))))
    core.start(0.0)
    assert core.handle(JobReady(1.0, "A", 0)) == [Estimate("A", 0)]
    answer = core.handle(Estimated(1.0, "A", 0, (1.0, 2.0, 3.0, 4.0)))
    assert answer == [
        Estimate("A", 1),
        Rollout("A", 0, "n", 0, (3, 1), 3, keep=True),
        Rollout("A", 0, "m", 0, (2, 0), 3, keep=True),
    ]
    assert core.handle(Estimated(1.5, "A", 1, ())) == [Estimate("A", 2)]
    for node, samples in (("n", (3, 1)), ("m", (2, 0))):
        core.handle(SamplesDone(2.0, "A", 0, node, samples))
        core.handle(RolloutEnded(2.0, "A", 0, node, ()))
    core.handle(TrainEnded(3.0, "A", 0, 0))
    rollouts = [one.samples for one in core.handle(SyncEnded(3.0, "A", 1)) if isinstance(one, Rollout)]
    assert rollouts == [(0, 2), (1, 3)], "a program without estimates: evenly"


def test_estimates_of_the_wrong_number_are_said_and_not_used() -> None:
    """A fault of the program that costs a good deal, not the run."""
    core = Core(book(job("A", ["n"], samples=2, dispatch=Dispatch("lpt"))))
    core.start(0.0)
    core.handle(JobReady(1.0, "A", 0))
    assert Rollout("A", 0, "n", 0, (0, 1), 256, keep=True) in core.handle(Estimated(1.0, "A", 0, (5.0,)))
    assert [remark.text for remark in core.take_remarks()] == ["1 estimates for 2 samples of iteration 0: dealt evenly instead"]
    assert core.take_remarks() == []


def test_training_starts_with_the_last_sample_unless_it_needs_the_same_nodes() -> None:
    """Where rollout and training take turns on the same nodes, the engine has to be off-loaded first."""
    for runbook, early in ((book(job("A", ["n"], samples=2)), True), (colocated(book(job("A", ["n"], samples=2))), False)):
        core = Core(runbook)
        core.start(0.0)
        core.handle(JobReady(0.0, "A", 0))
        assert bool(core.handle(SamplesDone(1.0, "A", 0, "n", (0, 1)))) == early
        assert bool(core.handle(RolloutEnded(2.0, "A", 0, "n", ()))) != early


def test_fewer_samples_than_nodes_leave_nodes_out() -> None:
    """Nothing is loaded for nothing; the turn passes, and the next iteration goes on."""
    records, _ = rehearse(book(job("A", ["a", "b", "c"], samples=2), job("B", ["c"])))
    assert {one.resource for one in records if (one.job, one.kind) == ("A", "rollout")} == {"a", "b"}
    assert len([one for one in records if one.kind == "train"]) == 6


def test_rollouts_run_ahead_as_far_as_staleness_allows() -> None:
    """Bound 2: iterations 0, 1 and 2 may use version 0; iteration 3 waits for version 1."""
    core = Core(book(job("A", ["n"], samples=1, iterations=9, way="async-batch", staleness=2)))
    core.start(0.0)
    seen = core.handle(JobReady(0.0, "A", 0))
    for iteration in range(3):
        seen += core.handle(SamplesDone(1.0, "A", iteration, "n", (0,)))
        seen += core.handle(RolloutEnded(1.0, "A", iteration, "n", ()))
    assert [(one.iteration, one.version) for one in seen if isinstance(one, Rollout)] == [(0, 0), (1, 0), (2, 0)]
    assert core.handle(TrainEnded(2.0, "A", 0, 0)) == [Sync("A", 1), Train("A", 1, 0, (0,), (0,), last=True, keep=True)]
    assert core.handle(SyncEnded(3.0, "A", 1)) == [Rollout("A", 3, "n", 1, (0,), 256, keep=True)]


def test_one_sync_at_a_time_and_then_the_newest_weights() -> None:
    """A sync that takes longer than two trainings: version 2 is never sent, because version 3 is there."""
    core = Core(book(job("A", ["n"], samples=1, iterations=9, way="async-batch", staleness=3)))
    core.start(0.0)
    core.handle(JobReady(0.0, "A", 0))
    seen = []
    for iteration in range(3):
        seen += core.handle(SamplesDone(1.0, "A", iteration, "n", (0,)))
        seen += core.handle(RolloutEnded(1.0, "A", iteration, "n", ()))
        seen += core.handle(TrainEnded(2.0, "A", iteration, 0))
    seen += core.handle(SyncEnded(3.0, "A", 1))
    assert [one.version for one in seen if isinstance(one, Sync)] == [1, 3]


def test_a_journal_survives_json() -> None:
    """Events of a rehearsal, there and back."""
    _, journal = rehearse(book(job("A", ["n", "m"], dispatch=Dispatch("lpt")), job("B", ["n"])))
    events = [event for event, _ in journal if event is not None]
    assert [event_from_dict(event_to_dict(event)) for event in events] == events
