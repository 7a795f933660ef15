"""Continuous batching, simulated exactly.

All sequences of a batch advance by one token per decode step. So who starts and ends at which *step* depends on lengths
and admission alone, never on latency: the schedule is list scheduling in whole numbers (O(n log n)). Seconds come
afterwards: between two events the batch is constant, and the latency law gives a stretch of steps in closed form.

Two rules of admission, both in the order of the requests and without overtaking:

    reserve    a request enters when a slot is free and its final length (prompt + output) still fits into the KV cache
    preempt    as engines do, which do not know the final length: a request enters when its present tokens fit; when the
               cache is full, the youngest is thrown out, waits at the head of the queue, and its tokens are computed
               again (vLLM's recompute policy)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from math import isfinite
from typing import Literal, get_args

import numpy as np

from rollplan.models.latency import DecodeLatency, FloatArray, IntArray

Policy = Literal["reserve", "preempt"]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """What one instance has to generate, in the order of admission. Arrays of one length n, in tokens.

    prompt_tokens: kept in the KV cache. output_tokens: at least 1. prefill_tokens: prompt tokens that this request
    computes; less than its prompt where a sample of the same prompt did so before (prefix cache); absent, the prompt.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    prefill_tokens: IntArray | None = None

    def __post_init__(self) -> None:
        least = {"prompt_tokens": 0, "output_tokens": 1, "prefill_tokens": 0}
        for name, low in least.items():
            given = getattr(self, name)
            array = np.asarray(self.prompt_tokens if given is None else given)
            if array.size and not np.issubdtype(array.dtype, np.integer):
                raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
            array = array.astype(np.int64)
            if array.shape != np.shape(self.output_tokens) or array.ndim != 1:
                raise ValueError(f"{name} must have one value per request, shape {np.shape(self.output_tokens)}, got {array.shape}")
            if array.size and array.min() < low:
                raise ValueError(f"{name} must be at least {low}, got {array.min()}")
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        """Return the number of requests."""
        return int(self.output_tokens.size)


