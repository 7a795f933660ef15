"""What `rollplan advise` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from rollplan.cli.tables import labelled, new_table, percent, seconds_text
from rollplan.planner.advise.advise import Advice, idle_share
from rollplan.planner.advise.estimate import Estimate
from rollplan.planner.advise.levers import Change
from rollplan.planner.advise.options import Option

_SHOWN = 8


def advice_data(advice: Advice) -> dict[str, Any]:
    """Return the advice as plain data: the run without its steps, the first options."""
    data = asdict(advice)
    data["run"] = advice.run.model_dump(mode="json", exclude={"steps"}, exclude_none=True) | {"steps": len(advice.run.kept)}
    data["present"]["step"] = advice.present.step.model_dump(mode="json")
    data["options"] = data["options"][:_SHOWN]
    return data


def advice_screen(advice: Advice) -> RenderableType:
    """Return the screen."""
    seen, run = advice.present, advice.run
    kept = f"{len(run.kept)} of {len(run.steps)} steps"
    parts: list[RenderableType] = [f"advice {run.source}   {run.framework}, {run.mode}, {kept}, {_split(seen.way, seen.gpus)}"]
    spread = f"{seconds_text(seen.step.low)} to {seconds_text(seen.step.high)} for half of the steps"
    parts.append(labelled("step", f"{seconds_text(seen.step.median)} ({spread})"))
    parts.append(labelled("of which", ", ".join(_phase(name, value, seen.step.median) for name, value in _largest(advice))))
    parts.append(labelled("binds", advice.reading))
    parts.append(labelled("idle", f"rollout {_range(seen.idle[0])}, training {_range(seen.idle[1])} of the step"))
    if advice.per_month is not None and advice.idle_per_month is not None:
        note = "" if advice.price_note is None else f" ({advice.price_note})"
        money = f"{advice.per_month:,.0f} $ per month, {advice.idle_per_month:,.0f} $ of it idle ({idle_share(seen):.0%}){note}"
        parts.append(labelled("cost", money))
    if advice.better is None:
        text = f"no split or mode on the same GPUs is likely to save more than {advice.noise:.0%}, which reruns differ by anyway"
        parts.append(labelled("nothing to gain", text))
    else:
        parts.append(_table(advice))
    if advice.settings:
        parts.append(_changes(advice.settings))
    if advice.limits is not None:
        parts.append(labelled("counts", f"limited: {advice.limits}"))
    parts.append(labelled("from", advice.law))
    parts += [labelled("warning", text) for text in advice.warnings]
    return Group(*parts)


def _largest(advice: Advice) -> Sequence[tuple[str, float]]:
    return sorted(advice.present.phases.items(), key=lambda item: -item[1])[:_SHOWN]


def _phase(name: str, value: float, step_s: float) -> str:
    return f"{name.replace('_', ' ')} {seconds_text(value)} ({percent(value / step_s, 0)})"


def _split(way: str | None, gpus: tuple[int, int]) -> str:
    return f"{gpus[0]} GPU{'s' if gpus[0] != 1 else ''} in turn" if way is None else f"{gpus[0]} rollout + {gpus[1]} training GPUs"


def _range(idle: Estimate) -> str:
    return percent(idle.likely, 0) if idle.known else f"{percent(idle.low, 0)} to {percent(idle.high, 0)}"


def _table(advice: Advice) -> RenderableType:
    table = new_table(("", "left"), ("rollout", "right"), ("train", "right"), ("how", "left"), ("step", "right"), ("saves", "right"))
    seen = advice.present
    table.add_row("now", *_gpus(seen.way, seen.gpus), seen.way or "in turn", seconds_text(seen.step.median), "")
    for place, option in enumerate(_few(advice)):
        step = f"{seconds_text(option.step.likely)} ({seconds_text(option.step.low)} to {seconds_text(option.step.high)})"
        low, likely, high = option.gain
        saves = f"{percent(likely, 0)} ({percent(low, 0)} to {percent(high, 0)})"
        name = "next" if place else "better" if low > 0 else "likely better"
        table.add_row(name, *_gpus(option.way, option.gpus), option.way or "in turn", step, saves)
    return table


def _few(advice: Advice) -> list[Option]:
    """Return the option that is advised and the fastest others that are likely to save anything."""
    assert advice.better is not None
    return [advice.better, *[option for option in advice.options if option != advice.better and option.gain[1] > 0][:2]]


def _gpus(way: str | None, gpus: tuple[int, int]) -> tuple[str, str]:
    return str(gpus[0]), "the same" if way is None else str(gpus[1])


def _changes(changes: tuple[Change, ...]) -> RenderableType:
    table = new_table(("change", "left"), ("saves of the step", "right"))
    for number, change in enumerate(changes, start=1):
        lines = "".join(f"\n   {line}" for line in change.lines)
        saves = f"at most {percent(change.saves, 0)}"
        if change.between is not None:
            saves = f"{percent(change.saves, 0)} ({percent(change.between[0], 0)} to {percent(change.between[1], 0)})"
        table.add_row(f"{number}. {change.text}: {change.why}{lines}", saves)
    return table
