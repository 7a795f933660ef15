"""P2 dispatch against brute force: no bound above the optimum, and the exact solvers find it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.decode import Admission
from rollplan.models.dispatch import cpsat, subsets
from rollplan.models.dispatch.bounds import lower_bound, most_at_once
from rollplan.models.dispatch.exact import exact
from rollplan.models.dispatch.minorants import minorants
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import scored
from rollplan.models.dispatch.verify import play, verify
from rollplan.models.latency import AffineLatency, TableLatency, ptl_ms


def optimum(problem: DispatchProblem) -> float:
    """Every order of every subset in the verifier's loop, then every partition."""
    n = len(problem)
    members = [[j for j in range(n) if bits >> j & 1] for bits in range(1 << n)]
    alone = [min(play(problem, order) for order in permutations(group)) for group in members]
    makespan = alone
    for _ in range(problem.instances - 1):
        makespan = [
            min(max(alone[part], makespan[bits ^ part]) for part in range(bits + 1) if part & bits == part) for bits in range(1 << n)
        ]
    return makespan[-1]


@st.composite
def problems(draw: st.DrawFn, laws: Any, policies: tuple[str, ...] = ("reserve", "preempt")) -> DispatchProblem:
    """At most five requests on at most three instances; slots and cache often bind."""
    longest = draw(st.sampled_from([3, 12, 40]))
    requests = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(1, longest)), min_size=1, max_size=5))
    prompts, outputs = (np.array(column) for column in zip(*requests, strict=True))
    spare = draw(st.none() | st.integers(0, 30))
    budget = None if spare is None else int((prompts + outputs).max()) + spare
    policy: Any = draw(st.sampled_from(policies))
    return DispatchProblem(prompts, outputs, draw(st.integers(1, 3)), Admission(draw(st.integers(1, 5)), budget, policy), draw(laws))


affine = st.builds(
    AffineLatency,
    st.sampled_from([0.0, 0.5, 1.0, 5.0, 8.44]),
    st.sampled_from([0.0544, 0.1, 1.0, 3.0]),
    st.sampled_from([0.0, 0.3, 50.0, 300.0]),
)
batch_tables = st.lists(st.integers(1, 12), min_size=3, max_size=3).map(
    lambda rises: TableLatency.of_batch({batch: float(sum(rises[: k + 1])) for k, batch in enumerate((1, 2, 4))})
)
grids = st.lists(st.integers(1, 20), min_size=6, max_size=6).map(
    lambda ms: TableLatency(np.array([1, 3]), np.array([2.0, 8.0, 15.0]), np.array(ms, dtype=float).reshape(2, 3))
)


@pytest.mark.parametrize(("policy", "most"), [("reserve", 2), ("preempt", 4)])
def test_an_engine_that_preempts_starts_more_at_once(policy: Any, most: int) -> None:
    """A cache of 45 tokens: two requests of 10 + 8 when they end, four of 10 + 1 when they start."""
    problem = DispatchProblem(np.full(9, 10), np.full(9, 8), 1, Admission(6, 45, policy), AffineLatency(1.0))
    assert most_at_once(problem) == most


@settings(max_examples=150)
@given(problems(affine | batch_tables | grids))
def test_no_dispatch_undercuts_the_bound(problem: DispatchProblem) -> None:
    """All laws, both policies of admission, slots and caches that bind."""
    assert lower_bound(problem).value <= optimum(problem) * (1 + 1e-9)


@settings(max_examples=60)
@given(problems(affine, ("reserve",)))
def test_cp_sat_finds_and_proves_the_optimum(problem: DispatchProblem) -> None:
    """With waiting as well as without, value and bound meet at what brute force finds."""
    found = exact(problem)
    assert found.value == pytest.approx(optimum(problem), rel=1e-9)
    assert found.optimal
    assert found.bound.value <= found.value
    assert verify(problem, found.solution) == ()


@settings(max_examples=60)
@given(problems(batch_tables | grids))
def test_enumeration_finds_the_optimum_for_tables(problem: DispatchProblem) -> None:
    """Where requests preempt one another, too."""
    found = exact(problem)
    assert found.value == pytest.approx(optimum(problem), rel=1e-9)
    assert (found.bound.proof, found.stopped) == ("exhaustive", "optimal")
    assert verify(problem, found.solution) == ()


def heavy_tail(n: int, instances: int, admission: Admission, law: AffineLatency, seed: int = 0) -> DispatchProblem:
    """Pareto lengths of 300 to 20,000 tokens after prompts of 100 to 500."""
    rng = np.random.default_rng(seed)
    outputs = (rng.pareto(1.2, n) * 1000 + 300).astype(int).clip(max=20_000)
    return DispatchProblem(rng.integers(100, 500, n), outputs, instances, admission, law)


