"""Where a profile comes from, and how far repeated measurements agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rollplan.models.strict import Strict, refusal

Text = Annotated[str, Field(min_length=1, max_length=1000)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
AtLeastZero = Annotated[float, Field(ge=0, le=1e15)]


class Origin(Strict):
    """Who measured what, where, when and with which software.

    kind: `measured` by rollplan, `imported` from a log, `estimated` by a fit of something measured elsewhere. by: rollplan
    and its version. date: ISO 8601 with time zone. host: operating system and processor, no name of the machine. device: GPU name
    as the driver says it, or `CPU`; absent in logs that do not say. devices: how many took part. engine: vllm, torch,
    gloo, or the framework whose log it was. versions: of the engine and what it rests on. weights: real ones, or random
    ones of the right shape.
    """

    kind: Literal["measured", "imported", "estimated"]
    by: Text
    date: Text
    source: Text
    host: Text | None = None
    device: Text | None = None
    devices: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    engine: Text | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    weights: Literal["real", "dummy"] | None = None


class Spread(Strict):
    """Repeated measurements of one quantity: median and quartiles, in the unit of the field that holds them."""

    median: AtLeastZero
    low: AtLeastZero
    high: AtLeastZero
    repeats: Annotated[int, Field(ge=1, le=10_000_000)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.median <= self.high:
            raise refusal("is not in the order low, median, high", "give quartiles around the median")
        return self

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return median and quartiles of at least one value."""
        low, median, high = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
        return cls(median=median, low=low, high=high, repeats=len(values))

    @property
    def relative(self) -> float:
        """Half of the distance between the quartiles, by the median; 0 for a single value."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else 0.0
