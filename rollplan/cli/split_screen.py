"""The screen of one job: who binds, who waits for what, what fits, what is next best, what a rule of thumb would cost."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent, seconds_text
from rollplan.models.plan_split import MemoryUse, PlannedSplit, SplitChoice


def split_part(split: PlannedSplit) -> Iterator[RenderableType]:
    """Yield the lines and tables of one job."""
    choice = split.choice
    yield Text(f"split {split.name}   {_mode(choice)}, trim {split.trim}")
    low, high = split.range_s
    yield labelled("step", f"{seconds_text(choice.iteration_s)} per iteration ({seconds_text(low)} to {seconds_text(high)})")
    if overheads := _overheads(split):
        yield labelled("of which", overheads)
    yield labelled("cost", f"{choice.cost_per_h:.2f} $/h, {choice.cost_per_iteration:.3f} $ per iteration")
    yield _stages(split)
    yield labelled("binds", _binding(split))
    if against := _against(split):
        yield labelled("why", against)
    yield _choices(split)
    if split.target_s is not None and split.fewest is None:
        fastest_s = min(other.iteration_s for other in split.shown)
        yield labelled(
            "target",
            f"no plan keeps {split.target_s:.12g} s per iteration, the fastest takes {seconds_text(fastest_s)}",
        )
    if split.preempted is not None and split.preempted >= 0.05:
        yield labelled(
            "KV cache", f"full: a sample is thrown out and computed again {split.preempted:.1f} times; lower max_num_seqs, or more GPUs"
        )
    if split.enough_staleness is not None and split.enough_staleness < choice.staleness:
        yield labelled(
            "enough", f"staleness {split.enough_staleness:g} is within {percent(split.noise, 0)} of staleness {choice.staleness:g}"
        )
    for limit in split.limits:
        yield labelled("counts", f"limited: {limit}, for one")
    if split.equal:
        first = "the first" if split.equal == 1 else f"the first {split.equal}"
        yield labelled(
            "equal", f"{first} next best {'is' if split.equal == 1 else 'are'} within {percent(split.noise, 0)}, what reruns differ by"
        )
    if split.in_flight is not None and split.rollout_spread_s is not None:
        low, high = split.rollout_spread_s
        yield labelled("samples", f"{split.in_flight} in flight; one batch takes {low:.0f} to {high:.0f} s in 9 of 10 draws of its lengths")


def front_part(split: PlannedSplit) -> Iterator[RenderableType]:
    """Yield the Pareto front: nothing beats these in time, cost and staleness together."""
    yield Text(f"front {split.name}   no plan beats one of these in time, cost and staleness together")
    shown = new_table(*(column for column in _COLUMNS if column[0] != "busy"), ("$/step", "right"), ("stale", "right"))
    for choice in split.front:
        name = "this plan" if choice == split.choice else ""
        rollout, train, how, _, iteration, cost = _cells(choice, split.choice)
        shown.add_row(name, rollout, train, how, iteration, cost, f"{choice.cost_per_iteration:.3f}", f"{choice.staleness:g}")
    yield shown


def notes_part(split: PlannedSplit) -> Iterator[RenderableType]:
    """Yield where the numbers come from, and what to be careful about."""
    origins = ", ".join(f"{count} {origin}" for origin, count in split.provenance.items()) or "tables"
    yield labelled("numbers", origins)
    yield from (labelled("note", note) for note in split.notes)


_COLUMNS = (
    ("", "left"),
    ("rollout", "left"),
    ("train", "left"),
    ("how", "left"),
    ("busy", "right"),
    ("iteration", "right"),
    ("$/h", "right"),
)


def _mode(choice: SplitChoice) -> str:
    if choice.mode == "colocated":
        return "colocated: both stages in turn on the same GPUs"
    return f"separate, {choice.pipelining}, staleness {choice.staleness:g}"


def _stages(split: PlannedSplit) -> Table:
    choice = split.choice
    shown = new_table(
        ("stage", "left"), ("pool", "left"), ("GPUs", "right"), ("layout", "left"), ("time", "right"), ("busy", "right"),
        ("waits for", "left"), ("memory per GPU (peak phase)", "left"),
    )  # fmt: skip
    turns = choice.mode == "colocated"
    stages = (
        ("rollout", choice.rollout_pool, choice.rollout_gpus, choice.rollout_layout, choice.rollout_s, choice.rollout_busy),
        ("train", choice.train_pool, choice.train_gpus, choice.train_layout, choice.train_s, choice.train_busy),
    )
    for name, pool, gpus, layout, seconds, busy in stages:
        waits = ("its turn" if turns else {"rollout": "training", "train": "samples"}[name]) if busy < 0.995 else "-"
        shown.add_row(name, pool, str(gpus), layout, seconds_text(seconds), percent(busy, 0), waits, _memory(split, name))
    return shown


def _memory(split: PlannedSplit, role: str) -> str:
    use = next((use for use in split.memory if role in use.roles and use.where == "gpu"), None)
    return "" if use is None else memory_text(use)


def memory_text(use: MemoryUse) -> str:
    """Return `71 of 80 GiB update: weights 16, KV cache 46`."""
    limit = "" if use.memory_gib is None else f" of {use.memory_gib:.0f}"
    largest = ", ".join(f"{term.term} {term.gib:.0f}" for term in use.terms[:2])
    return f"{use.gib:.0f}{limit} GiB {use.phase}: {largest}"


def _binding(split: PlannedSplit) -> str:
    choice = split.choice
    words = {"rollout": "rollout", "train": "training", "both stages in turn": "both stages in turn", "weight sync": "weight sync"}[
        split.binds
    ]
    names = {"rollout": "rollout", "train": "training"}
    more = [
        f"More {names[step.stage]} GPUs do not help"
        if step.iteration_s is None
        else f"{step.gpus} {names[step.stage]} GPUs: {step.iteration_s - choice.iteration_s:+.1f} s"
        for step in split.steps
    ]
    return ". ".join([words, *more])


def _overheads(split: PlannedSplit) -> str:
    """Return sync, switch and the parts of training, each with its share of the step."""
    step_s = split.choice.iteration_s
    beside = " beside the stages" if split.choice.pipelining.startswith("async") else ""
    named = [(f"sync{beside}", split.sync_s), ("switch", split.switch_s), *((part.name, part.seconds) for part in split.parts)]
    return ", ".join(f"{name} {seconds:.1f} s ({percent(seconds / step_s, 0)})" for name, seconds in named if seconds > 0)


def _against(split: PlannedSplit) -> str:
    """Return what decides between stages apart and in turn; empty where only one of them is possible."""
    apart = next((choice for choice in (split.choice, *split.next_best) if choice.mode == "separate"), split.even)
    turns = split.colocated
    if apart is None or turns is None:
        return ""
    in_turn = f"in turn {turns.rollout_s:.1f} + {turns.train_s:.1f} s on {turns.rollout_gpus} GPUs make {turns.iteration_s:.1f} s"
    overlapped = (
        f"apart {apart.rollout_s:.1f} s on {apart.rollout_gpus} beside {apart.train_s:.1f} s on {apart.train_gpus} GPUs "
        f"make {apart.iteration_s:.1f} s"
    )
    return f"{in_turn}, {overlapped}" if split.choice.mode == "colocated" else f"{overlapped}, {in_turn}"


def _choices(split: PlannedSplit) -> Table:
    shown = new_table(*_COLUMNS)
    rows = [("this plan", split.choice), *(("next best", choice) for choice in split.next_best)]
    if split.thrifty not in (split.choice, *split.next_best):
        rows.append(("fewest, equal", split.thrifty))
    if split.colocated is not None and split.colocated not in (split.choice, *split.next_best):
        rows.append(("colocated", split.colocated))
    if split.even is not None:
        rows.append(("even split", split.even))
    rows += [(rule.name.split(":")[0], rule.choice) for rule in split.rules]
    if split.fewest is not None:
        rows.append(("fewest GPUs", split.fewest))
    for name, choice in rows:
        shown.add_row(name, *_cells(choice, split.choice))
    return shown


def placed(choice: SplitChoice) -> tuple[str, str, str]:
    """Return the cells `rollout`, `train` and `how` of a table of choices."""
    turns = choice.mode == "colocated"
    return (
        f"{choice.rollout_gpus} {choice.rollout_pool}",
        "the same GPUs" if turns else f"{choice.train_gpus} {choice.train_pool}",
        "colocated" if turns else choice.pipelining,
    )


def _cells(choice: SplitChoice, best: SplitChoice) -> tuple[str, str, str, str, str, str]:
    more = f" ({100 * (choice.iteration_s / best.iteration_s - 1):+.1f} %)" if choice != best else ""
    return (
        *placed(choice),
        f"{100 * choice.rollout_busy:.0f} + {100 * choice.train_busy:.0f} %",
        f"{seconds_text(choice.iteration_s)}{more}",
        f"{choice.cost_per_h:.2f}",
    )
