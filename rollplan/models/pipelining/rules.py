"""The rules of an asynchronous run: how far samples may lag behind, and what a weight sync does.

Weights have a version, raised by every sync; a sync comes after `sync_every` training steps of `batch` samples. With B =
batch * sync_every, a sample may start while

    started - discarded < floor(B * (version + 1 + staleness))

which is AReaL's rule for whole numbers (generated <= B (i + eta), counted with the batch that is being made), verl's for
fractions ((1 + staleness) * B per sync, less what is left over), and TRL's bound of (staleness + 1) * batch in flight. At
staleness 0 one batch is made and trained on at a time.

During a sync both sides stand still. Without partial rollout the running samples are waited for first (drain); with it
they go on under the new weights, at the price of computing their tokens again (`reprefill_s_per_token`, 0 if the engine
keeps its cache). Staleness of a sample: version in training less version at its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Literal, get_args

from rollplan.models.pipelining.stages import in_range

Order = Literal["finished", "submitted"]


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """The rules of a run.

    batch: samples of a training step. staleness: the bound, a level (1, 2, ...) or a fraction. sync_every: steps per sync.
    order: a step takes the first `batch` samples that are `finished`, or whole batches as they were `submitted`.
    discard_older_than: samples that lag more versions are thrown away; None keeps all.
    rollout_slowdown, train_slowdown: factors, at least 1, by which a side slows down while both run.
    """

    batch: int
    staleness: float
    sync_every: int = 1
    partial_rollout: bool = True
    reprefill_s_per_token: float = 0.0
    transfer_s: float = 0.0
    order: Order = "finished"
    discard_older_than: int | None = None
    rollout_slowdown: float = 1.0
    train_slowdown: float = 1.0

    def __post_init__(self) -> None:
        least = {"batch": 1, "sync_every": 1, "staleness": 0, "reprefill_s_per_token": 0, "transfer_s": 0}
        for name, low in {**least, "rollout_slowdown": 1, "train_slowdown": 1}.items():
            in_range(name, getattr(self, name), low)
        if self.discard_older_than is not None:
            in_range("discard_older_than", self.discard_older_than, 0)
        if self.order not in get_args(Order):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))}, got {self.order}")
        if self.reprefill_s_per_token and not self.partial_rollout:
            raise ValueError(f"reprefill_s_per_token belongs to partial rollout, got {self.reprefill_s_per_token:g} without; set it to 0")


def in_flight_limit(batch: int, staleness: float) -> int:
    """Return the samples that may be in flight or waiting for training: floor((staleness + 1) * batch), never less than a batch.

    The factor is staleness + 1: with staleness alone an on-policy run would have no work at all (huggingface/trl #5650).
    """
    in_range("batch", batch, 1)
    in_range("staleness", staleness, 0)
    return floor((staleness + 1) * batch * (1 + 1e-12))
