"""The memory bill as a screen and as plain data: every line with the arithmetic behind it."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table
from rollplan.models.memory.bill import Peak
from rollplan.models.memory.setup import Setup
from rollplan.planner.fit import Fit


def fit_screen(found: Fit) -> RenderableType:
    """Return the verdict, the lines of every peak, what to change, and the fewest GPUs."""
    verdict = "does not fit" if not found.bill.fits else "fits, with less than 10 % to spare" if found.bill.tight else "fits"
    layouts = ", ".join(f"{role} {model.layout} on {found.pools[role]}" for role, model in found.setup.roles.items())
    parts: list[RenderableType] = [Text(f"{found.job}   {verdict}"), labelled("layouts", layouts), Text()]
    for peak in (*found.bill.peaks, *(host for host in found.bill.host_peaks if host.gib > 0)):
        parts += [Text(f"{peak}{_margin(peak)}"), _lines(found, peak), Text()]
    parts.append(labelled("most", found.sentence))
    parts += [labelled("fits if", str(option)) for option in found.options]
    parts += [labelled("no way", reason) for reason in found.hopeless]
    parts.append(labelled("fewest", _fewest(found)))
    return Group(*parts)


def fit_data(found: Fit) -> dict[str, Any]:
    """Return the same as plain data."""
    peaks = [
        {
            "roles": list(peak.roles),
            "where": peak.where,
            "phase": peak.phase,
            "gib": peak.gib,
            "memory_gib": peak.memory_gib,
            "margin_gib": peak.margin_gib,
            "fits": peak.fits,
            "tight": peak.tight,
        }
        for peak in (*found.bill.peaks, *found.bill.host_peaks)
    ]
    lines = [
        {"role": line.role, "phase": line.phase, "term": line.term, "gib": line.gib, "where": line.where, "formula": line.formula}
        for line in found.bill.lines
    ]
    options = [
        {"change": list(option.words), "gib": option.gib, "host_gib": option.host_gib, "tight": option.bill.tight}
        for option in found.options
    ]
    return {
        "job": found.job,
        "fits": found.bill.fits,
        "tight": found.bill.tight,
        "layouts": {role: str(model.layout) for role, model in found.setup.roles.items()},
        "pools": dict(found.pools),
        "peaks": peaks,
        "lines": lines,
        "reasons": list(found.bill.reasons),
        "explanation": found.sentence,
        "options": options,
        "hopeless": list(found.hopeless),
        "minimum": {"separate": _count(found.minimum.separate), "shared": _count(found.minimum.shared)},
    }


def _margin(peak: Peak) -> str:
    return "" if peak.margin_gib is None else f", {abs(peak.margin_gib):.1f} GiB {'free' if peak.fits else 'too much'}"


def _lines(found: Fit, peak: Peak) -> Table:
    table = new_table(("role", "left"), ("term", "left"), ("GiB", "right"), ("bytes", "left"))
    for line in found.bill.at(peak):
        if line.gib > 0:
            table.add_row(line.role, line.term, f"{line.gib:.1f}", line.formula)
    return table


def _fewest(found: Fit) -> str:
    separate, shared = _count(found.minimum.separate), _count(found.minimum.shared)
    return f"{_number(separate)} with roles on GPUs of their own, {_number(shared)} if all take turns (memory alone, any speed)"


def _number(count: int | None) -> str:
    return "none up to 64 GPUs" if count is None else f"{count} GPU{'s' if count != 1 else ''}"


def _count(setup: Setup | None) -> int | None:
    return None if setup is None else setup.gpus
