"""Fluctuating iterations: the modes that overlap iterations, run over a series of rollout and training times.

    one-step        S_(i+1) = S_i + max(g_i, t_(i-1)) + sync
    async streamed  G_i = max(G_(i-1), Tr_(i-2) + sync) + g_i,   Tr_i = max(Tr_(i-1) + t_i, G_i)
    async batch     G_i as above,                                Tr_i = max(Tr_(i-1), G_i) + t_i

G_i, Tr_i: ends of rollout and training i. No recurrence can beat max(sum g, sum t), and a barrier pays sum max(g_i, t_i),
which is more: fluctuation costs even where the means are balanced. Streaming inside an iteration (A) absorbs most of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollplan.models.latency import FloatArray
from rollplan.models.pipelining.modes import Pipelining
from rollplan.models.pipelining.stages import in_range


@dataclass(frozen=True, slots=True, eq=False)
class SteadyState:
    """Ends of rollouts and trainings in seconds from the start of the first rollout, arrays of one length n."""

    rollout_end_s: FloatArray
    train_end_s: FloatArray

    @property
    def period_s(self) -> float:
        """Mean seconds between the ends of two trainings, n >= 2; the first iteration, which fills the pipeline, is left out."""
        return float(self.train_end_s[-1] - self.train_end_s[0]) / (self.train_end_s.size - 1)


def steady_state(pipelining: Pipelining, rollout_s: Sequence[float], train_s: Sequence[float], sync_s: float = 0.0) -> SteadyState:
    """Return when the rollouts and trainings of a series end, for mode one-step or async.

    rollout_s, train_s: seconds of each iteration, two or more, of one length. The first rollout has its weights already.
    Raises `ValueError` for other modes (their iterations do not overlap: add up `iteration`) and for values out of range.
    """
    if len(rollout_s) != len(train_s) or len(rollout_s) < 2:
        raise ValueError(f"rollout_s and train_s must have one value per iteration, two or more, got {len(rollout_s)} and {len(train_s)}")
    for name, values in (("rollout_s", rollout_s), ("train_s", train_s), ("sync_s", [sync_s])):
        in_range(f"the least of {name}", min(values), 0)
        in_range(f"the greatest of {name}", max(values), 0)
    if pipelining.mode == "one-step":
        return _one_step(rollout_s, train_s, sync_s)
    if pipelining.mode == "async":
        return _async(pipelining.variant == "streamed", rollout_s, train_s, sync_s)
    raise ValueError(f"mode must be one-step or async, whose iterations overlap, got {pipelining.mode}; add up `iteration` instead")


def _one_step(rollout_s: Sequence[float], train_s: Sequence[float], sync_s: float) -> SteadyState:
    rollout_end, train_end = [rollout_s[0]], []
    barrier_s = rollout_s[0]
    for rollout, train in zip([*rollout_s[1:], 0.0], train_s, strict=True):
        rollout_end.append(barrier_s + rollout)
        train_end.append(barrier_s + train)
        barrier_s += max(rollout, train) + sync_s
    return SteadyState(np.array(rollout_end[:-1]), np.array(train_end))


def _async(streamed: bool, rollout_s: Sequence[float], train_s: Sequence[float], sync_s: float) -> SteadyState:
    rollout_end: list[float] = []
    train_end: list[float] = []
    for index, (rollout, train) in enumerate(zip(rollout_s, train_s, strict=True)):
        weights_s = train_end[index - 2] + sync_s if index >= 2 else 0.0
        rollout_end.append(max(rollout_end[-1] if index else 0.0, weights_s) + rollout)
        before_s = train_end[-1] if index else 0.0
        train_end.append(max(before_s + train, rollout_end[-1]) if streamed else max(before_s, rollout_end[-1]) + train)
    return SteadyState(np.array(rollout_end), np.array(train_end))
