"""The cyclic phase shop: least periods against published and hand-proved numbers, and against a search without a solver."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import nan

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.cyclic_shop.bounds import lower_bound
from rollplan.models.cyclic_shop.exact import at_period, exact
from rollplan.models.cyclic_shop.fixed import starts_at
from rollplan.models.cyclic_shop.grid import Grid, grid_of
from rollplan.models.cyclic_shop.orders import tightened
from rollplan.models.cyclic_shop.parts import parts_of
from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem, Phase, ShopJob
from rollplan.models.cyclic_shop.verify import verify
from tests.models.by_hand import possible, shop

TRIANGLE = shop(3, (5, 1, (0, 1)), (5, 1, (1, 2)), (5, 1, (0, 2)))
LONG_TRIANGLE = shop(4, (5, 20, (3,)), (10, 1, (0, 1)), (10, 1, (1, 2)), (10, 1, (0, 2)))
WIDE_A = shop(2, (12, 4, (0, 1)), (20, 20, (0,)), (26, 4, (1,)))
DELAYS = shop(2, (10, 2, (0,)), (10, 2, (0,)), (4, 14, (1,)), delays=(8, 8, 0))
REPEATED = shop(1, (100, 100, (0,)), (10, 10, (0,)), (10, 10, (0,)), runs=(1, 2, 2))

GOLDEN: dict[str, tuple[CyclicShopProblem, float, float]] = {
    "three gangs that exclude each other pairwise": (TRIANGLE, 15, 15),
    "the same behind a long job": (LONG_TRIANGLE, 30, 30),
    "a gang on both nodes between two jobs": (WIDE_A, 40, 41),
    "sync as a delay": (DELAYS, 20, 23),
    "two short jobs twice": (REPEATED, 220, 230),
    "rates 2 and 3 on own nodes": (shop(2, (14, 19, (0,)), (15, 9, (1,)), runs=(2, 3)), 80, 85),
    "Fig. 10b at rates 2, 2 and 1": (shop(3, (314, 118, (0,)), (314, 118, (1,)), (746, 124, (2,)), runs=(2, 2, 1)), 870, 870),
}


@pytest.mark.parametrize(("problem", "bound", "least"), GOLDEN.values(), ids=GOLDEN)
def test_known_least_periods_are_found_and_proven(problem: CyclicShopProblem, bound: float, least: float) -> None:
    """RollMux 4.3 with gangs (15, 30; 41 where loads say 40), docs/round_robin.md 1 (23), multi-rate groups (230, 85, 870).

    The bound is that of loads, cliques and blocking.
    """
    found = exact(problem)
    assert (found.value, found.bound.value, found.stopped) == (least, least, "optimal")
    assert verify(problem, found.solution) == ()
    assert lower_bound(problem).seconds == bound


@pytest.mark.parametrize(("problem", "bound", "least"), GOLDEN.values(), ids=GOLDEN)
def test_every_known_least_period_is_proven_again_without_a_solver(problem: CyclicShopProblem, bound: float, least: float) -> None:
    """Everything that is tried keeps its exact fractions. (The four-job and multi-rate cases take few steps, because loads cut.)"""
    assert possible(problem, Fraction(least))
    assert not possible(problem, Fraction(least) - Fraction(1, 10**6))


def test_a_least_period_between_whole_seconds_is_proven_exactly() -> None:
    """A cycle of 45 s over two periods: nothing below 22.5 s, although all durations are whole (and the grid is finer than that)."""
    jobs = (
        ShopJob("A", (Phase(9, (2,)), Phase(2, (3,)), Phase(4, (0,)), Phase(3))),
        ShopJob("B", (Phase(8, (1, 2), together=True), Phase(9, (3,)), Phase(3, (0,)))),
        ShopJob("C", (Phase(5, (0, 2), together=True), Phase(3, (3,)), Phase(5, (3,)), Phase(3))),
    )
    problem = CyclicShopProblem(("node 0", "node 1", "node 2", "trainer"), jobs)
    found = exact(problem)
    assert (found.value, found.bound.value, found.stopped) == (22.5, 22.5, "optimal")
    assert not possible(problem, Fraction(45, 2) - Fraction(1, 10**6))


def test_independent_starts_keep_the_closed_form() -> None:
    """The triangles with data-parallel rollouts: 10 and 25 s instead of 15 and 30."""
    loose = shop(3, (5, 1, (0, 1)), (5, 1, (1, 2)), (5, 1, (0, 2)), gang=False)
    longer = shop(4, (5, 20, (3,)), (10, 1, (0, 1)), (10, 1, (1, 2)), (10, 1, (0, 2)), gang=False)
    assert [exact(problem).value for problem in (loose, longer)] == [10, 25]


def test_a_link_is_a_resource_that_both_pools_hold_together() -> None:
    """Two jobs send 3 s over one link, holding trainer and node: node, trainer and link are busy for 2 * (4 + 3), 2 * (2 + 3), 2 * 3 s."""
    phases = (Phase(4, (0,)), Phase(2, (1,)), Phase(3, (0, 1, 2), together=True))
    problem = CyclicShopProblem(("node", "trainer", "link"), (ShopJob("A", phases), ShopJob("B", phases)))
    assert (lower_bound(problem).seconds, exact(problem).value) == (14, 14)
    assert [possible(problem, Fraction(14) - less) for less in (0, Fraction(1, 1000))] == [True, False]


@st.composite
def shops(draw: st.DrawFn, jobs: int = 3, runs: int = 1) -> CyclicShopProblem:
    """Small shops of whole seconds: up to three nodes, gangs or not, delays or not."""
    nodes = draw(st.integers(1, 3))
    pinned = st.lists(st.integers(0, nodes - 1), min_size=1, max_size=2, unique=True).map(tuple)
    made = []
    for name in "ABCD"[: draw(st.integers(2, jobs))]:
        phases = [Phase(draw(st.integers(1, 9)), draw(pinned), draw(st.booleans())), Phase(draw(st.integers(0, 9)), (nodes,))]
        if draw(st.booleans()):
            phases.append(Phase(draw(st.integers(1, 6))))
        made.append(ShopJob(name, tuple(phases), draw(st.integers(1, runs))))
    return CyclicShopProblem((*(f"node {node}" for node in range(nodes)), "trainer"), tuple(made))


@settings(max_examples=60)
@given(shops())
def test_least_periods_equal_those_of_a_search_without_a_solver(problem: CyclicShopProblem) -> None:
    """Two least periods of whole seconds and at most 12 phases differ by 1 / 144 s or more, so a hair less must be impossible."""
    found = exact(problem)
    assert found.stopped == "optimal"
    assert verify(problem, found.solution) == ()
    exactly = Fraction(found.value).limit_denominator(100)
    assert possible(problem, exactly)
    assert not possible(problem, exactly - Fraction(1, 10**6))


@settings(max_examples=25)
@given(shops(jobs=2, runs=3))
def test_least_periods_with_several_runs_equal_those_of_a_search_without_a_solver(problem: CyclicShopProblem) -> None:
    """Up to three runs of each of two jobs."""
    found = exact(problem)
    assert verify(problem, found.solution) == ()
    exactly = Fraction(found.value).limit_denominator(100)
    assert (found.stopped, possible(problem, exactly - Fraction(1, 10**6))) == ("optimal", False)


@given(shops(jobs=4, runs=2))
def test_no_period_is_below_the_bounds(problem: CyclicShopProblem) -> None:
    """Loads, cliques and blocking: docs/cyclic_shop.md proves each."""
    found = exact(problem, Limits(time_s=5))
    assert lower_bound(problem).seconds <= found.value * (1 + 1e-12)
    assert lower_bound(problem).seconds <= found.bound.value * (1 + 1e-12) <= found.value * (1 + 2e-12)


@given(shops(), st.sampled_from([0.1, 0.5, 3.0, 60.0]))
def test_scaling_all_durations_scales_the_period(problem: CyclicShopProblem, factor: float) -> None:
    """Tenths of seconds, halves and minutes are all whole numbers of some unit: nothing is rounded."""
    jobs = tuple(replace(job, phases=tuple(replace(phase, seconds=phase.seconds * factor) for phase in job.phases)) for job in problem.jobs)
    scaled = exact(replace(problem, jobs=jobs))
    assert scaled.optimal
    assert scaled.value == pytest.approx(factor * exact(problem).value, rel=1e-9)


@given(shops(jobs=3))
def test_a_job_less_never_makes_the_period_longer(problem: CyclicShopProblem) -> None:
    """Enumeration of groups rests on it: what is infeasible stays so when a job joins."""
    assert exact(replace(problem, jobs=problem.jobs[1:])).value <= exact(problem).value * (1 + 1e-12)


@given(shops(), st.randoms(use_true_random=False))
def test_durations_that_are_no_whole_numbers_are_bounded_with_the_error_of_rounding(problem: CyclicShopProblem, random: object) -> None:
    """Durations with 16 digits: the bound is that of loads, or within some units of 2^-27 of the period."""
    draw = random.uniform  # type: ignore[attr-defined]
    jobs = tuple(
        replace(job, phases=tuple(replace(phase, seconds=phase.seconds * draw(0.7, 1.3)) for phase in job.phases)) for job in problem.jobs
    )
    uneven = replace(problem, jobs=jobs)
    found = exact(uneven)
    assert verify(uneven, found.solution) == ()
    assert 0 <= found.gap < 1e-6
    assert not possible(uneven, Fraction(found.bound.value) * (1 - Fraction(1, 10**9)))


def test_a_period_that_is_given_is_met_or_refuted() -> None:
    """41 s for the gang between two jobs, and nothing below."""
    schedule, refuted = at_period(WIDE_A, 45.0)
    assert schedule is not None
    assert (verify(WIDE_A, schedule), schedule.period_s <= 45, refuted) == ((), True, False)
    assert at_period(WIDE_A, 40.999) == (None, True)
    assert at_period(WIDE_A, 39.0) == (None, True)


def test_without_time_the_answer_is_the_start_with_the_bound_of_loads() -> None:
    """Jobs in turn are always a schedule."""
    found = exact(WIDE_A, Limits(time_s=0))
    assert (found.stopped, found.bound.value, found.bound.proof) == ("time limit", 40, "closed form")
    assert verify(WIDE_A, found.solution) == ()


def test_the_same_question_has_the_same_answer() -> None:
    """One worker, a seed, a deterministic limit."""
    assert exact(DELAYS, seed=3) == exact(DELAYS, seed=3)


def test_presolve_and_search_agree_on_what_is_refuted() -> None:
    """Every refuted period is asked twice; here with both answers shown."""
    parts = parts_of(WIDE_A)
    assert [starts_at(parts, Grid(100, False), 4099, Limits(), presolve=presolve) for presolve in (False, True)] == ["refuted"] * 2


def test_the_least_period_of_given_orders_ignores_the_times() -> None:
    """A schedule with idle time in it is tightened to what its orders allow."""
    starts = ((((0.0,), (30.0,)),), (((20.0,), (50.0,)),))
    problem = shop(1, (10, 10, (0,)), (10, 10, (0,)))
    loose = CyclicSchedule(100.0, starts)
    assert (verify(problem, loose), tightened(problem, loose).period_s) == ((), 20)


GOOD = CyclicSchedule(20.0, ((((0.0,), (10.0,)),), (((10.0,), (20.0,)),)))
PAIR = shop(1, (10, 10, (0,)), (10, 10, (0,)))


def pair(period_s: float, *starts: float) -> CyclicSchedule:
    """Return a schedule of `PAIR`: A's rollout and training, then B's."""
    return CyclicSchedule(period_s, ((((starts[0],), (starts[1],)),), (((starts[2],), (starts[3],)),)))


FAULTS: dict[str, tuple[CyclicSchedule, str]] = {
    "overlap on the node": (pair(20, 0, 10, 9, 20), "runs into job B, run 1, phase 1 on node 0"),
    "overlap over the end": (pair(20, 0, 10, 11, 21), "job B, run 1, phase 1 runs into job A"),
    "training before the rollout ends": (pair(25, 0, 9, 10, 20), "phase 2 starts 1 s too early on trainer"),
    "next rollout before the weights": (pair(19, 0, 10, 10, 20), "phase 1 starts 1 s too early on node 0"),
    "period of nothing": (pair(0, 0, 10, 10, 20), "the period must be positive and finite, got 0"),
    "period that is no number": (pair(nan, 0, 10, 10, 20), "the period must be positive and finite, got nan"),
    "start that is no number": (pair(20, nan, 10, 10, 20), "every start must be finite"),
    "a job missing": (CyclicSchedule(20, GOOD.starts_s[:1]), "exactly one start for each run, phase and resource"),
    "a run too many": (CyclicSchedule(40, (GOOD.starts_s[0] * 2, GOOD.starts_s[1])), "exactly one start for each run, phase and resource"),
}


def test_a_right_schedule_has_no_fault() -> None:
    """Node and trainer are busy all the time."""
    assert verify(PAIR, GOOD) == ()


@pytest.mark.parametrize(("schedule", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_schedule_is_named_with_its_fault(schedule: CyclicSchedule, fault: str) -> None:
    """Each kind of fault alone."""
    assert any(fault in said for said in verify(PAIR, schedule))


def test_a_gang_that_does_not_start_together_is_named() -> None:
    """On two nodes at 0 and at 1 s."""
    problem = shop(2, (5, 5, (0, 1)))
    assert verify(problem, CyclicSchedule(12.0, ((((0.0, 1.0), (6.0,)),),))) == (
        "job A, run 1, phase 1 does not start at the same moment on all its resources",
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Phase(-1.0), "seconds of a phase must be finite and at least 0, got -1.0"),
        (lambda: Phase(1.0, (0, 0)), r"resources of a phase must be different, got \(0, 0\)"),
        (lambda: ShopJob("A", (Phase(1.0, (0,)),), runs=0), "A: runs must be at least 1, got 0"),
        (lambda: ShopJob("A", (Phase(1.0), Phase(0.0, (0,)))), "A: some phase must hold a resource for some time, got none"),
        (lambda: CyclicShopProblem(("node",), ()), "a shop must have at least one job, got none"),
        (lambda: CyclicShopProblem(("node",), (ShopJob("A", (Phase(1.0, (1,)),)),)), r"A: resources must be in 0\.\.0, got \(1,\)"),
    ],
)
def test_impossible_shops_are_refused(build: object, message: str) -> None:
    """Field, rule, value."""
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_whole_numbers_are_not_rounded_and_others_are_rounded_up() -> None:
    """0.1 + 0.2 s is 0.3 s; a third of a second is none of any power of ten."""
    tenths, thirds = grid_of([0.1 + 0.2, 0.7], 10.0), grid_of([1 / 3], 10.0)
    assert (tenths, tenths.up(0.1 + 0.2), tenths.down(0.1 + 0.2)) == (Grid(10, False), 3, 3)
    assert (thirds.rounded, thirds.up(1 / 3) - thirds.down(1 / 3)) == (True, 1)


@given(shops(jobs=2))
def test_what_a_schedule_promises_holds_when_phases_get_shorter(problem: CyclicShopProblem) -> None:
    """Kept orders are monotone: the least period of the same orders with shorter phases is no longer (max-plus algebra)."""
    found = exact(problem)
    assume(found.value > 0)
    shorter = replace(
        problem, jobs=tuple(replace(job, phases=tuple(replace(p, seconds=p.seconds / 2) for p in job.phases)) for job in problem.jobs)
    )
    assert tightened(shorter, found.solution).period_s <= found.value
