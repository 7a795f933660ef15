"""Timetables of groups with gangs or delays: the fewest nodes, checked without a solver, and what `verify` says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, JobData, NodePool, Run, Timetable
from rollplan.models.colocation.solution import cost_of, group_of
from rollplan.models.colocation.timetables import GangTimetables, needs_timetable
from rollplan.models.colocation.verify import group_faults, round_robin_period, verify
from rollplan.planner.simulate import simulate
from tests.models.by_hand import fewest_nodes, least_cost

POOLS = (NodePool("H20", 14.8, 2048.0), NodePool("H800", 42.24, 2048.0))


def gang(name: str, rollout_s: float, train_s: float, nodes: int = 2, slo: float = 1.0, delay_s: float = 0.0, **more: float) -> JobData:
    """Return a job whose rollout needs all its nodes at the same moment."""
    return JobData(name, slo, rollout_s, train_s, rollout_nodes=nodes, gang=True, delay_s=delay_s, **more)  # type: ignore[arg-type]


def problem_of(*jobs: JobData, **more: int) -> ColocationProblem:
    """Return a problem of jobs on two pools without limits."""
    return ColocationProblem(POOLS, jobs, **more)


TRIANGLE = problem_of(*(gang(name, 5, 1, slo=10 / 6) for name in "abc"))
"""Each tolerates 10 s. Three nodes have a load of 10 s each, but the three rollouts exclude each other: 15 s."""


def test_three_gangs_that_exclude_each_other_need_another_node() -> None:
    """docs/round_robin.md 4: {1,2}, {2,3}, {1,3} need 15 s; on four nodes two of them never meet, and 10 s are enough."""
    found, proved = GangTimetables(TRIANGLE).fewest((0, 1, 2))
    assert found is not None
    assert (group_of(TRIANGLE, [0, 1, 2]).rollout_nodes, found.rollout_nodes, proved) == (3, 4, True)
    assert group_faults(TRIANGLE, found) == []
    assert found.timetable is not None
    assert found.timetable.period_s == 10


def test_with_15_s_the_triangle_fits_on_three_nodes() -> None:
    """The same jobs tolerate 15 s."""
    problem = problem_of(*(gang(name, 5, 1, slo=2.5) for name in "abc"))
    found, proved = GangTimetables(problem).fewest((0, 1, 2))
    assert found is not None
    assert (found.rollout_nodes, proved, group_faults(problem, found)) == (2, True, [])


def test_with_independent_starts_the_closed_form_needs_no_timetable() -> None:
    """The same jobs without gangs: three nodes, strict round robin."""
    problem = problem_of(*(replace(job, gang=False) for job in TRIANGLE.jobs))
    found, proved = GangTimetables(problem).fewest((0, 1, 2))
    assert (found, proved) == (group_of(problem, [0, 1, 2]), True)
    assert found is not None
    assert (found.rollout_nodes, found.timetable) == (3, None)


def test_a_gang_on_both_nodes_needs_41_s_where_loads_say_40() -> None:
    """The shape of RollMux Fig. 10c: B (20, 20), A (12, 4) on two nodes, C (26, 4), with room for 41 s and for 40.9 s."""
    for limit_s, nodes in ((41.0, 2), (40.9, 3)):
        jobs = (gang("A", 12, 4, 2, limit_s / 16), JobData("B", limit_s / 40, 20, 20), JobData("C", limit_s / 30, 26, 4))
        problem = problem_of(*jobs)
        found, proved = GangTimetables(problem).fewest((0, 1, 2))
        assert found is not None
        assert (found.rollout_nodes, proved, group_faults(problem, found)) == (nodes, True, [])


def test_delays_are_planned_as_delays() -> None:
    """docs/decisions/0003: formula 20 s, true period 23 s. C's footprint keeps it from A's and B's node; below 23 s these need two."""
    for limit_s, nodes in ((23.0, 2), (22.9, 3)):
        jobs = (
            JobData("A", limit_s / 20, 10, 2, delay_s=8, rollout_memory_gib=600),
            JobData("B", limit_s / 20, 10, 2, delay_s=8, rollout_memory_gib=600),
            JobData("C", limit_s / 18, 4, 14, delay_s=0, rollout_memory_gib=1500),
        )
        problem = problem_of(*jobs)
        found, proved = GangTimetables(problem).fewest((0, 1, 2))
        assert found is not None
        assert (found.rollout_nodes, proved, group_faults(problem, found)) == (nodes, True, [])


