"""A rollout pool with arrivals: continuous batching on N equal instances, one event at a time.

`decode` knows all requests beforehand; here they come when the trainer lets them. Within an instance all sequences
advance together, so each keeps a count of tokens, a sequence leaves when the count has grown by its length, and an
arrival costs one entry in a heap. The latency of a step is taken at the mean context of all decode steps, so that it
depends on the batch alone. A sequence that arrives within a step starts at once, not with the next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from rollplan.models.latency import DecodeLatency, FloatArray, IntArray
from rollplan.models.pipelining.stages import in_range


@dataclass(frozen=True, slots=True, eq=False)
class RolloutPool:
    """Instances, slots of each, their latency, and the lengths that responses have: output_tokens (n), drawn at random.

    prompt_tokens: mean length of a prompt.
    """

    instances: int
    slots: int
    latency: DecodeLatency
    output_tokens: IntArray
    prompt_tokens: float = 0.0

    def __post_init__(self) -> None:
        in_range("instances", self.instances, 1)
        in_range("slots", self.slots, 1)
        in_range("prompt_tokens", self.prompt_tokens, 0)
        tokens = np.asarray(self.output_tokens, dtype=np.int64)
        if tokens.ndim != 1 or not tokens.size:
            raise ValueError(f"output_tokens must hold at least one length, got shape {tokens.shape}")
        in_range("the least of output_tokens", int(tokens.min()), 1)
        object.__setattr__(self, "output_tokens", tokens)

    def step_s(self) -> FloatArray:
        """Return the seconds of one decode step with 1 to `slots` sequences, shape (slots), at the mean context.

        A response of L tokens attends to its prompt and to 1 to L tokens of its own, so the mean over all steps is
        prompt + sum(L (L + 1) / 2) / sum(L).
        """
        lengths = self.output_tokens.astype(np.float64)
        context = self.prompt_tokens + float((lengths * (lengths + 1) / 2).sum() / lengths.sum())
        batch = np.arange(1, self.slots + 1)
        return self.latency.seconds(batch, np.asarray(batch * context, dtype=np.float64), np.ones_like(batch))


class Engines:
    """The instances at work. `clock_s` stands still while nobody calls `advance`."""

    def __init__(self, pool: RolloutPool) -> None:
        self.clock_s = 0.0
        self.in_flight = 0
        self.idle = pool.instances
        self._slots, self._prompt = pool.slots, pool.prompt_tokens
        self._step_s = [0.0, *pool.step_s().tolist()]
        self._running: list[list[tuple[float, int, float]]] = [[] for _ in range(pool.instances)]
        self._tokens = [0.0] * pool.instances
        self._updated_s = [0.0] * pool.instances
        self._next: list[tuple[float, int, int]] = []
        self._version = [0] * pool.instances
        self._turn = 0
        self._ids = count()

    def admit(self, tokens: int) -> int | None:
        """Start a sequence on the next instance in turn that has a free slot; return its number, or None if all are full."""
        for offset in range(len(self._running)):
            instance = (self._turn + offset) % len(self._running)
            if len(self._running[instance]) < self._slots:
                break
        else:
            return None
        self._turn = (instance + 1) % len(self._running)
        self._count_up(instance)
        number = next(self._ids)
        self.idle -= not self._running[instance]
        heappush(self._running[instance], (self._tokens[instance] + tokens, number, tokens))
        self.in_flight += 1
        self._plan(instance)
        return number

    def next_s(self) -> float:
        """Return when the next sequence ends on this clock, infinity if none runs."""
        while self._next and self._next[0][1] != self._version[self._next[0][2]]:
            heappop(self._next)
        return self._next[0][0] if self._next else inf

    def advance(self, clock_s: float) -> None:
        """Let all instances decode until `clock_s`, at most `next_s`."""
        self.clock_s = clock_s

    def finish(self) -> int:
        """Take out the sequence that ends now and return its number."""
        instance = self._next[0][2]
        end, number, _ = heappop(self._running[instance])
        # Exact, so that rounding never accumulates and equal ends stay equal.
        self._tokens[instance], self._updated_s[instance] = end, self.clock_s
        self.in_flight -= 1
        self.idle += not self._running[instance]
        self._plan(instance)
        return number

    def context_tokens(self) -> float:
        """Return the tokens of all running sequences on the fullest instance, prompts included."""
        totals = []
        for instance, running in enumerate(self._running):
            self._count_up(instance)
            totals.append(sum(self._prompt + self._tokens[instance] - (end - tokens) for end, _, tokens in running))
        return max(totals)

    def _count_up(self, instance: int) -> None:
        if batch := len(self._running[instance]):
            self._tokens[instance] += (self.clock_s - self._updated_s[instance]) / self._step_s[batch]
        self._updated_s[instance] = self.clock_s

    def _plan(self, instance: int) -> None:
        self._version[instance] += 1
        if running := self._running[instance]:
            end_s = self._updated_s[instance] + (running[0][0] - self._tokens[instance]) * self._step_s[len(running)]
            heappush(self._next, (max(end_s, self.clock_s), self._version[instance], instance))
