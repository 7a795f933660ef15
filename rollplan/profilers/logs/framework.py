"""What a framework's reader gives: records from lines, and a reading of the records of one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.lines import Line

FALLBACK = "timers"
"""The part of records that count only in a log that has no others."""
LONGEST_S = 1e7
"""Longer times (115 days) are misread or damaged."""
_BIGGEST = 1e18
_LAST_STEP = 10**9

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True)
class Record:
    """What one line, block or table says of one step, in the framework's own keys.

    part: writers of one run that count steps each for itself (trainer, rollout side). whole: False where the log ends
    inside it.
    """

    line: int
    step: int
    values: Mapping[str, float]
    part: str = "step"
    actor: str | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that a run says of one step. repeated: the line of the same step after a resume, which counts instead."""

    line: int
    step: int
    values: Mapping[str, float]
    whole: bool = True
    repeated: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One run in canonical names, before it is judged.

    gaps: whether seconds that are in no phase are to be expected, and why. gpus: as the log's own numbers imply.
    """

    dialect: str
    mode: Mode
    mode_reason: str
    steps: tuple[LoggedStep, ...]
    warnings: tuple[str, ...] = ()
    gpus: int | None = None
    gaps: str | None = None


@dataclass(frozen=True, slots=True)
class Framework:
    """How the logs of one framework are recognised and read.

    looked_for: its mark in words. marks: text, one of which stands in every line that matches `mark`. needles: text, one
    of which stands in every line that `records` needs. interpret: gets the steps of one run, oldest first.
    """

    name: str
    looked_for: str
    mark: re.Pattern[str]
    marks: tuple[bytes, ...]
    needles: tuple[bytes, ...]
    records: Callable[[Iterable[Line]], Iterator[Record]] = field(repr=False)
    interpret: Callable[[Sequence[Gathered]], Reading] = field(repr=False)


def seconds(value: float | None) -> float | None:
    """Return a time if it can be one."""
    return value if value is not None and 0 <= value <= LONGEST_S else None


def summed(values: Mapping[str, float], names: Mapping[str, Name]) -> dict[Name, float]:
    """Return seconds by canonical name; keys of the same name are added."""
    found: dict[Name, float] = {}
    for key, name in names.items():
        if (value := seconds(values.get(key))) is not None:
            found[name] = found.get(name, 0.0) + value
    return found


def first(values: Mapping[str, float], names: Mapping[str, Name]) -> dict[Name, float]:
    """Return values by canonical name; of keys of the same name the first that is there."""
    found: dict[Name, float] = {}
    for key, name in names.items():
        if (value := values.get(key)) is not None and name not in found and abs(value) <= _BIGGEST:
            found[name] = value
    return found


def logged(
    gathered: Gathered,
    phases: Mapping[PhaseName, float],
    step_s: float | None,
    mended: bool = False,
    beside: Mapping[BesideName, float] | None = None,
    amounts: Mapping[AmountName, float] | None = None,
    summable: bool = False,
) -> LoggedStep:
    """Return a step with a stated total, or, if `summable`, with the sum of its phases."""
    total = seconds(step_s)
    times = {name: value for name, value in phases.items() if seconds(value) is not None}
    by_sum = total is None and summable and bool(times)
    dropped = None
    if gathered.repeated is not None:
        dropped = f"repeated after the run was resumed (line {gathered.repeated})"
    elif not gathered.whole:
        dropped = f"cut off (line {gathered.line})"
    return LoggedStep(
        step=min(gathered.step, _LAST_STEP),
        step_s=sum(times.values()) if by_sum else total,
        total="summed" if by_sum else "none" if total is None else "stated and mended" if mended else "stated",
        phases=times,
        beside={name: value for name, value in (beside or {}).items() if seconds(value) is not None},
        amounts=dict(amounts or {}),
        dropped=dropped,
    )


def whole_number(estimates: Iterable[float], tolerance: float = 0.03) -> int | None:
    """Return the whole number that estimates agree on: their median, if near one, and most of them near it."""
    values = sorted(value for value in estimates if 0.5 <= value <= 1e6)
    if not values:
        return None
    near = round(values[len(values) // 2])
    agree = sum(abs(value - near) <= tolerance * near for value in values)
    return near if near and agree * 2 > len(values) else None
