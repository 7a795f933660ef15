"""Lengths as a screen: quantiles, tail, drift, likeness inside of groups, the ranker, and what to paste into a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.models.dispatch.recall import RANKER_RECALL
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.profile.file import Profile
from rollplan.models.profile.lengths import GroupCorrelation, LengthDrift, LengthsProfile, Ranker

_SHOWN = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)


def lengths_screen(profile: Profile, file: str) -> RenderableType:
    """Return the screen. file: where the profile is, for the lines to paste."""
    section = profile.lengths
    assert section is not None, "the caller has measured them"
    of = f" to {section.prompts} prompts" if section.prompts else ""
    when = f" in {section.steps} steps" if section.steps else ""
    parts: list[RenderableType] = [
        Text(f"lengths {profile.name}   {section.samples} responses{of}{when}, in {section.unit}"),
        _quantiles(section),
        labelled("mean", f"{section.mean:.1f}"),
        labelled("limit", _limit(section)),
        labelled("tail", _tail(section)),
        labelled("drift", _drift(section.drift)),
        labelled("groups", _groups(section.group_correlation)),
        *_ranker(section.ranker),
        *(labelled("note", note) for note in section.notes),
    ]
    if section.unit == "tokens":
        parts += [labelled("paste", line) for line in _paste(section, file)]
    return Group(*parts)


def _quantiles(section: LengthsProfile) -> Table:
    law = QuantileLaw(section.limit, section.quantiles)
    table = new_table(*((f"{100 * level:g} %", "right") for level in _SHOWN))
    table.add_row(*(f"{law.quantile(level):.0f}" for level in _SHOWN))
    return table


def _limit(section: LengthsProfile) -> str:
    stated = "" if section.limit_stated else ", the longest seen"
    cut = "" if section.share_truncated is None else f"; the engine cut {percent(section.share_truncated)} off"
    return f"{section.limit:.0f}{stated}; {percent(section.share_at_limit)} of the responses have it{cut}"


def _tail(section: LengthsProfile) -> str:
    tail = section.tail
    ratios = f"99 % is {tail.p99_over_median:.1f} times the median, the longest {tail.max_over_median:.1f} times"
    if tail.sigma is None or tail.sigma_error is None:
        return ratios
    return f"{ratios}; lognormal sigma {tail.sigma:.2f}, off by {percent(tail.sigma_error, 0)} at most between 5 and 99 %"


def _drift(drift: LengthDrift | None) -> str:
    if drift is None:
        return "unknown: it takes five steps"
    interval = f"{100 * drift.per_step:+.3f} % per step ({100 * drift.low:+.3f} to {100 * drift.high:+.3f}) over {drift.steps} steps"
    return interval if drift.significant else f"{interval}: not significant"


def _groups(found: GroupCorrelation | None) -> str:
    if found is None:
        return "unknown: it takes two groups with several samples of one prompt in one step"
    return f"correlation of samples of one prompt {found.value:.2f} ({found.low:.2f} to {found.high:.2f}), {found.groups} groups"


def _ranker(ranker: Ranker | None) -> Iterator[RenderableType]:
    if ranker is None:
        return
    parts = f"{ranker.training} prompts to learn, {ranker.validation} to choose, {ranker.test} to test"
    yield labelled("ranker", f"{parts} ({ranker.test_samples} responses); recall of the longest, held out:")
    table = new_table(
        ("longest", "right"), ("recall", "right"), ("95 % interval", "right"), ("chance", "right"), ("StreamRL 7B", "right"), ("", "left")
    )
    for each in ranker.recalls:
        published = RANKER_RECALL["7B"].get(each.share)
        table.add_row(
            f"{each.share:.0%}",
            f"{each.recall:.2f}",
            f"{each.low:.2f} to {each.high:.2f}",
            f"{each.chance:.2f}",
            "" if published is None else f"{published:.2f}",
            "" if each.better_than_chance else "no better than chance",
        )
    yield table


def _paste(section: LengthsProfile, file: str) -> Iterator[str]:
    known = [f"lengths: {{file: {file}}}"]
    if section.group_correlation is not None:
        known.append(f"group_correlation: {max(0.0, section.group_correlation.value):.2f}")
    if section.drift is not None and section.drift.significant:
        known.append(f"drift: {section.drift.per_step:.5f}")
    yield f"workload: {{{', '.join(known)}}}"
    if section.ranker is not None and section.ranker.weights is not None:
        yield f"rollplan dispatch SCENARIO --ranker {file}"
