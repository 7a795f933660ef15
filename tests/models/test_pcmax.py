"""P||Cmax: what a problem refuses, bounds, the parts of the exact solver, and a verifier that finds every lie."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.pcmax.bounds import lifted, lower_bound, simple_bound
from rollplan.models.pcmax.complete import complete, worth_at_least
from rollplan.models.pcmax.exact import exact
from rollplan.models.pcmax.knapsack import Knapsack, Pattern
from rollplan.models.pcmax.patterns import Patterns
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, lpt, of_times, solution
from rollplan.models.pcmax.subset_sums import between, subset_sums
from rollplan.models.pcmax.verify import verify

small = st.builds(
    lambda times, machines: PcmaxProblem(tuple(times), machines),
    st.lists(st.integers(1, 30), min_size=1, max_size=7),
    st.integers(1, 4),
)


def optimum(problem: PcmaxProblem) -> int:
    """Return the least makespan of all assignments."""
    ends = (np.bincount(owner, weights=problem.times) for owner in product(range(problem.machines), repeat=len(problem)))
    return min(int(end.max()) for end in ends)


@pytest.mark.parametrize(
    ("times", "machines", "message"),
    [
        ((), 2, "times must have at least one job"),
        ((3, 0), 2, "times must be at least 1, got 0 for job 1; leave out jobs that take no time"),
        ((3, 4), 0, "machines must be at least 1, got 0"),
        ((2, 1.5), 2, r"times must be whole numbers, got 1\.5 for job 1; `rounded_down` makes them from seconds and a unit"),
        ((2.0, 3), 2, r"times must be whole numbers, got 2\.0 for job 0"),
        ((2, "3"), 2, "times must be whole numbers, got '3' for job 1"),
        ((3, 4), 2.5, r"machines must be a whole number, got 2\.5; write how many there are, such as 3"),
        ((2**53, 1), 2, r"times must sum to at most 2\^53, got 9007199254740993; choose a coarser unit"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_limit(times: tuple[Any, ...], machines: Any, message: str) -> None:
    """A problem cannot exist in a wrong state."""
    with pytest.raises(ValueError, match=message):
        PcmaxProblem(times, machines)


def test_seconds_become_whole_units_that_never_exceed_them() -> None:
    """So that a bound in units is a bound in seconds."""
    assert PcmaxProblem.rounded_down([0.75, 0.5, 0.1, 2.0], 2, 0.25) == PcmaxProblem((3, 2, 8), 2)
    with pytest.raises(ValueError, match=r"unit must be finite and positive, got 0\.0"):
        PcmaxProblem.rounded_down([1.0], 1, 0.0)
    with pytest.raises(ValueError, match=r"times must reach one unit of 3\.0, the longest of 2 is 2\.0"):
        PcmaxProblem.rounded_down([1.0, 2.0], 1, 3.0)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"machines": ((0, 1),)}, "1 machines have jobs, the problem has 2"),
        ({"machines": ((0, 1), (3,))}, "job index 3 does not exist"),
        ({"machines": ((0, 1), (1,))}, "job 1 is placed 2 times, must be once"),
        ({"machines": ((0,), (2,))}, "job 1 is placed 0 times, must be once"),
        ({"makespan": 7}, "the last machine ends at 8, the assignment says 7"),
        ({"makespan": 9}, "the last machine ends at 8, the assignment says 9"),
    ],
)
def test_the_verifier_finds_every_lie(lie: dict[str, Any], message: str) -> None:
    """It adds up by itself."""
    problem = PcmaxProblem((5, 3, 4), 2)
    truth = solution(problem, [[0, 1], [2]])
    assert verify(problem, truth) == ()
    assert message in verify(problem, replace(truth, **lie))


@given(small)
def test_bounds_optimum_and_lpt_are_in_order(problem: PcmaxProblem) -> None:
    """Every bound is at most the optimum; LPT is at most 4/3 - 1/(3m) of it (Graham 1969)."""
    best, listed = optimum(problem), lpt(problem)
    assert simple_bound(problem) <= lower_bound(problem).value <= best <= listed.makespan
    assert listed.makespan <= (4 / 3 - 1 / (3 * problem.machines)) * best + 1e-9
    assert verify(problem, listed) == ()


@given(small, st.integers(0, 3))
def test_exact_is_the_optimum_of_all_assignments(problem: PcmaxProblem, seed: int) -> None:
    """Brute force is the judge; LP, dive and CP-SAT start from the worst assignment there is."""
    worst = solution(problem, [range(len(problem))])
    found = exact(problem, Limits(60), worst, seed)
    assert verify(problem, found.solution) == ()
    assert found.optimal
    assert found.value == found.solution.makespan == optimum(problem)
    assert found.stopped == "optimal"


@given(small)
def test_what_the_lp_refutes_has_no_packing_and_what_cp_sat_settles_is_true(problem: PcmaxProblem) -> None:
    """For every capacity from the longest job on: a refutation is a proof, `complete` finds a packing exactly where there is one."""
    best = optimum(problem)
    patterns = Patterns(problem)
    for capacity in range(max(problem.times), best + 3):
        assert patterns.fits(capacity, Limits(60)) in ((True, False) if capacity < best else (True,))
        settled = complete(patterns, Limits(60), 0)
        assert (settled is False) == (capacity < best)
        if settled:
            packed = of_times(problem, patterns.machines_of(settled))
            assert verify(problem, packed) == ()
            assert packed.makespan <= capacity
        dived = patterns.dive(capacity, Limits(60), 4)
        assert dived is None or of_times(problem, patterns.machines_of(dived)).makespan <= capacity


def every_pattern(sizes: list[int], copies: list[int], capacity: int) -> list[Pattern]:
    """Return all patterns of a capacity, by trying all numbers of copies."""
    counts = product(*(range(most + 1) for most in copies))
    fitting = (count for count in counts if sum(size * taken for size, taken in zip(sizes, count, strict=True)) <= capacity)
    return [tuple((d, taken) for d, taken in enumerate(count) if taken) for count in fitting]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3), st.integers(1, 50)), min_size=1, max_size=4, unique_by=lambda each: each[0]),
    st.integers(12, 30),
    st.floats(0.0, 1.0),
)
def test_the_knapsack_lists_what_enumeration_does(kinds: list[tuple[int, int, int]], capacity: int, share: float) -> None:
    """The best pattern, and all maximal ones that are worth a share of it."""
    sizes, copies, prices = (list(column) for column in zip(*kinds, strict=True))
    every = every_pattern(sizes, copies, capacity)
    worth = {pattern: sum(prices[d] * taken for d, taken in pattern) for pattern in every}
    best = Knapsack(sizes, copies, prices, capacity)
    assert best.worth == max(worth.values())
    listed = list(best.patterns(best.worth // 2, 5))
    assert {worth[pattern] > best.worth // 2 for pattern in listed} <= {True}
    assert best.worth in {worth[pattern] for pattern in listed}
    least = round(share * best.worth)
    bags = {pattern: dict(pattern) for pattern in every}
    maximal = [p for p in every if not any(p != q and all(bags[q].get(d, 0) >= taken for d, taken in p) for q in every)]
    found = worth_at_least(best, copies, least, Limits(60))
    assert found is not None
    assert sorted(found) == sorted(pattern for pattern in maximal if worth[pattern] >= least)


@given(st.lists(st.integers(1, 20), max_size=6), st.integers(1, 60), st.integers(1, 60))
def test_subset_sums_are_those_of_all_subsets(numbers: list[int], low: int, high: int) -> None:
    """Sums beyond the limit are cut off."""
    every = {sum(part) for size in range(len(numbers) + 1) for part in combinations(numbers, size)}
    assert between(subset_sums(numbers, 60), low, high) == sorted(value for value in every if low <= value < high)


def test_a_bound_rises_to_the_next_sum_of_jobs() -> None:
    """Even numbers have even sums: the average of 7 becomes 8."""
    assert lifted(PcmaxProblem((2, 4, 4, 4), 2), 7) == 8
    assert lower_bound(PcmaxProblem((2, 4, 4, 4), 2)).value == 8


def test_graham_tight_family_is_solved() -> None:
    """2m + 1 jobs of 2m - 1, 2m - 1, ..., m + 1, m + 1, m, m, m: LPT needs 4m - 1, the optimum is 3m (Graham 1969)."""
    for m in (2, 3, 5, 8):
        times = (*(size for size in range(2 * m - 1, m, -1) for _ in range(2)), m, m, m)
        problem = PcmaxProblem(times, m)
        assert lpt(problem).makespan == 4 * m - 1
        found = exact(problem)
        assert (found.value, found.optimal) == (3 * m, True)


def test_dual_feasible_functions_see_what_sums_do_not() -> None:
    """Below 34, 25 has no companion, 20 and 18 have one of 11, 10, 9 each: one is left over. Average and pigeonhole say 31."""
    problem = PcmaxProblem((25, 20, 18, 11, 10, 9), 3)
    assert (simple_bound(problem), lower_bound(problem).value, optimum(problem)) == (31, 34, 34)


def test_the_lp_over_patterns_sees_what_closed_forms_do_not() -> None:
    """Three machines for 28, 26, 26, 25, 22, 16, 15, 15: closed forms stop at 58, the LP refutes all below 62."""
    problem = PcmaxProblem((28, 26, 26, 25, 22, 16, 15, 15), 3)
    found = exact(problem)
    assert lower_bound(problem).value == 58
    assert (found.bound.value, found.bound.proof, found.value, optimum(problem)) == (62, "LP relaxation", 62, 62)


def test_time_that_is_up_keeps_start_and_closed_bound() -> None:
    """An answer within any limit."""
    problem = PcmaxProblem((9, 9, 8, 8, 7, 7, 7, 6, 6, 5, 5), 4)
    start = solution(problem, [range(len(problem))])
    found = exact(problem, Limits(0.0), start)
    assert found.solution == start
    assert found.stopped == "time limit"
    assert found.bound == lower_bound(problem)
    interrupted = exact(problem, Limits(interrupted=lambda: True), start)
    assert (interrupted.solution, interrupted.stopped) == (start, "interrupted")


def test_a_gap_that_is_good_enough_ends_the_search() -> None:
    """And says so."""
    problem = PcmaxProblem((9, 9, 8, 8, 7, 7, 7, 6, 6, 5, 5), 4)
    found = exact(problem, Limits(target_gap=10.0), solution(problem, [range(len(problem))]))
    assert found.stopped == "target gap"
    assert not found.optimal


def test_a_table_that_is_too_large_keeps_the_closed_bound() -> None:
    """The caller may choose a coarser unit."""
    problem = PcmaxProblem((9_000_000, 8_000_000, 7_000_000, 7_000_000, 6_000_001), 2)
    found = exact(problem)
    assert (found.stopped, found.bound.proof) == ("search limit", "closed form")
    assert found.bound.value <= found.value == lpt(problem).makespan


def test_equal_jobs_are_one_size_and_keep_their_names() -> None:
    """Patterns know processing times only."""
    problem = PcmaxProblem((4, 2, 4, 2), 2)
    assert of_times(problem, [[2, 4], [4, 2]]) == PcmaxSolution(((0, 1), (2, 3)), 6)
