"""What a run says of its plan: from records to numbers, each in a case small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.core.records import Record, Remark
from rollplan.executor.core.rehearse import rehearse
from rollplan.executor.core.runbook import Predicted
from rollplan.executor.edges import edges
from rollplan.executor.iterations import AGAIN, FIRST, LAST, busy_s, iterations
from rollplan.executor.report import RunReport, report
from rollplan.executor.runbook_of_plan import runbook

from .made import a_job, a_runbook, ended, executed, planned, record


def reported(records: Sequence[Record], **changes: object) -> RunReport:
    plan = planned()
    book = replace(runbook(plan), **changes)  # type: ignore[arg-type]
    state = {"jobs": {job.name: {"iteration": sum(one.kind == "save" and one.job == job.name for one in records)} for job in book.jobs}}
    return report(plan, book, ended(records, state=state), rehearse(book)[0])


def both(iterations: int, period_s: float) -> list[Record]:
    """Return jobs a and b, b half a period later."""
    return executed(iterations, period_s) + executed(iterations, period_s, "b", from_s=2.0 + period_s / 2)


def test_predicted_stands_beside_executed_for_every_phase() -> None:
    """Load and off-load are the switch; saving holds the training nodes, so it is part of training; the first iteration is out."""
    job = reported(both(4, 15.0)).jobs[0]
    assert [(one.phase, one.predicted_s, one.executed_s, one.count) for one in job.phases] == [
        ("rollout", 6.0, 6.0, 3),
        ("train", 3.0, 3.5, 3),
        ("rollout switch", 1.0, 1.0, 3),
        ("train switch", 0.5, 0.5, 3),
        ("sync", 1.0, 1.0, 3),
        ("iteration", 14.0, 15.0, 2),
    ]
    assert job.phase("iteration").difference == pytest.approx(1 / 14)
    assert (job.finished, job.wanted, job.save_s, job.restarts, job.failed) == (4, 4, 0.5, 0, None)


def test_the_period_is_of_the_time_in_which_all_jobs_of_the_group_ran() -> None:
    """When b has ended, a is faster, and that says nothing of the plan."""
    alone = [replace(one, start_s=one.start_s + 47, end_s=one.end_s + 47, iteration=one.iteration + 3) for one in executed(4, 12.0)[2:]]
    found = reported(executed(3, 15.0) + alone + executed(3, 15.0, "b", 9.0))
    assert [job.phase("iteration").executed_s for job in found.jobs] == [15.0, 15.0]
    assert found.jobs[0].together
    apart = reported(executed(3, 15.0) + executed(2, 15.0, "b", 100.0))
    assert [job.together for job in apart.jobs] == [False, False]
    assert apart.jobs[0].phase("iteration").executed_s == 15.0


def test_an_iteration_that_was_started_again_does_not_count() -> None:
    """Its phases were done twice, and its period holds the time of the fault."""
    records = both(4, 15.0)
    records += [record("restart", 33.0, 34.0, 2, worker=0), record("rollout", 34.0, 39.0, 2)]
    found = reported(records)
    assert found.jobs[0].restarts == 1
    assert [(one.count, one.executed_s) for one in found.jobs[0].phases[:2]] == [(2, 6.0), (2, 3.5)]
    assert [one.left_out for one in iterations(a_job(), records)] == [FIRST, None, AGAIN, None]


def test_an_overlapping_rollout_that_a_fault_threw_away_does_not_count_either() -> None:
    """A job one step ahead had rolled out iteration 2 when training 1 failed: its 6 s were done twice."""
    job = a_job(way="one-step", staleness=1, iterations=9)
    records = executed(4)
    records += [record("rollout", 20.0, 26.0, 2), record("restart", 27.0, 27.5, 1)]
    assert [one.left_out for one in iterations(job, records)] == [FIRST, AGAIN, AGAIN, None]


def test_the_last_iteration_of_overlapping_stages_does_not_count() -> None:
    """Nothing rolls out beside its training, and with `one-step` no barrier comes before it."""
    for way, last in (("one-step", LAST), ("async-streamed", LAST), ("serial", None)):
        assert [one.left_out for one in iterations(a_job(way=way), executed(4))] == [FIRST, None, None, last]  # type: ignore[arg-type]
    job = a_job(way="one-step", staleness=1, iterations=6, predicted=Predicted(600.0, 600.0, 0.0, 0.0, 1500.0, 2100.0, 2100.0))
    assert {one.period_s for one in iterations(job, rehearse(a_runbook(job))[0]) if one.left_out is None} == {2100.0}


def test_a_sync_belongs_to_the_iteration_whose_training_made_the_weights() -> None:
    """Also where it is late, and the next training has ended meanwhile."""
    records = [record("train", 0.0, 4.0), record("train", 4.0, 8.0, 1), record("sync", 8.5, 9.5, 0), record("sync", 9.5, 11.5, 1)]
    assert [one.sync_s for one in iterations(a_job(), records)] == [1.0, 2.0]
    assert [(edge.name, edge.mean_s, edge.count) for edge in edges(a_job(), records)] == [("train -> rollout", 4.5, 2)]


def test_what_a_program_reports_is_averaged_over_samples() -> None:
    """Chunks of a streaming trainer have different sizes."""
    chunks = [(0.0, 6.0, 1.0), (1.0, 2.0, 0.0), (2.0, 0.0, 0.5)]
    records = [record("train", at, at + 1, values={"samples": samples, "reward": reward}) for at, samples, reward in chunks]
    assert iterations(a_job(), records)[0].values == {"reward": pytest.approx((6 * 1.0 + 2 * 0.0 + 0.5) / 9)}


def test_an_iteration_that_not_all_ranks_saved_is_not_finished() -> None:
    """The second one died when it wrote; the job has to do it again."""
    plan = planned()
    book = runbook(plan)
    saves = [record("save", 5.0, 6.0, number, job="b", worker=rank) for number, rank in ((0, 0), (0, 1), (1, 0))]
    found = report(plan, book, ended(saves, state={"jobs": {"b": {"iteration": 1}}}), [])
    assert (book.jobs[1].train_ranks, found.jobs[1].finished) == (2, 1)


def test_a_job_that_never_became_ready_was_started_again_all_the_same() -> None:
    """A program whose `init` raises leaves no record of it."""
    plan = planned()
    found = report(plan, runbook(plan), ended([], state={"jobs": {"a": {"iteration": 0, "restarts": 3}}}), [])
    assert [job.restarts for job in found.jobs] == [3, 0]


def test_sharing_two_pools_evenly_is_worth_twice() -> None:
    """RollMux 7: with both pools full, two jobs in the time of one; here they take 14 s of 11.5 s alone, so 2 x 11.5 / 14."""
    found = reported(both(4, 14.0)).efficiency[0]
    assert (found.group, found.jobs, found.weighed_by) == ("g1", ("a", "b"), "price")
    assert found.predicted == pytest.approx(2 * 11.5 / 14)
    assert found.executed == pytest.approx(found.predicted)
    assert found.measured == pytest.approx(2 * 12.0 / 14), "saving the state, which the plan did not know of, takes 0.5 s"
    assert reported(executed(4)).efficiency[0].executed is None, "b never ran"


def test_cold_starts_stand_beside_warm_ones() -> None:
    """Two seconds against half a second of loading and half a second of off-loading."""
    starts = reported(both(3, 15.0)).jobs[0].starts
    assert [(one.pool, one.cold_s, one.warm_s, one.ratio) for one in starts] == [("rollout", 2.0, 1.0, 2.0), ("train", 2.0, 0.5, 4.0)]


def test_nodes_are_as_busy_as_their_records() -> None:
    """From the end of the later first training to that of the earlier last one; a job alone on a node works 8 of 14 s there."""
    found = {one.resource: one for one in reported(both(4, 14.0)).busy}
    assert found["g1/rollout-0"].executed == pytest.approx(1.0)
    assert found["g1/rollout-0"].predicted == pytest.approx(1.0)
    assert found["g1/train"].executed == pytest.approx(10 / 14)


def test_fifo_is_predicted_by_its_rehearsal() -> None:
    """The plan promises round robin; both agree for a pair of nodes (facts of RollMux 4.3)."""
    job = reported(both(4, 14.0), policy="fifo").jobs[0]
    assert job.phase("iteration").predicted_s == pytest.approx(14.0)


def test_a_job_that_is_not_done_has_its_last_word() -> None:
    """What the core said of it, and the state's count where nothing was recorded."""
    plan = planned()
    book = runbook(plan)
    remarks = [Remark(1.0, "a", "restart 1 of 3"), Remark(2.0, "b", "fine"), Remark(3.0, "a", "failed: too much memory")]
    state = {"jobs": {"a": {"iteration": 2}, "b": {"iteration": 4}}}
    found = report(plan, book, ended([], remarks, state), [])
    assert [(job.finished, job.failed) for job in found.jobs] == [(2, "failed: too much memory"), (4, None)]
    assert not found.complete
    assert [phase.executed_s for phase in found.jobs[0].phases] == [None] * 6


