"""The period of a timetable's order, as a linear program, against timetables known by hand and against simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.colocation.frozen_order import frozen_period, tightened
from rollplan.models.colocation.problem import ColocationProblem, Group, JobData, NodePool, Run, Timetable
from rollplan.models.colocation.verify import timetable_order_period
from rollplan.models.round_robin import period

POOLS = (NodePool("rollout", 14.8, 2000.0), NodePool("train", 42.24, 2000.0))


def problem(*seconds: tuple[float, float], gang: bool = False, delay_s: float = 0.0, nodes: int = 1) -> ColocationProblem:
    jobs = [JobData(f"j{i}", 4.0, r, t, rollout_nodes=nodes, gang=gang, delay_s=delay_s) for i, (r, t) in enumerate(seconds)]
    return ColocationProblem(POOLS, tuple(jobs), 5, 4)


def once(*starts: tuple[float, ...], period_s: float) -> Timetable:
    """One run of each job: rollout starts, then the start of training."""
    return Timetable(period_s, tuple((Run(start[:-1], start[-1]),) for start in starts))


LONG_AND_SHORT = problem((746, 124), (314, 118), (314, 118))
TWICE = Timetable(870, ((Run((-746,), 0),), (Run((-190,), 124), Run((242,), 556)), (Run((-78,), 242), Run((360,), 674))))
GROUP = Group((0, 1, 2), ((0,), (1,), (2,)), 3, 1, TWICE)


def test_a_timetable_without_slack_has_its_own_period() -> None:
    """The long job alone takes 870 s, and the short ones run twice beside it."""
    assert frozen_period(LONG_AND_SHORT, GROUP) == 870


def test_slack_in_a_timetable_is_taken_out_and_its_order_kept() -> None:
    """Written for 1000 s, the same order takes 870 s."""
    assert TWICE is not None
    loose = replace(GROUP, timetable=Timetable(1000, TWICE.runs))
    tight = tightened(LONG_AND_SHORT, loose)
    assert tight.timetable is not None
    assert tight.timetable.period_s == 870
    assert [len(runs) for runs in tight.timetable.runs] == [1, 2, 2]
    assert frozen_period(LONG_AND_SHORT, tight) == 870


def test_three_gangs_of_5_seconds_run_one_after_another() -> None:
    """Each shares a node with each other, so their rollouts exclude each other: 15 s, although no node is busy more than 10 s."""
    gangs = problem((5, 0), (5, 0), (5, 0), gang=True, nodes=2)
    table = once((0, 0, 5), (5, 5, 10), (10, 10, 15), period_s=20)
    group = Group((0, 1, 2), ((0, 1), (1, 2), (0, 2)), 3, 1, table)
    assert frozen_period(gangs, group) == 15
    independent = replace(gangs, jobs=tuple(replace(job, gang=False) for job in gangs.jobs))
    assert frozen_period(independent, group) == 10


@st.composite
def orders(draw: st.DrawFn) -> tuple[ColocationProblem, Group]:
    """Two to four jobs, one run each, in some order of rollouts that follows the order of training, wide apart."""
    size = draw(st.integers(2, 4))
    seconds = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=size, max_size=size))
    nodes = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    starts = [(k * 200.0, k * 200.0 + 100.0) for k in range(size)]
    used = {node: place for place, node in enumerate(sorted(set(nodes)))}
    table = once(*starts, period_s=size * 200.0)
    pinning = tuple((used[node],) for node in nodes)
    return problem(*seconds), Group(tuple(range(size)), pinning, len(used), 1, table)


@given(orders())
def test_one_run_of_each_job_in_one_order_is_strict_round_robin(one: tuple[ColocationProblem, Group]) -> None:
    """Then the closed form holds."""
    of, group = one
    closed = period([job.rollout_s for job in of.jobs], [job.train_s for job in of.jobs], group.pinning)
    assert frozen_period(of, group) == pytest.approx(closed.seconds, rel=1e-12)


@given(orders(), st.data())
def test_shorter_phases_never_make_the_period_longer(one: tuple[ColocationProblem, Group], data: st.DataObject) -> None:
    """Max-plus recursions are monotone."""
    of, group = one
    shares = data.draw(st.lists(st.floats(0.3, 1.0), min_size=2 * len(of.jobs), max_size=2 * len(of.jobs)))
    rollout = [job.rollout_s * share for job, share in zip(of.jobs, shares, strict=False)]
    train = [job.train_s * share for job, share in zip(of.jobs, shares[len(of.jobs) :], strict=True)]
    assert frozen_period(of, group, rollout, train) <= frozen_period(of, group) * (1 + 1e-12)


def test_a_delay_keeps_no_node_busy_but_the_job_waits_for_it() -> None:
    """Alone, a job with 10 + 5 s and a delay of 7 s repeats after 22 s."""
    delayed = problem((10, 5), delay_s=7.0)
    assert frozen_period(delayed, Group((0,), ((0,),), 1, 1, once((0, 10), period_s=30))) == 22


@given(orders(), st.data())
def test_the_verifier_finds_the_same_period_from_its_own_graph(one: tuple[ColocationProblem, Group], data: st.DataObject) -> None:
    """A linear program here, cycle after cycle there, with other seconds than those of the timetable."""
    of, group = one
    seconds = st.lists(st.floats(0.5, 90.0), min_size=len(of.jobs), max_size=len(of.jobs))
    rollout, train = data.draw(seconds), data.draw(seconds)
    assert frozen_period(of, group, rollout, train) == pytest.approx(timetable_order_period(of, group, rollout, train), rel=1e-9)


def test_the_verifier_agrees_on_several_runs_per_period() -> None:
    """Worst-case and shorter seconds of the group of a long and two short jobs."""
    for rollout, train in (([746, 314, 314], [124, 118, 118]), ([700, 300, 100], [60, 118, 90])):
        assert frozen_period(LONG_AND_SHORT, GROUP, rollout, train) == pytest.approx(
            timetable_order_period(LONG_AND_SHORT, GROUP, rollout, train), rel=1e-12
        )
