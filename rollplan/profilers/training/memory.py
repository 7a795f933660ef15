"""What the memory bill says of the passes that were measured, term by term."""

from __future__ import annotations

from collections.abc import Mapping

from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout
from rollplan.models.memory import terms
from rollplan.models.memory.amount import GIB, Amount
from rollplan.models.memory.setup import Checkpointing, MicroBatch, TrainSetup
from rollplan.models.profile.training import Kind, MemoryCheck, MemoryTerm, TrainingPoint
from rollplan.profilers.training.measure import CHUNK_TOKENS

LOGIT_COPIES = 3.0
"""Of the worker's plain loss: fp32 logits or their log-softmax, its gradient, and both in the model's own type."""


def checks(
    model: Architecture, dtype_bytes: int, checkpointing: Checkpointing, points: tuple[TrainingPoint, ...], state: Mapping[str, int]
) -> tuple[MemoryCheck, ...]:
    """Return the largest measured micro-batch of each kind of pass beside the bill; none where no peak is known.

    state: measured bytes of weights, gradients and optimizer. The bill counts activations in bf16; another type is as many
    times larger. Its reserve (context, fragmentation) is left out, because torch's allocator does not count it either.
    """
    found = []
    for kind in ("update", "log-prob"):
        known = [(point, peak) for point in points if (peak := _peak(point, kind)) is not None]
        if known:
            point, peak = max(known, key=lambda entry: entry[0].tokens)
            found.append(_check(_setup(model, dtype_bytes, checkpointing, point), kind, point, peak, state))
    return tuple(found)


def _peak(point: TrainingPoint, kind: Kind) -> float | None:
    return point.peak_gib if kind == "update" else point.log_prob_peak_gib


def _setup(model: Architecture, dtype_bytes: int, checkpointing: Checkpointing, point: TrainingPoint) -> TrainSetup:
    batch = MicroBatch(sequences=point.sequences, tokens=point.sequence_length)
    return TrainSetup(
        architecture=model,
        layout=Layout(),
        log_prob=batch,
        update=batch,
        sharding="ddp",
        weight_bytes=dtype_bytes,
        gradient_bytes=dtype_bytes,
        optimizer_bytes=2 * dtype_bytes,
        checkpointing=checkpointing,
        logit_copies=LOGIT_COPIES,
    )


def _check(setup: TrainSetup, kind: Kind, point: TrainingPoint, peak_gib: float, state: Mapping[str, int]) -> MemoryCheck:
    predicted = {
        "weights": terms.weights(setup, "whole"),
        "gradients": terms.gradients(setup, "whole"),
        "optimizer": terms.optimizer(setup, "whole"),
    }
    measured = {name: state[name] / GIB for name in predicted}
    rest = _rest(setup, kind, point).gib
    rows = {name: (amount.gib, measured[name]) for name, amount in predicted.items()}
    rows["activations and logits"] = rest, max(0.0, peak_gib - sum(measured.values()))
    rows["peak"] = sum(amount.gib for amount in predicted.values()) + rest, peak_gib
    listed = [{"term": name, "predicted_gib": bill, "measured_gib": seen} for name, (bill, seen) in rows.items()]
    return MemoryCheck(
        kind=kind,
        sequences=point.sequences,
        sequence_length=point.sequence_length,
        terms=tuple(MemoryTerm.model_validate(row) for row in listed),
    )


def _rest(setup: TrainSetup, kind: Kind, point: TrainingPoint) -> Amount:
    """Return activations and logits of one pass."""
    wider = setup.weight_bytes / 2
    if kind == "update":
        return terms.kept_activations(setup, "whole").times(wider, "times bf16") + terms.update_logits(setup, "whole")
    chunk = MicroBatch(sequences=1, tokens=min(CHUNK_TOKENS, point.tokens))
    return terms.layer_activations(setup, setup.update).times(wider, "times bf16") + terms.log_prob_logits(setup, chunk, "whole")
