"""P2 dispatch: what must hold for every problem and every method."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.certified import Limits
from rollplan.models.decode import Admission
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import with_recall
from rollplan.models.dispatch.solution import scored
from rollplan.models.dispatch.verify import verify
from rollplan.models.errors import InfeasibleError
from rollplan.models.latency import AffineLatency, TableLatency
from rollplan.planner.dispatch.contiguous import Blocks, contiguous
from rollplan.planner.dispatch.deal import ranked, snake
from rollplan.planner.dispatch.improve import improve
from rollplan.planner.dispatch.skewness import choose
from rollplan.planner.dispatch.solve import HEURISTICS, METHODS, candidates, solve

AFFINE = AffineLatency(8.44, 0.0544, 0.3)
TABLE = TableLatency.of_batch({1: 8.4, 2: 8.75, 8: 9.05, 32: 10.3})


@st.composite
def problems(draw: st.DrawFn, least_instances: int = 1) -> DispatchProblem:
    """Up to 40 requests on up to 5 instances, slots and cache binding or not."""
    outputs = np.array(draw(st.lists(st.integers(1, 900), min_size=1, max_size=40)))
    prompts = np.array(draw(st.lists(st.integers(0, 90), min_size=outputs.size, max_size=outputs.size)))
    spare = draw(st.none() | st.integers(0, 3000))
    budget = None if spare is None else int((prompts + outputs).max()) + spare
    policy: Any = draw(st.sampled_from(["reserve", "preempt"]))
    admission = Admission(draw(st.integers(1, 16)), budget, policy)
    return DispatchProblem(prompts, outputs, draw(st.integers(least_instances, 5)), admission, draw(st.sampled_from([AFFINE, TABLE])))


@given(problems(), st.integers(0, 3))
def test_best_is_sound_and_never_worse_than_any_candidate(problem: DispatchProblem, seed: int) -> None:
    """Least of all even + LPT, which needs no model of time; and never below the bound."""
    found = solve(problem, seed=seed)
    assert verify(problem, found.solution) == ()
    assert found.bound.value <= found.value * (1 + 1e-9)
    made = {candidate.name: candidate.planned.makespan_s for candidate in candidates(problem, seed) if candidate.planned}
    assert {"even", "even+lpt", "round-robin", "snake", "contiguous", "improved"} <= made.keys()
    assert found.value == min(made.values())


@given(problems(least_instances=2), st.sampled_from(sorted(HEURISTICS)))
def test_every_heuristic_places_every_request_once(problem: DispatchProblem, name: Any) -> None:
    """Or says why it does not apply: fewer than five requests have no tail of 20 %."""
    if name.startswith("skew") and len(problem) < 5:
        with pytest.raises(InfeasibleError, match="leaves 0 in the tail"):
            solve(problem, name)
    else:
        assert verify(problem, solve(problem, name).solution) == ()


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_requests_says_nothing(problem: DispatchProblem, random: Any) -> None:
    """Bound and methods without chance see a set of requests; only ties may fall differently, so prompts are made equal."""
    plain = replace(problem, prompt_tokens=np.zeros(len(problem), dtype=int))
    shuffled = list(range(len(problem)))
    random.shuffle(shuffled)
    other = replace(plain, output_tokens=plain.output_tokens[shuffled], estimated_tokens=plain.output_tokens[shuffled])
    for name in ("round-robin", "snake", "contiguous"):
        one, two = solve(plain, name), solve(other, name)
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.bound.value == pytest.approx(two.bound.value, rel=1e-9)


@given(problems(), st.sampled_from([0.25, 2.0, 8.0]))
def test_twice_the_latency_takes_twice_as_long(problem: DispatchProblem, factor: float) -> None:
    """Same orders, all seconds times the factor (a power of two, so that no rounding breaks a tie)."""
    scaled = replace(problem, latency=problem.latency.calibrated(factor, 0.0))
    one, other = solve(problem), solve(scaled)
    assert other.solution.orders == one.solution.orders
    assert other.value == pytest.approx(factor * one.value, rel=1e-12)
    assert other.bound.value == pytest.approx(factor * one.bound.value, rel=1e-6)


@given(problems())
def test_one_instance_takes_everything(problem: DispatchProblem) -> None:
    """There is no class to separate, and `best` still answers."""
    alone = replace(problem, instances=1)
    assert sorted(solve(alone).solution.orders[0]) == list(range(len(problem)))
    with pytest.raises(InfeasibleError):
        solve(alone, "skew-max")


@given(problems())
def test_improvement_never_hurts(problem: DispatchProblem) -> None:
    """From any start, and without losing a request."""
    start = [np.arange(len(problem))[i :: problem.instances] for i in range(problem.instances)]
    better = scored(problem, improve(problem, start))
    assert better.makespan_s <= scored(problem, start).makespan_s
    assert verify(problem, better) == ()


def test_improvement_moves_and_exchanges() -> None:
    """Steps of 1 + B seconds, an instance takes max + sum: 9, 1 | 8 becomes 9 | 8, 1, and 9, 2 | 7, 3, 3 stays at 20 < 21."""
    law = AffineLatency(1000.0, 1000.0)
    moved = DispatchProblem(np.zeros(3, dtype=int), np.array([9, 1, 8]), 2, Admission(9), law)
    assert [order.tolist() for order in improve(moved, [np.array([0, 1]), np.array([2])])] == [[0], [2, 1]]
    exchanged = DispatchProblem(np.zeros(4, dtype=int), np.array([9, 8, 3, 2]), 2, Admission(2), law)
    better = improve(exchanged, [np.array([0, 2]), np.array([1, 3])])
    assert scored(exchanged, better).makespan_s == 20.0


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 4), st.sampled_from([AffineLatency(1.0, 0.1, 300.0), TABLE]))
def test_contiguous_blocks_are_the_best_contiguous_blocks(lengths: list[int], instances: int, law: Any) -> None:
    """Against all cuts of the sorted requests, where all fit at once."""
    problem = DispatchProblem(np.zeros(len(lengths), dtype=int), np.array(lengths), instances, Admission(16), law)
    order, n = ranked(problem), len(lengths)
    alone = {(i, j): scored(problem, [order[i:j]]).makespan_s for i in range(n + 1) for j in range(i, n + 1)}
    best = {j: alone[0, j] for j in range(n + 1)}
    for _ in range(instances - 1):
        best = {j: min(max(best[i], alone[i, j]) for i in range(j + 1)) for j in range(n + 1)}
    assert scored(problem, contiguous(problem)).makespan_s == pytest.approx(best[n], rel=2e-6)


@given(problems())
def test_blocks_are_timed_as_the_simulation_times_them(problem: DispatchProblem) -> None:
    """Affine laws exactly, whether requests wait or not; except that a block of more requests never takes less."""
    exact = replace(problem, latency=AffineLatency(1.0, 0.1, 300.0), admission=replace(problem.admission, policy="reserve"))
    order = ranked(exact)
    simulated = [scored(exact, [order[: end + 1]]).makespan_s for end in range(order.size)]
    assert Blocks(exact, order).seconds(0, order.size) == pytest.approx(np.maximum.accumulate(simulated), rel=1e-9)


def test_a_snake_turns_at_both_ends() -> None:
    """0, 1, 2, 2, 1, 0, 0: the sums of sorted lengths come closer than dealing in turn."""
    assert [part.tolist() for part in snake(np.arange(7), 3)] == [[0, 5, 6], [1, 4], [2, 3]]


# Longest first, Graham 1969: a bound in slots is a bound in time only for affine laws.


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 8])
def test_longest_first_meets_grahams_bound_in_its_tight_family(m: int) -> None:
    """m slots, jobs 2m - 1, 2m - 1, ..., m + 1, m + 1, m, m, m: 4m - 1 against 3m, a ratio of 4/3 - 1/(3m)."""
    jobs = [length for length in range(2 * m - 1, m, -1) for _ in range(2)] + [m] * 3
    problem = DispatchProblem(np.zeros(len(jobs), dtype=int), np.array(jobs), 1, Admission(m), AffineLatency(1000.0))
    assert solve(problem, "round-robin").value == pytest.approx(4 * m - 1)
    best = solve(problem, "exact")
    assert best.value == pytest.approx(3 * m)
    assert best.optimal


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 8))
def test_affine_time_is_steps_and_tokens(lengths: list[int], slots: int) -> None:
    """time = a * Cmax + c * sum(L) in any order; so an order that is better in steps is better in time by as many steps."""
    zeros = np.zeros(len(lengths), dtype=int)
    problem = DispatchProblem(zeros, np.array(lengths), 1, Admission(slots), AffineLatency(8.44, 0.0544))
    steps = replace(problem, latency=AffineLatency(1000.0))
    for order in (np.arange(len(lengths)), ranked(problem)):
        made = scored(steps, [order]).makespan_s
        assert scored(problem, [order]).makespan_s == pytest.approx((8.44 * made + 0.0544 * sum(lengths)) / 1000)


def test_longest_first_has_no_such_bound_for_other_laws() -> None:
    """Two slots, 1 s with one busy and 5 s with two; jobs 6, 3, 3: LPT takes 30 s, the order 3, 3, 6 takes 21 s."""
    law = TableLatency.of_batch({1: 1000.0, 2: 5000.0})
    problem = DispatchProblem(np.zeros(3, dtype=int), np.array([6, 3, 3]), 1, Admission(2), law)
    assert solve(problem, "round-robin").value == pytest.approx(30)
    assert solve(problem, "exact").value == pytest.approx(21)


# What Algorithm 2 leaves open.


def ten(**rest: Any) -> DispatchProblem:
    """Ten requests on four instances."""
    return DispatchProblem(np.full(10, 5), np.arange(10, 101, 10), 4, Admission(8), AFFINE, **rest)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ten(tail_share=0.05), r"a tail of 0\.05 of 10 requests leaves 0 in the tail and 10 outside"),
        (ten(tail_share=1.0), r"a tail of 1 of 10 requests leaves 10 in the tail and 0 outside"),
        (ten(class_caps=(0, 8)), "a tail request of 96 tokens does not fit into the KV cache of an instance; raise kv_tokens"),
        (replace(ten(), instances=1), "one instance cannot be split"),
    ],
)
def test_a_split_that_does_not_exist_says_why(problem: DispatchProblem, reason: str) -> None:
    """No division by zero; among the candidates the reason stands where the makespan would."""
    with pytest.raises(InfeasibleError, match=reason):
        choose(problem, "sum")
    refused = {candidate.name for candidate in candidates(problem) if candidate.planned is None and candidate.reason}
    assert refused == {"skew-sum", "skew-max"}


def test_equal_lengths_are_told_apart_by_their_index() -> None:
    """Same input, same bytes."""
    assert ranked(replace(ten(), output_tokens=np.full(10, 7), estimated_tokens=np.full(10, 7))).tolist() == list(range(10))


# Methods.


def test_every_method_has_a_name_that_solve_knows() -> None:
    """What `METHODS` lists can be asked for."""
    assert set(METHODS) == {"best", "exact", *HEURISTICS}
    assert all(verify(ten(), solve(ten(), method).solution) == () for method in METHODS)


def test_exact_beats_best_and_proves_it() -> None:
    """20, 18, ..., 2 on three instances, steps of 1 + B seconds: 54, where the best heuristic has 56."""
    lengths = np.arange(20, 0, -2)
    problem = DispatchProblem(np.zeros(10, dtype=int), lengths, 3, Admission(10), AffineLatency(1000.0, 1000.0))
    best, exact = solve(problem), solve(problem, "exact")
    assert (best.stopped, exact.stopped) == ("heuristic", "optimal")
    assert exact.value == pytest.approx(54)
    assert best.value == pytest.approx(56)


def test_methods_see_estimates_only() -> None:
    """Truth that changes does not change the plan, only its makespan; nor does `exact` claim more than it knows."""
    wrong = with_recall(ten(), 0.0, np.random.default_rng(0))
    for method in METHODS:
        assert solve(wrong, method).solution.orders == solve(wrong.as_estimated(), method).solution.orders
    found = solve(wrong, "exact")
    assert found.bound.value < found.value
    assert found.stopped == "heuristic"


def test_the_same_seed_gives_the_same_dispatch() -> None:
    """`even` alone is drawn, and the truths that a recall below 1 asks for."""
    first, second, other = (solve(ten(), "even", seed=seed).solution for seed in (0, 0, 1))
    assert first == second != other
    assert solve(ten(), recall=0.5, seed=3).solution == solve(ten(), recall=0.5, seed=3).solution


def test_a_time_limit_still_gives_a_dispatch() -> None:
    """The candidates are always made; only improvement stops."""
    found = solve(ten(), limits=Limits(time_s=0.0))
    assert verify(ten(), found.solution) == ()


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The long request alone, the three short ones together."""
    page = (Path(__file__).parents[2] / "docs" / "dispatch.md").read_text()
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out == "((0,), (3, 1, 2)) 76.4 s, gap 0.0%, closed form\n"
