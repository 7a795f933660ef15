"""Contiguous dispatch: cut the requests, sorted by length, into N blocks, one per instance.

Mixing is what costs: every step of the longest request of an instance is slowed by the others, so that similar lengths
belong together. Among contiguous blocks the best are found by bisection on the makespan T: from the longest request on,
each instance takes as many as it finishes within T. (The textbook's dynamic program over all blocks gives the same; it
needs n^2 block times, this only those of the blocks that are met.)

A block that fits into an instance at once is timed exactly. Of a block that waits the steps are exact, since requests
appended to a queue do not disturb those before them (an engine that preempts is taken to reserve); its seconds are
those at the average batch, which is exact for affine laws.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.decode import Admission, Requests, segments
from rollplan.models.dispatch.bounds import attended_tokens
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.latency import FloatArray, IntArray
from rollplan.planner.dispatch.deal import ranked

_PRECISION = 1e-6


def contiguous(problem: DispatchProblem) -> list[IntArray]:
    """Return the orders, longest first in every instance; the first instance has the longest requests."""
    order = ranked(problem)
    blocks = Blocks(problem, order)
    low, high = 0.0, blocks.share_s()
    while (cuts := _fill(blocks, high, problem.instances))[-1] < order.size:
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        ends = _fill(blocks, middle, problem.instances)
        if ends[-1] == order.size:
            high, cuts = middle, ends
        else:
            low = middle
    return np.split(order, cuts[:-1])


def _fill(blocks: Blocks, limit_s: float, instances: int) -> list[int]:
    """Return where each instance's block ends if it takes as many requests as it finishes within the limit."""
    ends = [0]
    for _ in range(instances):
        ends.append(blocks.end(ends[-1], limit_s))
    return ends[1:]


class Blocks:
    """Seconds of blocks of the sorted requests, those with the same first request together, kept once computed."""

    def __init__(self, problem: DispatchProblem, order: IntArray) -> None:
        self._problem = problem
        self._lengths, self._prompts = problem.output_tokens[order], problem.prompt_tokens[order]
        self._share = -(-order.size // problem.instances)
        self._known: dict[int, FloatArray] = {}

    def share_s(self) -> float:
        """Return the seconds of the longest n / N requests."""
        return float(self.seconds(0, self._share)[-1])

    def end(self, first: int, limit_s: float) -> int:
        """Return where the longest block ends that begins with `first` and takes no longer than the limit."""
        count = self._share
        while first < self._lengths.size:
            seconds = self._known.get(first)
            if seconds is None or (seconds.size < self._lengths.size - first and seconds[-1] <= limit_s):
                self._known[first] = self.seconds(first, count)
                count *= 2
            else:
                return first + int(np.searchsorted(seconds, limit_s, side="right"))
        return first

    def seconds(self, first: int, most: int) -> FloatArray:
        """Return the seconds of the blocks of 1, 2, ..., at most `most` requests that begin with `first`; never falling."""
        lengths, prompts = self._lengths[first : first + most], self._prompts[first : first + most]
        count, final = np.arange(1, lengths.size + 1), np.cumsum(lengths + prompts)
        admission = self._problem.admission
        together = count <= admission.slots
        if admission.kv_tokens is not None:
            together &= final <= admission.kv_tokens
        at_once = int(together.sum())
        seconds = self._at_once(lengths[:at_once], prompts[:at_once])
        if at_once < lengths.size:
            seconds = np.concatenate([seconds, self._waiting(lengths, prompts)[at_once:]])
        never_falling: FloatArray = np.maximum.accumulate(seconds)
        return never_falling

    def _at_once(self, lengths: IntArray, prompts: IntArray) -> FloatArray:
        """Return the exact seconds of the first 1, 2, ... requests, which all start together.

        While k of them run, the longest k do, from the length of request k + 1 (or from 0, if k is all) to that of k.
        """
        law, count, held = self._problem.latency, np.arange(1, lengths.size + 1), np.cumsum(prompts).astype(float)
        seconds = law.seconds(count, held + count, lengths)
        after = law.seconds(count[:-1], held[:-1] + count[:-1] * (lengths[1:] + 1), lengths[:-1] - lengths[1:])
        seconds[1:] += np.cumsum(after)
        return seconds

    def _waiting(self, lengths: IntArray, prompts: IntArray) -> FloatArray:
        """Return the seconds of the first 1, 2, ... requests at their average batch."""
        law, admission = self._problem.latency, self._problem.admission
        queue = segments(Requests(prompts, lengths), Admission(admission.slots, admission.kv_tokens))
        steps: IntArray = np.maximum.accumulate(queue.end)
        batch = np.cumsum(lengths) / steps
        context = np.cumsum(attended_tokens(prompts, lengths)) / np.cumsum(lengths)
        fewer, one = np.floor(batch).astype(np.int64), np.ones_like(lengths)
        below, above = (law.seconds(size, context * size, one) for size in (fewer, fewer + 1))
        seconds: FloatArray = steps * (below + (batch - fewer) * (above - below))
        return seconds
