"""Token counts drawn from a law: marginals that stay, groups that correlate, and the even spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.lengths import REFERENCE_LENGTHS, LengthLaw, QuantileLaw
from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.sampling import sample, stratified
from rollplan.models.lengths.trace import trace_law

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=50)
LAWS: dict[str, QuantileLaw] = {
    **{name: REFERENCE_LENGTHS[name] for name in ("7B-4k", "streamrl-20k")},
    "trace": trace_law([3, 3, 5, 900, 1000, 1000, 1000]),
    "lognormal": lognormal_law(2600, 8192, clip_share=0.04),
}


@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", LAWS)
def test_correlation_changes_no_quantile(name: str, correlation: float) -> None:
    """40,000 prompts: one sample of each has the law's quantiles, whatever the correlation (0.2 to 0.3 % standard error of the share)."""
    law: LengthLaw = LAWS[name]
    drawn = sample(law, np.random.default_rng(1), 40_000, 2, correlation)
    for q in (0.1, 0.3, 0.6, 0.9):
        tokens = law.quantile(q)
        for column in drawn.T:
            assert (column < tokens - 1).mean() - 0.012 <= q <= (column <= tokens + 1).mean() + 0.012
    assert (drawn == law.limit_tokens).mean() == pytest.approx(law.share_at_limit, abs=0.012)
    assert drawn.mean() == pytest.approx(law.mean(), rel=0.02)


def test_the_correlation_is_that_of_the_normal_scores() -> None:
    """With a law that is uniform, scores of Gaussian correlation r have rank correlation 6 / pi * asin(r / 2)."""
    law = QuantileLaw(10**6, ((0.0, 1.0), (1.0, 10**6)))
    for correlation in (0.0, 0.5, 0.9):
        drawn = sample(law, np.random.default_rng(2), 40_000, 2, correlation)
        assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(6 / np.pi * np.arcsin(correlation / 2), abs=0.015)


def test_with_correlation_1_all_samples_of_a_prompt_are_equally_long() -> None:
    """And prompts still differ."""
    drawn = sample(LAWS["streamrl-20k"], np.random.default_rng(3), 50, 8, 1.0)
    assert np.ptp(drawn, axis=1).max() == 0
    assert np.unique(drawn[:, 0]).size > 40


@REPEATABLE
@given(st.sampled_from(sorted(LAWS)), st.integers(1, 20), st.integers(1, 9), st.floats(0, 1), st.integers(0, 99))
def test_samples_are_whole_tokens_within_the_limit_and_the_seed_decides(
    name: str, prompts: int, samples: int, correlation: float, seed: int
) -> None:
    """Shape (prompts, samples); the same generator gives the same lengths."""
    first, second = (sample(LAWS[name], np.random.default_rng(seed), prompts, samples, correlation) for _ in range(2))
    assert np.array_equal(first, second)
    assert (first.shape, first.dtype) == ((prompts, samples), np.int64)
    assert first.min() >= 1
    assert first.max() <= LAWS[name].limit_tokens


def test_a_limit_that_is_no_whole_number_is_not_exceeded() -> None:
    """Rounding up would."""
    law = QuantileLaw(10.7, ((0.0, 10.6),))
    assert sample(law, np.random.default_rng(0), 20, 1).max() == stratified(law, 3).max() == 10


@pytest.mark.parametrize("name", LAWS)
def test_the_even_spread_has_the_mean_of_the_law(name: str) -> None:
    """One deterministic prediction stands for the average rollout."""
    assert stratified(LAWS[name], 1000).mean() == pytest.approx(LAWS[name].mean(), rel=0.01)


def test_the_even_spread_is_the_middle_quantiles_in_ascending_order() -> None:
    """(i + 1/2) / n of the uniform law from 1 to 101."""
    assert stratified(QuantileLaw(101.0, ((0.5, 51.0),)), 5).tolist() == [11, 31, 51, 71, 91]


def test_an_even_spread_of_a_trace_of_the_same_size_is_the_trace() -> None:
    """In ascending order."""
    assert stratified(LAWS["trace"], 7).tolist() == [3, 3, 5, 900, 1000, 1000, 1000]


@pytest.mark.parametrize(("prompts", "samples", "correlation"), [(0, 1, 0.0), (1, 0, 0.0), (1, 1, -0.1), (1, 1, 1.1), (1, 1, float("nan"))])
def test_what_cannot_be_drawn_is_refused(prompts: int, samples: int, correlation: float) -> None:
    """With the field and its limit."""
    with pytest.raises(ValueError, match="must be"):
        sample(LAWS["trace"], np.random.default_rng(0), prompts, samples, correlation)


def test_a_spread_of_nothing_is_refused() -> None:
    """A rollout has a response."""
    with pytest.raises(ValueError, match="responses must be at least 1"):
        stratified(LAWS["trace"], 0)
