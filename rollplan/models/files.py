"""Files read with clear refusals and written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from rollplan.models.errors import Finding, InputError

MAX_BYTES = 64 * 2**20


def read_text(path: Path, kind: str) -> str:
    """Return the text of a file of at most `MAX_BYTES`; raise `InputError` for anything else."""
    try:
        if path.is_dir():
            raise _fault(path, "is a directory", f"give the {kind} file inside it")
        if not path.exists():
            raise _fault(path, "does not exist", f"give the path of a {kind} file")
        if not path.is_file():
            raise _fault(path, "is not a regular file", f"give the path of a {kind} file")
        if path.stat().st_size > MAX_BYTES:
            raise _fault(path, f"is larger than {MAX_BYTES >> 20} MiB", f"a {kind} is a small text file")
        data = path.read_bytes()
    except OSError as error:
        raise _fault(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _fault(path, "is not UTF-8 text", f"a {kind} is a text file") from None
    if "\0" in text:
        raise _fault(path, "is a binary file", f"a {kind} is a text file")
    return text


def holds(path: Path, kind: str) -> bool:
    """Return whether a file is a JSON file of rollplan of this kind (`plan`, `profile`), of this version or another one."""
    try:
        raw = json.loads(read_text(path, kind))
    except (InputError, ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and str(raw.get("format", "")).startswith(f"rollplan/{kind}/")


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically; raise `InputError` if the place cannot be written."""
    try:
        handle, temporary = _temporary(path)
    except OSError as error:
        raise InputError(str(path), [_unwritable(path, error)]) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, os.path.realpath(path))
    except OSError as error:
        os.unlink(temporary)
        raise InputError(str(path), [_unwritable(path, error)]) from None
    except BaseException:
        os.unlink(temporary)
        raise


def writable(path: Path) -> None:
    """Raise `InputError` if a plan could not be written to `path`, without leaving anything there."""
    try:
        if path.is_dir():
            raise _fault(path, "is a directory", "give the path of a file, such as plan.json")
        if path.exists() and not path.is_file():
            raise _fault(path, "is not a regular file", "give the path of a file, such as plan.json")
        handle, temporary = _temporary(path)
    except OSError as error:
        raise InputError(str(path), [_unwritable(path, error)]) from None
    os.close(handle)
    os.unlink(temporary)


def _temporary(path: Path) -> tuple[int, str]:
    """Make an empty file beside the one that `path` leads to, through links if it is one."""
    return tempfile.mkstemp(dir=os.path.dirname(os.path.realpath(path)), prefix=".rollplan.", suffix=".tmp")


def _unwritable(path: Path, error: OSError) -> Finding:
    return Finding(str(path), "", f"cannot be written ({error.strerror})", "choose another path for -o")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _fault(path: Path, problem: str, remedy: str) -> InputError:
    return InputError(str(path), [Finding(str(path), "", problem, remedy)])
