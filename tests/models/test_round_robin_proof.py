"""The round-robin proof check: groups in which strict round robin is best possible, and groups in which it is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, JobData, NodePool
from rollplan.models.colocation.verify import timetable_faults
from rollplan.models.cyclic_shop.groups import unproven_periods
from rollplan.models.round_robin import period
from rollplan.models.round_robin_proof import BetterSchedule, better_schedule, least_period
from rollplan.planner.fifo import fifo_regime
from rollplan.planner.simulate import simulate

SHARED = ((0,), (0,), (0,))
POOLS = (NodePool("H20", 14.8, 2048.0), NodePool("H800", 42.24, 2048.0))


def against_theorem_1(longest_slo: float) -> list[JobData]:
    """Return j = (100, 100), k1 = k2 = (10, 10), which tolerate 10 times their solo time and more."""
    return [JobData("j", longest_slo, 100, 100), JobData("k1", 12, 10, 10), JobData("k2", 12, 10, 10)]


def faults(jobs: list[JobData], pinning: tuple[tuple[int, ...], ...], better: BetterSchedule) -> list[str]:
    """Return what `verify` says of a schedule with up to four runs."""
    nodes = 1 + max(node for pinned in pinning for node in pinned)
    return timetable_faults(jobs, Group(tuple(range(len(jobs))), pinning, nodes, 1, better.timetable), max_rate=4)


def test_the_counter_example_to_theorem_1_is_found() -> None:
    """Both short jobs twice while the long one runs once: 280 / 230 = 1.217 instead of 240 / 200 = 1.200, with its timetable."""
    jobs = against_theorem_1(1.15)
    better, complete = better_schedule(jobs, SHARED, max_rate=2)
    assert better is not None
    assert (better.runs, better.timetable.period_s, complete) == ((1, 2, 2), 230, True)
    assert (better.utilisation, better.round_robin) == pytest.approx((280 / 230, 1.2))
    assert faults(jobs, SHARED, better) == []


def test_repeating_one_short_job_only_is_no_better() -> None:
    """What the printed proof compares with: 260 / 220 = 1.182. Only both together win."""
    jobs = against_theorem_1(1.15)
    assert [least_period(jobs, SHARED, runs).least_s for runs in ((1, 2, 1), (1, 1, 2), (1, 2, 2))] == [220, 220, 230]


def test_more_slack_for_the_long_job_and_more_runs_win_more() -> None:
    """Up to four runs: 1.244 at 1.15 times solo, 1.333 at 1.5. The optimum over all schedules, periodic or not, is 1.304 and 1.467."""
    tight, loose = (better_schedule(against_theorem_1(slo), SHARED)[0] for slo in (1.15, 1.5))
    assert tight is not None
    assert loose is not None
    assert (tight.runs, loose.runs) == ((2, 4, 4), (1, 4, 4))
    assert (tight.utilisation, loose.utilisation) == pytest.approx((1.2444, 1.3333), abs=1e-4)


def test_round_robin_is_best_if_the_longest_job_may_not_be_delayed() -> None:
    """The safe statement: docs/round_robin.md 6. Asked by the job's SLO, and by the limit on its slowdown."""
    assert better_schedule(against_theorem_1(1.0), SHARED) == (None, True)
    assert better_schedule(against_theorem_1(12.0), SHARED, longest_slowdown=1.0) == (None, True)


@given(st.integers(0, 10**6))
def test_without_delaying_the_longest_job_nothing_random_is_better(seed: int) -> None:
    """Three jobs on one pair that leaves the longest one undelayed, SLOs that would allow anything."""
    random = Random(seed)
    jobs = [JobData("long", 10, 60, 60), *(JobData(f"short{k}", 100, random.randint(1, 29), random.randint(1, 29)) for k in range(2))]
    assert least_period(jobs, SHARED).least_s == 120
    better, _ = better_schedule(jobs, SHARED, max_rate=2, longest_slowdown=1.0, limits=Limits(time_s=5))
    assert better is None or better.runs[0] == 1


def test_fig_10b_runs_both_short_jobs_twice() -> None:
    """RollMux Fig. 10b: D, D (314, 120), E (746, 124) on own nodes. FIFO's rates of 2 to 1, as a timetable with E not delayed."""
    jobs = [JobData("D1", 2.1, 314, 120), JobData("D2", 2.1, 314, 120), JobData("E", 1.0, 746, 124)]
    better, complete = better_schedule(jobs, ((0,), (1,), (2,)))
    assert better is not None
    assert (better.runs, better.timetable.period_s, complete) == ((2, 2, 1), 870, True)
    assert faults(jobs, ((0,), (1,), (2,)), better) == []


