"""P4 b against brute force, laws and published optima: every schedule feasible, every bound a bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from random import Random
from time import sleep

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Certified, Limits
from rollplan.models.job_shop.board import Board
from rollplan.models.job_shop.bounds import lower_bound
from rollplan.models.job_shop.exact import exact
from rollplan.models.job_shop.fluid import fluid, proven
from rollplan.models.job_shop.problem import Alternative, JobShopProblem, flow_shop, hybrid_flow_shop, job_shop
from rollplan.models.job_shop.read import read
from rollplan.models.job_shop.second_proof import shorter
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.timing import retimed, timed
from rollplan.models.job_shop.verify import verify
from rollplan.models.job_shop.whole import LARGEST, whole

FT06 = """6 6
2 1 0 3 1 6 3 7 5 3 4 6
1 8 2 5 4 10 5 10 0 10 3 4
2 5 3 4 5 8 0 9 1 1 4 7
1 5 0 5 2 5 3 3 4 8 5 9
2 9 1 3 4 5 5 4 0 3 3 1
1 3 3 3 5 9 0 10 4 4 2 1"""
LA01 = """10 5
1 21 0 53 4 95 3 55 2 34
0 21 3 52 4 16 2 26 1 71
3 39 4 98 1 42 2 31 0 12
1 77 0 55 4 79 2 66 3 77
0 83 3 34 2 64 1 19 4 37
1 54 2 43 4 79 0 92 3 62
3 69 4 77 1 87 2 87 0 93
2 38 0 60 1 41 3 24 4 83
3 17 1 49 4 25 0 44 2 98
4 77 3 79 2 43 1 75 0 96"""
MT06_EDATA = """6 6 1.15
6 1 3 1 1 1 3 1 2 6 1 4 7 2 6 3 4 3 1 5 6
6 1 2 8 1 3 5 1 5 10 1 6 10 1 1 10 1 4 4
6 2 3 5 6 5 1 4 4 1 6 8 1 1 9 2 2 1 6 1 1 5 7
6 1 2 5 1 1 5 1 3 5 2 4 3 1 3 1 5 8 1 6 9
6 1 3 9 1 2 3 1 5 5 2 6 4 2 4 1 1 3 1 4 1
6 2 2 3 4 3 1 4 3 1 6 9 1 1 10 1 5 4 1 3 1"""


def in_turn(problem: JobShopProblem) -> Schedule:
    """The jobs one after another: a start that any search has to improve."""
    return timed(problem, list(problem.operations()))


def solved(problem: JobShopProblem, limits: Limits | None = None, repeatable: bool = False) -> Certified[Schedule]:
    found = exact(problem, limits or Limits(60), in_turn(problem), repeatable=repeatable)
    assert verify(problem, found.solution) == ()
    assert found.value == found.solution.makespan
    return found


def optimum(problem: JobShopProblem) -> float:
    """Every order of the operations with every choice of machines, played in plain Python."""
    turns = [job for job, chain in enumerate(problem.jobs) for _ in chain]
    best = float("inf")
    for choice in product(*(operation for _, _, operation in problem.operations())):
        ways = iter(choice)
        rows = [[next(ways) for _ in chain] for chain in problem.jobs]
        for order in set(permutations(turns)):
            ready, free, at = [0.0] * len(rows), [0.0] * problem.machines, [0] * len(rows)
            for job in order:
                way = rows[job][at[job]]
                at[job] += 1
                if way.duration:
                    ready[job] = free[way.machine] = max(ready[job], free[way.machine]) + way.duration
            best = min(best, max(ready))
    return best


WHOLE = st.integers(0, 9).map(float)


@st.composite
def shops(draw: st.DrawFn, most: int = 5, durations: st.SearchStrategy[float] = WHOLE) -> JobShopProblem:
    """At most `most` operations in at most three jobs on at most three machines, some with a choice, some of no duration."""
    machines = draw(st.integers(1, 3))
    left, jobs = most, []
    for _ in range(draw(st.integers(1, 3))):
        chain = []
        for _ in range(draw(st.integers(0, min(3, left)))):
            places = draw(st.lists(st.integers(0, machines - 1), min_size=1, max_size=2, unique=True))
            chain.append(tuple(Alternative(place, draw(durations)) for place in places))
        left -= len(chain)
        jobs.append(tuple(chain))
    return JobShopProblem(machines, tuple(jobs))


@settings(max_examples=40)
@given(shops())
def test_the_exact_optimum_is_that_of_brute_force(problem: JobShopProblem) -> None:
    """Job shops and flexible ones, with recirculation, empty jobs and operations of no duration."""
    found = solved(problem)
    assert found.value == found.bound.value == optimum(problem)
    assert found.stopped == "optimal"


@settings(max_examples=20)
@given(shops(4, st.sampled_from([0.1, 0.25, 1 / 3, 2.7182818284590451, 1e-3])))
def test_durations_with_decimals_have_a_bound_in_the_safe_direction(problem: JobShopProblem) -> None:
    """Rounded down to whole numbers below 2^31, so the bound may lose one in a billion, but is never too large."""
    found, best = solved(problem), optimum(problem)
    assert found.value == pytest.approx(best, rel=1e-7, abs=1e-12)
    assert found.bound.value <= best * (1 + 1e-12)
    assert found.gap <= 1e-7


@given(shops(9))
def test_no_schedule_undercuts_the_bound_in_closed_form(problem: JobShopProblem) -> None:
    """Jackson's preemptive schedule on one machine, mean loads on several."""
    assert lower_bound(problem).value <= solved(problem).value


