"""The core, driven by the seconds of a plan, against the timetables and closed forms that the plan rests on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.executor.core.decide import replay
from rollplan.executor.core.events import Finish, Rollout, Train
from rollplan.executor.core.records import Record
from rollplan.executor.core.rehearse import rehearse
from rollplan.executor.core.runbook import Policy, Predicted
from rollplan.models.round_robin import period
from rollplan.planner.simulate import simulate

from .books import TRAIN, book, colocated, group, job

Group = tuple[list[float], list[float], list[tuple[int, ...]]]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Two to five jobs on up to four rollout nodes, each job on any set of them; any seconds."""
    size = draw(st.integers(2, 5))
    seconds = st.lists(st.floats(0.01, 60.0), min_size=size, max_size=size)
    nodes = st.lists(st.integers(0, draw(st.integers(0, 3))), min_size=1, max_size=4, unique=True).map(tuple)
    return draw(seconds), draw(seconds), draw(st.lists(nodes, min_size=size, max_size=size))


def timetable(records: list[Record], kinds: tuple[str, ...] = ("rollout", "train")) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Start and end of every phase by job, iteration and resource."""
    return {(one.job, one.iteration, one.resource): (one.start_s, one.end_s) for one in records if one.kind in kinds}


@given(groups(), st.floats(0.0, 20.0))
def test_the_executed_timetable_is_the_planned_one(one: Group, sync_s: float) -> None:
    """Strict round robin, any pinning: start and end of every phase of the recursion, the sync being part of training.

    The last iteration has no sync, because nobody would use it, so it is compared up to its training.
    """
    rollout_s, train_s, pinning = one
    records, _ = rehearse(group(rollout_s, train_s, pinning, sync_s=sync_s, iterations=6, samples=8))
    planned = simulate(rollout_s, [seconds + sync_s for seconds in train_s], pinning, 6)
    executed, synced = timetable(records), timetable(records, ("sync",))
    for phase in planned.phases:
        where = (str(phase.job), phase.iteration, TRAIN if phase.node is None else f"n{phase.node}")
        if phase.iteration < 5:
            end_s = synced[where][1] if phase.node is None else executed[where][1]
            assert (executed[where][0], end_s) == pytest.approx((phase.start_s, phase.end_s), abs=1e-9)
    last = {where for where in executed if where[1] == 5}
    assert len(executed) == len(planned.phases)
    assert not last & synced.keys()


@settings(max_examples=10)
@given(groups())
def test_the_steady_period_is_the_closed_form(one: Group) -> None:
    """max(longest job, trainings, fullest node), after the start-up of a run that is long enough for it to fade."""
    rollout_s, train_s, pinning = one
    whole = [float(round(seconds) + 1) for seconds in rollout_s], [float(round(seconds) + 1) for seconds in train_s]
    records, _ = rehearse(group(*whole, pinning, samples=4), iterations=121)
    ends = [record.end_s for record in records if record.kind == "train" and record.job == str(len(pinning) - 1)]
    assert (ends[120] - ends[60]) / 60 == pytest.approx(period(*whole, pinning).seconds)


@given(groups())
def test_replay_gives_the_same_answers(one: Group) -> None:
    """A journal is enough to repeat a run."""
    runbook = group(*one)
    _, journal = rehearse(runbook)
    assert replay(runbook, [event for event, _ in journal if event is not None]) == journal
    assert journal[-1][1] == [Finish()]


@pytest.mark.parametrize(("policy", "turns"), [("fifo", (12, 12, 6)), ("round-robin", (6, 6, 6))])
def test_first_in_first_out_lets_short_jobs_overtake(policy: Policy, turns: tuple[int, ...]) -> None:
    """RollMux (arXiv 2512.11306) Fig. 10b: two jobs D of (314 s, 118 s) and one E of (746 s, 124 s), each with its own
    rollout node, one trainer. In the figure, a D trains twice while an E trains once (12 trainings of two jobs to 5 of E);
    strict round robin gives all the same rate.
    """
    runbook = group([314.0, 314.0, 746.0], [118.0, 118.0, 124.0], [(0,), (1,), (2,)], policy)
    records, _ = rehearse(runbook, iterations=20)
    until_s = [one.end_s for one in records if one.kind == "train" and one.job == "2"][5]
    trained = [sum(one.kind == "train" and one.job == name and one.end_s <= until_s for one in records) for name in "012"]
    assert trained == pytest.approx(list(turns), abs=1)
    assert trained[2] == 6


def test_fifo_periods_of_fig_10b() -> None:
    """435 s, 435 s and 870 s (facts from the same figure): E's solo time, and half of it."""
    records, _ = rehearse(group([314.0, 314.0, 746.0], [118.0, 118.0, 124.0], [(0,), (1,), (2,)], "fifo"), iterations=81)
    ends = {name: [one.end_s for one in records if one.kind == "train" and one.job == name] for name in "012"}
    assert [(ends[name][40] - ends[name][20]) / 20 for name in "012"] == pytest.approx([435.0, 435.0, 870.0], rel=0.005)


