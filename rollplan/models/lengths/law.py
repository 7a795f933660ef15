"""What planners may ask of a law of output lengths."""

from __future__ import annotations

from typing import Protocol


class LengthLaw(Protocol):
    """How many tokens the responses of one job have, from 1 to `limit_tokens`."""

    @property
    def limit_tokens(self) -> float:
        """Tokens at which the engine cuts a response off."""

    @property
    def share_at_limit(self) -> float:
        """Share of the responses that are cut off."""

    def quantile(self, q: float) -> float:
        """Return the length in tokens below which a share `q` (0 to 1) of the responses ends."""

    def mean(self) -> float:
        """Return the mean length in tokens."""

    def mean_longest(self, responses: int) -> float:
        """Return the expected longest of so many independent lengths in tokens."""