@settings(max_examples=60)
@given(shops())
def test_the_bound_in_closed_form_is_below_the_optimum_of_brute_force(problem: JobShopProblem) -> None:
    """Without the solver in between."""
    assert lower_bound(problem).value <= optimum(problem)


@given(shops())
def test_the_fluid_bound_is_below_the_optimum_of_brute_force(problem: JobShopProblem) -> None:
    """The prices of the LP; and with the largest shares as the choice, no schedule is shorter."""
    relaxed = fluid(problem, Limits(60))
    assert relaxed is not None
    assert relaxed.bound.value <= optimum(problem) <= optimum(relaxed.rounded)
    assert not relaxed.rounded.flexible


@given(shops(), st.lists(st.floats(-1, 5), min_size=6, max_size=6))
def test_any_prices_prove_a_bound(problem: JobShopProblem, prices: list[float]) -> None:
    """So an LP that was solved badly cannot prove too much."""
    assert proven(problem, (prices[: problem.machines], prices[3 : 3 + len(problem.jobs)])) <= optimum(problem)


def test_the_fluid_bound_sees_what_the_closed_form_does_not() -> None:
    """Ten operations of 3 on machine 0, or of 6 on machine 1: the first takes two thirds of them, 20 each; 30 / 2 = 15 is too little."""
    problem = JobShopProblem(2, (((Alternative(0, 3.0), Alternative(1, 6.0)),),) * 10)
    relaxed = fluid(problem, Limits(60))
    assert relaxed is not None
    assert (lower_bound(problem).value, relaxed.bound.value) == (15, 20)


@pytest.mark.parametrize(
    ("text", "form", "optimal"),
    [(FT06, "jsp", 55), (LA01, "jsp", 666), (MT06_EDATA, "fjsp", 55)],
    ids=["ft06", "la01", "mt06 of edata"],
)
def test_classical_shops_have_their_published_optima(text: str, form: str, optimal: int) -> None:
    """Fisher and Thompson 1963, Lawrence 1984, Hurink, Jurisch and Thole 1994; optima as listed in ScheduleOpt/benchmarks."""
    found = solved(read(text, "fjsp" if form == "fjsp" else "jsp"))
    assert (found.value, found.bound.value, found.stopped) == (optimal, optimal, "optimal")


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6))
def test_two_machines_in_line_need_what_johnsons_rule_needs(rows: list[tuple[int, int]]) -> None:
    """Johnson 1954: first the jobs that are shorter on the first machine, by it, then the others by the second, falling."""
    ranked = sorted((row for row in rows if row[0] < row[1]), key=lambda row: row[0])
    ranked += sorted((row for row in rows if row[0] >= row[1]), key=lambda row: -row[1])
    first = second = 0
    for a, b in ranked:
        first += a
        second = max(first, second) + b
    found = solved(flow_shop(rows))
    assert found.value == found.bound.value == second


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 3))
def test_one_stage_of_identical_machines_is_a_partition(durations: list[int], machines: int) -> None:
    """The hybrid flow shop of one stage is P||Cmax; every assignment is tried."""
    best = min(
        max(sum(d for d, place in zip(durations, places, strict=True) if place == m) for m in range(machines))
        for places in product(range(machines), repeat=len(durations))
    )
    assert solved(hybrid_flow_shop([machines], [[d] for d in durations])).value == best


