"""Recall of the longest: what a ranker is worth, as StreamRL (arXiv 2504.15930) Table 4 measures it, and whether chance does as well.

Of the truly longest share k of the samples, which part is among the k that the ranker puts first? Samples of one prompt
have one estimate, so ties are the rule. Where equal samples compete for the last places, each counts with the share of
places that is left for them, as if ties were broken at random: chance then has a recall of exactly k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollplan.models.profile.lengths import Recall
from rollplan.profilers.lengths.gather import IntArray
from rollplan.profilers.lengths.statistics import FloatArray

SHARES = (0.2, 0.1, 0.05)
"""Of StreamRL Table 4."""
RESAMPLES = 999


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Values from the longest to the shortest. order: their places; tie: number of the run of equal values of each."""

    order: npt.NDArray[np.intp]
    tie: npt.NDArray[np.intp]

    @classmethod
    def of(cls, values: FloatArray) -> _Sorted:
        order = np.argsort(-values, kind="stable")
        falling = values[order]
        return cls(order, np.concatenate([[0], np.cumsum(falling[1:] != falling[:-1])]))

    def first(self, weights: FloatArray, size: float) -> FloatArray:
        """Return, for each value, the chance to be among the first `size` of them, counted with their weights."""
        weight = np.bincount(self.tie, weights[self.order])
        before = np.cumsum(weight) - weight
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = np.where(weight > 0, np.clip((size - before) / weight, 0, 1), 0.0)
        found = np.empty(len(weights))
        found[self.order] = inside[self.tie]
        return found


def recall(lengths: FloatArray, estimates: FloatArray, share: float) -> float:
    """Return the recall of the longest `share` of samples, rounded to whole samples, at least one."""
    ones = np.ones(len(lengths))
    size = _size(len(lengths), share)
    both = _Sorted.of(lengths).first(ones, size) * _Sorted.of(estimates).first(ones, size)
    return float(both.sum() / size)


def assess(lengths: FloatArray, prompts: IntArray, estimates: FloatArray, share: float, seed: int = 0) -> Recall:
    """Return the recall with its interval and its chance level.

    lengths, prompts (n): of each sample its length and the number of its prompt; estimates: of each prompt. The interval
    resamples prompts, not samples, which are alike inside a prompt. The p-value deals the estimates out to the prompts at
    random.
    """
    rng = np.random.default_rng([seed, round(1000 * share)])
    size = _size(len(lengths), share)
    of_prompt = np.bincount(prompts, minlength=len(estimates)).astype(float)
    truth, guess = _Sorted.of(lengths), _Sorted.of(estimates)

    def resampled(copies: FloatArray) -> float:
        most = _size(float(copies @ of_prompt), share)
        weights = copies[prompts]
        longest = np.bincount(prompts, weights * truth.first(weights, most), minlength=len(estimates))
        return float(longest @ guess.first(copies * of_prompt, most)) / most

    longest = np.bincount(prompts, truth.first(np.ones(len(lengths)), size), minlength=len(estimates))
    found = float(longest @ guess.first(of_prompt, size)) / size
    draws = [
        resampled(np.bincount(rng.integers(0, len(estimates), len(estimates)), minlength=len(estimates)).astype(float))
        for _ in range(RESAMPLES)
    ]
    dealt = [float(longest @ _Sorted.of(rng.permutation(estimates)).first(of_prompt, size)) / size for _ in range(RESAMPLES)]
    low, high = (float(value) for value in np.quantile(draws, [0.025, 0.975]))
    as_good = sum(value >= found - 1e-12 for value in dealt)
    return Recall(
        share=share,
        recall=min(found, 1.0),
        low=min(low, found, 1.0),
        high=min(max(high, found), 1.0),
        chance=size / len(lengths),
        p_value=(1 + as_good) / (1 + RESAMPLES),
    )


def _size(samples: float, share: float) -> int:
    return max(1, round(share * samples))
