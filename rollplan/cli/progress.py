"""Progress of a search on stderr: incumbent, bound, gap, seconds, at most once a second and only when it changed."""

from __future__ import annotations

import sys
from time import monotonic

from rollplan.cli.output import note


class Progress:
    """Call it with the incumbent and the bound; it prints when there is something new to say."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._started = monotonic()
        self._printed = float("-inf")
        self._shown: tuple[float, float] | None = None
        self._best = (float("inf"), float("-inf"))

    def __call__(self, value: float, bound: float | None) -> None:
        """Take a report; both numbers only improve, whatever the solver says."""
        self._best = (min(self._best[0], value), max(self._best[1], bound if bound is not None else float("-inf")))
        now = monotonic()
        improved = self._shown is None or self._best[0] < self._shown[0] - 0.005 or self._best[1] > self._shown[1] + 0.005
        if not self._quiet and improved and now - self._printed >= (0.1 if self._live else 1.0):
            self._printed, self._shown = now, self._best
            self._print(now - self._started)

    def _print(self, seconds: float) -> None:
        value, bound = self._best
        gap = f"{100 * (value - bound) / bound:6.2f} %" if bound > 0 else "     ?"
        line = f"{seconds:7.1f} s   incumbent {value:12.2f} $/h   bound {bound:12.2f} $/h   gap {gap}"
        note(f"\r{line}" if self._live else line, end="" if self._live else "\n")

    def done(self) -> None:
        """End the line on a terminal."""
        if self._shown is not None and self._live:
            note("")
