"""Seconds of generation on N equal instances.

One batch to its end (`seconds`): the instance that ends last sets the time, so only that one is simulated. Dispatch

    lpt      lengths are known (a ranker): the sorted samples are dealt out in turn, each instance starts its longest
             first; instance 1 gets the longest of every deal, so none ends later
    random   what engines do without a ranker: every instance gets a sample of the law in random order, and one of them
             gets the longest response of all; the mean over a few orders (fixed seeds)

Batches that overlap (`steady_s`, partial rollout): a finished sample is replaced at once, so the batch stays at its
limit, and the time per iteration is tokens x latency / batch. The longest response may take 1 + staleness iterations:
what is older could not be trained on. So it bounds the time from below as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rollplan.models.decode import Admission, Requests, Segments, segments, timed
from rollplan.models.latency import AffineLatency, FloatArray, IntArray, TableLatency
from rollplan.models.stages.work import Work

Dispatch = Literal["lpt", "random"]
SHARES = 64
"""Equal shares of the samples whose finishing times are kept."""
_ORDERS = 3


@dataclass(frozen=True, slots=True)
class Engine:
    """One instance: its law, its limits, and seconds by which one computed prompt token delays its batch."""

    latency: AffineLatency | TableLatency
    slots: int
    kv_tokens: int
    prefill_s_per_token: float = 0.0


@dataclass(frozen=True, slots=True)
class RolloutTime:
    """Seconds of one iteration's generation.

    seconds: one batch to its end. steady_s: per iteration when batches overlap. finish: when each of `SHARES` equal
    shares of the samples is finished, ascending, the last equal to `seconds`. preempted: per sample.
    """

    seconds: float
    steady_s: float
    finish: tuple[float, ...]
    preempted: float


def rollout_times(
    work: Work, engine: Engine, instances: Sequence[int], dispatch: Dispatch = "random", staleness: float = 1.0
) -> list[RolloutTime]:
    """Return the times on each number of instances; all are simulated together.

    staleness: batches that may be in flight beside the current one (`steady_s` only). Raises `ValueError` if the
    longest sequence exceeds the KV cache.
    """
    admission = Admission(engine.slots, engine.kv_tokens, "preempt")
    parts: list[Segments] = []
    runs_of: list[range] = []
    known: dict[bytes, range] = {}
    for count in instances:
        lengths = _lengths(work, engine, count, dispatch)
        # Very long queues show the same part, whatever the number of instances.
        if lengths.tobytes() not in known:
            begun = len(parts)
            for shown in _in_order(lengths, work, engine, dispatch):
                prefill = np.full(shown.size, round(work.prefill_tokens))
                parts.append(segments(Requests(np.full(shown.size, work.prompt_tokens), shown, prefill), admission))
            known[lengths.tobytes()] = range(begun, len(parts))
        runs_of.append(known[lengths.tobytes()])
    finished = timed(parts, engine.latency, engine.prefill_s_per_token)
    times = []
    paced, overlapped = _steady(work, engine, instances, float(work.samples)), _steady(work, engine, instances, staleness)
    for count, runs, paced_s, overlapped_s in zip(instances, runs_of, paced.tolist(), overlapped.tolist(), strict=True):
        shares = np.mean([_shares(finished[run]) for run in runs], axis=0)
        waiting = -(-work.samples // count) - finished[runs[0]].size
        if waiting > 0:
            shares = shares * (1 + waiting * count / work.samples * paced_s / shares[-1])
        preempted = sum(parts[run].preempted for run in runs) / sum(finished[run].size for run in runs)
        times.append(RolloutTime(float(shares[-1]), overlapped_s, tuple(shares.tolist()), preempted))
    return times


def _lengths(work: Work, engine: Engine, instances: int, dispatch: Dispatch) -> IntArray:
    """Return the responses of the instance that ends last; of a very long queue, a part that shows start and end.

    The middle of a long queue runs at the steady rate, which the caller adds.
    """
    fullest = -(-work.samples // instances)
    shown = min(fullest, max(256, 4 * _batch(work, engine, fullest)))
    if dispatch == "lpt" and shown == fullest:
        return work.outputs[::instances]
    middle = (np.arange(shown - 1) + 0.5) / max(1, shown - 1)
    return np.concatenate([work.outputs[:1], work.outputs[(middle * work.samples).astype(int)]])


def _in_order(lengths: IntArray, work: Work, engine: Engine, dispatch: Dispatch) -> list[IntArray]:
    """Return the orders to average over: one if the order is known, or does not matter because all start at once."""
    final = lengths.sum() + lengths.size * work.prompt_tokens
    if dispatch == "lpt" or (lengths.size <= engine.slots and final <= engine.kv_tokens):
        return [-np.sort(-lengths)]
    return [np.random.default_rng(seed).permutation(lengths) for seed in range(_ORDERS)]


def _shares(finish: FloatArray) -> FloatArray:
    ends = np.sort(finish)
    return np.asarray(ends[np.ceil(np.arange(1, SHARES + 1) * ends.size / SHARES).astype(int) - 1])


def _batch(work: Work, engine: Engine, in_flight: float) -> int:
    """Return the batch at which an instance runs when nothing is missing."""
    return max(1, int(min(engine.slots, in_flight, engine.kv_tokens / work.steady_context)))


def _steady(work: Work, engine: Engine, instances: Sequence[int], staleness: float) -> FloatArray:
    """Return the seconds per iteration on each number of instances when finished samples are replaced at once."""
    count = np.array(instances)
    in_flight = (1 + staleness) * work.samples
    room = min(engine.slots, engine.kv_tokens / work.steady_context)
    batch = np.maximum(1, np.minimum(room, in_flight / count)).astype(np.int64)
    # Fewer in flight than instances: some instances have nothing to do.
    working = np.minimum(count, in_flight)
    kv_tokens = (batch * (work.steady_context + 1)).astype(np.float64)
    step_s = engine.latency.seconds(batch, kv_tokens, np.ones_like(batch))
    prefill_s = engine.prefill_s_per_token * work.prefill_tokens * work.samples / working
    paced_s = float(work.outputs.sum()) / working / batch * step_s + prefill_s
    return np.asarray(np.maximum(paced_s, int(work.outputs[0]) * step_s / (1 + staleness)))