IMPOSSIBLE: dict[str, ColocationProblem] = {
    "training": problem_of(gang("a", 5, 5, slo=1.4), gang("b", 5, 10)),
    "a longer job": problem_of(gang("a", 5, 5), gang("b", 8, 5)),
    "training memory": problem_of(gang("a", 5, 1, slo=3, train_memory_gib=1100), gang("b", 5, 1, slo=3, train_memory_gib=1000)),
    "group size": problem_of(gang("a", 5, 1, slo=3), gang("b", 5, 1, slo=3), max_group_size=1),
    "pools": ColocationProblem((*POOLS, POOLS[0]), (gang("a", 5, 1, slo=3), replace(gang("b", 5, 1, slo=3), rollout_pool=2))),
}


@pytest.mark.parametrize("problem", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_jobs_that_cannot_share_a_trainer_have_no_group(problem: ColocationProblem) -> None:
    """No number of rollout nodes helps, and that is proven."""
    assert GangTimetables(problem).fewest((0, 1)) == (None, True)


def test_a_gang_alone_needs_no_timetable() -> None:
    """One job runs at its solo time."""
    assert GangTimetables(TRIANGLE).fewest((1,)) == (Group((1,), ((0, 1),), 2, 1), True)
    assert not needs_timetable([gang("a", 5, 1, nodes=1), gang("b", 5, 1, nodes=1)])


def test_rollout_memory_parts_gangs_that_have_time_for_each_other() -> None:
    """Two of 1500 GiB do not fit into a node of 2048 GiB."""
    problem = problem_of(*(gang(name, 5, 1, slo=3, rollout_memory_gib=1500) for name in "ab"))
    found, proved = GangTimetables(problem).fewest((0, 1))
    assert found is not None
    assert (found.rollout_nodes, proved, group_faults(problem, found)) == (4, True, [])


def test_without_time_every_job_that_needs_it_gets_its_own_nodes() -> None:
    """An answer in any case, which does not claim to be proven and is not kept."""
    limits = Limits(time_s=0)
    tables = GangTimetables(TRIANGLE, limits)
    found, proved = tables.fewest((0, 1, 2))
    assert found is not None
    assert (found.rollout_nodes, proved, group_faults(TRIANGLE, found)) == (6, False, [])
    limits.time_s = 60
    assert tables.fewest((0, 1, 2))[1]


def test_the_order_of_members_and_other_questions_change_nothing() -> None:
    """Answers are kept by the set of jobs and do not depend on what was asked before."""
    tables = GangTimetables(TRIANGLE)
    tables.fewest((0, 1))
    assert tables.fewest((2, 1, 0)) == tables.fewest((0, 1, 2)) == GangTimetables(TRIANGLE).fewest((0, 1, 2))


def random_problem(seed: int, jobs: int, whole: bool = True, delays: bool = False) -> ColocationProblem:
    """Return jobs of 4 to 20 s, most of them gangs, on one to three nodes, with SLOs under which they can share."""
    random = Random(seed)
    made = []
    for number in range(jobs):
        rollout_s, train_s = random.randint(8, 20), random.randint(1, 6)
        job = JobData(
            f"job{number}",
            random.choice([1.25, 1.5, 1.75, 2.0]),
            rollout_s if whole else rollout_s + random.random(),
            train_s if whole else train_s + random.random(),
            rollout_nodes=random.choice([1, 2, 2, 3]),
            train_nodes=random.randint(1, 2),
            rollout_memory_gib=random.choice([0.0, 500.0, 900.0]),
            gang=random.random() < 0.8,
            delay_s=random.choice([0.0, 3.0]) if delays else 0.0,
        )
        made.append(job)
    return problem_of(*made, max_group_size=3)


@pytest.mark.parametrize("delays", [False, True], ids=["gangs", "gangs and delays"])
def test_fewest_nodes_equal_those_of_trying_every_pinning_and_order(delays: bool) -> None:
    """Groups of two and three jobs, without a solver; some need more nodes than their loads say."""
    wrong, more = [], 0
    for seed in range(20 if delays else 60):
        problem = random_problem(seed, 3, delays=delays)
        tables = GangTimetables(problem)
        for members in ((0, 1), (0, 1, 2)):
            found, proved = tables.fewest(members)
            nodes = None if found is None else found.rollout_nodes
            if (nodes, True) != (fewest_nodes(problem, members), proved) or (found and group_faults(problem, found)):
                wrong.append((seed, members, nodes, proved))
            more += nodes is not None and nodes > group_of(problem, list(members)).rollout_nodes
    assert wrong == []
    assert more > 0, "no case in which the closed form is too low"


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_verify_accepts_every_group_and_its_nodes_are_no_fewer_than_the_loads_need(seed: int, whole: bool, delays: bool) -> None:
    """Also with durations that no grid of powers of ten holds."""
    problem = replace(random_problem(seed, 4, whole, delays), max_group_size=4)
    found, proved = GangTimetables(problem).fewest((0, 1, 2, 3))
    if found is not None:
        assert group_faults(problem, found) == []
        assert found.rollout_nodes >= group_of(problem, [0, 1, 2, 3]).rollout_nodes
        assert proved or not whole


def counted(tables: GangTimetables) -> Callable[[tuple[int, ...]], int | None]:
    """Return the node counts of timetables, as `least_cost` wants them."""

    def fewest(members: tuple[int, ...]) -> int | None:
        found, _ = tables.fewest(members)
        return None if found is None else found.rollout_nodes

    return fewest


@pytest.mark.parametrize("seed", range(6))
def test_the_least_cost_of_a_fleet_of_gangs_is_the_same_with_and_without_a_solver(seed: int) -> None:
    """Two programmes over the subsets of six jobs: CP-SAT's node counts, and those of trying everything."""
    problem = random_problem(seed + 500, 6)
    by_solver = least_cost(problem, counted(GangTimetables(problem)))
    assert by_solver == pytest.approx(least_cost(problem, lambda members: fewest_nodes(problem, members)), rel=1e-12)


# What `verify` says.

PAIR = problem_of(gang("a", 10, 5, slo=2), gang("b", 10, 5, slo=2))
TABLE = Timetable(20.0, ((Run((0.0, 0.0), 10.0),), (Run((-10.0, -10.0), 0.0),)))
GROUP = Group((0, 1), ((0, 1), (0, 1)), 2, 1, TABLE)


def table(a: Run, b: Run, period_s: float = 20.0) -> Group:
    """Return the pair with another timetable."""
    return replace(GROUP, timetable=Timetable(period_s, ((a,), (b,))))


FAULTS: dict[str, tuple[Group, str]] = {
    "overlap on a node": (table(Run((0, 0), 10), Run((-9, -9), 1)), "job b, run 1 is still on rollout node 0 when job a, run 1 starts"),
    "overlap of trainings": (table(Run((0, 0), 10), Run((-10, -10), 6)), "is still on the training pool when job a, run 1 starts there"),
    "gang in two steps": (table(Run((0, 0), 10), Run((-10, -11), 0), 21), "b, run 1 does not start on all its nodes at the same moment"),
    "training too early": (table(Run((0, 0), 9), Run((-10, -10), 0)), "job a, run 1 trains before its rollout has ended"),
    "rollout too early": (table(Run((-6, -6), 10), Run((-16, -16), 0)), "job a, run 1 rolls out before it has the weights"),
    "training outside the period": (table(Run((20, 20), 30), Run((10, 10), 20)), "job a, run 1 trains at 30 s, outside the period"),
    "no period": (table(*(Run((0, 0), 0),) * 2, period_s=0.0), "has a period of 0.0 s, it must be positive"),
    "a period that is no number": (table(*(Run((0, 0), 0),) * 2, period_s=nan), "has a period of nan s, it must be positive"),
    "a start that is no number": (table(Run((0, nan), 10), Run((-10, -10), 0)), "the timetable of job a has a start that is not a number"),
    "a start that never comes": (table(Run((0, 0), inf), Run((-10, -10), 0)), "the timetable of job a has a start that is not a number"),
    "a node without start": (table(Run((0,), 10), Run((-10, -10), 0)), "does not have one rollout start for each of its 2 nodes"),
    "a job without runs": (replace(GROUP, timetable=replace(TABLE, runs=((), TABLE.runs[1]))), "job a runs 0 times per period"),
    "a job missing": (replace(GROUP, timetable=replace(TABLE, runs=TABLE.runs[:1])), "the timetable runs 1 jobs, the group has 2"),
    "too slow": (table(Run((0, 0), 10), Run((-10, -10), 0), 30.001), "job a runs 2.000 times slower than alone, its SLO allows 2"),
    "more runs than allowed": (
        replace(GROUP, timetable=Timetable(40.0, ((Run((0, 0), 10), Run((20, 20), 30)), (Run((-10, -10), 0),)))),
        "job a runs 2 times per period, between 1 and 1 are allowed",
    ),
}  # fmt: skip


def test_a_right_timetable_has_no_fault() -> None:
    """Both gangs on both nodes, which never rest."""
    assert verify(PAIR, ColocationSolution((GROUP,), cost_of(PAIR, [GROUP]))) == ()


@pytest.mark.parametrize(("group", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_timetable_is_named_with_its_fault(group: Group, fault: str) -> None:
    """Each kind of fault alone."""
    assert any(fault in said for said in group_faults(PAIR, group))


def test_a_job_may_run_twice_where_the_problem_allows_it() -> None:
    """The last fault above is none with `max_rate: 2`; a then takes 20 s per iteration and b 40, which its SLO must allow."""
    problem = replace(PAIR, jobs=(PAIR.jobs[0], replace(PAIR.jobs[1], slo=3)), max_rate=2)
    assert group_faults(problem, FAULTS["more runs than allowed"][0]) == []


def test_a_delay_that_is_cut_short_is_a_fault() -> None:
    """b gets its weights 6 s after training, and starts 5 s after it."""
    problem = replace(PAIR, jobs=(PAIR.jobs[0], replace(PAIR.jobs[1], delay_s=6.0)))
    assert group_faults(problem, GROUP) == ["job b, run 1 rolls out before it has the weights of the run before"]


def test_a_gang_group_without_timetable_is_accepted_where_strict_round_robin_does() -> None:
    """The precedence graph decides: two gangs on the same nodes take turns."""
    assert group_faults(PAIR, replace(GROUP, timetable=None)) == []


def test_a_gang_group_without_timetable_is_a_fault_where_strict_round_robin_fails() -> None:
    """The triangle at 15 s, of which each job tolerates 10."""
    group = Group((0, 1, 2), ((0, 1), (1, 2), (0, 2)), 3, 1)
    assert group_faults(TRIANGLE, group) == [
        *(f"job {name} runs 2.500 times slower than alone, its SLO allows 1.66667" for name in "abc"),
        "has no timetable, and strict round robin in the order of its jobs does not do",
    ]


@given(st.integers(0, 10**6))
def test_the_precedence_graph_of_gangs_has_the_period_of_their_simulation(seed: int) -> None:
    """Two ways to the same number, for gangs on random nodes."""
    random = Random(seed)
    jobs = random.randint(1, 4)
    rollout_s, train_s = ([random.randint(1, 20) for _ in range(jobs)] for _ in range(2))
    pinning = [random.sample(range(3), random.randint(1, 3)) for _ in range(jobs)]
    gangs = [job for job in range(jobs) if random.random() < 0.7]
    simulated = simulate(rollout_s, train_s, pinning, 121, gangs).steady_period_s
    assert round_robin_period(rollout_s, train_s, pinning, gang=gangs) == pytest.approx(simulated, rel=1e-12)


def test_delays_lengthen_only_the_way_back() -> None:
    """Alone 20 s with 8 s of delay; two such jobs on one node take turns within it."""
    assert round_robin_period([10, 10], [2, 2], [(0,), (0,)], [8, 8]) == 20
