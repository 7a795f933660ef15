"""A timetable's order run without a clock: never later than planned when phases are shorter."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.colocation.frozen_order import frozen_period
from rollplan.models.colocation.problem import ColocationProblem, Group, JobData, NodePool
from rollplan.models.colocation.rates.timetables import RateTimetables
from rollplan.planner.frozen import planned, run_by_order
from rollplan.planner.simulate import Phase

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)
POOLS = (NodePool("h20", 14.80, 2000.0), NodePool("h800", 42.24, 2000.0))


@st.composite
def timetables(draw: st.DrawFn) -> tuple[ColocationProblem, Group]:
    """Two or three jobs of which one tolerates two or three iterations of another; some on two nodes, as a gang, with a delay."""
    jobs = []
    for k in range(draw(st.integers(2, 3))):
        scale = draw(st.sampled_from([1, 2, 3]))
        rollout, train = scale * draw(st.integers(0, 30)), scale * draw(st.integers(1, 15))
        nodes, gang, delay = draw(st.sampled_from([(1, False, 0), (1, False, 0), (2, False, 0), (2, True, 0), (1, False, 3)]))
        jobs.append(JobData(f"j{k}", 1.0 + draw(st.integers(1, 20)) / 10, rollout, train, rollout_nodes=nodes, gang=gang, delay_s=delay))
    problem = ColocationProblem(POOLS, tuple(jobs), max_rate=4)
    group, _ = RateTimetables(problem, Limits(600)).fewest(tuple(range(len(jobs))))
    if group is None or group.timetable is None:
        # Nodes of their own and a trainer with room for all: every group of the strategy has a timetable at three times solo.
        loose = tuple(
            JobData(job.name, 3.0 + k, job.rollout_s, job.train_s, rollout_nodes=job.rollout_nodes, gang=job.gang, delay_s=1.0)
            for k, job in enumerate(jobs)
        )
        problem = ColocationProblem(POOLS, loose, max_rate=4)
        group, _ = RateTimetables(problem, Limits(600)).fewest(tuple(range(len(jobs))))
    if group is None or group.timetable is None:
        jobs = [JobData("long", 1.1, 746, 124), JobData("short", 1.1, 314, 118), JobData("other", 1.1, 314, 118)]
        problem = ColocationProblem(POOLS, tuple(jobs), max_rate=4)
        group, _ = RateTimetables(problem, Limits(600)).fewest((0, 1, 2))
    assert group is not None
    return problem, group


def jobs_of(problem: ColocationProblem, group: Group) -> list[JobData]:
    return [problem.jobs[k] for k in group.jobs]


def who(phase: Phase) -> tuple[int, int, str, int | None]:
    return phase.job, phase.iteration, phase.kind, phase.node


@REPEATABLE
@given(timetables(), st.integers(0, 10**6))
def test_shorter_phases_never_end_late(case: tuple[ColocationProblem, Group], seed: int) -> None:
    """Every phase of every iteration shortened by its own factor; max-plus algebra (Baccelli et al. 1992), unlike FIFO."""
    problem, group = case
    jobs, random = jobs_of(problem, group), Random(seed)
    factors: dict[tuple[str, int, int], float] = {}

    def factor(kind: str, job: int, iteration: int) -> float:
        return factors.setdefault((kind, job, iteration), random.uniform(0.3, 1))

    by_clock = planned(jobs, group, 6)
    by_order = run_by_order(
        jobs,
        group,
        6,
        lambda job, iteration: jobs[job].rollout_s * factor("rollout", job, iteration),
        lambda job, iteration: jobs[job].train_s * factor("train", job, iteration),
    )
    assert [who(phase) for phase in by_clock] == [who(phase) for phase in by_order]
    for plan, phase in zip(by_clock, by_order, strict=True):
        assert phase.end_s <= plan.end_s + 1e-6


@REPEATABLE
@given(timetables())
def test_the_order_runs_at_its_own_period_at_last(case: tuple[ColocationProblem, Group]) -> None:
    """The least period of the order by linear programming (`frozen_period`) is what the simulation settles at."""
    problem, group = case
    jobs = jobs_of(problem, group)
    assert group.timetable is not None
    expected = frozen_period(problem, group)
    periods = 49
    ends: dict[int, list[float]] = {k: [] for k in range(len(jobs))}
    for phase in run_by_order(jobs, group, periods, lambda job, _: jobs[job].rollout_s, lambda job, _: jobs[job].train_s):
        if phase.kind == "train":
            ends[phase.job].append(phase.end_s)
    # A critical cycle may reach over several periods; 24 is a multiple of all lengths up to four, and of six.
    means = [(series[-1] - series[-1 - 24 * len(runs)]) / 24 for series, runs in zip(ends.values(), group.timetable.runs, strict=True)]
    assert max(means) == pytest.approx(expected, rel=1e-6)
    assert expected <= group.timetable.period_s * (1 + 1e-9)


@REPEATABLE
@given(timetables())
def test_run_by_order_keeps_nodes_exclusive_and_iterations_in_sequence(case: tuple[ColocationProblem, Group]) -> None:
    """Held against the definitions: one phase at a time on a node, training after all rollouts, delay before the next."""
    problem, group = case
    jobs = jobs_of(problem, group)
    phases = run_by_order(
        jobs, group, 4, lambda job, i: jobs[job].rollout_s * (1 + i % 3) / 3, lambda job, i: jobs[job].train_s * (1 + i % 2) / 2
    )
    for node in {phase.node for phase in phases}:
        on_node = sorted((phase.start_s, phase.end_s) for phase in phases if phase.node == node)
        assert all(b[0] >= a[1] - 1e-9 for a, b in pairwise(on_node))
    trained = {(phase.job, phase.iteration): phase for phase in phases if phase.kind == "train"}
    for phase in phases:
        if phase.kind == "rollout":
            assert phase.end_s <= trained[phase.job, phase.iteration].start_s + 1e-9
            if phase.iteration:
                assert phase.start_s >= trained[phase.job, phase.iteration - 1].end_s + jobs[phase.job].delay_s - 1e-9
            if jobs[phase.job].gang:
                same = [other.start_s for other in phases if who(other)[:3] == who(phase)[:3]]
                assert len(set(same)) == 1


def test_strict_round_robin_has_no_timetable_to_freeze() -> None:
    """`simulate` runs that."""
    with pytest.raises(ValueError, match="timetable must be given"):
        planned([JobData("a", 1.0, 1.0, 1.0)], Group((0,), ((0,),), 1, 1), 1)
