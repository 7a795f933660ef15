"""Lengths that grow while a model learns to think longer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from rollplan.models.lengths.quantile import QuantileLaw


def drifted(law: QuantileLaw, factor: float) -> QuantileLaw:
    """Return the law with every length times `factor`, cut off at one token and at the limit.

    A law does not know how long the responses at its limit would have become. With a factor above 1 they stay there; with
    one below 1 they shrink as if the limit had been their length.
    """
    if not (isfinite(factor) and factor > 0):
        raise ValueError(f"factor must be finite and above 0, got {factor}")
    limit = law.limit_tokens
    scaled = [(share, factor * tokens) for share, tokens in law.knots]
    knots: list[tuple[float, float]] = []
    for (q0, x0), (q1, x1) in pairwise(scaled):
        crossings = [(q0 + (q1 - q0) * (bound - x0) / (x1 - x0), bound) for bound in (1.0, limit) if x0 < bound < x1]
        knots += [(q0, min(max(x0, 1.0), limit)), *crossings]
    share, tokens = scaled[-1]
    return QuantileLaw(limit, (*knots, (share, min(max(tokens, 1.0), limit))))


@dataclass(frozen=True, slots=True)
class Drift:
    """Growth from step to step: 0.01 makes lengths 1 % longer in every step, compounded."""

    per_step: float

    def __post_init__(self) -> None:
        if not (isfinite(self.per_step) and self.per_step > -1):
            raise ValueError(f"per_step must be finite and above -1, got {self.per_step}")

    def at(self, law: QuantileLaw, step: int) -> QuantileLaw:
        """Return what the law of step 0 has become at a step."""
        return drifted(law, (1 + self.per_step) ** step)
