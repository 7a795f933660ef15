"""Quantiles are exact; drift and likeness inside of groups are those that the samples were drawn with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.lengths.reference import REFERENCE_LENGTHS
from rollplan.models.lengths.sampling import sample
from rollplan.profilers.lengths.gather import UNKNOWN, gather
from rollplan.profilers.lengths.samples import Sample
from rollplan.profilers.lengths.statistics import LEVELS, drift, group_correlation, quantiles, tail

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=200).map(lambda values: np.array(values, dtype=np.int64))
WIDE = lognormal_law(2000, 1_000_000, 0.8, None)


@given(LENGTHS, st.integers(0, 40))
def test_quantiles_are_those_of_the_samples_and_make_a_law(lengths: np.ndarray, above: int) -> None:
    """The smallest length that at least this share does not exceed; the law has the same share at the limit."""
    limit = float(lengths.max() + above)
    pairs = quantiles(lengths, limit)
    at_limit = float(np.mean(lengths >= limit))
    law = QuantileLaw(limit, pairs)
    assert len({share for share, _ in pairs}) == len(pairs)
    assert law.share_at_limit == pytest.approx(at_limit, abs=2e-6)
    for share, length in pairs:
        if share in LEVELS and share < 1 - at_limit:
            assert np.mean(lengths <= length) >= share - 1e-9
            assert np.mean(lengths < length) < share or length == lengths.min()


def test_the_quantiles_of_one_to_a_hundred_are_what_one_expects() -> None:
    """Every hundredth, although 0.07 times 100 is more than 7 in floats."""
    found = dict(quantiles(np.arange(1, 101), 200))
    assert [found[share] for share in LEVELS[1:100]] == list(range(1, 100))


@pytest.mark.parametrize("name", list(REFERENCE_LENGTHS))
def test_the_law_of_many_samples_has_their_mean_and_that_of_the_law_they_came_from(name: str) -> None:
    """100,000 samples of a published law: what is linear between percentiles loses less than half a percent."""
    law = REFERENCE_LENGTHS[name]
    drawn = sample(law, np.random.default_rng(1), 100_000, 1).ravel()
    found = QuantileLaw(law.limit_tokens, quantiles(drawn, law.limit_tokens))
    assert found.mean() == pytest.approx(drawn.mean(), rel=5e-3)
    assert found.share_at_limit == pytest.approx(law.share_at_limit, abs=0.005)
    assert found.mean_longest(64) == pytest.approx(law.mean_longest(64), rel=0.02)


@pytest.mark.parametrize("sigma", [0.3, 0.8, 1.2])
def test_the_sigma_of_lognormal_lengths_is_found_and_its_error_is_small(sigma: float) -> None:
    drawn = sample(lognormal_law(2000, 1_000_000, sigma, None), np.random.default_rng(2), 50_000, 1).ravel()
    found = tail(drawn, 1_000_000)
    assert found.sigma == pytest.approx(sigma, rel=0.02)
    assert found.sigma_error < 0.04


def test_a_sigma_says_how_far_the_lengths_are_from_lognormal() -> None:
    """Two heaps of lengths have one, too, but it is off by a factor."""
    found = tail(np.repeat(np.array([100, 4000]), 500), 8000)
    assert found.sigma_error > 1
    assert tail(np.full(10, 50), 50).sigma is None


@given(st.floats(-0.05, 0.05), st.integers(0, 3))
def test_drift_is_that_which_the_lengths_grow_by(per_step: float, seed: int) -> None:
    """The law's own meaning of drift: (1 + d)^step times as long. One spoilt step hardly moves it."""
    rng = np.random.default_rng(seed)
    steps = np.repeat(np.arange(40), 200)
    lengths = sample(WIDE, rng, 8000, 1).ravel() * (1 + per_step) ** steps
    lengths[steps == 7] *= 20
    found = drift(np.maximum(1, lengths).round().astype(np.int64), steps)
    assert found is not None
    assert found.per_step == pytest.approx(per_step, abs=0.006)
    assert found.low <= found.per_step <= found.high


