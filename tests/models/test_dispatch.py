"""P2 dispatch: what a problem refuses, rankers that err, and a verifier that finds every lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.decode import Admission
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import RANKER_RECALL, tail_size, with_recall
from rollplan.models.dispatch.solution import DispatchSolution, scored
from rollplan.models.dispatch.verify import play, verify
from rollplan.models.latency import AffineLatency, TableLatency


def problem(outputs: list[int], **rest: Any) -> DispatchProblem:
    """Two instances with prompts of 10 tokens, 4 slots, and steps of 1 + B milliseconds."""
    given: dict[str, Any] = {"instances": 2, "admission": Admission(4), "latency": AffineLatency(1.0, 1.0), **rest}
    return DispatchProblem(np.full(len(outputs), 10), np.array(outputs), **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instances": 0}, "instances must be at least 1, got 0"),
        ({"tail_share": 1.5}, "tail_share must be in 0 to 1, got 1.5"),
        ({"estimated_tokens": [5]}, r"estimated_tokens must have one value per request, at least one, shape \(3,\), got \(1,\)"),
        ({"estimated_tokens": [5, 0, 5]}, "estimated_tokens must be at least 1, got 0 for request 1"),
        ({"class_caps": (-1, 4)}, r"class_caps must be at least 0, got \(-1, 4\)"),
        ({"admission": Admission(4, 39)}, "request 2 needs 40 tokens of KV cache, an instance has 39; raise kv_tokens"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_limit(changes: dict[str, Any], message: str) -> None:
    """A problem cannot exist in a wrong state; a request that no instance holds says so before any search."""
    with pytest.raises(ValueError, match=message):
        problem([10, 20, 30], **changes)


def test_no_requests_are_no_problem() -> None:
    """There is nothing to dispatch and no makespan to bound."""
    with pytest.raises(ValueError, match="at least one"):
        problem([])


def test_arrays_of_the_caller_are_copied() -> None:
    """A problem is frozen, whatever happens to the array it was built from."""
    outputs = np.array([1, 2, 3])
    built = DispatchProblem(np.zeros(3, dtype=int), outputs, 1, Admission(1), AffineLatency(1.0))
    outputs[0] = 99
    assert built.output_tokens.tolist() == [1, 2, 3]


def test_an_estimate_that_no_instance_holds_is_cut() -> None:
    """A ranker may promise more than fits; such a request cannot exist, so the plan is made for what fits."""
    seen = problem([10, 20], estimated_tokens=np.array([500, 20]), admission=Admission(4, 100)).as_estimated()
    assert seen.output_tokens.tolist() == [90, 20] == seen.estimates.tolist()


# Rankers that err.


def test_the_published_recall_falls_with_share_and_size() -> None:
    """StreamRL Table 4, 7B: .87, .82, .76 of the longest 20, 10, 5 %; smaller rankers find less."""
    assert list(RANKER_RECALL["7B"].values()) == [0.87, 0.82, 0.76]
    for share in (0.20, 0.10, 0.05):
        assert RANKER_RECALL["7B"][share] > RANKER_RECALL["3B"][share] > RANKER_RECALL["1.5B"][share]


@given(n=st.integers(5, 60), recall=st.sampled_from([0.0, 0.5, 0.87, 1.0]), seed=st.integers(0, 9))
def test_a_recall_is_what_the_estimates_show(n: int, recall: float, seed: int) -> None:
    """Of the truly longest floor(alpha n), exactly round((1 - r) floor(alpha n)) leave the estimated tail; truth stays."""
    lengths = np.random.default_rng(seed).permutation(np.arange(1, n + 1))
    exact = problem(lengths.tolist())
    erring = with_recall(exact, recall, np.random.default_rng(seed))
    size = tail_size(exact)
    found = set(np.argsort(-erring.estimates)[:size].tolist()) & set(np.argsort(-lengths)[:size].tolist())
    assert len(found) == size - round((1 - recall) * size)
    assert erring.output_tokens.tolist() == lengths.tolist()
    assert sorted(erring.estimates.tolist()) == sorted(lengths.tolist())


def test_the_tail_is_rounded_down() -> None:
    """The paper leaves the rounding open; .29 of 100 is 28.999999999999996 in floats and means 29."""
    assert [tail_size(problem([1] * n, tail_share=share)) for n, share in ((9, 0.2), (10, 0.2), (4, 0.2), (100, 0.29))] == [1, 2, 0, 29]


def test_a_recall_that_cannot_be_drawn_is_refused() -> None:
    """Out of range, or more misses than there are others to exchange with."""
    with pytest.raises(ValueError, match=r"recall must be in 0 to 1, got 1\.2"):
        with_recall(problem([1, 2]), 1.2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="exchanges 3 requests of the tail, only 1 others are there"):
        with_recall(problem([1, 2, 3, 4], tail_share=0.75), 0.0, np.random.default_rng(0))


# The verifier.


def test_a_sound_dispatch_has_no_faults() -> None:
    """By hand: 20 and 10 take 10 steps of 3 ms and 10 of 2 ms; 30 alone takes 30 of 2 ms."""
    sound = DispatchSolution(((0, 1), (2,)), 0.060)
    assert verify(problem([20, 10, 30]), sound) == ()
    assert play(problem([20, 10, 30]), (0, 1)) == pytest.approx(0.050)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"orders": ((0, 1), ())}, "request 2 is placed 0 times, must be once"),
        ({"orders": ((0, 1), (2, 0))}, "request 0 is placed 2 times, must be once"),
        ({"orders": ((0, 1), (3,))}, "request index 3 does not exist"),
        ({"orders": ((0, 1), (2,), ())}, "3 instances have an order, the problem has 2"),
        ({"makespan_s": 0.0600001}, "the last request ends after 0.06 s, the dispatch says 0.0600001"),
        ({"makespan_s": float("nan")}, "the last request ends after 0.06 s, the dispatch says nan"),
    ],
)
def test_every_lie_is_found(changes: dict[str, Any], fault: str) -> None:
    """One fault each, in words."""
    assert fault in verify(problem([20, 10, 30]), replace(DispatchSolution(((0, 1), (2,)), 0.060), **changes))


def test_a_queue_is_played_without_overtaking() -> None:
    """Two slots and a budget of 60 tokens: the third request would fit into the cache at once, but the second waits before it."""
    waiting = problem([20, 40, 5], instances=1, admission=Admission(2, 60))
    assert play(waiting, (0, 1, 2)) == pytest.approx((20 * 2 + 40 * 2 + 5 * 2) / 1000)
    assert play(waiting, (0, 2, 1)) == pytest.approx((5 * 3 + 15 * 2 + 40 * 2) / 1000)


laws = st.sampled_from(
    [
        AffineLatency(1.0, 0.5),
        AffineLatency(8.0, 0.05, 30.0),
        TableLatency.of_batch({1: 1.0, 2: 5.0, 4: 6.0}),
        TableLatency(np.array([1, 4]), np.array([5.0, 20.0]), np.array([[1.0, 2.0], [3.0, 7.0]])),
    ]
)


@given(
    outputs=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    slots=st.integers(1, 5),
    spare=st.none() | st.integers(0, 60),
    policy=st.sampled_from(["reserve", "preempt"]),
    law=laws,
    instances=st.integers(1, 3),
)
def test_two_ways_of_playing_agree(outputs: list[int], slots: int, spare: int | None, policy: Any, law: Any, instances: int) -> None:
    """The vectorised simulation that scores and the plain loop that verifies share no code, and find the same makespan."""
    budget = None if spare is None else max(outputs) + 10 + spare
    built = problem(outputs, instances=instances, admission=Admission(slots, budget, policy), latency=law)
    assert verify(built, scored(built, [np.arange(len(outputs))[i::instances] for i in range(instances)])) == ()
