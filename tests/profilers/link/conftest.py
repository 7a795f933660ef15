"""Links that are made for a test, and go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.profilers.link.cable import Cable, laid


@pytest.fixture
def cable() -> Iterator[Callable[..., Cable]]:
    """Return a function that lays a cable: shaped by tc at its first end, or None; so many seconds long, or a veth pair."""
    with ExitStack() as stack:
        yield lambda shape=None, delay_s=None: stack.enter_context(laid(shape, delay_s))
