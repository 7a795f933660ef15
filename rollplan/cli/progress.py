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
        if self._news and now - self._printed >= (0.1 if self._live else 1.0):
            self._print(now)

    @property
    def _news(self) -> bool:
        """Whether there is something to show that was not shown."""
        if self._quiet or self._best[0] == float("inf"):
            return False
        return self._shown is None or self._best[0] < self._shown[0] - 0.005 or self._best[1] > self._shown[1] + 0.005

    def _print(self, now: float) -> None:
        self._printed, self._shown = now, self._best
        seconds, (value, bound) = now - self._started, self._best
        gap = f"{100 * (value - bound) / bound:6.2f} %" if bound > 0 else "     ?"
        line = f"{seconds:7.1f} s   incumbent {value:12.2f} $/h   bound {bound:12.2f} $/h   gap {gap}"
        note(f"\r{line}" if self._live else line, end="" if self._live else "\n")

    def done(self) -> None:
        """Show the last news, and end the line on a terminal."""
        if self._news:
            self._print(monotonic())
        if self._shown is not None and self._live:
            note("")