@dataclass(frozen=True, slots=True)
class Admission:
    """Limits of one instance: sequences at once, and tokens in the KV cache (None: enough for all slots)."""

    slots: int
    kv_tokens: int | None = None
    policy: Policy = "reserve"

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots must be at least 1, got {self.slots}")
        if self.kv_tokens is not None and self.kv_tokens < 1:
            raise ValueError(f"kv_tokens must be at least 1, got {self.kv_tokens}")
        if self.policy not in get_args(Policy):
            raise ValueError(f"policy must be one of {', '.join(get_args(Policy))}, got {self.policy}")


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Who decodes from which step to which, in one instance; arrays of one length, more than n only after preemption.

    request: index. start, end: steps. kv_start: tokens in the cache when the segment starts. prefill: tokens computed
    then. preempted: how often a request was thrown out.
    """

    request: IntArray
    start: IntArray
    end: IntArray
    kv_start: IntArray
    prefill: IntArray
    preempted: int = 0

    @property
    def steps(self) -> int:
        """Decode steps until everything is finished."""
        return int(self.end.max(initial=0))


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """Seconds of a generation.

    finish_s (n): when each request is finished. instance_s (instances): when each instance is. preempted: in total.
    """

    finish_s: FloatArray
    instance_s: FloatArray
    preempted: int

    @property
    def seconds(self) -> float:
        """When the last request is finished."""
        return float(self.instance_s.max(initial=0.0))


def longest_first(requests: Requests, estimated_tokens: IntArray | None = None) -> Requests:
    """Return the requests in descending order of estimated output (LPT, Graham 1969); of equal ones the earlier first.

    estimated_tokens (n): what a length predictor says; absent, the true output, as an oracle would.
    """
    estimates = np.asarray(requests.output_tokens if estimated_tokens is None else estimated_tokens, dtype=np.float64)
    if estimates.shape != requests.output_tokens.shape:
        raise ValueError(f"estimated_tokens must have one value per request, shape {requests.output_tokens.shape}, got {estimates.shape}")
    order = np.argsort(-estimates, kind="stable")
    return Requests(requests.prompt_tokens[order], requests.output_tokens[order], _prefill(requests)[order])


def segments(requests: Requests, admission: Admission) -> Segments:
    """Return who decodes when; raise `ValueError` for a request that can never fit."""
    final = requests.prompt_tokens + requests.output_tokens
    if admission.kv_tokens is not None and len(requests) and final.max() > admission.kv_tokens:
        index = int(final.argmax())
        raise ValueError(f"request {index} needs {final[index]} tokens of KV cache, the instance has {admission.kv_tokens}")
    # A budget that the largest requests of all slots together cannot exceed never binds.
    most = int(np.sort(final)[-admission.slots :].sum()) if len(requests) else 0
    if admission.kv_tokens is None or most <= admission.kv_tokens:
        starts = _slots_only(requests.output_tokens, admission.slots)
    elif admission.policy == "reserve":
        starts = _reserving(requests.output_tokens, final, admission.slots, admission.kv_tokens)
    else:
        return _preempting(requests, admission.slots, admission.kv_tokens)
    return Segments(np.arange(len(requests)), starts, starts + requests.output_tokens, requests.prompt_tokens, _prefill(requests))


def simulate(
    instances: Sequence[Requests], admission: Admission | Sequence[Admission], latency: DecodeLatency, prefill_s_per_token: float = 0.0
) -> Generation:
    """Return when requests finish, in the order in which they are given, instance after instance.

    prefill_s_per_token: seconds by which computing one token of a prompt delays everybody in its instance.
    """
    if not (isfinite(prefill_s_per_token) and prefill_s_per_token >= 0):
        raise ValueError(f"prefill_s_per_token must be finite and at least 0, got {prefill_s_per_token}")
    rules = [admission] * len(instances) if isinstance(admission, Admission) else list(admission)
    parts = [segments(requests, rule) for requests, rule in zip(instances, rules, strict=True)]
    finish = timed(parts, latency, prefill_s_per_token)
    instance_s = np.array([part.max(initial=0.0) for part in finish])
    return Generation(np.concatenate([np.zeros(0), *finish]), instance_s, sum(part.preempted for part in parts))


def timed(parts: Sequence[Segments], latency: DecodeLatency, prefill_s_per_token: float = 0.0) -> list[FloatArray]:
    """Return the seconds at which each request of each instance finishes; all instances are computed at once."""
    lengths = [part.request.size for part in parts]
    if not sum(lengths):
        return [np.zeros(0) for _ in parts]
    owner = np.repeat(np.arange(len(parts)), lengths)
    start, end, kv_start, prefill = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "end", "kv_start", "prefill")
    )
    # Instances one after another on one axis: none overlaps the next, and each begins and ends with an empty batch.
    width = int(end.max()) + 1
    start, end = start + owner * width, end + owner * width
    events, at = np.unique(np.concatenate([start, end]), return_inverse=True)
    enter, leave = at[: start.size], at[start.size :]
    offset = kv_start - start
    batch = np.cumsum(_tally(enter, np.ones_like(start), events) - _tally(leave, np.ones_like(start), events))
    kv = np.cumsum(_tally(enter, offset, events) - _tally(leave, offset, events)) + batch * events
    steps = np.diff(events, append=events[-1])
    busy = batch > 0
    seconds = np.zeros(events.size)
    # A step attends to the tokens before it and to its own.
    seconds[busy] = latency.seconds(batch[busy], (kv + batch)[busy].astype(float), steps[busy])
    seconds += prefill_s_per_token * _tally(enter, prefill, events)
    clock = np.concatenate([[0.0], np.cumsum(seconds)])
    first = np.searchsorted(events, np.arange(len(parts)) * width)
    done = clock[leave] - clock[first][owner]
    finish: list[FloatArray] = []
    for part, values in zip(parts, np.split(done, np.cumsum(lengths)[:-1]), strict=True):
        of_request = np.zeros(int(part.request.max(initial=-1)) + 1)
        np.maximum.at(of_request, part.request, values)
        finish.append(of_request)
    return finish


def _tally(where: IntArray, what: IntArray, events: IntArray) -> IntArray:
    """Return the sum of `what` at each event, exactly (weights of `bincount` would be floats)."""
    total = np.zeros(events.size, dtype=np.int64)
    np.add.at(total, where, what)
    return total


def _prefill(requests: Requests) -> IntArray:
    assert requests.prefill_tokens is not None, "filled in when built"
    return requests.prefill_tokens


def _slots_only(outputs: IntArray, slots: int) -> IntArray:
    """Return the steps at which requests start when only slots limit: list scheduling."""
    starts = np.zeros(outputs.size, dtype=np.int64)
    lengths = outputs.tolist()
    running = sorted(lengths[:slots])
    for index in range(slots, len(lengths)):
        starts[index] = running[0]
        heapreplace(running, running[0] + lengths[index])
    return starts


def _reserving(outputs: IntArray, final: IntArray, slots: int, budget: int) -> IntArray:
    """Return the steps at which requests start when each reserves its final length."""
    starts = np.zeros(outputs.size, dtype=np.int64)
    running: list[tuple[int, int]] = []
    reserved, now = 0, 0
    for index, (length, need) in enumerate(zip(outputs.tolist(), final.tolist(), strict=True)):
        while len(running) >= slots or reserved + need > budget:
            now, freed = heappop(running)
            reserved -= freed
        starts[index] = now
        reserved += need
        heappush(running, (now + length, need))
    return starts


def _preempting(requests: Requests, slots: int, budget: int) -> Segments:
    """Run the engine's rule: enter on present tokens, throw out the youngest when the cache is full."""
    kept, prefills = requests.prompt_tokens.tolist(), _prefill(requests).tolist()
    final = (requests.prompt_tokens + requests.output_tokens).tolist()
    waiting = list(range(len(final)))[::-1]
    running: dict[int, int] = {}  # request -> step at which it entered, oldest first
    ends: list[tuple[int, int, int]] = []  # heap of (end, request, start); those of preempted requests stay until they come up
    out: list[tuple[int, int, int, int, int]] = []
    now, used, preempted = 0, 0, 0
    while waiting or running:
        # One more token per running sequence must fit, so that everybody who enters makes a step.
        while waiting and len(running) < slots and used + kept[waiting[-1]] + len(running) + 1 <= budget:
            index = waiting.pop()
            running[index] = now
            used += kept[index]
            heappush(ends, (now + final[index] - kept[index], index, now))
        while running.get(ends[0][1]) != ends[0][2]:
            heappop(ends)
        steps = min(ends[0][0] - now, (budget - used) // len(running))
        now += steps
        used += steps * len(running)
        if steps == 0:
            index, start = running.popitem()
            tokens = kept[index] + now - start
            out.append((index, start, now, kept[index], prefills[index]))
            used -= tokens
            kept[index] = prefills[index] = tokens
            waiting.append(index)
            preempted += 1
        while ends and ends[0][0] == now:
            _, index, start = heappop(ends)
            if running.get(index) == start:
                del running[index]
                used -= final[index]
                out.append((index, start, now, kept[index], prefills[index]))
    columns = np.array(out, dtype=np.int64).reshape(-1, 5).T
    return Segments(columns[0], columns[1], columns[2], columns[3], columns[4], preempted)
