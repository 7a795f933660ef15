"""Response lengths of a run: their law, their tail, how they drift, how alike the samples of one prompt are, and what a
ranker can tell from the prompt alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.lengths.trace import MAX_TOKENS
from rollplan.models.profile.origin import AtLeastZero, Positive, Text
from rollplan.models.strict import Strict, refusal

Unit = Literal["tokens", "words", "characters"]
Share = Annotated[float, Field(ge=0, le=1)]
Length = Annotated[float, Field(ge=1, le=MAX_TOKENS)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Weight = Annotated[float, Field(ge=-1e9, le=1e9)]
CHANCE_LEVEL = 0.01
"""A ranker is better than chance if chance does as well with at most this probability."""


class Tail(Strict):
    """How much longer the longest are. sigma: of a lognormal law through the median, fitted to the quantiles below the limit.

    sigma_error: largest relative deviation of that law from these quantiles; large means that the lengths are not lognormal.
    """

    max_over_median: Annotated[float, Field(ge=1)]
    p99_over_median: Annotated[float, Field(ge=1)]
    sigma: AtLeastZero | None = None
    sigma_error: AtLeastZero | None = None


class LengthDrift(Strict):
    """Relative growth of the mean length per step, compounded, as `models.lengths.drift.Drift` and a scenario's `drift` have it.

    per_step: exp(slope) - 1 of the Theil-Sen line through the logarithms of the steps' means. low, high: 95 % interval.
    """

    steps: Annotated[int, Field(ge=2)]
    per_step: Annotated[float, Field(gt=-1, le=1e6)]
    low: Annotated[float, Field(ge=-1, le=1e6)]
    high: Annotated[float, Field(ge=-1, le=1e6)]

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.low <= 0 <= self.high


class GroupCorrelation(Strict):
    """Correlation of the lengths of two samples of one prompt in one step, as a scenario's `group_correlation` has it.

    value: ICC(1) of the normal scores. low, high: 95 % interval by the F distribution; below 0 where samples differ more
    inside of groups than between them. groups: of at least two samples.
    """

    groups: Annotated[int, Field(ge=2)]
    samples: Annotated[int, Field(ge=4)]
    value: Annotated[float, Field(ge=-1, le=1)]
    low: Annotated[float, Field(ge=-1, le=1)]
    high: Annotated[float, Field(ge=-1, le=1)]


class Recall(Strict):
    """Of the truly longest samples, the share that the ranker has among its longest; both are the same `share` of the test part.

    chance: what a random order brings on average. low, high: 95 % bootstrap interval over prompts. p_value: share of random
    orders that do at least as well.
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    recall: Share
    low: Share
    high: Share
    chance: Share
    p_value: Share

    @property
    def better_than_chance(self) -> bool:
        """Whether a random order hardly does as well."""
        return self.recall > self.chance and self.p_value <= CHANCE_LEVEL


class RankerWeights(Strict):
    """A linear ranker as plain numbers. Logarithm of the estimate = intercept + surface terms + sum over the terms' tf-idf.

    surface: for each named feature mean, scale, weight. terms: for each word idf, weight. See `profilers.lengths.features`.
    """

    intercept: Weight
    surface: dict[str, tuple[Weight, Positive, Weight]]
    terms: Annotated[dict[str, tuple[Positive, Weight]], Field(max_length=20_000)]


class Ranker(Strict):
    """What an output-length ranker is worth on prompts that it has not seen.

    training, validation, test: prompts in each part, about 7:2:1, none in two. penalty: of the ridge regression, chosen on
    the validation part. recalls: on the test part, StreamRL (arXiv 2504.15930) Table 4's measure. weights: absent where
    the ranker is no better than chance.
    """

    seed: Annotated[int, Field(ge=0)]
    training: Count
    validation: Count
    test: Count
    test_samples: Count
    penalty: Positive
    recalls: Annotated[tuple[Recall, ...], Field(min_length=1)]
    weights: RankerWeights | None = None

    def at(self, share: float) -> Recall | None:
        """Return the recall of the longest `share`, if it was measured."""
        return next((recall for recall in self.recalls if abs(recall.share - share) < 1e-9), None)


class LengthsProfile(Strict):
    """Response lengths, in `unit`. Everything about prompts and steps is absent where the file says nothing of them.

    prompts: different ones. quantiles: pairs (share, length), the smallest length that at least this share of the samples
    does not exceed. limit: where responses are cut off; limit_stated: false where it is the longest length seen.
    share_at_limit: of the samples. share_truncated: as the engine said.
    """

    unit: Unit
    samples: Annotated[int, Field(ge=1)]
    prompts: Count | None = None
    steps: Count | None = None
    mean: Length
    limit: Length
    limit_stated: bool
    share_at_limit: Share
    share_truncated: Share | None = None
    quantiles: Annotated[tuple[tuple[Share, Length], ...], Field(min_length=2, max_length=1000)]
    tail: Tail
    drift: LengthDrift | None = None
    group_correlation: GroupCorrelation | None = None
    ranker: Ranker | None = None
    notes: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _is_a_law(self) -> Self:
        if any(left >= right for (left, _), (right, _) in pairwise(self.quantiles)):
            raise refusal("has quantiles whose shares do not rise", "give each share once, in rising order")
        try:
            QuantileLaw(self.limit, self.quantiles)
        except ValueError as error:
            raise refusal(f"is not a law of lengths: {error}", "correct these numbers") from None
        return self

    def law(self) -> QuantileLaw:
        """Return the law of these lengths in tokens; raise `ValueError` where they are not counted in tokens."""
        if self.unit != "tokens":
            raise ValueError(f"lengths are counted in {self.unit}; a law needs tokens")
        return QuantileLaw(self.limit, self.quantiles)
