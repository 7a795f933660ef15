"""Laws of output lengths from histograms, traces and training logs, and how they drift."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import exp, log
from statistics import NormalDist, fmean

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollplan.models.lengths import QuantileLaw
from rollplan.models.lengths.drift import Drift, drifted
from rollplan.models.lengths.histogram import histogram_law
from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.trace import MAX_VALUES, trace_law

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
FEWER = settings(REPEATABLE, max_examples=25)
SHARES = [index / 50 for index in range(51)]
counts = st.lists(st.integers(1, 500), min_size=1, max_size=60)


@st.composite
def histograms(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Whole edges and shares that sum up to 1."""
    edges = sorted(draw(st.sets(st.integers(1, 1000), min_size=2, max_size=8)))
    weights = draw(st.lists(st.integers(0, 9), min_size=len(edges) - 1, max_size=len(edges) - 1))
    assume(sum(weights))
    return edges, [weight / sum(weights) for weight in weights]


@REPEATABLE
@given(histograms())
def test_each_bin_of_a_histogram_holds_its_share_evenly(histogram: tuple[list[int], list[float]]) -> None:
    """Bin by bin: its edges and its middle are where the shares say."""
    edges, shares = histogram
    law, below = histogram_law(edges, shares), 0.0
    for (low, high), share in zip(pairwise(edges), shares, strict=True):
        if share:
            assert law.quantile(min(1.0, below + share / 2)) == pytest.approx((low + high) / 2)
        below += share
    assert law.mean() == pytest.approx(sum(share * (low + high) / 2 for (low, high), share in zip(pairwise(edges), shares, strict=True)))


def test_a_histogram_may_begin_at_zero_and_sum_up_to_nearly_1() -> None:
    """As figures are read; the first length is one token, and what the figure lacks is spread over all bins."""
    law = histogram_law([0, 100, 200], [0.4, 0.596], 300)
    assert (law.quantile(0), law.quantile(1), law.limit_tokens) == (1, 200, 300)
    assert law.quantile(0.4 / 0.996) == pytest.approx(100)


@pytest.mark.parametrize(
    ("edges", "shares", "limit", "message"),
    [
        ([1, 2], [0.5, 0.5], None, "n bins has n \\+ 1 edges"),
        ([1], [], None, "n bins has n \\+ 1 edges"),
        ([1, 3, 2], [0.5, 0.5], None, "edges must be at least 0 and ascending"),
        ([1, 2, 2], [0.5, 0.5], None, "edges must be at least 0 and ascending"),
        ([0, 0.5], [1.0], None, "edges must be at least 0 and ascending"),
        ([-5, 2], [1.0], None, "edges must be at least 0 and ascending"),
        ([1, 2, 3], [1.5, -0.5], None, "shares must be at least 0"),
        ([1, 2, 3], [0.4, 0.4], None, "sum up to 1 within 0.01"),
        ([1, 2, 3], [0.5, 0.5], 2.5, "tokens in 1 to 2.5"),
    ],
)
def test_what_is_no_histogram_is_refused(edges: list[float], shares: list[float], limit: float | None, message: str) -> None:
    """With what was given."""
    with pytest.raises(ValueError, match=message):
        histogram_law(edges, shares, limit)


@REPEATABLE
@given(counts, st.integers(1, 600), st.integers(1, 20))
def test_a_trace_is_drawn_from_with_equal_chance_and_cut_off_at_the_limit(tokens: list[int], limit: int, responses: int) -> None:
    """Mean, share at the limit and longest of n straight from the counts."""
    law, cut = trace_law(tokens, limit), sorted(min(count, limit) for count in tokens)
    n = len(cut)
    assert law.mean() == pytest.approx(fmean(cut))
    assert law.share_at_limit == pytest.approx(sum(count == limit for count in cut) / n)
    assert [law.quantile((index + 0.5) / n) for index in range(n)] == pytest.approx(cut)
    longest = sum(count * (((index + 1) / n) ** responses - (index / n) ** responses) for index, count in enumerate(cut))
    assert law.mean_longest(responses) == pytest.approx(longest)


