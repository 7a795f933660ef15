"""One forward pass over tokens that are known already: prefill, log-probabilities, the reference model.

Measured kernel times where there are some, else the law of operations over peak speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal

import numpy as np

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.reference.architectures import architecture, table_name
from rollplan.models.reference.decode_latency import KERNELS_OF
from rollplan.models.reference.gpus import gpu
from rollplan.models.reference.scaling import nearest
from rollplan.models.reference.tables import Sourced, rows

FORWARD_MFU = {"H20": 0.75}
"""Share of peak speed without measurement. H20: at 148 TFLOPS multiplications are bound by compute at almost any size."""

OTHER_FORWARD_MFU = 0.4
"""Measured kernels reach 0.70 on H100, 0.77 on A100, 0.60 on B200, 0.51 on L40S at tp 1, and 0.44 at tp 8 for 32B."""

_SAME_COMPUTE = {**KERNELS_OF, "H800": "H100"}


def flops_per_token(model: Architecture, sequence_length: float, logits: Literal["all", "last"] = "all") -> float:
    r"""Return the mean floating-point operations of one token in a causal forward pass.

    .. math:: 2 (N - [\text{last}]\, V h) + 2 L n_h d_h s

    N active parameters with output head, s sequence length: a token attends to s / 2 others on average. A training step takes
    three times as many, four with full recomputation.
    """
    head = model.vocab * model.hidden if logits == "last" else 0
    return 2 * (model.active_params_b * 1e9 - head) + 2 * model.layers * model.heads * model.head_dim * sequence_length


def forward_seconds(
    model: str | Architecture, gpu_text: str, tp: int, tokens: float, sequence_length: float, logits: Literal["all", "last"] = "all"
) -> Sourced:
    """Return the seconds of a forward pass over `tokens` tokens on `tp` GPUs, in batches of a good size.

    sequence_length: tokens of each sequence. logits: log-probabilities need the output head for all tokens, prefill for the
    last one only; the measurements have the last and are scaled by operations. A model that was not measured is scaled from
    the nearest one, too: leaving one out, the median error is 2.7 % for dense models, 26 % for mixtures of experts. Raise
    `InputError` for an unknown model or GPU, `ValueError` for numbers that are not positive and finite.
    """
    if not (tp >= 1 and 0 < tokens < math.inf and 0 < sequence_length < math.inf):
        raise ValueError(f"tp, tokens and sequence_length must be positive and finite, got {tp}, {tokens}, {sequence_length}")
    kind = gpu(gpu_text)
    shape = architecture(model) if isinstance(model, str) else model
    chip = _SAME_COMPUTE.get(kind.name, kind.name)
    speeds = {name: table for (name, on, degree), table in _speeds().items() if (on, degree) == (chip, tp)}
    name = table_name(shape)
    source = architecture(name) if name and name in speeds else nearest(shape, speeds, tp)
    if source is None:
        return _by_operations(shape, kind, tp, tokens, sequence_length, logits)
    per_token, inside = _seconds_per_token(speeds[source.name], sequence_length)
    ratio = flops_per_token(shape, sequence_length, logits) / flops_per_token(source, sequence_length, "last")
    notes = ["kernel times of vLLM by aiconfigurator-core 0.12.0"]
    if source.name != name:
        notes.append(f"scaled by operations from {source.name}")
    if chip != kind.name:
        notes.append(f"kernels of {chip}, whose NVLink differs")
    if not inside:
        notes.append("continued beyond 32768 tokens per sequence")
    return Sourced(tokens / tp * per_token * ratio, "reference" if len(notes) == 1 else "estimated", "; ".join(notes))


def _by_operations(
    model: Architecture, kind: Gpu, tp: int, tokens: float, sequence_length: float, logits: Literal["all", "last"]
) -> Sourced:
    mfu = FORWARD_MFU.get(kind.name, OTHER_FORWARD_MFU)
    seconds = tokens * flops_per_token(model, sequence_length, logits) / (tp * kind.peak_tflops * 1e12 * mfu)
    return Sourced(seconds, "estimated", f"operations at {mfu:.0%} of the peak speed of {kind.name}")


def _seconds_per_token(speeds: Mapping[int, float], sequence_length: float) -> tuple[float, bool]:
    """Return GPU seconds per token, linear in the length as attention is, and whether the length is in the table.

    Short sequences are batched, so below the table the first value holds.
    """
    lengths, seconds = np.array(list(speeds)), 1 / np.array(list(speeds.values()))
    if sequence_length <= lengths[-1]:
        return float(np.interp(sequence_length, lengths, seconds)), True
    slope = (seconds[-1] - seconds[-2]) / (lengths[-1] - lengths[-2])
    return float(seconds[-1] + slope * (sequence_length - lengths[-1])), False


@cache
def _speeds() -> Mapping[tuple[str, str, int], Mapping[int, float]]:
    """Return tokens per second and GPU by sequence length, ascending, for each model, GPU and degree."""
    return {
        (row["model"], row["gpu"], int(row["tp"])): {int(key): float(text) for key, text in row.items() if key.isdigit()}
        for row in rows("forward.csv")
    }
