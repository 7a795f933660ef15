"""Calls under watch: what comes back is passed on, what does not is left behind in time."""

from __future__ import annotations

from threading import Event
from time import monotonic, sleep

import pytest

from rollplan.models.certified import Limits
from rollplan.models.native import run


def test_what_the_call_returns_is_returned() -> None:
    """The watch changes nothing about a call that ends in time."""
    assert run(lambda: "answer", Limits(60)) == "answer"


def test_what_the_call_raises_is_raised_by_the_watch() -> None:
    """So that an infeasible problem or a bug is not taken for a limit."""

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(fails, Limits(60))


def test_a_call_that_does_not_come_back_is_left_behind_after_its_limit_and_patience() -> None:
    """Half a second of limit and a tenth of patience; ten seconds would mean that nobody watched."""
    never, started = Event(), monotonic()
    assert run(never.wait, Limits(0.5), patience_s=0.1) is None
    assert 0.5 <= monotonic() - started < 10
    never.set()


def test_ctrl_c_leaves_a_call_behind() -> None:
    """The word from outside counts as the clock does."""
    never, begun = Event(), Event()

    def call() -> bool:
        begun.set()
        return never.wait()

    assert run(call, Limits(600, interrupted=begun.is_set), patience_s=0.1) is None
    never.set()


def test_a_call_that_ends_within_its_patience_is_heard() -> None:
    """A solver that keeps its own time limit is a little late at most."""
    limits = Limits(0.1)

    def a_little_late() -> str:
        while not limits.stop():
            sleep(0.01)
        sleep(0.1)
        return "late"

    assert run(a_little_late, limits, patience_s=30) == "late"


def test_nothing_is_begun_after_the_limit() -> None:
    """A thread that starts after the end would only be left behind."""
    begun: list[int] = []
    assert run(lambda: begun.append(1), Limits(0.0)) is None
    assert begun == []
