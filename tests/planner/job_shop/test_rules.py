"""Dispatching rules: feasible, active, and what each of them means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.job_shop.bounds import lower_bound
from rollplan.models.job_shop.problem import Alternative, JobShopProblem, job_shop
from rollplan.models.job_shop.timing import retimed
from rollplan.models.job_shop.verify import verify
from rollplan.planner.job_shop.rules import RULES, best_dispatched, dispatched

operations = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=3, unique_by=lambda way: way[0])
shops = st.lists(st.lists(operations, max_size=4), min_size=1, max_size=5).map(
    lambda jobs: JobShopProblem(4, tuple(tuple(tuple(Alternative(m, float(d)) for m, d in ways) for ways in chain) for chain in jobs))
)


@pytest.mark.parametrize("rule", RULES)
@given(problem=shops)
def test_every_rule_makes_a_feasible_schedule_in_which_nothing_could_start_earlier(rule: str, problem: JobShopProblem) -> None:
    """With choices of machines, recirculation, empty jobs and operations of no duration."""
    schedule = dispatched(problem, rule)
    assert verify(problem, schedule) == ()
    assert lower_bound(problem).value <= schedule.makespan
    assert retimed(problem, schedule) == schedule


CONFLICT = job_shop([[(0, 2), (1, 1)], [(0, 5), (1, 5), (1, 1)], [(0, 3), (1, 1), (1, 1), (1, 1)]])
"""Three jobs that want machine 0 at once."""


@pytest.mark.parametrize(("rule", "first"), [("work", 1), ("operations", 2), ("shortest", 0), ("longest", 1), ("first", 0)])
def test_a_rule_chooses_as_its_name_says(rule: str, first: int) -> None:
    """Most work remaining, most operations remaining, shortest, longest, first come."""
    assert dispatched(CONFLICT, rule).starts[first][0] == 0


def test_the_best_rule_is_none_worse_than_any() -> None:
    """Of equals the first, so the choice is always the same."""
    assert best_dispatched(CONFLICT).makespan == min(dispatched(CONFLICT, rule).makespan for rule in RULES)
