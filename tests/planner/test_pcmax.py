"""P||Cmax by name: what must hold for every method."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.pcmax.bounds import lower_bound
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import lpt, solution
from rollplan.models.pcmax.verify import verify
from rollplan.planner.pcmax.improve import improve, share
from rollplan.planner.pcmax.multifit import multifit
from rollplan.planner.pcmax.solve import METHODS, Method, solve

problems = st.builds(
    lambda times, machines: PcmaxProblem(tuple(times), machines),
    st.lists(st.integers(1, 200), min_size=1, max_size=30),
    st.integers(1, 9),
)


@given(problems, st.sampled_from(METHODS), st.integers(0, 2))
def test_every_method_is_sound_and_has_a_bound(problem: PcmaxProblem, method: Method, seed: int) -> None:
    """The verifier agrees, and no value is below the bound."""
    found = solve(problem, method, seed=seed)
    assert verify(problem, found.solution) == ()
    assert found.value == found.solution.makespan >= found.bound.value >= lower_bound(problem).value
    assert (found.stopped == "optimal") == found.optimal


@given(problems)
def test_methods_are_never_worse_than_those_they_start_from(problem: PcmaxProblem) -> None:
    """LPT, MULTIFIT, local search, proof: each starts from the last, and all end at the optimum at this size."""
    values = {method: solve(problem, method).value for method in METHODS}
    assert values["exact"] <= values["improved"] <= values["multifit"] <= values["lpt"]
    exact = solve(problem)
    assert exact.optimal
    # Graham 1969; Yue 1990.
    assert values["lpt"] <= (4 / 3 - 1 / (3 * problem.machines)) * exact.value + 1e-9
    assert values["multifit"] <= 13 / 11 * exact.value + 1e-9


@given(problems, st.integers(2, 50))
def test_other_units_change_nothing(problem: PcmaxProblem, factor: int) -> None:
    """All times larger by a factor, and so is the optimum."""
    other = PcmaxProblem(tuple(factor * time for time in problem.times), problem.machines)
    assert solve(other).value == factor * solve(problem).value


@given(problems, st.randoms(use_true_random=False))
def test_the_order_of_the_jobs_says_nothing(problem: PcmaxProblem, random: Random) -> None:
    """Neither for the optimum nor for the bound in closed form."""
    other = PcmaxProblem(tuple(random.sample(problem.times, len(problem))), problem.machines)
    assert solve(other).value == solve(problem).value
    assert lower_bound(other) == lower_bound(problem)


@given(
    st.lists(st.integers(1, 40), max_size=5),
    st.lists(st.integers(1, 40), max_size=5),
    st.integers(1, 120),
    st.integers(0, 9),
)
def test_two_machines_share_their_jobs_within_the_target_where_any_split_does(
    one: list[int], other: list[int], target: int, seed: int
) -> None:
    """Enumeration is the judge; without such a split it is the most even one."""
    jobs, total = one + other, sum(one) + sum(other)
    sums = [sum(job for k, job in enumerate(jobs) if bits >> k & 1) for bits in range(1 << len(jobs))]
    first, second = share(one, other, target, 1, Random(seed))
    assert sorted(first + second) == sorted(jobs)
    later = max(sum(first), sum(second))
    even = min(max(part, total - part) for part in sums)
    assert later <= target if even <= target else later == even


@given(problems, st.integers(1, 3))
def test_local_search_repeats_itself_with_a_seed(problem: PcmaxProblem, seed: int) -> None:
    """Never worse than its start; `stop` ends it at once."""
    start, target = lpt(problem), int(lower_bound(problem).value)
    found = improve(problem, start, target, 300, seed)
    assert found == improve(problem, start, target, 300, seed)
    assert found.makespan <= start.makespan
    assert improve(problem, start, target, 300, seed, stop=lambda: True).makespan == start.makespan


def test_local_search_with_large_numbers_counts_in_coarser_units() -> None:
    """The split is then nearly even, and never wrong."""
    times = tuple(10**12 + 7**k for k in range(12))
    problem = PcmaxProblem(times, 3)
    start = solution(problem, [range(12)])
    found = improve(problem, start, int(lower_bound(problem).value), 300)
    assert verify(problem, found) == ()
    assert found.makespan <= 1.001 * sum(times) / 3


def test_multifit_is_better_than_lpt_where_few_jobs_share_a_machine() -> None:
    """Graham's tight family, m = 3: LPT 11, MULTIFIT 9, which is optimal."""
    problem = PcmaxProblem((5, 5, 4, 4, 3, 3, 3), 3)
    assert (lpt(problem).makespan, multifit(problem).makespan) == (11, 9)


def test_a_run_without_a_time_limit_repeats_itself() -> None:
    """Same problem, same seed, same assignment."""
    problem = PcmaxProblem(tuple(Random(5).choices(range(44, 177), k=40)), 16)
    one, two = solve(problem, seed=3), solve(problem, seed=3)
    assert one.optimal
    assert one.solution == two.solution


@pytest.mark.parametrize("method", METHODS)
def test_time_that_is_up_still_gives_an_answer(method: Method) -> None:
    """MULTIFIT is the answer of last resort."""
    problem = PcmaxProblem((28, 26, 26, 25, 22, 16, 15, 15), 3)
    found = solve(problem, method, Limits(0.0))
    assert verify(problem, found.solution) == ()
    assert found.stopped == "time limit"
