"""A measured engine as a screen."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.models.fits.ptl import PtlFits
from rollplan.models.profile.decode import FLOOR, DecodeCurve, agree
from rollplan.models.profile.file import Profile


def rollout_screen(profile: Profile, before: Profile | None = None) -> RenderableType:
    """Return the table of each tp with its spread, prefill, capacity and fits, and what changed since an earlier profile."""
    section, origin = profile.decode, profile.origin
    assert section is not None, "the caller has measured it"
    threads = f", {section.compute_threads} compute thread{'' if section.compute_threads == 1 else 's'}" if section.compute_threads else ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items()))
    parts: list[RenderableType] = [
        Text(f"rollout {section.model}   {origin.engine} on {origin.device}{threads}, {origin.weights} weights"),
        labelled("with", f"{versions}; {', '.join(f'{key} {value}' for key, value in sorted(section.settings.items()))}"),
    ]
    for curve in section.curves:
        parts += [Text(), *_curve(curve)]
        if before and before.decode and before.decode.model == section.model and before.origin.device == origin.device:
            known = [other for other in before.decode.curves if other.tp == curve.tp]
            parts += [labelled("before", moved(other, curve)) for other in known]
    parts += [labelled("warning", warning) for warning in profile.warnings]
    return Group(*parts)


def moved(before: DecodeCurve, now: DecodeCurve) -> str:
    """Return how far the medians of common points moved, and how many of them agree within their stated spread."""
    known = {(point.batch, point.context_tokens): point.ms for point in before.points}
    pairs = [(known[at], point.ms) for point in now.points if (at := (point.batch, point.context_tokens)) in known]
    if not pairs:
        return "the file had no point in common with these"
    same = sum(agree(old, new) for old, new in pairs)
    worst = max((new.median / old.median - 1 for old, new in pairs), key=abs)
    return f"{same} of {len(pairs)} points agree within their spread and {FLOOR:.0%}; largest change {100 * worst:+.1f} %"


def _curve(curve: DecodeCurve) -> list[RenderableType]:
    title = Text(f"tp {curve.tp}: ms per decode step, and half the quartile distance; columns are tokens per sequence")
    kv = "not reported" if curve.kv_tokens is None else f"{curve.kv_tokens} tokens"
    lines: list[RenderableType] = [title, _table(curve), labelled("room", f"KV cache {kv}, {curve.max_num_seqs} slots")]
    if curve.prefill is None:
        lines.append(labelled("prefill", "not measured"))
    else:
        cost, of = curve.prefill.s_per_token, curve.prefill
        what = f"{1e6 * cost.median:.3g} us per prompt token (+-{percent(cost.relative, 1)})"
        lines.append(labelled("prefill", f"{what}, with prompts of {of.prompt_tokens} tokens in a batch of {of.batch}"))
    if curve.fits is not None:
        lines += _fits(curve.fits)
    return lines


def _table(curve: DecodeCurve) -> Table:
    table = new_table(("batch", "right"), *((str(context), "right") for context in curve.contexts))
    cells = {(point.batch, point.context_tokens): point.ms for point in curve.points}
    for batch in curve.batches:
        spreads = [cells.get((batch, context)) for context in curve.contexts]
        table.add_row(str(batch), *("-" if ms is None else f"{ms.median:.3g} +-{percent(ms.relative, 1)}" for ms in spreads))
    return table


def _fits(fits: PtlFits) -> list[RenderableType]:
    a = fits.affine
    law = f"{a.fixed_ms:.3g} + {a.per_sequence_ms:.3g} B + {a.per_kilotoken_ms:.3g} B C / 1000 ms"
    lines = [f"{law}: error {percent(a.median_error, 1)} median, {percent(a.worst_error, 1)} worst"]
    if fits.convex is None:
        lines.append("convex curve: not fitted, cvxpy is missing (pip install 'rollplan[fit]')")
    else:
        lines.append(f"convex curve: error {percent(fits.convex.median_error, 1)} median, {percent(fits.convex.worst_error, 1)} worst")
    raw = fits.raw
    rises = "rise with the batch everywhere" if raw.monotone else f"fall in {raw.falls:.0%} of neighbours, by {raw.worst_fall:.1%} at most"
    bends = "are convex" if raw.convex else f"{raw.dents:.0%} lie above the chord of their neighbours, by {raw.worst_dent:.1%} at most"
    lines.append(f"raw points: {rises}; {bends}")
    return [*(labelled("fit", line) for line in lines), labelled("use", f"{fits.use}: {fits.reason}")]
