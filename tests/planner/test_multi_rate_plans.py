"""Exact multi-rate plans: equal to the cheapest of all partitions, never dearer than strict round robin, accepted by the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from time import sleep

import pytest

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.colocation.rates.timetables import RateTimetables
from rollplan.models.colocation.verify import verify
from rollplan.planner import colocation
from rollplan.planner.colocation import solve
from rollplan.planner.timetables import rated_columns

POOLS = (NodePool("h20", 14.80, 2000.0), NodePool("h800", 42.24, 2000.0))


def drawn(seed: int, count: int) -> ColocationProblem:
    """Jobs of rollout-heavy and balanced kinds of RollMux Table 6, groups of at most 4, up to 4 runs."""
    random = Random(seed)
    jobs = []
    for k in range(count):
        low, train_low = random.choice([(50, 50), (100, 100), (200, 50), (400, 100), (100, 25)])
        rollout_s, train_s = round(random.uniform(low, 2 * low), 1), round(random.uniform(train_low, 2 * train_low), 1)
        jobs.append(JobData(f"j{k}", round(random.uniform(1, 2), 2), rollout_s, train_s))
    return ColocationProblem(POOLS, tuple(jobs), max_group_size=4, max_rate=4)


def partitions(jobs: Sequence[int], size: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to part the jobs into groups of at most `size`."""
    if not jobs:
        yield []
        return
    for others in partitions(jobs[1:], size):
        yield [(jobs[0],), *others]
        for place, group in enumerate(others):
            if len(group) < size:
                yield [*others[:place], (jobs[0], *group), *others[place + 1 :]]


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_planner_finds_and_proves_the_cheapest_partition(seed: int) -> None:
    """Every partition of seven jobs, each group on the fewest nodes, all of which are proved."""
    problem = drawn(seed, 7)
    timetables = RateTimetables(problem, Limits(600))
    best = float("inf")
    for partition in partitions(range(7), 4):
        answers = [timetables.fewest(group) for group in partition]
        assert all(proved for _, proved in answers)
        groups = [group for group, _ in answers if group is not None]
        if len(groups) == len(partition):
            best = min(best, problem.price([sum(group.rollout_nodes for group in groups), len(groups)]))
    found = solve(problem, "exact", Limits(60))
    assert verify(problem, found.solution) == ()
    assert found.value == pytest.approx(best, rel=1e-9)
    assert found.optimal
    assert found.value <= solve(replace(problem, max_rate=1), "exact", Limits(60)).value + 1e-9


def test_the_planner_hosts_fig_10b_on_three_and_one_nodes() -> None:
    """E and two D of RollMux Fig. 10b at SLO 1.1: 128.88 $/h with strict round robin, proven 86.64 $/h with two runs of D."""
    jobs = tuple(
        JobData(name, limit / (r + t), r, t) for name, r, t, limit in [("E", 746, 124, 957), ("D1", 314, 118, 475), ("D2", 314, 118, 475)]
    )
    problem = ColocationProblem(POOLS, jobs)
    assert solve(problem).value == 128.88
    found = solve(replace(problem, max_rate=4))
    assert found.value == 86.64
    assert found.optimal
    assert verify(replace(problem, max_rate=4), found.solution) == ()
    timetable = found.solution.groups[0].timetable
    assert timetable is not None
    assert timetable.period_s == pytest.approx(870)
    assert verify(problem, found.solution) != ()  # two runs are more than strict round robin allows


def test_a_fleet_whose_groups_cannot_be_listed_in_time_costs_no_more_than_strict_round_robin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of all groups may take its share of the limit and no more; strict round robin is searched before."""
    problem = drawn(1, 30)

    def never_listed(problem: ColocationProblem, stop: Callable[[], object]) -> None:
        while not stop():
            sleep(0.01)

    monkeypatch.setattr(colocation, "rated_columns", never_listed)
    strict = solve(replace(problem, max_rate=1), limits=Limits(10))
    found = solve(problem, limits=Limits(5))
    assert found.value <= strict.value + 1e-9
    assert not verify(problem, found.solution)


def test_a_part_of_the_groups_proves_nothing() -> None:
    """No list is better than one that an LP bound must not rest on, and a plan is made without it."""
    problem = drawn(1, 12)
    assert rated_columns(problem, lambda: "time limit") is None
    found = solve(problem, limits=Limits(0.01))
    assert not verify(problem, found.solution)
    assert found.bound.proof == "fluid"
