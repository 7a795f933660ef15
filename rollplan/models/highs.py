"""HiGHS without its banner."""

from __future__ import annotations

import highspy


class QuietHighs(highspy.Highs):  # type: ignore[misc]  # highspy is not typed here
    """HiGHS on one thread that prints nothing: its banner comes with the first callback unless output is off by then."""

    def enableCallbacks(self) -> None:  # noqa: N802  # HiGHS calls it from its constructor
        """Switch output off before callbacks are set."""
        self.setOptionValue("output_flag", False)
        self.setOptionValue("threads", 1)
        super().enableCallbacks()
