"""Token counts from a law of output lengths: drawn at random, or spread evenly."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from rollplan.models.lengths.law import LengthLaw

IntArray = npt.NDArray[np.int64]


def sample(
    law: LengthLaw, rng: np.random.Generator, prompts: int, samples_per_prompt: int, within_group_correlation: float = 0.0
) -> IntArray:
    """Return drawn lengths in whole tokens, shape (prompts, samples_per_prompt).

    within_group_correlation: 0 to 1, of the normal scores of two samples of one prompt (Gaussian copula). A hard prompt
    makes all its samples long; with 1 they are equally long. It changes which lengths meet, not how often each occurs.
    """
    if prompts < 1 or samples_per_prompt < 1:
        raise ValueError(f"prompts and samples_per_prompt must be at least 1, got {prompts} and {samples_per_prompt}")
    if not 0 <= within_group_correlation <= 1:
        raise ValueError(f"within_group_correlation must be in 0 to 1, got {within_group_correlation}")
    common = rng.standard_normal((prompts, 1))
    own = rng.standard_normal((prompts, samples_per_prompt))
    scores = np.sqrt(within_group_correlation) * common + np.sqrt(1 - within_group_correlation) * own
    below = NormalDist().cdf
    return _tokens(law, [below(score) for score in scores.ravel().tolist()]).reshape(scores.shape)


def stratified(law: LengthLaw, responses: int) -> IntArray:
    """Return the quantiles (i + 1/2) / n in whole tokens, ascending: what a rollout of n responses typically looks like."""
    if responses < 1:
        raise ValueError(f"responses must be at least 1, got {responses}")
    return _tokens(law, [(index + 0.5) / responses for index in range(responses)])


def _tokens(law: LengthLaw, levels: list[float]) -> IntArray:
    lengths = np.rint([law.quantile(level) for level in levels])
    return np.asarray(np.clip(lengths, 1, np.floor(law.limit_tokens)), dtype=np.int64)
