"""Text to stdout and stderr. A reader that has gone away changes neither the work nor its exit code."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rollplan.models.errors import Finding, InputError


def tell(text: str, end: str = "\n") -> None:
    """Write an answer to stdout; raise `InputError` if there is no room for it."""
    try:
        _write(sys.stdout, text + end)
    except OSError as error:
        _silence(sys.stdout)
        raise InputError("stdout", [Finding("stdout", "", f"cannot be written ({error.strerror})", "send it elsewhere")]) from None


def note(text: str, end: str = "\n") -> None:
    """Write a diagnostic to stderr, if anybody can read it."""
    try:
        _write(sys.stderr, text + end)
    except OSError:
        _silence(sys.stderr)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _silence(stream)


def _silence(stream: TextIO) -> None:
    """Let everything that is still to be written, or still in the buffer, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
