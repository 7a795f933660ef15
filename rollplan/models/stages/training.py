"""Seconds of training: update and log-prob passes on the training GPUs of one iteration.

    FLOPs(update) = tokens * 6 * N_active + 6 * layers * heads * head_dim * sum(length^2)       causal attention
    update_s = FLOPs * recompute / (GPUs * peak * MFU * efficiency) * bubble * fullest + updates * overhead
    forward_s = tokens / (GPUs * forward rate) * bubble * fullest

recompute: 4/3 with full activation checkpointing. bubble: 1 + (pp - 1) / micro-batches (1F1B).
fullest: load of the fullest data parallel rank over the mean; no rank has less to do than one longest sequence. efficiency: the forward
rate measured at this tensor parallel degree over that at the least one. Context parallelism is counted as free of
communication, data parallelism as hidden behind computation: both flatter large counts a little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout
from rollplan.models.stages.work import Work


@dataclass(frozen=True, slots=True)
class TrainingSpeed:
    """What a GPU reaches.

    peak_tflops: dense bf16. mfu: share of it in updates. forward_tok_s: tokens/s per GPU of a log-prob pass at the
    job's lengths. efficiency: relative to the tensor parallel degree that `mfu` was measured at.
    """

    peak_tflops: float
    mfu: float
    forward_tok_s: float
    efficiency: float = 1.0


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of one iteration beside the actor's update: forward passes over all tokens, and a critic's update.

    forward: how often (old log-prob, reference, critic values). critic: whether a critic of the same size is trained.
    """

    forward: int = 1
    critic: bool = False


def update_flops(model: Architecture, work: Work) -> float:
    """Return the model FLOPs of one iteration's update, recomputation not counted (facts: PaLM's appendix B count)."""
    attention = 6 * model.layers * model.heads * model.head_dim * work.token_pairs
    return 6e9 * model.active_params_b * work.tokens + attention


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """Seconds of one iteration: the actor's update, the critic's, forward passes, what no GPU speeds up."""

    update_s: float
    critic_s: float
    forward_s: float
    overhead_s: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.update_s + self.critic_s + self.forward_s + self.overhead_s


def training_parts(
    model: Architecture,
    layout: Layout,
    work: Work,
    speed: TrainingSpeed,
    passes: Passes,
    micro_sequences: int = 1,
    full_recompute: bool = True,
    overhead_s: float = 0.0,
) -> TrainingParts:
    """Return the seconds of all training-side passes of one iteration."""
    per_update = work.samples / work.updates / layout.dp
    micro_batches = max(1.0, per_update / micro_sequences)
    slower = (1 + (layout.pp - 1) / micro_batches) * _fullest(model, layout, work)
    rate = layout.gpus * speed.peak_tflops * 1e12 * speed.mfu * speed.efficiency
    update = update_flops(model, work) * (4 / 3 if full_recompute else 1.0) / rate * slower
    forward = passes.forward * work.tokens / (layout.gpus * speed.forward_tok_s) * slower
    return TrainingParts(update, update if passes.critic else 0.0, forward, work.updates * overhead_s)


def _fullest(model: Architecture, layout: Layout, work: Work) -> float:
    """Return the load of the fullest data parallel rank over the mean, on average over the updates.

    Sequences are balanced over the ranks, but none is divided: no rank has less to do than its longest sequence.
    """
    mean = update_flops(model, work) / work.updates / layout.dp
    longest = (work.outputs[: work.updates] + work.prompt_tokens).astype(float)
    flops = 6e9 * model.active_params_b * longest + 6 * model.layers * model.heads * model.head_dim * longest**2
    return float(np.maximum(1.0, flops / mean).mean())


def obstacle(layout: Layout, work: Work, micro_sequences: int = 1) -> str | None:
    """Return the batch rule that a layout breaks, None if it breaks none."""
    per_update = work.samples // work.updates
    if per_update % (layout.dp * micro_sequences):
        return f"dp {layout.dp} x micro batch {micro_sequences} does not divide the {per_update} samples of an update"
    return None
