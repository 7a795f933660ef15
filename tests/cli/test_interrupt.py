"""Ctrl-C once lets the search end, twice ends the program."""

from __future__ import annotations

import os
import signal

import pytest

from rollplan.cli.interrupt import Interrupt
from rollplan.models.certified import Limits


def interrupt() -> None:
    """Send Ctrl-C to this process."""
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_only_asks() -> None:
    """The search sees it through its limits and keeps what it has."""
    with Interrupt() as asked:
        limits = Limits(interrupted=asked)
        assert (asked(), limits.stop()) == (False, None)
        interrupt()
        assert (asked(), limits.stop(), limits.part(0.5).stop()) == (True, "interrupted", "interrupted")


def twice() -> None:
    """Interrupt a search twice."""
    with Interrupt():
        interrupt()
        interrupt()


def test_the_second_interrupt_is_meant() -> None:
    """Whoever presses twice does not want to wait for a plan."""
    with pytest.raises(KeyboardInterrupt):
        twice()


def test_the_handler_is_put_back() -> None:
    """A program that uses the command line as a function keeps its own Ctrl-C, also after an error."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is before
