"""Ctrl-C that lets the search end: the first one asks it to stop, a second one between two steps kills."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """A context in which the first SIGINT only sets `asked`."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Return whether the user asked to stop."""
        return self.asked

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
