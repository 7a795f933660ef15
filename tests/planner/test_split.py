"""P1 split: what the planner adds to the exact solution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InfeasibleError
from rollplan.models.split.exact import exact
from rollplan.models.split.problem import SplitProblem
from rollplan.models.split.verify import verify
from rollplan.planner.split import even_split, solve


def problem_of(budgets: dict[str, int], rollout: dict[str, dict[int, float]], train: dict[str, dict[int, float]]) -> SplitProblem:
    """Return a problem whose GPUs all cost the same."""
    return SplitProblem(budgets, rollout, train, dict.fromkeys(budgets, 1.0))


quarters = st.integers(1, 40).map(lambda quarter: quarter / 4)
tables = st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(st.integers(1, 9), quarters, min_size=1), min_size=1)
problems = st.builds(problem_of, st.fixed_dictionaries({"a": st.integers(1, 14), "b": st.integers(1, 14)}), tables, tables)


def test_solve_is_exact_and_records_seed_and_seconds() -> None:
    """Nothing is random; the certificate says with which seed it was asked for."""
    problem = problem_of({"a": 64}, {"a": {k: 300 / k for k in range(1, 65)}}, {"a": {k: 100 / k for k in range(1, 65)}})
    found = solve(problem, seed=7)
    assert found.seed == 7
    assert found.seconds >= 0
    assert replace(found, seconds=0.0, seed=0) == exact(problem)


def test_solve_says_why_nothing_fits() -> None:
    """The reasons of the exact solver reach the caller."""
    with pytest.raises(InfeasibleError, match="rollout on pool a needs at least 8 GPUs"):
        solve(problem_of({"a": 4}, {"a": {8: 1.0}}, {"a": {4: 1.0}}))


def test_even_split_of_one_site_is_the_published_baseline() -> None:
    """StreamRL Fig. 10, 72B on 128 GPUs: 64:64, whose slower stage is 1.199 times as slow as Algorithm 1's 80:48."""
    problem = problem_of({"a": 128}, {"a": {64: 1.0, 80: 0.807}}, {"a": {48: 0.834, 64: 0.581}})
    even = even_split(problem)
    assert even is not None
    assert (even.rollout_gpus, even.train_gpus) == (64, 64)
    assert even.iteration_s / solve(problem).value == pytest.approx(1.199, abs=5e-4)


def test_even_split_of_two_sites_uses_both_budgets() -> None:
    """Who has two sites takes all of them."""
    even = even_split(problem_of({"a": 7, "b": 8}, {"a": {2: 9.0, 6: 3.0, 8: 1.0}}, {"b": {4: 5.0, 8: 4.0}}))
    assert even is not None
    assert (even.rollout_pool, even.rollout_gpus, even.train_pool, even.train_gpus) == ("a", 6, "b", 8)


@pytest.mark.parametrize(
    ("budget", "rollout", "train", "expected"),
    [
        (40, range(8, 41, 8), range(8, 41, 8), (24, 16)),
        (5, range(1, 6), range(1, 6), (3, 2)),
        (16, [2, 4], [2, 12], (4, 12)),
        (12, [8], [6], None),
        (12, [16], [6], None),
    ],
)
def test_even_split_takes_the_nearest_counts_that_leave_fewest_idle(
    budget: int, rollout: Iterable[int], train: Iterable[int], expected: tuple[int, int] | None
) -> None:
    """When half of the budget is in no table; of 24:16 and 16:24 the faster one, so that the comparison is fair."""
    even = even_split(problem_of({"a": budget}, {"a": {k: 300 / k for k in rollout}}, {"a": {k: 100 / k for k in train}}))
    assert (None if even is None else (even.rollout_gpus, even.train_gpus)) == expected


@given(problems)
def test_even_split_is_a_plan_and_never_beats_the_exact_one(problem: SplitProblem) -> None:
    """It keeps the budgets, and it is there whenever the two stages fit apart."""
    even = even_split(problem)
    apart = any(
        x <= problem.budgets[p] and y <= problem.budgets[q] and (p != q or x + y <= problem.budgets[p])
        for p in problem.rollout
        for q in problem.train
        for x in problem.rollout[p]
        for y in problem.train[q]
    )
    assert (even is not None) is apart
    if even is not None:
        assert verify(problem, even) == ()
        assert even.iteration_s >= solve(problem).value
