"""Statistics of lengths: quantiles, tail, drift, correlation inside of groups."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from rollplan.models.profile.lengths import GroupCorrelation, LengthDrift, Tail
from rollplan.profilers.lengths.gather import UNKNOWN, IntArray

FloatArray = npt.NDArray[np.float64]

LEVELS = (*(index / 100 for index in range(100)), 0.995, 0.999, 0.9999, 1.0)
"""Shares at which quantiles are kept."""
_JUMP = 1e-6
"""Share between the longest length below the limit and the limit, where a scenario's mapping has one length for each share."""
_FIT_LEVELS = (0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.99)
_FEWEST_STEPS = 5
"""Below, the interval of a slope says nothing."""
_MOST_STEPS = 2000
"""Above, neighbouring steps are joined: the slope is a median over pairs of steps."""


def quantiles(lengths: IntArray, limit: float) -> tuple[tuple[float, float], ...]:
    """Return pairs (share, length) at `LEVELS`, exact: the smallest length that at least this share does not exceed.

    The share at the limit is a point mass, with a knot where it begins, so that a law that is linear between the pairs
    has it, too.
    """
    rising = np.sort(lengths)
    at_limit = float(np.mean(rising >= limit))
    if at_limit == 1:
        return ((0.0, limit), (1.0, limit))
    start = 1 - at_limit
    pairs = [(level, float(_at(rising, level))) for level in LEVELS if at_limit == 0 or level < start - 1e-9]
    if at_limit == 0:
        return tuple(pairs)
    below = float(rising[rising < limit][-1])
    return (*pairs, (start, below), (start + min(_JUMP, at_limit / 2), limit), (1.0, limit))


def _at(rising: IntArray, level: float) -> int:
    """Return the inverse of the empirical distribution function."""
    # The share 0.07 of 100 samples is 7.000000000000001 in floats.
    return int(rising[max(0, int(np.ceil(level * len(rising) - 1e-9)) - 1)])


def tail(lengths: IntArray, limit: float) -> Tail:
    """Return how much longer the longest are than the median, and the lognormal law that is nearest.

    sigma: least squares of log(Q(q) / median) on the normal score of q, over the quantiles below the limit.
    """
    rising = np.sort(lengths)
    median = _at(rising, 0.5)
    score = NormalDist().inv_cdf
    points = [(score(level), log(_at(rising, level) / median)) for level in _FIT_LEVELS if _at(rising, level) < limit]
    sigma = error = None
    if median < limit and any(z > 0 for z, _ in points):
        sigma = max(0.0, sum(z * ratio for z, ratio in points) / sum(z * z for z, _ in points))
        error = max(exp(abs(ratio - sigma * z)) - 1 for z, ratio in points)
    return Tail(max_over_median=float(rising[-1]) / median, p99_over_median=_at(rising, 0.99) / median, sigma=sigma, sigma_error=error)


def drift(lengths: IntArray, steps: IntArray) -> LengthDrift | None:
    """Return the growth per step: Theil-Sen slope of the logarithms of the steps' means, with Sen's 95 % interval.

    None for fewer than five steps. One step of odd lengths hardly moves a median of slopes. The interval takes the steps
    as independent around the line; it is too narrow where they wander.
    """
    from scipy.stats import theilslopes

    numbers, place = np.unique(steps[steps != UNKNOWN], return_inverse=True)
    if len(numbers) < _FEWEST_STEPS:
        return None
    means = np.bincount(place, lengths[steps != UNKNOWN]) / np.bincount(place)
    at, level = numbers.astype(float), np.log(means)
    if len(at) > _MOST_STEPS:
        blocks = np.array_split(np.arange(len(at)), _MOST_STEPS)
        at, level = (np.array([column[block].mean() for block in blocks]) for column in (at, level))
    slope, _, low, high = theilslopes(level, at, 0.95)
    # Lengths that fall to nothing, or explode, within one step are no drift that a plan could use.
    grown, least, most = (float(np.expm1(np.clip(value, -10, 10))) for value in (slope, low, high))
    return LengthDrift(steps=len(numbers), per_step=grown, low=min(least, grown), high=max(most, grown))


def group_correlation(lengths: IntArray, groups: IntArray, steps: IntArray) -> GroupCorrelation | None:
    r"""Return ICC(1) of the normal scores of lengths, within steps, by one-way analysis of variance.

    .. math:: (MSB - MSW) / (MSB + (n_0 - 1) MSW)

    A group is what one prompt got in one step. MSB: mean square between the groups of a step, so that drift from step to
    step counts for nothing; MSW: inside of groups; n0: samples per group, the usual average for unequal groups. Normal
    scores are those of mid-ranks: the correlation is that of the Gaussian copula which `models.lengths.sampling` draws
    from. Equal lengths at the limit make it smaller. None without two groups of two samples that differ.
    """
    from scipy.special import ndtri
    from scipy.stats import f, rankdata

    scores = ndtri((rankdata(lengths) - 0.5) / len(lengths))
    known = groups != UNKNOWN
    _, step_number = np.unique(steps[known], return_inverse=True)
    _, place = np.unique(step_number * (int(groups.max()) + 1) + groups[known], return_inverse=True)
    sizes = np.bincount(place)
    several = sizes[place] >= 2
    scores, step_of = scores[known][several], steps[known][several]
    _, place, sizes = np.unique(place[several], return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return None
    means = np.bincount(place, scores) / sizes
    _, first = np.unique(place, return_index=True)
    _, step = np.unique(step_of[first], return_inverse=True)
    samples_of_step = np.bincount(step, sizes)
    step_means = np.bincount(step, sizes * means) / samples_of_step
    between, inside = len(sizes) - len(samples_of_step), len(scores) - len(sizes)
    within_square = float(np.sum((scores - means[place]) ** 2)) / inside
    if between < 1:
        return None
    between_square = float(np.sum(sizes * (means - step_means[step]) ** 2)) / between
    size = float(len(scores) - np.sum(np.bincount(step, sizes.astype(float) ** 2) / samples_of_step)) / between
    if between_square == within_square == 0:
        return None
    below, above = (float(f.ppf(level, between, inside)) for level in (0.025, 0.975))
    squares = (between_square / above, between_square, between_square / below)
    least, value, most = (float(np.clip((each - within_square) / (each + (size - 1) * within_square), -1, 1)) for each in squares)
    return GroupCorrelation(groups=len(sizes), samples=len(scores), value=value, low=least, high=most)
