"""Strict round robin without a barrier: the closed form against the precedence graph and against event simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.colocation.problem import at_most
from rollplan.models.colocation.verify import round_robin_period
from rollplan.models.round_robin import Period, period
from rollplan.planner.simulate import simulate

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200)
ITERATIONS = 121
"""The second half has 60 steps, a whole number of cycles of up to six iterations, and starts after the start-up."""

GANG_TRIANGLE = ([5, 10, 10, 10], [20, 1, 1, 1], [(4,), (1, 2), (2, 3), (1, 3)])
"""D = (5 s, 20 s) on node 4; A, B, C = (10 s, 1 s) on {1, 2}, {2, 3}, {1, 3}: against RollMux Theorem 1 on several nodes."""


@dataclass(frozen=True)
class Jobs:
    """Durations in whole seconds, so that sums are exact, and rollout nodes of each job."""

    rollout_s: tuple[int, ...]
    train_s: tuple[int, ...]
    pinning: tuple[tuple[int, ...], ...]

    @property
    def period_s(self) -> float:
        """The closed form."""
        return period(self.rollout_s, self.train_s, self.pinning).seconds

    def simulated_s(self, gang: tuple[int, ...] = ()) -> float:
        """The period of the event simulation."""
        return simulate(self.rollout_s, self.train_s, self.pinning, ITERATIONS, gang).steady_period_s

    def part(self, positions: tuple[int, ...]) -> Jobs:
        """Return the jobs at some positions, in that order."""
        rollout_s, train_s = tuple(self.rollout_s[k] for k in positions), tuple(self.train_s[k] for k in positions)
        return Jobs(rollout_s, train_s, tuple(self.pinning[k] for k in positions))


@st.composite
def groups(draw: st.DrawFn, min_jobs: int = 1, most_nodes_of_a_job: int = 4) -> Jobs:
    """Up to six jobs on up to four rollout nodes, each job on any set of them."""
    size = draw(st.integers(min_jobs, 6))
    nodes = st.lists(st.integers(0, draw(st.integers(0, 3))), min_size=1, max_size=most_nodes_of_a_job, unique=True).map(tuple)
    rollout_s = draw(st.lists(st.integers(0, 40), min_size=size, max_size=size).map(tuple))
    train_s = draw(st.lists(st.integers(1, 40), min_size=size, max_size=size).map(tuple))
    return Jobs(rollout_s, train_s, draw(st.lists(nodes, min_size=size, max_size=size).map(tuple)))


@REPEATABLE
@given(groups())
def test_closed_form_is_the_simulated_period(jobs: Jobs) -> None:
    """RollMux 4.3 defines T_cycle and T_load; their maximum is the period, also of jobs on several nodes (docs/round_robin.md)."""
    assert jobs.period_s == jobs.simulated_s()


@REPEATABLE
@given(groups())
def test_closed_form_is_the_largest_cycle_ratio_of_the_precedence_graph(jobs: Jobs) -> None:
    """The verifier derives the period without the closed form (max-plus algebra, Baccelli et al. 1992)."""
    assert jobs.period_s == pytest.approx(round_robin_period(jobs.rollout_s, jobs.train_s, jobs.pinning), rel=1e-9)


@REPEATABLE
@given(groups(min_jobs=2), st.randoms(use_true_random=False))
def test_no_order_of_the_jobs_changes_the_simulated_period(jobs: Jobs, random: Random) -> None:
    """So the order of a group is free: the proof in docs/round_robin.md stacks the trainings in the order given."""
    order = list(range(len(jobs.rollout_s)))
    random.shuffle(order)
    assert jobs.period_s == jobs.part(tuple(order)).simulated_s()


@REPEATABLE
@given(groups(min_jobs=2), st.randoms(use_true_random=False))
def test_no_order_of_the_jobs_changes_the_precedence_graphs_period(jobs: Jobs, random: Random) -> None:
    """The verifier may be given the jobs of a group in any order."""
    order = list(range(len(jobs.rollout_s)))
    random.shuffle(order)
    turned = jobs.part(tuple(order))
    assert jobs.period_s == pytest.approx(round_robin_period(turned.rollout_s, turned.train_s, turned.pinning), rel=1e-9)


def test_all_orders_of_a_saturated_group_have_one_period() -> None:
    """All 24 orders of a group in which solo time, training and both nodes come close to each other."""
    jobs = Jobs((30, 20, 10, 25), (10, 12, 15, 5), ((0,), (0, 1), (1,), (1,)))
    assert {55.0} == {jobs.part(order).simulated_s() for order in permutations(range(4))}


@REPEATABLE
@given(groups(), st.data())
def test_gang_starts_are_never_faster_than_the_closed_form(jobs: Jobs, data: st.DataObject) -> None:
    """Waiting for several nodes at once only adds constraints, so the closed form stays a lower bound."""
    gang = data.draw(st.lists(st.integers(0, len(jobs.rollout_s) - 1), unique=True).map(tuple))
    assert jobs.simulated_s(gang) >= jobs.period_s * (1 - 1e-9)


@REPEATABLE
@given(groups(most_nodes_of_a_job=1))
def test_a_gang_on_one_node_is_no_gang(jobs: Jobs) -> None:
    """With one rollout node per job the closed form holds whatever the start rule."""
    assert jobs.period_s == jobs.simulated_s(gang=tuple(range(len(jobs.rollout_s))))


def test_closed_form_of_the_gang_triangle_is_25_seconds() -> None:
    """T_cycle 25, T_load 23: by RollMux's terms the group is unsaturated."""
    assert Period(25, "solo", 0) == period(*GANG_TRIANGLE)


