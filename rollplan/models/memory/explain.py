"""One sentence about a bill: where the memory goes, which field puts it there, and what that field could do."""

from __future__ import annotations

from dataclasses import replace

from rollplan.models.memory.bill import Gpus, Line, MemoryBill, bill
from rollplan.models.memory.roles import Term
from rollplan.models.memory.setup import ModelSetup, RolloutSetup, Setup, TrainSetup

STATE: tuple[Term, ...] = ("weights", "gradients", "optimizer")
"""What no batch and no sequence length changes."""


def explain(setup: Setup, gpus: Gpus) -> str:
    """Return the sentence for the GPUs with the thinnest margin, in that phase.

    If the state alone is too large it says so, because then no batch helps. Otherwise it takes the largest term and
    the one field that shrinks it, with what is left then.
    """
    found = bill(setup, gpus)
    if found.kv_problem:
        return found.kv_problem
    peak = min(found.peaks, key=lambda candidate: candidate.margin_gib or 0.0)
    lines = found.at(peak)
    largest = lines[0]
    text = f"{peak}; most is {largest.role} {largest.term}, {largest.gib:.1f} GiB = {largest.formula}"
    state_gib = sum(line.gib for line in lines if line.term in STATE)
    if peak.memory_gib is not None and state_gib > peak.memory_gib:
        return f"{text}; {', '.join(STATE)} alone take {state_gib:.1f} GiB, so that no micro batch and no context parallelism fits"
    if relief := _relief(setup, largest):
        words, changed = relief
        return f"{text}; {words} needs {_gib(bill(changed, gpus), largest):.1f} GiB"
    return text


def _gib(found: MemoryBill, wanted: Line) -> float:
    """Return what the same term takes in another bill."""
    key = (wanted.role, wanted.phase, wanted.term, wanted.where)
    return sum(line.gib for line in found.lines if (line.role, line.phase, line.term, line.where) == key)


def _relief(setup: Setup, line: Line) -> tuple[str, Setup] | None:
    """Return the field that the term depends on, with a value that shrinks it; None if there is no such field."""
    model = setup.roles[line.role]
    if isinstance(model, RolloutSetup):
        return None
    if line.term in ("logits", "activations"):
        return _smaller_batch(setup, line, model)
    if line.term not in STATE:
        return None
    if model.sharding != "zero3" and model.layout.dp > 1:
        return f"sharding zero3 instead of {model.sharding}", setup.change(line.role, sharding="zero3")
    if (line.role,) not in setup.pools:
        return None
    wider = replace(model.layout, dp=2 * model.layout.dp)
    return f"{wider.gpus} GPUs instead of {model.layout.gpus}", setup.change(line.role, layout=wider, sharding="zero3")


def _smaller_batch(setup: Setup, line: Line, model: ModelSetup) -> tuple[str, Setup] | None:
    updating = line.phase in ("update", "critic update")
    field, batch = ("update", model.update) if updating and isinstance(model, TrainSetup) else ("log_prob", model.log_prob)
    if batch is None:
        return None
    if batch.sequences > 1:
        return f"{field}.sequences 1 instead of {batch.sequences}", setup.change(line.role, **{field: replace(batch, sequences=1)})
    half = replace(batch, tokens=max(1, batch.tokens // 2))
    return f"{field}.tokens {half.tokens} instead of {batch.tokens}", setup.change(line.role, **{field: half})
