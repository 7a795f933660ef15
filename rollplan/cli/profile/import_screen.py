"""The screen of `profile import`: for every run its mode, its steps, medians of its phases, lengths, and warnings."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from statistics import median
from time import monotonic

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.output import note
from rollplan.cli.tables import labelled, new_table, percent, seconds_text
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Spread
from rollplan.models.profile.run import PHASES, AmountName, LoggedRun, LoggedStep

_SHOWN = 5
"""Runs that are shown in full."""
_REASONS = 8
_LENGTHS: tuple[tuple[AmountName, str], ...] = (
    ("response_mean", "response mean"),
    ("response_max", "max"),
    ("response_min", "min"),
    ("prompt_mean", "prompt mean"),
    ("sequence_mean", "prompt and response mean"),
)
_RATES: tuple[tuple[AmountName, str], ...] = (
    ("samples", "responses per step"),
    ("tokens", "tokens per step"),
    ("tokens_per_gpu_s", "tokens/s per GPU"),
    ("train_tokens_per_s", "trained tokens/s"),
    ("generate_tokens_per_s", "generated tokens/s"),
)


class Progress:
    """Says on a terminal how much of a large file has been read; small ones are done before it would be seen."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._printed = monotonic()
        self._shown = False

    def __call__(self, share: float) -> None:
        """Take the share of this pass."""
        if self._live and monotonic() - self._printed > 1.0:
            self._printed, self._shown = monotonic(), True
            note(f"\rread {share:6.1%}", end="")

    def done(self) -> None:
        """End the line on a terminal."""
        if self._shown:
            note("")


def import_screen(profile: Profile) -> RenderableType:
    """Return all runs of an imported log, the first ones in full."""
    runs = profile.runs
    count = f"{len(runs)} run{'s' if len(runs) != 1 else ''} that can be used"
    parts: list[RenderableType] = [Text(f"{profile.name}   {runs[0].framework}, {count}")]
    for run in runs[:_SHOWN]:
        parts += [Text(), *_run(run)]
    if len(runs) > _SHOWN:
        parts += [Text(), Text(f"and {len(runs) - _SHOWN} more runs; --json shows them")]
    return Group(*parts)


def _run(run: LoggedRun) -> list[RenderableType]:
    parts: list[RenderableType] = [
        labelled("source", f"{run.source}: {run.dialect}"),
        labelled("mode", f"{run.mode}: {run.mode_reason}"),
        labelled("GPUs", "not said" if run.gpus is None else f"{run.gpus}, as the log's own rates imply"),
        labelled("steps", f"{len(run.kept)} of {len(run.steps)} count"),
    ]
    parts += [labelled("dropped", text) for text in _dropped(run.steps)]
    parts += [Text(), _phases(run.kept), Text()]
    parts += [labelled(kind, text) for kind, names in (("lengths", _LENGTHS), ("work", _RATES)) if (text := _amounts(run.kept, names))]
    return parts + [labelled("warning", text) for text in run.warnings]


def _dropped(steps: Sequence[LoggedStep]) -> list[str]:
    """Return who was dropped and why; steps of one kind of reason together."""
    alike: dict[str, list[LoggedStep]] = {}
    for step in steps:
        if step.dropped is not None:
            alike.setdefault(_kind(step.dropped), []).append(step)
    texts = []
    for kind, those in alike.items():
        numbers = ", ".join(str(step.step) for step in those[:_REASONS]) + (", ..." if len(those) > _REASONS else "")
        reason = those[0].dropped if len(those) == 1 else kind
        texts.append(f"step{'s' if len(those) != 1 else ''} {numbers}: {reason}")
    return texts


def _kind(reason: str) -> str:
    """Return a reason without its numbers, so that steps of one kind stand together."""
    return re.sub(r" ?\(?[-+]?[0-9][0-9.,]* ?s?\)?", "", reason.partition(":")[0])


def _phases(steps: Sequence[LoggedStep]) -> Table:
    """Return medians and quartiles of every phase, and its share of the median step."""
    table = new_table(("phase", "left"), ("median", "right"), ("of step", "right"), ("quartiles", "right"), ("steps", "right"))
    totals = [step.step_s for step in steps if step.step_s is not None]
    whole = median(totals) if totals else None
    for name in PHASES:
        if values := [step.phases[name] for step in steps if name in step.phases]:
            table.add_row(name, *_row(values, whole))
    if gaps := [gap for step in steps if step.total != "summed" and (gap := step.unexplained_s) is not None]:
        table.add_row("(in no phase)", *_row([max(0.0, gap) for gap in gaps], whole))
    if totals:
        kinds = Counter(step.total for step in steps if step.step_s is not None)
        table.add_row(f"step ({kinds.most_common(1)[0][0]})", *_row(totals, whole))
    beside = sorted({name for step in steps for name in step.beside})
    for aside in beside:
        row = _row([step.beside[aside] for step in steps if aside in step.beside], None)
        table.add_row(f"beside: {aside.replace('_', ' ')}", *row)
    return table


def _row(values: Sequence[float], whole: float | None) -> tuple[str, str, str, str]:
    spread = Spread.of(values)
    share = percent(spread.median / whole, 1) if whole else ""
    return seconds_text(spread.median), share, f"{seconds_text(spread.low)} - {seconds_text(spread.high)}", str(spread.repeats)


def _amounts(steps: Sequence[LoggedStep], names: Sequence[tuple[AmountName, str]]) -> str:
    """Return medians of amounts, those that the log has."""
    found = []
    for name, words in names:
        if values := [step.amounts[name] for step in steps if name in step.amounts]:
            found.append(f"{words} {median(values):,.0f}")
    clipped = [step.amounts["response_clipped"] for step in steps if "response_clipped" in step.amounts]
    if names is _LENGTHS and clipped:
        found.append(f"clipped {percent(median(clipped), 1)}")
    return ", ".join(found)
