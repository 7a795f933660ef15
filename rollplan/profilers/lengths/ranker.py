"""An output-length ranker: a linear model of the prompt's words and surface for the logarithm of the response's length.

StreamRL (arXiv 2504.15930) fine-tunes a language model for this. Ridge regression on tf-idf needs no GPU, is
trained in seconds, and is a table of numbers: it is stored as JSON, nothing is ever unpickled. On GSM8K it ranks no worse
than boosted trees, and sentence embeddings added nothing (docs/lengths.md).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rollplan.models.profile.lengths import Ranker, RankerWeights
from rollplan.profilers.lengths.features import SURFACE, term_counts, weighted_terms
from rollplan.profilers.lengths.files import fault
from rollplan.profilers.lengths.gather import UNKNOWN, Gathered, IntArray
from rollplan.profilers.lengths.recall import SHARES, assess
from rollplan.profilers.lengths.statistics import FloatArray

FEWEST_PROMPTS = 100
"""Below, the test part has ten prompts or fewer, and a recall means nothing."""
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
_MOST_TERMS = 5000
_FEWEST_PROMPTS_OF_TERM = 3
"""A word of one or two prompts says more about these prompts than about others, and does not go into a file."""
_SURFACE_SCALE = 0.3
"""Surface features are this large where tf-idf vectors have length 1, so that one penalty serves both."""
_DIGITS = 6


def train_ranker(gathered: Gathered, source: Path, seed: int = 0) -> Ranker:
    """Return a ranker trained on seven tenths of the prompts, chosen on two, and assessed on one that it has not seen.

    Lengths are taken relative to the mean of their step, so that drift does not count as a property of prompts. Raises
    `InputError` if there are too few different prompts, or all lengths are equal.
    """
    if len(gathered.prompts) < FEWEST_PROMPTS:
        problem = f"has {len(gathered.prompts)} different prompts with text; a ranker needs {FEWEST_PROMPTS}"
        raise fault(source, "", problem, "give more samples, name the column with --prompt-column, or choose --ranker none")
    known = gathered.texts != UNKNOWN
    texts = gathered.texts[known]
    logs = np.log(gathered.lengths[known])
    logs = logs - _step_levels(logs, gathered.steps[known]) + logs.mean()
    if np.ptp(logs) < 1e-9:
        raise fault(source, "", "has responses of one length only, at least within each step", "choose --ranker none")
    means = np.bincount(texts, logs) / np.bincount(texts)
    part = np.array([part_of(prompt, seed) for prompt in gathered.prompts])
    if min(sizes := np.bincount(part, minlength=3).tolist()) == 0:
        raise fault(source, "", f"splits into {sizes} prompts; every part needs one", "give more prompts, or another --seed")
    penalty, weights = _fitted(gathered.prompts, means, part)
    tested = np.flatnonzero(part == 2)
    place = np.full(len(part), UNKNOWN)
    place[tested] = np.arange(len(tested))
    of_test = place[texts] != UNKNOWN
    guesses = np.log(estimates(weights, [gathered.prompts[index] for index in tested]))
    recalls = tuple(assess(logs[of_test], place[texts][of_test], guesses, share, seed) for share in SHARES)
    training, validation, test = sizes
    found = Ranker(
        seed=seed,
        training=training,
        validation=validation,
        test=test,
        test_samples=int(of_test.sum()),
        penalty=penalty,
        recalls=recalls,
    )
    return found.model_copy(update={"weights": weights}) if recalls[0].better_than_chance else found


def estimates(weights: RankerWeights, prompts: Sequence[str]) -> FloatArray:
    """Return the estimated length of the response to each prompt. Only their order means anything."""
    idf = {term: each[0] for term, each in weights.terms.items()}
    found = np.empty(len(prompts))
    for index, prompt in enumerate(prompts):
        value = sum((SURFACE[name](prompt) - mean) / scale * weight for name, (mean, scale, weight) in weights.surface.items())
        value += sum(part * weights.terms[term][1] for term, part in weighted_terms(term_counts(prompt), idf).items())
        found[index] = weights.intercept + value
    return np.exp(np.clip(found, -50, 50))


def part_of(prompt: str, seed: int) -> int:
    """Return 0 for training, 1 for validation, 2 for test, 7:2:1. Prompts that differ in case or spaces only stay together."""
    key = f"{seed}\0{' '.join(prompt.split()).casefold()}"
    place = int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64
    return 0 if place < 0.7 else 1 if place < 0.9 else 2


def _step_levels(logs: FloatArray, steps: IntArray) -> FloatArray:
    _, place = np.unique(steps, return_inverse=True)
    levels: FloatArray = (np.bincount(place, logs) / np.bincount(place))[place]
    return levels


def _fitted(prompts: Sequence[str], means: FloatArray, part: npt.NDArray[np.int64]) -> tuple[float, RankerWeights]:
    """Return the penalty that predicts the validation part best, and its weights, learned from the training part alone."""
    from scipy.sparse import csr_array, hstack

    counts = [term_counts(prompt) for prompt in prompts]
    learned = np.flatnonzero(part == 0)
    idf = _idf([counts[index] for index in learned])
    column = {term: index for index, term in enumerate(idf)}
    surface = np.array([[feature(prompt) for feature in SURFACE.values()] for prompt in prompts])
    centre, scale = surface[learned].mean(axis=0), surface[learned].std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0) / _SURFACE_SCALE
    cells = [(row, column[term], value) for row, each in enumerate(counts) for term, value in weighted_terms(each, idf).items()]
    rows, columns, values = (
        (np.array(each) for each in zip(*cells, strict=True)) if cells else (np.empty(0, int), np.empty(0, int), np.empty(0))
    )
    terms = csr_array((values, (rows, columns)), shape=(len(prompts), len(idf)))
    features = csr_array(hstack([terms, csr_array((surface - centre) / scale)]))
    best: tuple[float, float, FloatArray, float] | None = None
    for penalty in PENALTIES:
        coefficients, intercept = _ridge(features[learned], means[learned], penalty)
        error = float(np.mean((features[part == 1] @ coefficients + intercept - means[part == 1]) ** 2))
        if best is None or error < best[0]:
            best = (error, penalty, coefficients, intercept)
    assert best is not None, "there is a penalty"
    _, penalty, coefficients, intercept = best
    of_terms, of_surface = coefficients[: len(idf)], coefficients[len(idf) :]
    return penalty, RankerWeights(
        intercept=_short(intercept),
        surface={name: (_short(centre[k]), _short(scale[k]), _short(of_surface[k])) for k, name in enumerate(SURFACE)},
        terms={term: (_short(idf[term]), _short(of_terms[k])) for term, k in column.items()},
    )


def _idf(counts: Sequence[Counter[str]]) -> dict[str, float]:
    """Return log((1 + n) / (1 + prompts with the term)) + 1 of the most frequent terms, in alphabetical order."""
    prompts = Counter(term for each in counts for term in each)
    kept = [(term, count) for term, count in prompts.items() if count >= _FEWEST_PROMPTS_OF_TERM and len(term) <= 50]
    kept = sorted(kept, key=lambda each: (-each[1], each[0]))[:_MOST_TERMS]
    return {term: log((1 + len(counts)) / (1 + count)) + 1 for term, count in sorted(kept)}


def _ridge(features: object, targets: FloatArray, penalty: float) -> tuple[FloatArray, float]:
    """Return coefficients and intercept of least squares with a penalty on the coefficients only."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, lsqr

    assert isinstance(features, csr_array)
    middle = np.asarray(features.mean(axis=0)).ravel()
    centred = LinearOperator(
        features.shape,
        matvec=lambda vector: features @ vector.ravel() - middle @ vector.ravel(),
        rmatvec=lambda vector: features.T @ vector.ravel() - middle * vector.sum(),
        dtype=np.float64,
    )
    level = float(targets.mean())
    coefficients: FloatArray = np.asarray(lsqr(centred, targets - level, damp=penalty**0.5, iter_lim=300, atol=1e-9, btol=1e-9)[0])
    return coefficients, level - float(middle @ coefficients)


def _short(value: float) -> float:
    """Return a number with six digits, which is what a file needs."""
    return float(f"{value:.{_DIGITS}g}")
