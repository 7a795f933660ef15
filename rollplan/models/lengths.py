"""Output lengths: published quantiles as a law, and what worst-case planning leaves on the table.

Source: RollMux (arXiv 2512.11306) Fig. 11, digitised from the vector drawing (about 0.5 %).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class QuantileLaw:
    """A length distribution given by quantiles in tokens, linear between them and capped at `limit_tokens`.

    Below the first quantile the law falls linearly to one token; above the last it rises linearly to the limit.
    """

    limit_tokens: float
    quantiles: tuple[tuple[float, float], ...]

    def _points(self) -> list[tuple[float, float]]:
        return [(0.0, 1.0), *self.quantiles, (1.0, self.limit_tokens)]

    def quantile(self, q: float) -> float:
        """Return the length in tokens below which a share `q` (0 to 1) of the responses ends."""
        if not 0 <= q <= 1:
            raise ValueError(f"q must be in 0 to 1, got {q}")
        for (q0, x0), (q1, x1) in pairwise(self._points()):
            if q <= q1:
                return x0 + (x1 - x0) * (q - q0) / (q1 - q0)
        return self.limit_tokens

    def mean(self) -> float:
        """Return the mean length in tokens."""
        return sum((q1 - q0) * (x0 + x1) / 2 for (q0, x0), (q1, x1) in pairwise(self._points()))

    def mean_longest(self, responses: int) -> float:
        r"""Return the expected longest of `responses` independent lengths in tokens.

        .. math:: E[\max] = \int_0^1 Q(q)\, n q^{n-1}\, dq

        integrated exactly on each linear piece of the quantile function Q.
        """
        total = 0.0
        for (q0, x0), (q1, x1) in pairwise(self._points()):
            slope = (x1 - x0) / (q1 - q0)
            total += (x0 - slope * q0) * (q1**responses - q0**responses)
            total += slope * responses / (responses + 1) * (q1 ** (responses + 1) - q0 ** (responses + 1))
        return total


_LEVELS = (0.10, 0.25, 0.50, 0.70, 0.80, 0.85, 0.90, 0.95, 0.97, 0.99)


def _law(limit_tokens: float, *tokens: float) -> QuantileLaw:
    return QuantileLaw(limit_tokens, tuple(zip(_LEVELS, tokens, strict=True)))


REFERENCE_LENGTHS: dict[str, QuantileLaw] = {
    "7B-4k": _law(4096, 243, 495, 718, 975, 1316, 1543, 1854, 2957, 4096, 4096),
    "7B-8k": _law(8192, 217, 434, 668, 1013, 1343, 1764, 3204, 4982, 6304, 8192),
    "14B-8k": _law(8192, 233, 419, 748, 1120, 1918, 2435, 3112, 3975, 4697, 5691),
}
"""Length laws by the names of RollMux Fig. 11 (model and token limit)."""
