"""Compilation of inner loops by numba where it is installed (extra `fast`); the same functions run without it, slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_njit: Callable[..., Any] | None
try:
    from numba import njit as _njit
except ImportError:
    _njit = None

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
HAVE_COMPILER = _njit is not None


def compiled(function: FunctionT) -> FunctionT:
    """Compile a function at its first call, without Python's lock, and keep the code on disk where that can be written."""
    if _njit is None:
        return function
    made: FunctionT
    try:
        made = _njit(nogil=True, cache=True)(function)
    except RuntimeError:  # there is no folder for the code
        made = _njit(nogil=True)(function)
    return made