def test_fifo_runs_the_short_jobs_of_fig_10b_exactly_twice_as_often() -> None:
    """First in, first out gives each D two iterations per iteration of E, strict round robin one, both every 870 s."""
    times = ((314, 314, 746), (120, 120, 124), ((0,), (1,), (2,)))
    regime = fifo_regime(*times)
    assert regime is not None
    assert [regime.iteration_s(job) for job in range(3)] == [435, 435, 870]
    strict = [phase for phase in simulate(*times, iterations=40).phases if phase.kind == "train" and 8_700 < phase.end_s <= 17_400]
    assert Counter(phase.job for phase in strict) == {0: 10, 1: 10, 2: 10}


@given(st.integers(0, 10**6))
def test_strict_round_robin_attains_the_least_period_with_independent_starts(seed: int) -> None:
    """The theorem of docs/round_robin.md, certified by the bounds of the cyclic shop, never by a search."""
    random = Random(seed)
    size = random.randint(1, 5)
    jobs = [JobData(f"j{k}", 1.0, random.uniform(1, 50), random.uniform(1, 50), rollout_nodes=1) for k in range(size)]
    pinning = [tuple(random.sample(range(3), random.randint(1, 3))) for _ in jobs]
    proof = least_period(jobs, [tuple(sorted(set(nodes))) for nodes in pinning])
    closed = period([job.rollout_s for job in jobs], [job.train_s for job in jobs], pinning).seconds
    assert proof.attained
    assert proof.reason != "CP-SAT refutes shorter ones"
    assert (proof.round_robin_s, proof.bound_s) == pytest.approx((closed, closed), rel=1e-12)


def test_the_binding_term_is_named() -> None:
    """The longest job, the training pool, a rollout node, or a clique of gangs."""

    def reason(*jobs: JobData, pinning: tuple[tuple[int, ...], ...]) -> str:
        return least_period(jobs, pinning).reason

    a, b = JobData("a", 1.0, 50, 60), JobData("b", 1.0, 20, 60)
    assert reason(a, pinning=((0,),)) == "job a alone"
    assert reason(a, b, pinning=((0,), (1,))) == "training pool"
    assert reason(replace(a, train_s=1), replace(b, train_s=1), pinning=((1,), (0, 1))) == "rollout node 1"
    wide = [JobData(name, 1.0, 5, 1, rollout_nodes=2, gang=True) for name in "abc"]
    assert reason(*wide, pinning=((0, 1), (1, 2), (0, 2))) == "phases of a, b, c that exclude each other"


def test_the_least_period_of_a_gang_group_is_proven_where_loads_do_not_tell() -> None:
    """Loads say 40 s; CP-SAT refutes what is below 41, and strict round robin attains these (docs/round_robin.md 4)."""
    jobs = [JobData("B", 2.0, 20, 20), JobData("A", 3.0, 12, 4, rollout_nodes=2, gang=True), JobData("C", 3.0, 26, 4)]
    proof = least_period(jobs, ((0,), (0, 1), (1,)))
    assert (proof.least_s, proof.bound_s, proof.attained, proof.reason) == (41, 41, True, "CP-SAT refutes shorter ones")
    assert timetable_faults(jobs, Group((0, 1, 2), ((0,), (0, 1), (1,)), 2, 1, proof.timetable), 1) == []


def test_the_least_period_of_a_gang_group_is_shown_where_strict_round_robin_misses_it() -> None:
    """Four gangs: 40 s in the order of the list, 38 s, the load of the trainer, in another order on another node."""
    jobs = [JobData(name, 9.0, r, t, gang=True) for name, r, t in (("A", 2, 16), ("B", 9, 2), ("C", 13, 13), ("D", 16, 7))]
    pinning = ((0, 1), (1, 2), (2,), (0, 2))
    proof = least_period(jobs, pinning)
    assert (proof.round_robin_s, proof.least_s, proof.proven, proof.attained, proof.reason) == (40, 38, True, False, "training pool")
    assert timetable_faults(jobs, Group((0, 1, 2, 3), pinning, 3, 1, proof.timetable), 1) == []


def test_check_counts_the_timetables_that_loads_do_not_prove_least() -> None:
    """41 s against 40 s of loads: 2.5 %. At 41 s of load, or without a timetable, there is nothing to say."""
    jobs = (JobData("B", 2.0, 20, 20), JobData("A", 3.0, 12, 4, rollout_nodes=2, gang=True), JobData("C", 3.0, 26, 4))
    pinning = ((0,), (0, 1), (1,))
    timed = Group((0, 1, 2), pinning, 2, 1, least_period(jobs, pinning).timetable)
    said = unproven_periods(ColocationProblem(POOLS, jobs), ColocationSolution((timed,), 0.0))
    assert said is not None
    assert said.startswith("1 timetables are up to 2.5 % longer than the loads")
    longer = ColocationProblem(POOLS, (replace(jobs[0], rollout_s=21), *jobs[1:]))
    assert unproven_periods(longer, ColocationSolution((timed,), 0.0)) is None
    assert unproven_periods(longer, ColocationSolution((replace(timed, timetable=None),), 0.0)) is None
