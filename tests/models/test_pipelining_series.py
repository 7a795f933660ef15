"""Fluctuating iterations: published tables, closed forms, and the order of the modes on every path."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.pipelining.iteration import batch_period_s, streamed_period_s
from rollplan.models.pipelining.modes import Pipelining
from rollplan.models.pipelining.series import steady_state

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)
ONE_STEP = Pipelining("one-step")
STREAMED, BATCH = Pipelining("async", variant="streamed"), Pipelining("async", variant="batch")


def fluctuating(cv: float, iterations: int, seed: int) -> tuple[list[float], list[float]]:
    """Return rollout and training times, normal with mean 1, cut off at 0.05."""
    generator = np.random.default_rng(seed)
    rollout, train = (np.maximum(0.05, generator.normal(1, cv, iterations)) for _ in range(2))
    return rollout.tolist(), train.tolist()


def period(mode: Pipelining, cv: float, iterations: int, seed: int) -> float:
    """Return the period with a transfer of 2 %."""
    return steady_state(mode, *fluctuating(cv, iterations, seed), 0.02).period_s


@pytest.mark.parametrize(
    ("cv", "streamed", "batch"), [(0.0, 1.000, 1.010), (0.05, 1.003, 1.034), (0.1, 1.009, 1.062), (0.2, 1.031, 1.119), (0.3, 1.062, 1.176)]
)
def test_only_streaming_takes_weights_and_fluctuation_off_the_critical_path(cv: float, streamed: float, batch: float) -> None:
    """Rollout and training of 1 s, transfer 0.02 s, 4000 iterations, computed by an independent program for this project.

    StreamRL claims that fluctuation does not matter in mode (d): true of variant A, not of B. All ten values come back to
    the digit with normal fluctuation and seed 0, which the table does not state.
    """
    found = period(STREAMED, cv, 4000, 0), period(BATCH, cv, 4000, 0)
    assert found == pytest.approx((streamed, batch), abs=5.5e-4)


@pytest.mark.parametrize(("cv", "one_step"), [(0.0, 1.020), (0.05, 1.048), (0.1, 1.077), (0.2, 1.134), (0.3, 1.191)])
def test_a_barrier_leaves_both_on_it(cv: float, one_step: float) -> None:
    """The third row of the table in docs/modes.md, ours; the next test says how it relates to the published 200 iterations."""
    assert period(ONE_STEP, cv, 4000, 0) == pytest.approx(one_step, abs=5.5e-4)


@pytest.mark.parametrize(
    ("cv", "one_step", "streamed"),
    [(0.0, 1.020, 1.000), (0.05, 1.050, 1.005), (0.1, 1.080, 1.016), (0.2, 1.139, 1.042), (0.3, 1.199, 1.075)],
)
def test_short_series_lie_where_the_table_says(cv: float, one_step: float, streamed: float) -> None:
    """The same with 200 iterations. Seed and law are not stated and no seed we tried gives the digits.

    So each value must lie within what 40 seeds give, and the means of those are ours: one-step by E max(g, t) = 1 + cv /
    sqrt(pi).
    """
    for mode, published in ((ONE_STEP, one_step), (STREAMED, streamed)):
        found = [period(mode, cv, 200, seed) for seed in range(40)]
        assert min(found) - 5e-4 <= published <= max(found) + 5e-4
    mean = float(np.mean([period(ONE_STEP, cv, 200, seed) for seed in range(40)]))
    assert mean == pytest.approx(1.02 + cv / np.sqrt(np.pi), abs=0.004)


quarters = st.integers(0, 80).map(lambda number: number / 4)


@REPEATABLE
@given(st.lists(st.tuples(quarters, quarters), min_size=2, max_size=30), quarters)
def test_modes_are_ordered_on_every_path(pairs: list[tuple[float, float]], sync_s: float) -> None:
    """Whatever the times: one-step ends no earlier than B, B no earlier than A, A no earlier than all rollouts or trainings."""
    rollout, train = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    one_step, batch, streamed = (steady_state(mode, rollout, train, sync_s).train_end_s for mode in (ONE_STEP, BATCH, STREAMED))
    assert (one_step >= batch).all()
    assert (batch >= streamed).all()
    assert (streamed >= np.maximum(list(accumulate(rollout)), list(accumulate(train)))).all()


@REPEATABLE
@given(st.lists(st.tuples(quarters, quarters), min_size=2, max_size=30))
def test_a_barrier_pays_the_longer_stage_of_every_iteration(pairs: list[tuple[float, float]]) -> None:
    """sum max(g_(i+1), t_i), and that is at least max(sum g, sum t)."""
    rollout, train = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    paid = sum(max(rollout[index + 1], train[index]) for index in range(len(pairs) - 1))
    found = steady_state(ONE_STEP, rollout, train)
    assert found.train_end_s[-1] - train[-1] == rollout[0] + paid
    assert paid >= max(sum(rollout[1:]), sum(train[:-1]))


@REPEATABLE
@given(quarters, quarters, quarters)
def test_constant_times_have_the_closed_periods(rollout_s: float, train_s: float, sync_s: float) -> None:
    """The recurrences settle on max(g, t, (g + sync) / 2) and max(g, t, (g + t + sync) / 2); start-up is cut off."""
    for mode, closed in ((STREAMED, streamed_period_s), (BATCH, batch_period_s)):
        ends = steady_state(mode, [rollout_s] * 120, [train_s] * 120, sync_s).train_end_s
        assert (ends[-1] - ends[59]) / 60 == pytest.approx(closed(rollout_s, train_s, sync_s))


def test_modes_without_overlap_have_no_series() -> None:
    """Their iterations add up."""
    with pytest.raises(ValueError, match="mode must be one-step or async"):
        steady_state(Pipelining("serial"), [1.0, 1.0], [1.0, 1.0])


def test_a_series_needs_pairs() -> None:
    """One iteration has no period."""
    with pytest.raises(ValueError, match="two or more, got 1 and 2"):
        steady_state(ONE_STEP, [1.0], [1.0, 1.0])
