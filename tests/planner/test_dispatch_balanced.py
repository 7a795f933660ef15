"""P2 dispatch as P||Cmax: the balanced candidate, and the bound for requests that cannot be cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.decode import Admission
from rollplan.models.dispatch.bounds import lower_bound
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import scored
from rollplan.models.dispatch.verify import verify
from rollplan.models.latency import AffineLatency, TableLatency
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.planner.dispatch.balanced import balanced, work_s
from rollplan.planner.dispatch.improve import improve
from rollplan.planner.dispatch.solve import candidates, solve
from rollplan.planner.pcmax.solve import solve as solve_pcmax


def one_by_one(outputs: list[int], instances: int, slots: int = 1) -> DispatchProblem:
    """Return requests without prompts, steps of one second."""
    return DispatchProblem(np.zeros(len(outputs), dtype=int), np.array(outputs), instances, Admission(slots), AffineLatency(1000.0))


lengths = st.lists(st.integers(1, 60), min_size=1, max_size=9)


@given(lengths, st.integers(1, 4))
def test_requests_that_run_one_by_one_are_pcmax(outputs: list[int], instances: int) -> None:
    """With one slot an instance takes the sum of its outputs: the least makespan is Cmax, and the bound never exceeds it."""
    problem = one_by_one(outputs, instances)
    least = solve_pcmax(PcmaxProblem(tuple(outputs), instances))
    assert least.optimal
    assert lower_bound(problem).value <= least.value
    assert solve(problem, "balanced").value >= least.value * (1 - 1e-9)
    assert solve(problem, "exact").value == pytest.approx(least.value)


def test_graham_tight_family_is_dispatched_at_its_optimum() -> None:
    """Longest first in turn needs 11 s, MULTIFIT finds 9 s, which is the average and so the bound."""
    problem = one_by_one([5, 5, 4, 4, 3, 3, 3], 3)
    found = solve(problem, "balanced")
    assert found.value == pytest.approx(9)
    assert found.bound.value == pytest.approx(9)
    assert solve(problem, "round-robin").value > 9


def test_requests_that_cannot_be_cut_have_a_better_bound() -> None:
    """Below 34, 25 has no companion, and of 11, 10, 9 one is left over; cut in pieces they need 31 s."""
    problem = one_by_one([25, 20, 18, 11, 10, 9], 3)
    bound = lower_bound(problem)
    assert bound.value == pytest.approx(34, rel=1e-4)
    assert bound.value <= 34
    assert bound.proof == "closed form"
    assert solve(problem).value == pytest.approx(34)


@st.composite
def problems(draw: st.DrawFn) -> DispatchProblem:
    """Up to 30 requests on 2 to 5 instances."""
    outputs = np.array(draw(st.lists(st.integers(1, 900), min_size=1, max_size=30)))
    prompts = np.array(draw(st.lists(st.integers(0, 90), min_size=outputs.size, max_size=outputs.size)))
    law: Any = draw(st.sampled_from([AffineLatency(8.44, 0.0544, 0.3), TableLatency.of_batch({1: 8.4, 2: 8.75, 8: 9.05, 32: 10.3})]))
    return DispatchProblem(prompts, outputs, draw(st.integers(2, 5)), Admission(draw(st.integers(1, 16))), law)


@given(problems())
def test_the_balanced_candidate_only_adds(problem: DispatchProblem) -> None:
    """The improvement still starts from the best of the others, too; so nothing that was found before is lost."""
    made = {candidate.name: candidate.planned for candidate in candidates(problem)}
    others = [planned for name, planned in made.items() if planned is not None and name not in ("balanced", "improved")]
    best = min(others, key=lambda planned: planned.makespan_s)
    before = scored(problem, improve(problem, [np.array(order, dtype=np.int64) for order in best.orders]))
    after = made["improved"]
    assert after is not None
    assert after.makespan_s <= before.makespan_s


@given(problems())
def test_balanced_places_every_request_once_and_shares_work(problem: DispatchProblem) -> None:
    """No instance has more than the average and one more request, as after any list schedule."""
    orders = balanced(problem)
    assert verify(problem, scored(problem, orders)) == ()
    work = work_s(problem)
    assert max(float(work[order].sum()) for order in orders) <= (work.sum() / problem.instances + work.max()) * (1 + 1e-4)