@pytest.mark.parametrize(("realised_s", "periods"), [(11.0, (17 / 6, 17.0)), (2.0, (8.0, 8.0))])
def test_first_in_first_out_may_punish_one_job_for_the_shorter_rollout_of_another(realised_s: float, periods: tuple[float, float]) -> None:
    """A = (1 s, 1 s) and B = (11 s, 6 s) on their own nodes, one trainer: if B's rollout takes 2 s, A goes from 2.83 s to 8 s.

    Against RollMux 4.3 (arXiv 2512.11306), whose guarantee holds under a fixed order only: there, shorter never hurts.
    """
    records, _ = rehearse(group([1.0, realised_s], [1.0, 6.0], [(0,), (1,)], "fifo"), iterations=600)
    until_s = min(max(one.end_s for one in records if one.job == name) for name in "01") - 20.0
    ends = {
        name: [one.end_s for one in records if (one.kind, one.job) == ("train", name) and 100.0 < one.end_s <= until_s] for name in "01"
    }
    assert [(one[-1] - one[0]) / (len(one) - 1) for one in ends.values()] == pytest.approx(list(periods), rel=0.01)


@given(groups())
def test_first_in_first_out_waits_for_each_other_job_once_per_phase(one: Group) -> None:
    """The safe bound where each job has one rollout node: all rollouts of its node and all trainings, in every iteration."""
    rollout_s, train_s, pinning = one
    pinning = [nodes[:1] for nodes in pinning]
    records, _ = rehearse(group(rollout_s, train_s, pinning, "fifo"), iterations=12)
    for job_number, (node,) in enumerate(pinning):
        ends = [one.end_s for one in records if (one.kind, one.job) == ("train", str(job_number))]
        bound_s = sum(train_s) + sum(seconds for seconds, nodes in zip(rollout_s, pinning, strict=True) if nodes == (node,))
        assert max(after - before for before, after in pairwise(ends)) <= bound_s + 1e-9


def test_a_resource_of_one_job_stays_loaded_but_not_one_whose_nodes_have_another_use() -> None:
    """`keep` saves the switch; where rollout and training are on the same nodes, the other side needs the memory."""
    shared = book(job("A", ["n0", "n1"]), job("B", ["n1"]))
    kept = {(task.job, task.node): task.keep for _, answer in rehearse(shared)[1] for task in answer if isinstance(task, Rollout)}
    assert kept == {("A", "n0"): True, ("A", "n1"): False, ("B", "n1"): False}
    for runbook, keep in ((book(job("A", ["n0"])), True), (colocated(book(job("A", ["n0"]))), False)):
        tasks = [task for _, answer in rehearse(runbook)[1] for task in answer if isinstance(task, Rollout | Train)]
        assert {task.keep for task in tasks} == {keep}


def test_switches_count_in_every_iteration() -> None:
    """As planned: the plan's node is busy for switch and rollout, its trainer for switch and training."""
    alone = book(job("A", ["n0"], rollout_s=2.0, train_s=1.0, iterations=2))
    run = replace(alone.jobs[0], predicted=Predicted(2.0, 1.0, 0.5, 0.25, 0.125, 0.0, 0.0))
    records, _ = rehearse(replace(alone, jobs=(run,)))
    phases = [(one.kind, one.start_s, one.end_s) for one in records]
    assert phases == [("rollout", 0, 2.5), ("train", 2.5, 3.75), ("sync", 3.75, 3.875), ("rollout", 3.875, 6.375), ("train", 6.375, 7.625)]


def test_a_timetable_is_executed_in_its_order_and_at_its_period() -> None:
    """One long job and two short ones at twice its rate: 870 s per period, as planned, though nobody looks at a clock.

    Rollout and training seconds (746, 124), (314, 118), (314, 118), own rollout nodes, one training pool.
    """
    moments = {"0": (0.0,), "1": (124.0, 556.0), "2": (242.0, 674.0)}
    starts = {"0": (-746.0,), "1": (-190.0, 242.0), "2": (-78.0, 360.0)}
    plain = group([746, 314, 314], [124, 118, 118], [(0,), (1,), (2,)])
    resources = tuple(
        replace(one, moments=tuple((moments if one.kind == "train" else starts)[name] for name in one.jobs), period_s=870.0)
        for one in plain.resources
    )
    counted = {"0": 5, "1": 10, "2": 10}
    jobs = tuple(replace(run, iterations=counted[run.name]) for run in plain.jobs)
    records, _ = rehearse(replace(plain, resources=resources, jobs=jobs))
    trainings = [one for one in records if one.kind == "train"]
    order = "".join(one.job for one in trainings)
    assert order == "01212" * 5
    begins = [one.start_s for one in trainings if one.job == "0"]
    assert [later - earlier for earlier, later in pairwise(begins[1:])] == [870.0] * 3
