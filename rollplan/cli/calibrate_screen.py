"""A calibration as a screen: each number before and after, the errors, what was left out, and the lines to paste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.models.profile.calibration import Calibration, Comparison, Errors, Number, NumberName
from rollplan.models.profile.calibration import Group as Kind

_NAMES: dict[NumberName, tuple[str, str]] = {
    "scale": ("engine.scale", ""),
    "overhead_ms": ("engine.overhead", " ms"),
    "mfu": ("trainer.mfu", ""),
    "trainer_overhead_s": ("trainer.overhead", " s"),
    "forward": ("log-prob passes", " x"),
    "interference_rollout": ("interference.rollout", ""),
    "interference_train": ("interference.train", ""),
    "sync_s": ("sync", " s"),
}
_KINDS: dict[Kind, str] = {
    "decode": "decode steps",
    "rollout": "generation phases",
    "update": "updates",
    "forward": "log-prob passes",
    "interference_rollout": "rollout beside training",
    "interference_train": "training beside rollout",
    "sync": "weight syncs",
}


def calibration_screen(found: Calibration) -> RenderableType:
    """Return everything that a calibration found."""
    return Group(*_parts(found))


def _parts(found: Calibration) -> Iterator[RenderableType]:
    changed = sum(number.origin is not None for number in found.numbers)
    yield Text(f"calibration {found.job}   {found.model}, {changed} of {len(found.numbers)} numbers from measurements")
    yield _numbers(found)
    yield Text()
    yield Text("error of predictions   |predicted / measured - 1|; unseen: by a fit without the sample")
    yield _errors(found.comparisons)
    yield Text()
    for note in dict.fromkeys(number.note for number in found.numbers if number.note is not None):
        about = ", ".join(_NAMES[number.name][0] for number in found.numbers if number.note == note)
        yield labelled("note", f"{about}: {note}")
    for note in found.notes:
        yield labelled("note", note)
    for comparison in found.comparisons:
        if comparison.samples > 1:
            yield labelled("worst", f"{_KINDS[comparison.group]}: {comparison.after.worst_at}")
    for sample in found.left_out:
        yield labelled("left out", f"{sample.sample}: {sample.reason}")
    if settings := found.settings():
        yield Text()
        yield Text("in the job's `split`")
        for line in snippet(settings):
            yield Text(f"  {line}")


def snippet(settings: dict[str, Any]) -> list[str]:
    """Return settings as lines of YAML."""
    return [
        f"{key}: {{{', '.join(f'{name}: {of}' for name, of in value.items())}}}" if isinstance(value, dict) else f"{key}: {value}"
        for key, value in settings.items()
    ]


def _numbers(found: Calibration) -> Table:
    table = new_table(
        ("number", "left"),
        ("default", "right"),
        ("calibrated", "right"),
        ("9 times in 10", "right"),
        ("samples", "right"),
        ("from", "left"),
    )
    for number in found.numbers:
        name, unit = _NAMES[number.name]
        default = f"{number.default:.3g}{unit}"
        if number.origin is None:
            table.add_row(name, default, "kept", "", "", "")
        else:
            source = f"{number.origin.kind}: {number.origin.source}"
            table.add_row(name, default, f"{number.value:.3g}{unit}", _interval(number), str(number.samples), source)
    return table


def _interval(number: Number) -> str:
    return "-" if number.low is None or number.high is None else f"{number.low:.3g} to {number.high:.3g}"


def _errors(comparisons: tuple[Comparison, ...]) -> Table:
    table = new_table(("error of", "left"), ("samples", "right"), ("before", "right"), ("after", "right"), ("unseen", "right"))
    for comparison in comparisons:
        cells = (_share(errors) for errors in (comparison.before, comparison.after, comparison.unseen))
        table.add_row(_KINDS[comparison.group], str(comparison.samples), *cells)
    return table


def _share(errors: Errors | None) -> str:
    return "-" if errors is None else f"{percent(errors.median, 1)}, worst {percent(errors.worst, 1)}"
