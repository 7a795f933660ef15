"""The pipelining modes, and what an iteration in one of them comes to.

Modes (a) to (d) are those of StreamRL (Zhong et al. 2025, arXiv 2504.15930, Fig. 5); recurrences: docs/modes.md.

    serial          all of the rollout, all of training, weights; also what stages that share GPUs do
    mini-batch      (a) equal chunks in order of finish: f_k = max(f_(k-1), g_k) + t_k
    dynamic-batch   (b) when the trainer is free it takes all samples that are ready, if at least `fill` or the rest
    one-step        (c) training on the batch before, a barrier for the weights: T = max(g, t) + sync
    async           (d) no barrier; weights travel while both sides work
        streamed    (A) training of a batch overlaps its own rollout, optimistic: T = max(g, t, (g + sync) / 2)
        batch       (B) training starts with a complete batch: T = max(g, t, (g + t + sync) / 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rollplan.models.pipelining.stages import in_range

Mode = Literal["serial", "mini-batch", "dynamic-batch", "one-step", "async"]
Variant = Literal["streamed", "batch"]
Stage = Literal["rollout", "train", "drain", "transfer", "switch to rollout", "switch to train"]
Wait = Literal["rollout", "training", "sync", "switch"]


@dataclass(frozen=True, slots=True)
class Pipelining:
    """A mode with what it needs and nothing else: `chunks` of mini-batch, `fill` of dynamic-batch, `variant` of async.

    chunks: equal parts of an iteration. fill: samples that are worth a start of the trainer.
    """

    mode: Mode
    chunks: int | None = None
    fill: int | None = None
    variant: Variant | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {self.mode}")
        for name, mode in (("chunks", "mini-batch"), ("fill", "dynamic-batch"), ("variant", "async")):
            if (getattr(self, name) is not None) != (self.mode == mode):
                raise ValueError(f"{name} belongs to mode {mode} and to no other, got {name} {getattr(self, name)} with mode {self.mode}")
        for name in ("chunks", "fill"):
            if (value := getattr(self, name)) is not None:
                in_range(name, value, 1)
        if self.variant is not None and self.variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {self.variant}")

    @property
    def staleness(self) -> int:
        """How many weight versions the trained samples lag behind."""
        return 1 if self.mode in ("one-step", "async") else 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A stage of one batch, in seconds from the start of its rollout."""

    stage: Stage
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration in steady state.

    rollout_busy, train_busy: shares of the iteration, 0 to 1, in which the side rolls out (or scores) or trains.
    rollout_waits_for, train_waits_for: what takes most of the rest; None for a side that never waits.
    timeline: the life of one batch. Batches follow each other every `iteration_s`, and overlap if staleness is 1.
    """

    iteration_s: float
    rollout_busy: float
    train_busy: float
    rollout_waits_for: Wait | None
    train_waits_for: Wait | None
    staleness: int
    timeline: tuple[Segment, ...]