def test_gang_triangle_needs_30_seconds() -> None:
    """The three rollouts exclude each other pairwise, so no schedule at all is faster than 30 s."""
    assert simulate(*GANG_TRIANGLE, iterations=ITERATIONS, gang=(1, 2, 3)).steady_period_s == 30


def test_gang_triangle_with_independent_starts_keeps_the_closed_form() -> None:
    """The same durations and nodes, but each node's share of a rollout starts when that node is free."""
    assert simulate(*GANG_TRIANGLE, iterations=ITERATIONS).steady_period_s == 25


def test_three_gang_jobs_of_5_seconds_need_15_where_the_formula_says_10() -> None:
    """Every node is shared by two jobs, yet only one of the three can run: gang jobs must not be planned by the closed form."""
    jobs = Jobs((5, 5, 5), (1, 1, 1), ((1, 2), (2, 3), (1, 3)))
    assert (jobs.period_s, jobs.simulated_s(gang=(0, 1, 2))) == (10, 15)


@REPEATABLE
@given(groups(), st.data())
def test_a_longer_phase_never_shortens_the_period(jobs: Jobs, data: st.DataObject) -> None:
    """Strict round robin is monotone in every duration; that makes worst-case times a guarantee (RollMux 4.1)."""
    field = data.draw(st.sampled_from(["rollout_s", "train_s"]))
    longer = list(getattr(jobs, field))
    longer[data.draw(st.integers(0, len(longer) - 1))] += data.draw(st.integers(1, 40))
    slower = replace(jobs, **{field: tuple(longer)})
    assert slower.period_s >= jobs.period_s
    assert slower.simulated_s() >= jobs.simulated_s()


@REPEATABLE
@given(groups(), st.data())
def test_a_longer_phase_makes_no_phase_of_the_timetable_earlier(jobs: Jobs, data: st.DataObject) -> None:
    """Max-plus recursions know no anomalies, gang starts included; FIFO queues do."""
    longer = list(jobs.rollout_s)
    longer[data.draw(st.integers(0, len(longer) - 1))] += data.draw(st.integers(1, 40))
    gang = tuple(range(0, len(longer), 2))
    before = simulate(jobs.rollout_s, jobs.train_s, jobs.pinning, 10, gang).phases
    after = simulate(longer, jobs.train_s, jobs.pinning, 10, gang).phases
    assert [(a, b) for a, b in zip(before, after, strict=True) if b.start_s < a.start_s or b.end_s < a.end_s] == []


@REPEATABLE
@given(groups(min_jobs=2), st.integers(0, 5))
def test_adding_a_job_never_shortens_the_period(jobs: Jobs, position: int) -> None:
    """Seen from the other side: leave one job out. Enumeration and pruning rest on it."""
    rest = tuple(k for k in range(len(jobs.rollout_s)) if k != position % len(jobs.rollout_s))
    assert jobs.part(rest).period_s <= jobs.period_s


@REPEATABLE
@given(groups(min_jobs=2), st.lists(st.floats(1, 6), min_size=6, max_size=6), st.sets(st.integers(0, 5), min_size=1))
def test_parts_of_a_feasible_group_are_feasible(jobs: Jobs, slos: list[float], wanted: set[int]) -> None:
    """Feasibility is hereditary: the enumeration of groups and the column bound rest on it."""

    def feasible(members: tuple[int, ...]) -> bool:
        tolerated = (slos[k] * (jobs.rollout_s[k] + jobs.train_s[k]) for k in members)
        return at_most(jobs.part(members).period_s, min(tolerated))

    whole = tuple(range(len(jobs.rollout_s)))
    part = tuple(k for k in whole if k in wanted) or whole[:1]
    assert feasible(part) or not feasible(whole)


@REPEATABLE
@given(groups(), st.sampled_from([2, 10, 1000, 0.5, 2**-20]))
def test_scaling_all_durations_scales_the_period(jobs: Jobs, factor: float) -> None:
    """Seconds, minutes or milliseconds: the same plan."""
    scaled = period([factor * s for s in jobs.rollout_s], [factor * s for s in jobs.train_s], jobs.pinning)
    assert factor * jobs.period_s == pytest.approx(scaled.seconds, rel=1e-12)


