"""Faults: one job is stopped, said why, and started again from what it last finished; the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from rollplan.executor.core.decide import Core
from rollplan.executor.core.events import (
    Event,
    Finish,
    Instruction,
    JobReady,
    JobStopped,
    MemoryMeasured,
    Progress,
    ResourceBack,
    ResourceLost,
    Rollout,
    RolloutEnded,
    SamplesDone,
    StartJob,
    StopAsked,
    StopJob,
    Sync,
    Tick,
    Train,
    TrainEnded,
    WorkerLost,
)

from .books import TRAIN, book, job

GIB = 2**30
KILLED = "worker on n lost: killed"


def two(**settings: Any) -> Core:
    """Jobs A and B of two samples on one node; both are ready, A rolls out."""
    core = Core(book(job("A", ["n"], samples=2, **settings), job("B", ["n"], samples=2), memory_gib=10.0))
    tell(core, JobReady(0.0, "A", 0), JobReady(0.0, "B", 0), begin=True)
    return core


def tell(core: Core, *events: Event, begin: bool = False) -> list[Instruction]:
    """Return the answers to all of these events."""
    answers = core.start(0.0) if begin else []
    for event in events:
        answers += core.handle(event)
    return answers


def rolled(name: str, iteration: int = 0, at_s: float = 1.0) -> tuple[Event, Event]:
    """A node has finished a rollout of two samples."""
    return SamplesDone(at_s, name, iteration, "n", (0, 1)), RolloutEnded(at_s, name, iteration, "n", ())


def state(core: Core, name: str = "A") -> tuple[str, int]:
    """State of a job, and how often it was started again."""
    status = core.status()["jobs"][name]
    return status["state"], status["restarts"]


def texts(core: Core) -> list[str]:
    return [f"{remark.job}: {remark.text}" for remark in core.take_remarks()]


def test_a_dead_job_keeps_its_permit_until_no_process_of_it_is_left() -> None:
    """Until then it may still use the node; then B rolls out, and A starts again beside it."""
    core = two()
    assert tell(core, WorkerLost(1.0, "A", "n", "killed")) == [StopJob("A", KILLED)]
    assert core.status()["resources"]["n"]["does"] == "stops"
    again = tell(core, JobStopped(2.0, "A", 0))
    assert again == [StartJob("A", 0), Rollout("B", 0, "n", 0, (0, 1), 256)]
    assert texts(core) == [f"A: {KILLED}; restart 1 of 3; goes on from iteration 0"]
    assert tell(core, JobReady(3.0, "A", 0)) == []
    assert tell(core, *rolled("B", at_s=4.0)) == [Train("B", 0, 0, (0, 1), (0, 0), True), Rollout("A", 0, "n", 0, (0, 1), 256)]


def test_events_of_a_job_that_is_being_stopped_come_too_late() -> None:
    """Its samples are lost with it; they are made again."""
    core = two()
    tell(core, WorkerLost(1.0, "A", "n", "killed"))
    assert tell(core, *rolled("A"), WorkerLost(1.5, "A", TRAIN, "killed"), TrainEnded(1.5, "A", 0, 0), Progress(1.5, "A", "n")) == []
    tell(core, JobStopped(2.0, "A", 0), JobReady(2.0, "A", 0))
    assert tell(core, *rolled("A", at_s=2.5)) == [], "it does not roll out yet"


def test_a_job_is_given_up_after_too_many_faults_in_a_row() -> None:
    """Two restarts are allowed, the third fault ends it; B finishes all the same."""
    core = two(restarts=2)
    for _ in range(2):
        tell(core, WorkerLost(1.0, "A", "n", "killed"))
        assert StartJob("A", 0) in tell(core, JobStopped(1.0, "A", 0))
    tell(core, WorkerLost(1.0, "A", "n", "killed"))
    assert not any(isinstance(one, StartJob) for one in tell(core, JobStopped(1.0, "A", 0)))
    assert state(core) == ("failed", 2)
    assert texts(core)[-1] == f"A: failed: {KILLED}; given up after 2 restarts without a finished iteration"
    assert state(core, "B") == ("running", 0)


def test_a_finished_iteration_forgives_the_faults_before_it() -> None:
    """Also one that was saved just before the end, of which the core did not hear."""
    core = two(restarts=1)
    tell(core, WorkerLost(1.0, "A", "n", "killed"))
    tell(core, JobStopped(1.0, "A", 0), *rolled("B"), JobReady(2.0, "A", 0), TrainEnded(2.0, "B", 0, 0), *rolled("A"))
    assert state(core) == ("running", 1)
    tell(core, WorkerLost(2.0, "A", "n", "killed"))
    assert StartJob("A", 1) in tell(core, JobStopped(2.0, "A", 1))
    assert state(core) == ("starting", 1)


def test_a_phase_without_a_sign_of_life_is_hung() -> None:
    """300 s without a sample or a progress; whatever shows life counts from then on."""
    core = two(hang_s=300.0)
    assert tell(core, Tick(299.0), SamplesDone(299.0, "A", 0, "n", (0,)), Tick(598.0), Progress(598.0, "A", "n"), Tick(898.0)) == []
    assert tell(core, Tick(898.5)) == [StopJob("A", "hung: rollout on n showed no progress for 300 s (hang_after 300 s)")]
    assert state(core, "B") == ("running", 0), "it waits, which is no fault of its own"


def test_a_sync_is_alive_while_its_job_is() -> None:
    """Its workers may be generating, and take the weights when they can; it is hung when nothing at all happens."""
    core = Core(book(job("A", ["n"], samples=2, way="async-batch", staleness=1, hang_s=300.0)))
    assert Sync("A", 1) in tell(core, JobReady(0.0, "A", 0), *rolled("A"), TrainEnded(2.0, "A", 0, 0), begin=True)
    assert tell(core, Progress(200.0, "A", "n"), Tick(350.0)) == []
    (stop,) = tell(core, SamplesDone(360.0, "A", 1, "n", (0,)), Tick(661.0))
    assert isinstance(stop, StopJob)


def test_a_job_that_was_started_again_is_not_judged_by_its_dead_processes() -> None:
    """What they left behind shows no life any more."""
    core = two()
    tell(core, WorkerLost(1.0, "A", "n", "killed"), JobStopped(2.0, "A", 0), JobReady(250.0, "A", 0), Progress(250.0, "B", "n"))
    assert tell(core, Tick(400.0)) == []


def test_a_start_may_take_two_minutes_whatever_a_phase_may() -> None:
    """Cold starts read weights from disk and say nothing; a job whose phases may take longer may start for as long."""
    assert tell(Core(book(job("A", ["n"], hang_s=300.0))), Tick(299.0), begin=True) == [StartJob("A", 0)]
    core = Core(book(job("A", ["n"], hang_s=5.0)))
    assert tell(core, Tick(120.0), begin=True) == [StartJob("A", 0)]
    assert tell(core, Tick(121.0)) == [StopJob("A", "hung: not ready 121 s after its start (limit 120 s)")]


def test_a_lost_node_stops_its_jobs_until_it_is_back_and_counts_as_no_fault() -> None:
    """Even if the deaths of its workers were noticed first, and whatever is said twice."""
    core = Core(book(job("A", ["n"], restarts=0), job("B", ["m"]), job("C", ["n", "m"], restarts=0)))
    tell(core, *(JobReady(0.0, name, 0) for name in "ABC"), begin=True)
    assert tell(core, WorkerLost(1.0, "A", "n", "killed")) == [StopJob("A", KILLED)]
    assert tell(core, ResourceLost(1.0, "n", "gone"), ResourceLost(1.0, "n", "gone")) == [StopJob("C", "n lost: gone")]
    assert tell(core, JobStopped(2.0, "A", 0), JobStopped(2.0, "C", 0)) == []
    assert [state(core, name) for name in "ABC"] == [("waiting", 0), ("running", 0), ("waiting", 0)]
    assert core.status()["resources"]["n"]["lost"]
    assert tell(core, ResourceBack(3.0, "n"), ResourceBack(3.0, "n")) == [StartJob("A", 0), StartJob("C", 0)]
    assert f"A: {KILLED}; waits for n with 0 iterations finished" in texts(core)


def test_a_node_that_is_back_before_its_jobs_are_gone_is_used_at_once() -> None:
    """Nobody waits for something that is there."""
    core = two()
    tell(core, ResourceLost(1.0, "n", "gone"), ResourceBack(1.5, "n"))
    assert StartJob("A", 0) in tell(core, JobStopped(2.0, "A", 0))


def test_memory_beyond_the_declared_footprint_ends_a_job() -> None:
    """It would do so again, so there is no restart; the text says what to declare."""
    core = two(rollout_memory_gib=2.0)
    assert tell(core, MemoryMeasured(1.0, "A", "n", 2 * GIB)) == []
    (stop,) = tell(core, MemoryMeasured(2.0, "A", "n", 3 * GIB))
    remedy = "declare at least 3 GiB as its rollout memory and plan again"
    assert stop == StopJob("A", f"holds 3 GiB of host memory on a node of n, declared are 2 GiB: {remedy}")
    assert tell(core, JobStopped(3.0, "A", 0)) == [Rollout("B", 0, "n", 0, (0, 1), 256)]
    assert state(core) == ("failed", 0)


def test_of_jobs_that_exceed_a_node_together_the_one_most_above_its_declaration_is_stopped() -> None:
    """A declared 7 GiB and holds them; B declared nothing, so its 4 GiB are the surprise, whoever reported last."""
    core = two(rollout_memory_gib=7.0)
    assert tell(core, MemoryMeasured(1.0, "B", "n", 4 * GIB)) == []
    (stop,) = tell(core, MemoryMeasured(2.0, "A", "n", 7 * GIB))
    assert isinstance(stop, StopJob)
    assert stop.job == "B"
    assert "jobs hold 11 GiB of host memory on a node of n, which has 10 GiB; B with 4 GiB is most above" in stop.reason
    assert tell(core, MemoryMeasured(2.5, "A", "n", 7 * GIB)) == [], "B's memory is on its way out"


def test_a_rollout_that_ends_without_all_samples_is_a_fault() -> None:
    """A program that forgets a sample would make its job wait for ever."""
    core = two()
    (stop,) = tell(core, SamplesDone(1.0, "A", 0, "n", (0,)), RolloutEnded(1.0, "A", 0, "n", ()))
    assert stop == StopJob("A", "rollout 0 on n ended, but samples 1 are neither finished nor handed back")


def test_samples_that_nobody_asked_for_are_not_trained() -> None:
    """Doubled ones, and numbers that do not exist."""
    core = two()
    answers = tell(core, SamplesDone(1.0, "A", 0, "n", (0, 7)), SamplesDone(1.0, "A", 0, "n", (0,)), *rolled("A"))
    assert [one.samples for one in answers if isinstance(one, Train)] == [(0, 1)]


def test_a_stop_ends_all_jobs_and_then_the_run() -> None:
    """What was finished is saved; a job that waits for a node has no process to stop."""
    core = Core(book(job("A", ["n"]), job("B", ["m"])))
    tell(core, JobReady(0.0, "A", 0), JobReady(0.0, "B", 0), ResourceLost(1.0, "m", "gone"), JobStopped(1.0, "B", 0), begin=True)
    assert tell(core, StopAsked(2.0), StopAsked(2.0)) == [StopJob("A", "the run was asked to end")]
    assert not core.finished
    assert tell(core, JobStopped(3.0, "A", 0)) == [Finish()]
    assert core.finished
    assert [state(core, name)[0] for name in "AB"] == ["stopped", "stopped"]
    assert tell(core, Tick(4.0), JobStopped(4.0, "A", 0)) == []


def test_processes_that_end_on_their_own_are_a_fault() -> None:
    """A shell may notice the end of a job before any death of a worker."""
    core = two()
    assert StartJob("A", 0) in tell(core, JobStopped(1.0, "A", 0))
    assert texts(core) == ["A: its processes ended; restart 1 of 3; goes on from iteration 0"]


def test_a_run_goes_on_from_what_was_finished_before() -> None:
    """A: all, so it is not even started; B: one of three, with weights of version 1."""
    core = Core(book(job("A", ["n"]), job("B", ["n"], samples=2)), {"A": 3, "B": 1})
    assert tell(core, JobReady(0.0, "B", 1), begin=True) == [StartJob("B", 1), Rollout("B", 1, "n", 1, (0, 1), 256)]
    assert core.status()["jobs"]["A"]["state"] == "done"
    assert Core(book(job("A", ["n"])), {"A": 3}).start(0.0) == [Finish()]


def test_the_last_iteration_needs_no_sync() -> None:
    """Nobody would use the weights; the job is done and its processes go."""
    core = Core(book(job("A", ["n"], samples=2, iterations=1)))
    answers = tell(core, JobReady(0.0, "A", 0), *rolled("A"), TrainEnded(2.0, "A", 0, 0), begin=True)
    assert answers[-1] == StopJob("A", "all 1 iterations are finished")
    assert not any(isinstance(one, Sync) for one in answers)


@pytest.mark.parametrize(
    "event", [JobReady(0.0, "Z", 0), ResourceLost(0.0, "Z", ""), Progress(0.0, "A", "Z"), WorkerLost(0.0, "A", "Z", "")]
)
def test_unknown_names_are_refused(event: Event) -> None:
    """They come from another runbook, which no shell can mix up by being late."""
    core = two()
    with pytest.raises(ValueError, match="'Z' in the runbook"):
        core.handle(event)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"samples": 4, "chunks": 5, "way": "mini-batch"}, "chunks must be from 1 to its 4 samples, got 5"),
        ({"samples": 0}, "needs rollout resources, each once, and a sample, got n and 0"),
    ],
)
def test_runbooks_that_contradict_themselves_are_refused(settings: dict[str, Any], text: str) -> None:
    """Before anything starts."""
    with pytest.raises(ValueError, match=text):
        Core(book(job("A", ["n"], **settings)))


def test_resources_and_jobs_of_a_runbook_name_each_other() -> None:
    """A ring without the job would never give it a turn."""
    whole = book(job("A", ["n"]), job("B", ["n"]))
    missing = type(whole)(whole.seal, whole.policy, whole.resources, whole.jobs[:1])
    with pytest.raises(ValueError, match="no job 'B'"):
        Core(missing)
    with pytest.raises(ValueError, match="'n' must be a rollout resource that lists the job"):
        Core(type(whole)(whole.seal, whole.policy, whole.resources[1:], whole.jobs))