def test_without_a_limit_the_longest_response_of_a_trace_is_it() -> None:
    """So what the engine cut off stays a share of its own."""
    law = trace_law([5, 9, 9, 2])
    assert (law.limit_tokens, law.share_at_limit) == (9, 0.5)


@REPEATABLE
@given(st.integers(0, 10**6), st.integers(MAX_VALUES - 1, 4 * MAX_VALUES), st.integers(1, 3))
def test_a_long_trace_keeps_its_mean_its_longest_and_little_else_changes(seed: int, values: int, repeated: int) -> None:
    """At most 1,000 different lengths; the 250 longest are kept as they are."""
    tokens = [1 + (seed + index * index) % 997 + 5 * index for index in range(values)] * repeated
    law, exact = trace_law(tokens), sorted(tokens)
    assert len(law.knots) <= 2 * MAX_VALUES
    assert law.mean() == pytest.approx(fmean(tokens))
    n = len(exact)
    assert [law.quantile((index + 0.5) / n) for index in range(n - 250, n)] == pytest.approx(exact[-250:])
    for q in SHARES[1:-1]:
        low, high = exact[max(0, int((q - 0.003) * n))], exact[min(n - 1, int((q + 0.003) * n) + 1)]
        assert low <= law.quantile(q) <= high


@pytest.mark.parametrize("tokens", [[], [3, 0], [-1]])
def test_what_is_no_trace_is_refused(tokens: list[int]) -> None:
    """No response, or one without a token."""
    with pytest.raises(ValueError, match="a trace has at least one response"):
        trace_law(tokens)


@pytest.mark.parametrize(
    ("mean", "sigma", "clip"), [(3000, 1.0, None), (3000, 1.0, 0.05), (3000, None, 0.05), (300, 0.5, 0.0), (50, 2.0, 0.001)]
)
def test_the_lognormal_law_has_the_mean_and_the_clip_share_it_was_asked_for(mean: float, sigma: float | None, clip: float | None) -> None:
    """Those of the law as it is cut off, which are those that training logs show."""
    law = lognormal_law(mean, 8192, sigma, clip)
    assert law.mean() == pytest.approx(mean, rel=1e-9)
    if clip is not None:
        assert law.share_at_limit == pytest.approx(clip, abs=1e-9)


@FEWER
@given(st.floats(4, 9), st.floats(0.1, 1.5))
def test_an_implied_clip_share_is_what_would_have_been_longer(mu: float, sigma: float) -> None:
    """From mu and sigma to the closed form of E[min(x, limit)], and back to the quantiles."""
    normal, limit = NormalDist(), 8192.0
    top = (log(limit) - mu) / sigma
    mean = exp(mu + sigma**2 / 2) * normal.cdf(top - sigma) + limit * (1 - normal.cdf(top))
    assume(mean < 0.99 * limit and mu - 3 * sigma > 0.5)
    law = lognormal_law(mean, limit, sigma)
    assert law.share_at_limit == pytest.approx(1 - normal.cdf(top), abs=2e-3)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert law.quantile(q) == pytest.approx(min(limit, exp(mu + sigma * normal.inv_cdf(q))), rel=2e-3)


@FEWER
@given(st.floats(4, 9), st.floats(0.1, 1.5), st.floats(0, 0.5))
def test_beside_a_given_clip_share_the_others_are_lognormal_below_the_limit(mu: float, sigma: float, clip: float) -> None:
    """The same with the closed form of E[x | x < limit]."""
    normal, limit = NormalDist(), 8192.0
    top = (log(limit) - mu) / sigma
    below = exp(mu + sigma**2 / 2) * normal.cdf(top - sigma) / normal.cdf(top)
    assume(mu - 3 * sigma > 0.5)
    law = lognormal_law(clip * limit + (1 - clip) * below, limit, sigma, clip)
    assert law.share_at_limit == pytest.approx(clip, abs=1e-9)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert law.quantile((1 - clip) * q) == pytest.approx(exp(mu + sigma * normal.inv_cdf(q * normal.cdf(top))), rel=2e-3)


