"""Published laws of output lengths, by name.

RollMux (arXiv 2512.11306) Fig. 11: quantiles of two models at two limits, digitised from the vector drawing (0.5 %).
StreamRL (arXiv 2504.15930) Fig. 7: histogram of DeepSeek-R1's lengths, digitised (30 bins; areas integrate to 1.000);
its experiments force these lengths, also scaled to one half and one quarter.
"""

from __future__ import annotations

from rollplan.models.lengths.histogram import histogram_law
from rollplan.models.lengths.quantile import QuantileLaw

_LEVELS = (0.10, 0.25, 0.50, 0.70, 0.80, 0.85, 0.90, 0.95, 0.97, 0.99)
_STREAMRL_EDGES = (818.5, 19928.8)
# fmt: off
_STREAMRL_SHARES = (
    0.1253, 0.1694, 0.1213, 0.1165, 0.0771, 0.0616, 0.0528, 0.0302, 0.0333, 0.0212,
    0.0153, 0.0222, 0.0153, 0.0047, 0.0073, 0.0038, 0.0066, 0.0028, 0.0127, 0.0078,
    0.0078, 0.0193, 0.0059, 0.0071, 0.0080, 0.0104, 0.0090, 0.0106, 0.0059, 0.0087,
)
# fmt: on


def _rollmux(limit_tokens: float, *tokens: float) -> QuantileLaw:
    return QuantileLaw(limit_tokens, tuple(zip(_LEVELS, tokens, strict=True)))


def _streamrl(limit_tokens: int) -> QuantileLaw:
    first, last = (edge * limit_tokens / 20_000 for edge in _STREAMRL_EDGES)
    bins = len(_STREAMRL_SHARES)
    return histogram_law([first + (last - first) * edge / bins for edge in range(bins + 1)], _STREAMRL_SHARES, limit_tokens)


REFERENCE_LENGTHS: dict[str, QuantileLaw] = {
    "7B-4k": _rollmux(4096, 243, 495, 718, 975, 1316, 1543, 1854, 2957, 4096, 4096),
    "7B-8k": _rollmux(8192, 217, 434, 668, 1013, 1343, 1764, 3204, 4982, 6304, 8192),
    "14B-8k": _rollmux(8192, 233, 419, 748, 1120, 1918, 2435, 3112, 3975, 4697, 5691),
    "streamrl-20k": _streamrl(20_000),
    "streamrl-10k": _streamrl(10_000),
    "streamrl-5k": _streamrl(5_000),
}
"""Length laws: by model and token limit (RollMux Fig. 11), and by token limit (StreamRL Fig. 7)."""
