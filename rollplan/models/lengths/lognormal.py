"""A law of output lengths from what training logs show: mean, limit, and the share of responses cut off there.

Logarithms of lengths are often close to normal, except for the peak at the limit. With Z standard normal and
x = exp(mu + sigma * Z), two readings of that peak:

    implied     the length is min(x, limit): what would have been longer is cut off at the limit
    given       a share `clip` of the responses has the limit, the others follow x as far as it is below the limit

In both, lengths are at least one token, and mu (or sigma) is found by bisection so that the *law itself*, cut off as it
is, has the given mean. That is the mean that logs show.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, exp, log, sqrt
from statistics import NormalDist

from rollplan.models.lengths.quantile import QuantileLaw

_SPACING = 0.02
"""Between quantiles, in standard deviations; lengths in between are off by (sigma * spacing)^2 / 8, 0.005 % for sigma 1."""

_REACH = 6.0
"""Standard deviations above the median that count: one response in 10^9 would be beyond."""


def lognormal_law(mean_tokens: float, limit_tokens: float, sigma: float | None = None, clip_share: float | None = None) -> QuantileLaw:
    """Return the law with this mean; raise `ValueError` if there is none.

    sigma: standard deviation of the logarithm, 0.01 to 5; absent, the one at which the implied share at the limit is
    `clip_share` (then necessary). clip_share: 0 to below 1; absent, it is implied.
    """
    if not 1 < mean_tokens < limit_tokens:
        raise ValueError(f"the mean must be between 1 and the limit {limit_tokens:g}, got {mean_tokens:g}")
    if clip_share is not None and not 0 <= clip_share < 1:
        raise ValueError(f"the clip share must be at least 0 and below 1, got {clip_share:g}")
    if sigma is not None:
        if not 0.01 <= sigma <= 5:
            raise ValueError(f"sigma must be 0.01 to 5, got {sigma:g}")
        # So far that all lengths are one token, or nearly all are at the limit.
        low, high = -8 * sigma, log(limit_tokens) + 8 * sigma
        return _with_mean(mean_tokens, lambda mu: _law(mu, sigma, limit_tokens, clip_share), low, high)
    if not clip_share:
        raise ValueError("without sigma, the clip share must be above 0: one mean alone does not tell how lengths scatter")
    top = NormalDist().inv_cdf(1 - clip_share)
    # The more lengths scatter below a limit that always the same share reaches, the lower their mean.
    return _with_mean(mean_tokens, lambda spread: _law(log(limit_tokens) + spread * top, -spread, limit_tokens, None), -5.0, -0.01)


def _with_mean(mean: float, law: Callable[[float], QuantileLaw], low: float, high: float) -> QuantileLaw:
    """Return the law whose parameter, from `low` to `high`, gives the mean; the mean rises with the parameter."""
    least, most = law(low).mean(), law(high).mean()
    if not least <= mean <= most:
        raise ValueError(f"the mean must be {least:.0f} to {most:.0f} with this limit, sigma and clip share, got {mean:g}")
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if law(middle).mean() < mean else (low, middle)
    return law(high)


def _law(mu: float, sigma: float, limit: float, clip: float | None) -> QuantileLaw:
    at_limit = (log(limit) - mu) / sigma
    top = min(at_limit, _REACH)
    steps = round(2 * _REACH / _SPACING)
    scores = [top - _SPACING * step for step in range(steps, 0, -1)]
    below = (_share_below(at_limit) if clip is None else 1 - clip) / _share_below(top)
    longest = limit if at_limit <= _REACH else min(limit, exp(mu + sigma * top))
    body = [(below * _share_below(z), min(limit, max(1.0, exp(mu + sigma * z)))) for z in scores]
    end = min(1.0, below * _share_below(top))
    last = [] if end == 1 else [(end, limit), (1.0, limit)]
    return QuantileLaw(limit, ((0.0, body[0][1]), *body, (end, max(1.0, longest)), *last))


def _share_below(z: float) -> float:
    """Return the standard normal distribution function, precise far below 0."""
    return erfc(-z / sqrt(2)) / 2