def test_the_longest_of_a_lognormal_law_is_that_of_the_distribution_function() -> None:
    """E[max] = 1 + the integral of 1 - F^n, by the trapezoidal rule in the logarithm."""
    law = lognormal_law(1000, 10**6, 0.8)
    mu, normal = log(law.quantile(0.5)), NormalDist()
    xs = [exp(index / 1000 * log(10**6)) for index in range(1001)]
    for n in (1, 64, 4096):
        tail = [1 - normal.cdf((log(x) - mu) / 0.8) ** n for x in xs]
        assert law.mean_longest(n) == pytest.approx(
            1 + sum((b - a) * (s + t) / 2 for (a, s), (b, t) in pairwise(zip(xs, tail, strict=True))), rel=2e-3
        )


@pytest.mark.parametrize(
    ("mean", "limit", "sigma", "clip", "message"),
    [
        (1, 100, 1.0, None, "mean must be between 1 and the limit 100, got 1"),
        (100, 100, 1.0, None, "mean must be between 1 and the limit 100, got 100"),
        (50, 100, 0.001, None, "sigma must be 0.01 to 5"),
        (50, 100, 1.0, 1.0, "clip share must be at least 0 and below 1"),
        (50, 100, None, None, "without sigma, the clip share must be above 0"),
        (50, 100, None, 0.0, "without sigma, the clip share must be above 0"),
        (400, 8192, 1.0, 0.05, "mean must be 411 to 7347 with this limit, sigma and clip share, got 400"),
        (8100, 8192, 1.0, 0.05, "mean must be 411 to 7347 with this limit, sigma and clip share, got 8100"),
        (8180, 8192, None, 0.05, "with this limit, sigma and clip share"),
    ],
)
def test_a_lognormal_law_that_cannot_be_is_refused(
    mean: float, limit: float, sigma: float | None, clip: float | None, message: str
) -> None:
    """5 % at the limit alone are 410 tokens of the mean."""
    with pytest.raises(ValueError, match=message):
        lognormal_law(mean, limit, sigma, clip)


@st.composite
def laws(draw: st.DrawFn) -> QuantileLaw:
    """Smooth ones and staircases."""
    if draw(st.booleans()):
        return trace_law(draw(counts))
    return histogram_law(*draw(histograms()))


@REPEATABLE
@given(laws(), st.floats(0.05, 20), st.sampled_from(SHARES))
def test_drift_scales_every_quantile_up_to_the_limit(law: QuantileLaw, factor: float, q: float) -> None:
    """And down to one token; at a jump either side counts."""
    sides = [law.quantile(min(max(q + side, 0), 1)) for side in (-1e-9, 1e-9)]
    low, high = (min(max(factor * tokens, 1), law.limit_tokens) for tokens in sides)
    assert low * (1 - 1e-6) - 1e-6 <= drifted(law, factor).quantile(q) <= high * (1 + 1e-6) + 1e-6


@REPEATABLE
@given(counts, st.floats(1, 20))
def test_drift_moves_mass_to_the_limit(tokens: list[int], factor: float) -> None:
    """The mean and the share at the limit are those of the scaled trace."""
    law, limit = trace_law(tokens, 400), 400
    scaled = [min(limit, factor * min(count, limit)) for count in tokens]
    assert drifted(law, factor).mean() == pytest.approx(fmean(scaled))
    assert drifted(law, factor).share_at_limit == pytest.approx(sum(count == limit for count in scaled) / len(scaled))


def test_drift_is_compounded() -> None:
    """1 % per step makes 2 after 70 steps; step 0 is the law itself."""
    law = histogram_law([10, 100], [1.0], 1000)
    assert Drift(0.01).at(law, 70).mean() == pytest.approx(1.01**70 * law.mean())
    assert Drift(0.01).at(law, 0).knots == law.knots


@pytest.mark.parametrize("build", [lambda law: drifted(law, 0), lambda law: drifted(law, float("inf")), lambda _: Drift(-1.0)])
def test_drift_to_nothing_is_refused(build: Callable[[QuantileLaw], object]) -> None:
    """Factors are above 0."""
    with pytest.raises(ValueError, match="must be finite and above"):
        build(trace_law([5]))