def test_a_job_alone_takes_its_solo_time() -> None:
    """One job on two nodes: rollout, then training, then again."""
    assert Period(234, "solo", 0) == period([133], [101], [(0, 1)])


def test_two_equal_jobs_on_one_pair_fill_the_rollout_node() -> None:
    """RollMux Fig. 10a: two jobs of type A (133 s, 101 s) on one node pair; measured 265 to 270 s."""
    assert Period(266, "rollout node", 0) == period([133, 133], [101, 101], [(0,), (0,)])


def test_the_fullest_of_several_rollout_nodes_binds() -> None:
    """Three rollouts of 60 s; node 7 serves two of them."""
    assert Period(120, "rollout node", 7) == period([50, 60, 60], [10, 10, 10], [(2,), (2, 7), (7,)])


def test_the_training_pool_binds_when_jobs_train_longer_than_they_roll_out() -> None:
    """Two training-heavy jobs on separate rollout nodes still share one training pool."""
    assert Period(400, "training", None) == period([50, 50], [200, 200], [(0,), (1,)])


def test_the_longest_job_binds_while_its_gaps_hold_the_others() -> None:
    """An unsaturated group: the long job runs as fast as alone (T_cycle above T_load)."""
    assert Period(200, "solo", 1) == period([10, 100, 10], [10, 100, 10], [(0,), (0,), (0,)])


def test_of_equal_terms_the_solo_time_is_named() -> None:
    """Two (100, 100) jobs: solo, training and node are all 200 s; the docstring promises `solo`."""
    assert Period(200, "solo", 0) == period([100, 100], [100, 100], [(0,), (0,)])


def test_round_robin_runs_the_short_job_as_rarely_as_the_long_one() -> None:
    """RollMux Fig. 10b, types D, D and E: strict round robin gives D one iteration per iteration of E, 870 s apart."""
    jobs = Jobs((314, 314, 746), (120, 120, 124), ((0,), (1,), (2,)))
    table = simulate(jobs.rollout_s, jobs.train_s, jobs.pinning, ITERATIONS)
    trained = Counter(phase.job for phase in table.phases if phase.kind == "train" and 87_000 < phase.end_s <= 87_870)
    assert (table.steady_period_s, trained) == (870, {0: 1, 1: 1, 2: 1})


@REPEATABLE
@given(groups(), st.data())
def test_no_resource_serves_two_phases_at_once(jobs: Jobs, data: st.DataObject) -> None:
    """Every node and the training pool are exclusive, in list order, with and without gangs."""
    gang = data.draw(st.lists(st.integers(0, len(jobs.rollout_s) - 1), unique=True).map(tuple))
    phases = simulate(jobs.rollout_s, jobs.train_s, jobs.pinning, 6, gang).phases
    lanes = [[phase for phase in phases if phase.node == node] for node in (None, 0, 1, 2, 3)]
    assert [(a, b) for lane in lanes for a, b in pairwise(lane) if b.start_s < a.end_s] == []


@REPEATABLE
@given(groups())
def test_training_waits_for_the_rollouts_on_all_nodes(jobs: Jobs) -> None:
    """On-policy: an iteration trains on all of its own samples, and the next rollout waits for the new weights."""
    phases = simulate(jobs.rollout_s, jobs.train_s, jobs.pinning, 6).phases
    trained = {(phase.job, phase.iteration): phase for phase in phases if phase.kind == "train"}
    late = [p for p in phases if p.kind == "rollout" and p.end_s > trained[p.job, p.iteration].start_s]
    early = [p for p in phases if p.kind == "rollout" and p.iteration and p.start_s < trained[p.job, p.iteration - 1].end_s]
    assert (late, early) == ([], [])


def test_window_returns_the_phases_that_run_inside_it() -> None:
    """A picture of one period shows what overlaps it, not what only touches it."""
    table = simulate([10], [5], [(0,)], 3)
    assert [(p.kind, p.start_s, p.end_s) for p in table.window(15, 30)] == [("rollout", 15, 25), ("train", 25, 30)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1], [(0,)], 1), "iterations must be at least 2, got 1"),
        (([1], [1, 2], [(0,)], 2), "rollout_s, train_s and pinning must hold the same jobs, got 1, 2 and 1"),
        (([1], [1], [()], 2), r"pinning\[0\] must list at least one node, each once, got \(\)"),
        (([1], [1], [(3, 3)], 2), r"pinning\[0\] must list at least one node, each once, got \(3, 3\)"),
        (([1], [1], [(0,)], 2, (1,)), r"gang must hold positions in 0\.\.0, got 1"),
    ],
)
def test_simulation_refuses_what_it_cannot_run(arguments: tuple[Any, ...], message: str) -> None:
    """Field, rule, value: the form of every refusal here."""
    with pytest.raises(ValueError, match=message):
        simulate(*arguments)