@given(shops(6))
def test_a_shop_and_its_mirror_image_take_the_same_time(problem: JobShopProblem) -> None:
    """Time may run backwards."""
    mirror = replace(problem, jobs=tuple(chain[::-1] for chain in problem.jobs))
    assert solved(problem).value == solved(mirror).value


@given(shops(6), st.data())
def test_one_more_alternative_never_takes_longer(problem: JobShopProblem, data: st.DataObject) -> None:
    """More choice, more schedules."""
    operations = [(job, k) for job, k, operation in problem.operations() if len(operation) < problem.machines]
    assume(operations)
    job, k = data.draw(st.sampled_from(operations))
    operation = problem.jobs[job][k]
    other = data.draw(st.sampled_from(sorted(set(range(problem.machines)) - {way.machine for way in operation})))
    wider = (*operation, Alternative(other, float(data.draw(st.integers(0, 9)))))
    chain = (*problem.jobs[job][:k], wider, *problem.jobs[job][k + 1 :])
    more = replace(problem, jobs=(*problem.jobs[:job], chain, *problem.jobs[job + 1 :]))
    assert solved(more).value <= solved(problem).value


def test_machines_that_differ_in_nothing_are_one_resource() -> None:
    """Their symmetry never reaches the solver; a machine with another duration anywhere stays apart."""
    shop = whole(hybrid_flow_shop([1, 3], [[2, 3], [4, 5]]), 14)
    assert shop.resources == ((0,), (1, 2, 3))
    other = JobShopProblem(2, (((Alternative(0, 2.0), Alternative(1, 2.0)),), ((Alternative(0, 1.0), Alternative(1, 3.0)),)))
    assert whole(other, 5).resources == ((0,), (1,))


def test_whole_numbers_stay_below_2_to_the_31() -> None:
    """The coarsest decimal unit that is exact, or the finest that fits, and it says which."""
    assert (whole(job_shop([[(0, 2.5)], [(0, 0.125)]]), 2.625).unit * 1000, whole(job_shop([[(0, 2.5)]]), 2.5).rounded) == (1, False)
    large = whole(job_shop([[(0, 3e12)], [(0, 1.0)]]), 3e12 + 1)
    assert large.rounded
    assert large.units(3e12 + 1) <= LARGEST
    assert large.time(large.units(3e12 + 1)) <= 3e12 + 1


@given(shops(5))
def test_the_second_proof_confirms_the_optimum_and_refutes_what_is_above(problem: JobShopProblem) -> None:
    """It knows neither intervals nor presolve nor what the first search found."""
    best = optimum(problem)
    assume(best > 0)
    shop = whole(problem, best + 1)
    assert shorter(shop, best, Limits(60)) == "confirmed"
    refuted = shorter(shop, best + 1, Limits(60))
    assert isinstance(refuted, Schedule)
    assert verify(problem, refuted) == ()
    assert refuted.makespan == best


