"""Ctrl-C (and SIGTERM, which CI sends) that lets the search end: the first asks it to stop, a second one kills."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """A context in which the first SIGINT or SIGTERM only sets `asked`."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Return whether the user asked to stop."""
        return self.asked

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
