"""The law of output lengths: quantiles, linear between them.

Every other form is brought into this one. A histogram is exactly so; a trace is a staircase, so exactly so too; a smooth
law is so to within what the spacing of its quantiles says. Means and longest-of-n are therefore closed forms for all.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite

Knots = tuple[tuple[float, float], ...]
"""Pairs (share of the responses, tokens), both ascending."""


@dataclass(frozen=True, slots=True)
class QuantileLaw:
    """A length distribution given by quantiles (share, tokens), linear between them; never beyond `limit_tokens`.

    Below the first quantile the law falls linearly to one token, above the last it rises linearly to the limit, unless
    the shares 0 and 1 are given. Two quantiles of one share are a jump: no response has a length in between.

    knots: the quantiles with both ends.
    """

    limit_tokens: float
    quantiles: Knots
    knots: Knots = field(init=False, repr=False, compare=False)
    _shares: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (isfinite(self.limit_tokens) and self.limit_tokens >= 1):
            raise ValueError(f"limit_tokens must be finite and at least 1, got {self.limit_tokens}")
        given = self.quantiles
        knots = (
            *([] if given and given[0][0] == 0 else [(0.0, 1.0)]),
            *given,
            *([] if given and given[-1][0] == 1 else [(1.0, self.limit_tokens)]),
        )
        for (q0, x0), (q1, x1) in pairwise(knots):
            if not (0 <= q0 <= q1 <= 1 and 1 <= x0 <= x1 <= self.limit_tokens):
                raise ValueError(
                    f"quantiles must be ascending shares in 0 to 1 with ascending tokens in 1 to {self.limit_tokens:g}, "
                    f"got {x0:g} tokens at {q0:g} before {x1:g} tokens at {q1:g}"
                )
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "_shares", tuple(share for share, _ in knots))

    @property
    def share_at_limit(self) -> float:
        """Share of the responses that the limit cuts off."""
        return next((1 - share for share, tokens in self.knots if tokens >= self.limit_tokens), 0.0)

    def quantile(self, q: float) -> float:
        """Return the length in tokens below which a share `q` (0 to 1) of the responses ends."""
        if not 0 <= q <= 1:
            raise ValueError(f"q must be in 0 to 1, got {q}")
        right = bisect_left(self._shares, q)
        q1, x1 = self.knots[right]
        if q == q1:
            return x1
        q0, x0 = self.knots[right - 1]
        return x0 + (x1 - x0) * (q - q0) / (q1 - q0)

    def mean(self) -> float:
        """Return the mean length in tokens."""
        return sum((q1 - q0) * (x0 + x1) / 2 for (q0, x0), (q1, x1) in pairwise(self.knots))

    def mean_longest(self, responses: int) -> float:
        r"""Return the expected longest of `responses` independent lengths in tokens.

        .. math:: E[\max] = \int_0^1 Q(q)\, n q^{n-1}\, dq = Q(1) - \int q^n\, dQ(q)

        integrated exactly on each linear piece of the quantile function Q; the second form has no large terms that
        cancel on steep pieces, and holds for jumps.
        """
        if responses < 1:
            raise ValueError(f"responses must be at least 1, got {responses}")
        return self.knots[-1][1] - sum((x1 - x0) * _mean_power(q0, q1, responses) for (q0, x0), (q1, x1) in pairwise(self.knots) if x1 > x0)


def _mean_power(low: float, high: float, power: int) -> float:
    """Return the mean of q^power for q from `low` to `high`."""
    if high - low < 1e-12:
        return float(high**power)
    return float((high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low)))
