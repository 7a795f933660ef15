"""Seconds of generation on N equal instances.

One batch to its end (`seconds`): the instance that ends last sets the time, so only that one is simulated. Dispatch

    lpt      lengths are known (a ranker): the sorted samples are dealt out in turn, each instance starts its longest
             first; instance 1 gets the longest of every deal, so none ends later
    random   what engines do without a ranker: every instance gets a sample of the law in random order. The one that ends
             last gets the longest response of all, and as many tokens as the fullest instance has on average; the mean
             over a few orders (fixed seeds). Within 6 % of simulating all instances

Batches that overlap (`steady_s`, partial rollout): a finished sample is replaced at once, so the batch stays constant,
and the time per iteration is tokens x latency / batch. The longest response may take 1 + staleness iterations:
what is older could not be trained on. So it bounds the time from below as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np

from rollplan.models.decode import Admission, Requests, Segments, segments, timed
from rollplan.models.latency import AffineLatency, FloatArray, IntArray, TableLatency
from rollplan.models.stages.work import Work

Dispatch = Literal["lpt", "random"]
SHARES = 64
"""Equal shares of the samples whose finishing times are kept."""
_PLACES = np.arange(1, SHARES + 1) / SHARES
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
    parts: list[Segments] = []
    known: dict[bytes, range] = {}

    def runs(lengths: IntArray) -> range:
        """Return the places in `parts` of an instance with these responses; very long queues show the same part."""
        if lengths.tobytes() not in known:
            begun = len(parts)
            parts.extend(_segments(lengths, work, engine, dispatch))
            known[lengths.tobytes()] = range(begun, len(parts))
        return known[lengths.tobytes()]

    surplus = _surplus(work, instances) if dispatch == "random" else [0.0] * len(instances)
    last = [runs(_lengths(work, engine, count, dispatch, more)) for count, more in zip(instances, surplus, strict=True)]
    # Where nobody waits, the instance that ends last makes its steps almost as fast as the others.
    waits = [any(parts[run].start.any() for run in places) for places in last]
    typical = [
        runs(_lengths(work, engine, count, dispatch, 0.0)) if waiting else places
        for count, places, waiting in zip(instances, last, waits, strict=True)
    ]
    finished = timed(parts, engine.latency, engine.prefill_s_per_token)
    paced, overlapped = _steady(work, engine, instances, float(work.samples)), _steady(work, engine, instances, staleness)
    times = []
    for place, count in enumerate(instances):
        seconds = float(np.mean([finished[run].max() for run in last[place]]))
        shares = np.mean([_shares(work, parts[run], finished[run]) for run in typical[place]], axis=0)
        waiting = -(-work.samples // count) - finished[last[place][0]].size
        if waiting > 0:
            middle_s = waiting * count / work.samples * float(paced[place])
            seconds += middle_s * (1 + surplus[place] * count / float(work.outputs.sum()))
            shares = shares + middle_s * _generated(work, dispatch)
        finish = (*np.minimum(shares[:-1], seconds).tolist(), seconds)
        preempted = sum(parts[run].preempted for run in last[place]) / sum(finished[run].size for run in last[place])
        # Whoever may overlap batches may also run one after the other.
        times.append(RolloutTime(seconds, min(seconds, float(overlapped[place])), finish, preempted))
    return times


def _segments(lengths: IntArray, work: Work, engine: Engine, dispatch: Dispatch) -> Iterator[Segments]:
    admission = Admission(engine.slots, engine.kv_tokens, "preempt")
    for shown in _in_order(lengths, work, engine, dispatch):
        prefill = np.full(shown.size, round(work.prefill_tokens))
        yield segments(Requests(np.full(shown.size, work.prompt_tokens), shown, prefill), admission)


def _surplus(work: Work, instances: Sequence[int]) -> list[float]:
    """Return by how many tokens the fullest of N instances exceeds the mean when samples are dealt out at random.

    The largest of N normal values, at the score of (N - 3/8) / (N + 1/4) (Blom 1958).
    """
    spread = float(work.outputs.std())
    return [NormalDist().inv_cdf((n - 0.375) / (n + 0.25)) * spread * sqrt(work.samples / n) for n in instances]


def _lengths(work: Work, engine: Engine, instances: int, dispatch: Dispatch, surplus: float) -> IntArray:
    """Return the responses of the instance that ends last; of a very long queue, a part that shows start and end.

    The middle of a long queue runs at the steady rate, which the caller adds.
    """
    fullest = -(-work.samples // instances)
    shown = min(fullest, max(256, 4 * _batch(work, engine, fullest)))
    if dispatch == "lpt" and shown == fullest:
        return work.outputs[::instances]
    middle = (np.arange(shown - 1) + 0.5) / max(1, shown - 1)
    others = work.outputs[(middle * work.samples).astype(int)]
    if shown == fullest and shown > 1:
        others = np.minimum(work.outputs[0], np.rint(others * (1 + surplus / others.sum())).astype(np.int64))
    return np.concatenate([work.outputs[:1], others])


def _in_order(lengths: IntArray, work: Work, engine: Engine, dispatch: Dispatch) -> list[IntArray]:
    """Return the orders to average over: one if the order is known, or does not matter because all start at once."""
    final = lengths.sum() + lengths.size * work.prompt_tokens
    if dispatch == "lpt" or (lengths.size <= engine.slots and final <= engine.kv_tokens):
        return [-np.sort(-lengths)]
    return [np.random.default_rng(seed).permutation(lengths) for seed in range(_ORDERS)]


def _shares(work: Work, part: Segments, finish: FloatArray) -> FloatArray:
    """Return when each share of the samples is finished, given one instance.

    If nobody had to wait, a sample of any length is finished when its instance has made so many steps; the samples of one
    instance alone would be too few to tell where there are many instances.
    """
    if part.start.any():
        return np.asarray(np.sort(finish)[np.ceil(_PLACES * finish.size).astype(int) - 1])
    order = np.argsort(part.end)
    steps, seconds = np.append(0, part.end[order]), np.append(0.0, finish[part.request[order]])
    return np.asarray(np.interp(work.outputs[::-1][np.ceil(_PLACES * work.samples).astype(int) - 1], steps, seconds))


def _generated(work: Work, dispatch: Dispatch) -> FloatArray:
    """Return which part of all tokens the first shares of the samples have, in the order of dispatch."""
    if dispatch == "random":
        return _PLACES
    tokens = np.cumsum(work.outputs)
    return np.asarray(tokens[np.ceil(_PLACES * work.samples).astype(int) - 1] / tokens[-1])


def _batch(work: Work, engine: Engine, in_flight: float) -> int:
    """Return the batch at which an instance runs when nothing is missing."""
    return max(1, int(min(engine.slots, in_flight, engine.kv_tokens / work.steady_context)))


def _steady(work: Work, engine: Engine, instances: Sequence[int], staleness: float) -> FloatArray:
    """Return the seconds per iteration on each number of instances when finished samples are replaced at once.

    A large batch makes many tokens per second, a small one brings the longest response home sooner: of batches up to the
    limit, halved again and again, the best is taken.
    """
    count = np.array(instances)
    in_flight = (1 + staleness) * work.samples
    room = max(1, int(min(engine.slots, engine.kv_tokens / work.steady_context)))
    halvings = 0.5 ** np.arange(np.log2(max(2, room)))[:, None]
    running = np.maximum(1.0, np.minimum(room, in_flight / count) * halvings)
    # Fewer in flight than instances: some instances have nothing to do.
    working = np.minimum(count, in_flight)
    batch = np.ceil(running).astype(np.int64)
    kv_tokens = running * (work.steady_context + 1)
    step_s = engine.latency.seconds(batch.ravel(), kv_tokens.ravel(), np.ones(batch.size, dtype=np.int64)).reshape(batch.shape)
    prefill_s = engine.prefill_s_per_token * work.prefill_tokens * work.samples / working
    paced_s = float(work.outputs.sum()) / working / running * step_s + prefill_s
    return np.asarray(np.maximum(paced_s, int(work.outputs[0]) * step_s / (1 + staleness)).min(axis=0))