def test_a_report_is_plain_data_with_its_differences() -> None:
    """`--json` prints it."""
    data = reported(both(4, 15.0)).to_dict()
    assert data["complete"] is True
    assert data["jobs"][0]["phases"][-1]["difference"] == pytest.approx(1 / 14)
    assert data["jobs"][0]["starts"][0]["ratio"] == 2.0


def test_data_waits_from_the_end_of_a_rollout_to_its_training() -> None:
    """Two nodes, one of which ends 3 s earlier; the training begins 1 s after the later one, and the sync takes 2 s."""
    records = [
        record("rollout", 0.0, 4.0),
        record("rollout", 0.0, 7.0, resource="g1/rollout-1"),
        record("train", 8.0, 10.0),
        record("sync", 10.5, 12.5),
    ]
    assert [(edge.name, edge.mean_s, edge.p95_s, edge.count) for edge in edges(a_job(), records)] == [
        ("rollout -> train", 2.5, 4.0, 2),
        ("train -> rollout", 2.5, 2.5, 1),
    ]


def test_a_trainer_that_streams_does_not_wait() -> None:
    """It has begun before the rollout ended; only the last chunk may have waited."""
    records = [record("rollout", 0.0, 7.0), record("train", 2.0, 3.0), record("train", 6.0, 9.0)]
    assert [(edge.mean_s, edge.count) for edge in edges(a_job(), records)] == [(0.0, 1)]


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20)