def test_the_interval_of_drift_covers_the_truth_as_often_as_it_says() -> None:
    """95 % of 200 runs, within what 200 draws allow; so lengths that stay are seldom called drifting."""
    rng = np.random.default_rng(5)
    steps = np.repeat(np.arange(20), 100)
    found = [drift(sample(WIDE, rng, 2000, 1).ravel(), steps) for _ in range(200)]
    assert sum(each is not None and not each.significant for each in found) >= 180


def test_drift_is_unknown_below_five_steps() -> None:
    assert drift(np.arange(1, 9), np.repeat(np.arange(4), 2)) is None
    assert drift(np.arange(1, 9), np.full(8, UNKNOWN)) is None


def grouped(correlation: float, seed: int, growth: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lengths, groups and steps: 30 prompts of 8 samples in each of 20 steps."""
    steps = np.repeat(np.arange(20), 240)
    drawn = sample(WIDE, np.random.default_rng(seed), 600, 8, correlation).ravel() * (1 + growth) ** steps
    return np.maximum(1, drawn.round()).astype(np.int64), np.repeat(np.arange(600) % 30, 8), steps


@given(st.floats(0, 0.95), st.integers(0, 5))
def test_group_correlation_is_that_which_the_lengths_were_drawn_with(correlation: float, seed: int) -> None:
    """The planner's `group_correlation` and the profiler's are one number."""
    found = group_correlation(*grouped(correlation, seed))
    assert found is not None
    assert found.value == pytest.approx(correlation, abs=0.06)
    assert found.low <= found.value <= found.high
    assert (found.groups, found.samples) == (600, 4800)


def test_drift_from_step_to_step_is_no_likeness_of_samples() -> None:
    """Independent samples of lengths that grow by 10 % per step would look alike if steps were not set apart."""
    lengths, groups, steps = grouped(0.0, 3, growth=0.1)
    apart, together = group_correlation(lengths, groups, steps), group_correlation(lengths, groups + 30 * steps, np.zeros_like(steps))
    assert apart is not None
    assert together is not None
    assert abs(apart.value) < 0.03
    assert together.value > 0.2


def test_the_interval_of_group_correlation_covers_the_truth_as_often_as_it_says() -> None:
    """95 % of 200 draws of 40 groups of 6, within what 200 draws allow."""
    rng, groups, steps = np.random.default_rng(9), np.repeat(np.arange(40), 6), np.zeros(240, dtype=np.int64)
    found = [group_correlation(sample(WIDE, rng, 40, 6, 0.4).ravel(), groups, steps) for _ in range(200)]
    assert sum(each is not None and each.low <= 0.4 <= each.high for each in found) >= 180


def test_group_correlation_is_unknown_without_groups_of_several_samples() -> None:
    ones = np.arange(1, 21)
    assert group_correlation(ones, np.arange(20), np.zeros(20, dtype=np.int64)) is None
    assert group_correlation(np.full(20, 7), np.arange(20) // 2, np.zeros(20, dtype=np.int64)) is None


def test_samples_that_are_equal_in_every_group_have_a_correlation_of_one() -> None:
    found = group_correlation(np.repeat(np.arange(1, 11), 2), np.arange(20) // 2, np.zeros(20, dtype=np.int64))
    assert found is not None
    assert (found.low, found.value, found.high) == (1, 1, 1)


def test_gathering_cuts_off_at_the_limit_and_counts_what_it_leaves_out() -> None:
    rows = [Sample(length, "p", "p", 1, None) for length in (0, 5, None, 50, 9)]
    found = gather(rows, Path("x"), limit=10, keep_texts=True)
    assert found.lengths.tolist() == [5, 10, 9]
    assert (found.empty, found.silent, found.over, found.prompts) == (1, 1, 1, ("p",))
