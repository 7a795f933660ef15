"""The screen of `what-if`: one row for each job and variant, with the difference to the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.split_screen import placed
from rollplan.cli.tables import labelled, new_table
from rollplan.models.plan import Plan
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.split.problem import REL_TOL
from rollplan.planner.what_if import PLANNED_ANEW, Variant, made_since


def what_if_screen(made: Plan, variants: Sequence[Variant]) -> RenderableType:
    """Return the table of all variants; what fits nowhere is said below."""
    moves = f"   moves not counted: compare with the row `{PLANNED_ANEW}`" if made_since(made) else ""
    parts: list[RenderableType] = [Text(f"{made.scenario.name}   what if{moves}"), Text()]
    for number, split in enumerate(made.splits):
        parts += _split_part(number, split, variants)
    if made.groups:
        parts.append(_cost_table(made, variants))
    for variant in variants:
        parts += [labelled("no plan", f"{variant.name}: {reason}") for reason in variant.reasons[:3]]
    return Group(*parts)


def _split_part(number: int, before: PlannedSplit, variants: Sequence[Variant]) -> Iterator[RenderableType]:
    rows = [("as planned", before), *((variant.name, variant.plan.splits[number] if variant.plan else None) for variant in variants)]
    table = new_table(
        (f"split {before.name}", "left"), ("rollout", "left"), ("train", "left"), ("how", "left"), ("iteration", "right"),
        ("$/h", "right"), ("$/iteration", "right"), ("binds", "left"),
    )  # fmt: skip
    for name, split in rows:
        table.add_row(name, *(_cells(split, before) if split else ("nothing fits",)))
    yield table
    targets = [(name, split.target_s, _kept(split)) for name, split in rows if split is not None and split.target_s is not None]
    if any(kept != "kept" for *_, kept in targets):
        yield labelled("target", ", ".join(f"{name}: {target_s:.12g} s {kept}" for name, target_s, kept in targets))


def _kept(split: PlannedSplit) -> str:
    """Return whether the target is kept: by the plan of the row, by another, or by none."""
    if split.fewest is None or split.target_s is None:
        return "missed"
    return "kept" if split.choice.iteration_s <= split.target_s * (1 + REL_TOL) else "can be kept"


def _cells(split: PlannedSplit, before: PlannedSplit) -> tuple[str, ...]:
    choice = split.choice
    change = 100 * (choice.iteration_s / before.choice.iteration_s - 1)
    return (
        *placed(choice),
        f"{choice.iteration_s:.1f} s{f' ({change:+.1f} %)' if split is not before else ''}",
        f"{choice.cost_per_h:.2f}",
        f"{choice.cost_per_iteration:.3f}",
        "training" if split.binds == "train" else split.binds,
    )


def _cost_table(made: Plan, variants: Sequence[Variant]) -> Table:
    table = new_table(("plan", "left"), ("$/h", "right"), ("groups", "right"))
    table.add_row("as planned", f"{made.cost_per_h:.2f}", str(len(made.groups)))
    for variant in variants:
        if variant.plan is None:
            table.add_row(variant.name, "nothing fits")
        else:
            change = 100 * (variant.plan.cost_per_h / made.cost_per_h - 1) if made.cost_per_h else 0.0
            table.add_row(variant.name, f"{variant.plan.cost_per_h:.2f} ({change:+.1f} %)", str(len(variant.plan.groups)))
    return table