@given(SPANS)
def test_a_resource_is_busy_while_any_of_its_workers_is(spans: list[tuple[int, int]]) -> None:
    """Counted second by second, by brute force."""
    records = [record("train", start, start + length, worker=place) for place, (start, length) in enumerate(spans)]
    seconds = {second for start, length in spans for second in range(start, start + length)}
    assert busy_s(records, ("train",), ("g1/train",)) == (len(seconds) if spans else None)


def test_the_rehearsal_of_a_plan_agrees_with_it_in_every_phase() -> None:
    """Predicted against predicted: no difference anywhere, whatever the report does with the records."""
    plan = planned()
    book = runbook(plan)
    book = replace(book, jobs=tuple(replace(job, iterations=6) for job in book.jobs))
    played = rehearse(book)[0]
    found = report(plan, book, ended(played), played)
    for job in found.jobs:
        assert job.phase("iteration").executed_s == pytest.approx(job.phase("iteration").predicted_s)
        assert job.phase("sync").executed_s == pytest.approx(1.0)
        # A rehearsal's phases hold their switch.
        assert job.phase("rollout").executed_s == pytest.approx(7.0)
    assert found.efficiency[0].executed == pytest.approx(found.efficiency[0].predicted)
    assert all(one.executed == pytest.approx(one.predicted) for one in found.busy)


def test_a_job_of_several_nodes_takes_as_long_as_the_longest() -> None:
    """Every node's seconds add up for itself."""
    job = a_job(rollout=("g1/rollout-0", "g1/rollout-1"))
    assert a_runbook(job).jobs == (job,)
    records = [
        record("rollout", 0.0, 4.0),
        record("rollout", 5.0, 6.0),
        record("rollout", 0.0, 3.0, resource="g1/rollout-1"),
        record("train", 6.0, 7.0),
    ]
    assert iterations(job, records)[0].rollout_s == 5.0


def test_the_drained_last_iteration_of_overlapping_stages_idles_nobody() -> None:
    """Rollout binds, so its nodes are busy all the time that counts."""
    job = a_job(way="one-step", staleness=1, iterations=8, predicted=Predicted(2.0, 0.9, 0.0, 0.0, 0.0, 2.0, 2.9))
    book = a_runbook(job)
    rehearsed = rehearse(book)[0]
    found = report(planned(), book, ended(rehearsed), rehearsed)
    assert {one.resource: pytest.approx(one.predicted) for one in found.busy} == {"g1/rollout-0": 1.0, "g1/train": 0.45}
