"""One iteration's work: when samples of a rollout are finished, how long training on them takes, what moves weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from rollplan.models.latency import FloatArray


@dataclass(frozen=True, slots=True)
class TrainingLaw:
    """Seconds of training on a chunk: fixed_per_chunk_s + per_sample_s * samples + per_token_s * tokens.

    fixed_per_chunk_s: what a chunk costs whatever it holds (optimizer, launches, an underfilled GPU); it makes chunks
    that are too small hurt.
    """

    per_sample_s: float = 0.0
    per_token_s: float = 0.0
    fixed_per_chunk_s: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            in_range(name, getattr(self, name), 0)

    def seconds(self, samples: float, tokens: float) -> float:
        """Return the seconds of one chunk."""
        return self.fixed_per_chunk_s + self.per_sample_s * samples + self.per_token_s * tokens


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """One iteration. finish_s, tokens: arrays of one length n, sorted by finish_s when built.

    finish_s: when each sample is finished, from the start of the rollout, with nothing else on its GPUs.
    tokens: what `train.per_token_s` counts; may be absent when that is 0.
    score_s: seconds of reward and reference passes per sample, one after another on workers of their own; they belong
    to the rollout: a sample is ready when it is scored.
    transfer_s, drain_s: weights on their way, and the wait for running samples before; with a sync in every k-th
    iteration only, the k-th part of each.
    rollout_slowdown, train_slowdown: factors, at least 1, by which a side slows down while both run.
    switch_to_rollout_s, switch_to_train_s: paid where both stages share GPUs, so only in mode `serial`.
    """

    finish_s: FloatArray
    train: TrainingLaw
    tokens: FloatArray | None = None
    score_s: float = 0.0
    transfer_s: float = 0.0
    drain_s: float = 0.0
    rollout_slowdown: float = 1.0
    train_slowdown: float = 1.0
    switch_to_rollout_s: float = 0.0
    switch_to_train_s: float = 0.0

    def __post_init__(self) -> None:
        finish = np.asarray(self.finish_s, dtype=np.float64)
        if finish.ndim != 1 or not finish.size:
            raise ValueError(f"finish_s must hold one time per sample, at least one, got shape {finish.shape}")
        if self.tokens is None and self.train.per_token_s:
            raise ValueError("tokens must be given, one count per sample, because train.per_token_s is not 0")
        tokens = np.zeros(finish.size) if self.tokens is None else np.asarray(self.tokens, dtype=np.float64)
        if tokens.shape != finish.shape:
            raise ValueError(f"tokens must have one count per sample, shape {finish.shape}, got {tokens.shape}")
        for name, array in (("finish_s", finish), ("tokens", tokens)):
            in_range(f"the least of {name}", float(array.min()), 0)
            in_range(f"the greatest of {name}", float(array.max()), 0)
        for name in ("rollout_slowdown", "train_slowdown"):
            in_range(name, getattr(self, name), 1)
        for name in ("score_s", "transfer_s", "drain_s", "switch_to_rollout_s", "switch_to_train_s"):
            in_range(name, getattr(self, name), 0)
        order = np.argsort(finish, kind="stable")
        object.__setattr__(self, "finish_s", finish[order])
        object.__setattr__(self, "tokens", tokens[order])

    @classmethod
    def of_phases(cls, rollout_s: float, train_s: float, transfer_s: float = 0.0) -> Stages:
        """Return an iteration of which only the phases are known: one sample, which no mode can cut into chunks."""
        return cls(np.array([rollout_s]), TrainingLaw(per_sample_s=train_s), transfer_s=transfer_s)

    @property
    def samples(self) -> int:
        """Samples of an iteration."""
        return int(self.finish_s.size)

    @property
    def sync_s(self) -> float:
        """Seconds of a weight sync: drain and transfer."""
        return self.drain_s + self.transfer_s

    @property
    def train_s(self) -> float:
        """Seconds of training on all samples in one chunk, undisturbed."""
        return self.chunk_s(0, self.samples)

    def chunk_s(self, first: int, end: int) -> float:
        """Return the seconds of training on the samples `first` to `end` - 1 in order of finish, undisturbed."""
        assert self.tokens is not None, "filled in when built"
        return self.train.seconds(end - first, float(self.tokens[first:end].sum()))

    def ready_s(self) -> FloatArray:
        """Return when each sample is scored, shape (n), scoring each as it arrives: r_i = max(r_(i-1), f_i) + score_s."""
        after = self.score_s * np.arange(1, self.samples + 1)
        return np.asarray(after + np.maximum.accumulate(self.finish_s - after + self.score_s), dtype=np.float64)


def in_range(name: str, value: float, least: float, most: float = inf) -> None:
    """Raise `ValueError` unless a number is finite and within its limits."""
    if not (isfinite(value) and least <= value <= most):
        raise ValueError(
            f"{name} must be {f'at least {least:g}' if most == inf else f'from {least:g} to {most:g}'} and finite, got {value:g}"
        )