@pytest.mark.parametrize("admission", [Admission(12), Admission(3), Admission(8, 25_000)], ids=["at once", "slots", "cache"])
def test_twelve_real_requests_are_solved_to_proven_optimality(admission: Admission) -> None:
    """Coefficients like 8.44, .0544 and .002 ms become whole numbers whose rounding does not stand in the way of `optimal`."""
    found = exact(heavy_tail(12, 3, admission, AffineLatency(8.44, 0.0544, 0.002)))
    assert found.optimal
    assert found.stopped == "optimal"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(affine, ("reserve",)))
def test_coarse_coefficients_weaken_the_bound_and_do_not_break_it(problem: DispatchProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding errors are taken off the bound: with room for three digits only, it stays below what brute force finds."""
    monkeypatch.setattr(cpsat, "_LARGEST", 2**10)
    found = exact(problem)
    assert found.bound.value <= optimum(problem) * (1 + 1e-9)


def test_both_exact_solvers_agree() -> None:
    """They share neither model nor search: eight requests, three instances, four slots."""
    problem = heavy_tail(8, 3, Admission(8), AffineLatency(1.0, 1.0), seed=4)
    assert exact(problem).value == pytest.approx(subsets.solve(problem).value, rel=1e-9)


def test_a_limit_ends_the_search_with_the_start_and_a_bound() -> None:
    """No time at all: what was known before stays, and the gap is honest."""
    problem = heavy_tail(40, 3, Admission(4), AffineLatency(1.0, 1.0))
    start = scored(problem, [np.arange(40)[i::3] for i in range(3)])
    found = exact(problem, Limits(time_s=0.0), start)
    assert (found.solution, found.stopped) == (start, "time limit")
    assert 0 < found.bound.value < found.value


def test_an_interruption_ends_the_search_with_the_start() -> None:
    """Somebody presses Ctrl-C while CP-SAT runs."""
    problem = heavy_tail(40, 3, Admission(4), AffineLatency(1.0, 1.0))
    found = exact(problem, Limits(interrupted=lambda: True))
    assert found.stopped == "interrupted"
    assert verify(problem, found.solution) == ()


@pytest.mark.parametrize(
    ("law", "admission"),
    [(TableLatency.of_batch({1: 1.0, 2: 2.0}), Admission(11)), (AffineLatency(1.0), Admission(11, 60, "preempt"))],
    ids=["table", "preempt"],
)
def test_what_no_exact_solver_handles_is_refused(law: Any, admission: Admission) -> None:
    """Eleven requests are too many to enumerate; the message says what would help."""
    problem = DispatchProblem(np.zeros(11, dtype=int), np.arange(1, 12), 2, admission, law)
    with pytest.raises(ValueError, match="needs an affine latency, policy reserve"):
        exact(problem)


@pytest.mark.parametrize(
    ("outputs", "instances", "proof", "bound_s"),
    [([50, 1, 1], 3, "closed form", 100.0), ([10] * 10, 3, "closed form", 50.0), ([10] * 10 + [40], 2, "fluid", 95.0)],
    ids=["alone", "pigeonhole", "fluid"],
)
def test_each_argument_has_its_case(outputs: list[int], instances: int, proof: str, bound_s: float) -> None:
    """Steps of 1 + B seconds, so that an instance takes its longest request plus the sum of all.

    The longest alone takes 50 + 50. Of ten equal ones, four share an instance: 10 + 4 * 10. Of 140 tokens, x join the
    longest and make 40 + x, the rest makes 10 + 140 - x: at x = 55 both take 95.
    """
    problem = DispatchProblem(np.zeros(len(outputs), dtype=int), np.array(outputs), instances, Admission(20), AffineLatency(1000.0, 1000.0))
    bound = lower_bound(problem)
    assert bound.proof == proof
    assert bound.value == pytest.approx(bound_s, rel=1e-9)


KINKED = TableLatency(np.array([1, 2]), np.array([1.0, 19.0, 40.0]), np.array([[2.0, 11.0, 5.0], [12.0, 1.0, 17.0]]))
"""Beyond two sequences, short contexts cost more and more until they set the price of long ones, too: not bilinear."""


@example(table=KINKED, most=4, low=1, span=49)
@settings(max_examples=60)
@given(table=batch_tables | grids, most=st.integers(1, 9), low=st.integers(1, 6), span=st.integers(0, 30))
def test_a_minorant_is_nowhere_above_its_table(table: TableLatency, most: int, low: int, span: int) -> None:
    """Between the points of the grid as at them, and beyond the largest measured batch."""
    for law in (law for share in (0.1, 0.5, 0.9) for law in minorants(table, most, (float(low), float(low + span)), low + share * span)):
        for batch in range(1, most + 1):
            for context in np.linspace(low, low + span, 7):
                assert ptl_ms(law, batch, batch * context) <= ptl_ms(table, batch, batch * context) * (1 + 1e-9)
