"""An asynchronous run, simulated by events: one rollout pool, one trainer, weights between them (`rules` says how)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from rollplan.models.pipelining.outcome import AsyncRun, Measure, summary
from rollplan.models.pipelining.pool import Engines, RolloutPool
from rollplan.models.pipelining.rules import Asynchrony, in_flight_limit
from rollplan.models.pipelining.stages import TrainingLaw, in_range


def simulate_async(
    pool: RolloutPool, train: TrainingLaw, rules: Asynchrony, versions: int = 40, warmup: int = 10, seed: int = 0
) -> AsyncRun:
    """Return the steady state of a run of warmup + versions weight versions; same seed, same lengths in the same order."""
    in_range("versions", versions, 1)
    in_range("warmup", warmup, 0)
    run = _Run(pool, train, rules, seed)
    while run.version < warmup:
        run.step()
    run.measure = Measure()
    while run.version < warmup + versions:
        run.step()
    return summary(run.measure, rules, versions)


@dataclass(frozen=True, slots=True)
class _Sample:
    tokens: int
    batch: int
    version: int
    start_s: float


class _Run:
    """State between two events."""

    def __init__(self, pool: RolloutPool, train: TrainingLaw, rules: Asynchrony, seed: int) -> None:
        self.engines, self.train, self.rules = Engines(pool), train, rules
        self.instances = pool.instances
        self.measure = Measure()
        self.now_s = 0.0
        self.version = self.steps = self.started = self.discarded = 0
        self.training_left_s: float | None = None
        self.running: dict[int, _Sample] = {}
        self.ready: list[_Sample] = []
        self.complete: Counter[int] = Counter()
        self.next_batch = 0
        self.vacant: deque[int] = deque()
        self.lengths = _lengths(pool, seed)
        self.drawn = next(self.lengths)

    @property
    def syncing(self) -> bool:
        """Whether the trainer has done its steps and asks for a sync."""
        return self.steps == self.rules.sync_every

    def step(self) -> None:
        """Sync; or admit what may start, train if there is a batch, and go to the next event. A sync admits nobody before it."""
        if self.syncing and (self.rules.partial_rollout or not self.engines.in_flight):
            self._sync()
            return
        if not self.syncing:
            self._admit()
            if self.training_left_s is None:
                self._start_training()
        self._go_on()

    def _sync(self) -> None:
        recompute_s = self.rules.reprefill_s_per_token * self.engines.context_tokens() if self.rules.reprefill_s_per_token else 0.0
        pause_s = self.rules.transfer_s + recompute_s
        self._account("transfer", pause_s)
        self.measure.seconds["rollout idle"] += pause_s
        self.measure.seconds["in flight"] += pause_s * self.engines.in_flight
        self.now_s += pause_s
        self.version, self.steps = self.version + 1, 0
        if self.rules.discard_older_than is not None:
            self._discard_old()

    def _admit(self) -> None:
        limit = in_flight_limit(self.rules.batch * self.rules.sync_every, self.version + self.rules.staleness)
        while self.started - self.discarded < limit and (number := self.engines.admit(self.drawn)) is not None:
            # A sample that replaces a discarded one takes its place in the batch.
            batch = self.vacant.popleft() if self.vacant else (self.started - self.discarded) // self.rules.batch
            self.running[number] = _Sample(self.drawn, batch, self.version, self.now_s)
            self.started += 1
            self.drawn = next(self.lengths)

    def _start_training(self) -> None:
        size = self.rules.batch
        if self.rules.order == "finished":
            if len(self.ready) < size:
                return
            taken, self.ready = self.ready[:size], self.ready[size:]
        else:
            if self.complete[self.next_batch] < size:
                return
            taken = [sample for sample in self.ready if sample.batch == self.next_batch]
            self.ready = [sample for sample in self.ready if sample.batch != self.next_batch]
            del self.complete[self.next_batch]
        self.next_batch += 1
        self.measure.staleness += [self.version - sample.version for sample in taken]
        self.training_left_s = self.train.seconds(size, sum(sample.tokens for sample in taken))

    def _go_on(self) -> None:
        training, rolling = self.training_left_s is not None, self.engines.in_flight > 0
        rollout_factor = self.rules.rollout_slowdown if training else 1.0
        train_factor = self.rules.train_slowdown if rolling else 1.0
        finish_s = (self.engines.next_s() - self.engines.clock_s) * rollout_factor
        trained_s = inf if self.training_left_s is None else self.training_left_s * train_factor
        event_s = min(finish_s, trained_s)
        assert event_s < inf, "samples in flight or waiting always make a batch"
        self.now_s += event_s
        self._account("train" if training else "drain" if self.syncing else "rollout", event_s)
        self.measure.seconds["rollout idle"] += event_s * self.engines.idle / self.instances
        self.measure.seconds["in flight"] += event_s * self.engines.in_flight
        if finish_s <= trained_s:
            self.engines.advance(self.engines.next_s())
            self._finish()
        else:
            self.engines.advance(self.engines.clock_s + event_s / rollout_factor)
        if self.training_left_s is not None:
            if trained_s <= finish_s:
                self.training_left_s = None
                self.steps += 1
            else:
                self.training_left_s -= event_s / train_factor

    def _finish(self) -> None:
        sample = self.running.pop(self.engines.finish())
        self.measure.rollout_s.append(self.now_s - sample.start_s)
        self.measure.finished_tokens += sample.tokens
        if self._is_old(sample):
            self._discard(sample)
        else:
            self.ready.append(sample)
            self.complete[sample.batch] += 1

    def _discard_old(self) -> None:
        old = [sample for sample in self.ready if self._is_old(sample)]
        self.ready = [sample for sample in self.ready if not self._is_old(sample)]
        for sample in old:
            self.complete[sample.batch] -= 1
            self._discard(sample)

    def _discard(self, sample: _Sample) -> None:
        self.discarded += 1
        self.vacant.append(sample.batch)
        self.measure.discarded += 1
        self.measure.discarded_tokens += sample.tokens

    def _is_old(self, sample: _Sample) -> bool:
        limit = self.rules.discard_older_than
        return limit is not None and self.version - sample.version > limit

    def _account(self, what: str, seconds: float) -> None:
        self.measure.seconds[what] += seconds
        self.measure.seconds["all"] += seconds


def _lengths(pool: RolloutPool, seed: int) -> Iterator[int]:
    generator = np.random.default_rng(seed)
    while True:
        yield from generator.choice(pool.output_tokens, 4096).tolist()