def test_an_optimum_that_the_second_proof_refutes_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that proves too much: its bound is dropped, and the better schedule taken."""
    problem = read(FT06, "jsp")
    right = solved(problem).solution
    monkeypatch.setattr("rollplan.models.job_shop.exact.shorter", lambda *_: right)
    monkeypatch.setattr("rollplan.models.job_shop.cpsat.Search.run", lambda search, *_: search.raised(60))
    worse = replace(right, starts=tuple(tuple(start + 5 for start in row) for row in right.starts), makespan=60.0)
    found = exact(problem, Limits(20), worse)
    assert (found.value, found.bound.proof, found.optimal) == (55.0, "closed form", False)


def test_repeatable_runs_are_equal_to_the_last_digit() -> None:
    """One worker, a seed and deterministic time instead of the clock."""
    problem = read(LA01, "jsp")
    runs = [solved(problem, Limits(120, node_limit=2), repeatable=True) for _ in range(2)]
    assert [replace(run, seconds=0.0) for run in runs] == [replace(runs[0], seconds=0.0)] * 2


def test_a_node_limit_ends_a_repeatable_run_with_its_best_schedule_and_bound() -> None:
    """Nothing is claimed that was not proven."""
    found = solved(read(LA01, "jsp"), Limits(120, node_limit=0), repeatable=True)
    assert found.stopped in ("node limit", "optimal")
    assert found.bound.value <= 666 <= found.value


def test_a_word_from_outside_keeps_the_best_schedule() -> None:
    """Ctrl-C at once, and while the search runs."""
    problem = hybrid_flow_shop([3, 2], [[7 + (5 * job) % 13, 9 + (3 * job) % 11] for job in range(30)])
    at_once = solved(problem, Limits(60, interrupted=lambda: True))
    assert (at_once.stopped, at_once.value) == ("interrupted", in_turn(problem).makespan)
    calls = iter(range(10**6))
    later = solved(problem, Limits(60, interrupted=lambda: next(calls) > 30))
    assert later.stopped in ("interrupted", "optimal")
    assert later.value <= at_once.value


def test_progress_only_improves_and_ends_where_the_answer_is() -> None:
    """Schedules fall, bounds rise, and both meet."""
    told: list[tuple[float, float | None]] = []
    problem = read(FT06, "jsp")
    exact(problem, Limits(60), in_turn(problem), report=lambda value, bound: told.append((value, bound)))
    values, bounds = zip(*told, strict=True)
    assert list(values) == sorted(values, reverse=True)
    assert list(bounds) == sorted(bounds)
    assert told[-1] == (55.0, 55.0)


def test_an_improver_shares_what_it_finds() -> None:
    """With one, two provers of different settings run beside it."""
    problem = read(FT06, "jsp")
    best = solved(problem).solution

    def improve(board: Board) -> None:
        sleep(0.05)
        board.offer(best)

    found = exact(problem, Limits(60), in_turn(problem), improver=improve)
    assert (found.value, found.stopped) == (55.0, "optimal")


# The judge.

TWO = job_shop([[(0, 3), (1, 2)], [(1, 2), (0, 4)]])
GOOD = Schedule(((0, 1), (1, 0)), ((0.0, 3.0), (0.0, 3.0)), 7.0)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (replace(GOOD, starts=((0.0, 2.0), (0.0, 3.0))), "operation 1 of job 0 starts at 2, before 3, when the one before it ends"),
        (
            replace(GOOD, starts=((0.0, 3.0), (0.0, 2.0)), makespan=6.0),
            "machine 0 starts operation 1 of job 1 at 2, before operation 0 of job 0",
        ),
        (replace(GOOD, starts=((-1.0, 3.0), (0.0, 3.0))), "operation 0 of job 0 starts at -1, before 0"),
        (replace(GOOD, starts=((float("nan"), 3.0), (0.0, 3.0))), "operation 0 of job 0 starts at nan"),
        (replace(GOOD, machines=((1, 1), (1, 0))), "operation 0 of job 0 runs on machine 1, which is none of its alternatives"),
        (replace(GOOD, makespan=6.9), "the last operation ends at 7, the schedule says 6.9"),
        (replace(GOOD, makespan=float("nan")), "the last operation ends at 7, the schedule says nan"),
        (replace(GOOD, starts=((0.0,), (0.0, 3.0))), r"starts have the shape [1, 2], the jobs have [2, 2] operations"),
    ],
)
def test_the_verifier_names_what_is_wrong(schedule: Schedule, said: str) -> None:
    """Operation, machine and times in words."""
    assert verify(TWO, GOOD) == ()
    assert any(fault.startswith(said) for fault in verify(TWO, schedule))


@given(shops(9), st.randoms(use_true_random=False))
def test_times_from_an_order_are_feasible_and_as_early_as_they_can_be(problem: JobShopProblem, rng: Random) -> None:
    """To time a schedule again changes nothing."""
    turns = [job for job, chain in enumerate(problem.jobs) for _ in chain]
    rng.shuffle(turns)
    at = [0] * len(problem.jobs)
    order = []
    for job in turns:
        order.append((job, at[job], problem.jobs[job][at[job]]))
        at[job] += 1
    schedule = timed(problem, order)
    assert verify(problem, schedule) == ()
    assert retimed(problem, schedule) == schedule
