"""Arguments that several verbs read."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rollplan.models.errors import Finding, InputError

if TYPE_CHECKING:
    from rollplan.models.layout import Layout

_SHARE = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*")


def share(text: str, option: str) -> float:
    """Return `2%` or `0.02` as 0.02; a bare number of 1 or more is refused, because 2 could mean either."""
    found = _SHARE.fullmatch(text)
    if not found:
        raise InputError("command line", [Finding(option, f"`{text}`", "is not a share", "write 2% or 0.02")])
    value = float(found[1])
    if not found[2] and value >= 1:
        raise InputError("command line", [Finding(option, f"`{text}`", "could be a share or per cent", f"write {found[1]}%")])
    return value / 100 if found[2] else value


def output_path(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a place that cannot be written or that holds something else than a plan."""
    _place(path, force, "plan")


def profile_path(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a place that cannot be written or that holds something else than a profile."""
    _place(path, force, "profile")


def run_profile_path(path: Path) -> None:
    """The same for `rollplan run`, whose --force speaks of the earlier run and of no other file."""
    _place(path, False, "profile", "choose another path")


def trace_path(path: Path) -> None:
    """Refuse, before any work is done, a place that cannot be written or that holds something else than a trace."""
    from rollplan.models.files import writable

    writable(path)
    if path.exists() and not _begins(path, b'{"traceEvents"'):
        raise InputError(str(path), [Finding("--trace", f"`{path}`", "exists and is not a trace", "choose another path")])


def _begins(path: Path, text: bytes) -> bool:
    """Return whether a file, however long, begins so."""
    with path.open("rb") as file:
        return file.read(len(text)) == text


def _place(path: Path, force: bool, kind: str, remedy: str = "choose another path, or add --force") -> None:
    from rollplan.models.files import holds, writable

    writable(path)
    if path.exists() and not force and not holds(path, kind):
        raise InputError(str(path), [Finding("-o", f"`{path}`", f"exists and is not a {kind}", remedy)])


def layout(text: str, option: str) -> Layout:
    """Return a parallel layout, such as `tp4-pp2-dp8`."""
    from rollplan.models.layout import Layout

    try:
        return Layout.parse(text)
    except ValueError as error:
        raise InputError("command line", [Finding(option, f"`{text}`", f"is not a layout: {error}", "write tp4-pp2-dp8")]) from None


def price_per_h(text: str, option: str) -> float:
    """Return `3.2 $/h` as dollars per hour."""
    from pydantic_core import PydanticCustomError

    from rollplan.models.units import PRICE

    try:
        return PRICE.parse(text)
    except PydanticCustomError as error:
        context = error.context or {}
        raise InputError("command line", [Finding(option, f"`{text}`", context["problem"], context["remedy"])]) from None


def seconds(low_s: float = 0.0, high_s: float = inf) -> Callable[[str | float], float]:
    """Return a reader of `--time-limit`: `90`, which is in seconds, or `90 s`, `90s`, `1.5 min`, `2 h` as in a scenario."""

    def read(text: str | float) -> float:
        try:
            # A default comes as the number that it is.
            value = float(text)
        except ValueError:
            value = _duration_s(str(text))
        if not low_s <= value <= high_s:
            limits = f"at least {low_s:g} s" if high_s == inf else f"from {low_s:g} to {high_s:g} s"
            raise typer.BadParameter(f"`{text}` is not {limits}; write seconds, or a time with its unit, such as `2 min`")
        return value

    return read


def _duration_s(text: str) -> float:
    from pydantic_core import PydanticCustomError

    from rollplan.models.strict import show
    from rollplan.models.units import DURATION

    try:
        return DURATION.parse(text)
    except PydanticCustomError as error:
        raise typer.BadParameter(f"{show(text)} {error.message()}") from None


def whole_numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Return `1,2,4` as ascending whole numbers from 1, each once; None for None."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 and int(part) for part in parts):
        raise InputError("command line", [Finding(option, f"`{text}`", "is not a list of whole numbers from 1", "write 1,2,4")])
    return tuple(sorted({int(part) for part in parts}))
