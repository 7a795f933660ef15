"""One iteration in steady state, for each of the `modes`.

While both sides run, each may slow down. With an overlap of x seconds per iteration, x / slowdown of the work is done in
it, so a side that needs g alone takes g + x (1 - 1 / slowdown).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rollplan.models.pipelining.modes import Iteration, Pipelining, Segment, Stage, Wait
from rollplan.models.pipelining.stages import Stages, in_range

REL_TOL = 1e-9
"""A side that idles less, relative to the iteration, waits for nothing."""


def iteration(pipelining: Pipelining, stages: Stages) -> Iteration:
    """Return an iteration of these stages; raise `ValueError` for more chunks, or a larger fill, than samples."""
    match pipelining.mode:
        case "serial":
            return _serial(stages)
        case "mini-batch" | "dynamic-batch":
            return _chunked(pipelining, stages)
        case "one-step":
            return _one_step(stages)
        case "async":
            return _async(pipelining.variant == "streamed", stages)


def streamed_period_s(rollout_s: float, train_s: float, sync_s: float) -> float:
    """Return the period of variant (A) for constant times. Its third term matters only if a sync outlasts a rollout."""
    return max(rollout_s, train_s, (rollout_s + sync_s) / 2)


def batch_period_s(rollout_s: float, train_s: float, sync_s: float) -> float:
    """Return the period of variant (B) for constant times; rollout, training, sync and the rollout after next form a cycle."""
    return max(rollout_s, train_s, (rollout_s + train_s + sync_s) / 2)


def _serial(stages: Stages) -> Iteration:
    rollout_s, train_s = float(stages.finish_s[-1]) + stages.score_s * stages.samples, stages.train_s
    parts: list[tuple[Stage, float]] = [("rollout", rollout_s), ("switch to train", stages.switch_to_train_s), ("train", train_s)]
    parts += [("drain", stages.drain_s), ("transfer", stages.transfer_s), ("switch to rollout", stages.switch_to_rollout_s)]
    timeline, now = [], 0.0
    for stage, seconds in parts:
        timeline.append(Segment(stage, now, now + seconds))
        now += seconds
    waits: dict[Wait, float] = {"sync": stages.sync_s, "switch": stages.switch_to_train_s + stages.switch_to_rollout_s}
    return _summary(now, rollout_s, train_s, {"training": train_s, **waits}, {"rollout": rollout_s, **waits}, 0, timeline)


def _chunked(pipelining: Pipelining, stages: Stages) -> Iteration:
    clock = _Clocks(stages)
    if pipelining.chunks is not None:
        _mini_batches(pipelining.chunks, stages, clock)
    elif pipelining.fill is not None:
        _dynamic_batches(pipelining.fill, stages, clock)
    trained_s, rollout_s = clock.now_s, clock.rollout_end_s
    busy_s = sum(part.end_s - part.start_s for part in clock.trained)
    timeline = [Segment("rollout", 0.0, rollout_s), *clock.trained, *_sync(stages, trained_s)]
    rollout_waits: dict[Wait, float] = {"training": trained_s - rollout_s, "sync": stages.sync_s}
    train_waits: dict[Wait, float] = {"rollout": trained_s - busy_s, "sync": stages.sync_s}
    return _summary(trained_s + stages.sync_s, rollout_s, busy_s, rollout_waits, train_waits, 0, timeline)


def _mini_batches(chunks: int, stages: Stages, clock: _Clocks) -> None:
    in_range("chunks", chunks, 1, stages.samples)
    ends = [stages.samples * chunk // chunks for chunk in range(chunks + 1)]
    ready_s = 0.0
    clock.end_s = float(stages.finish_s[-1])
    for first, end in pairwise(ends):
        # A chunk is scored as a whole, as soon as it is complete.
        ready_s = max(ready_s, float(stages.finish_s[end - 1])) + stages.score_s * (end - first)
        clock.end_s = max(clock.end_s, ready_s)
        clock.wait_until(ready_s)
        clock.train(stages.chunk_s(first, end))


def _dynamic_batches(fill: int, stages: Stages, clock: _Clocks) -> None:
    in_range("fill", fill, 1, stages.samples)
    ready_s = stages.ready_s()
    clock.end_s = float(ready_s[-1])
    done = 0
    while done < stages.samples:
        clock.wait_until(float(ready_s[min(done + fill, stages.samples) - 1]))
        ready = int(np.searchsorted(ready_s, clock.rollout_s, side="right"))
        clock.train(stages.chunk_s(done, ready))
        done = ready


class _Clocks:
    """Wall time, and the rollout's own clock, which is slower while the trainer runs."""

    def __init__(self, stages: Stages) -> None:
        self.now_s = self.rollout_s = self.end_s = self.rollout_end_s = 0.0
        self.slowdown = stages.rollout_slowdown, stages.train_slowdown
        self.trained: list[Segment] = []

    def wait_until(self, rollout_s: float) -> None:
        """Let the trainer wait until the rollout's clock shows a time."""
        if rollout_s > self.rollout_s:
            self.now_s += rollout_s - self.rollout_s
            self.rollout_s = rollout_s
            self.rollout_end_s = self.now_s

    def train(self, seconds: float) -> None:
        """Train for so many undisturbed seconds, next to the rollout as long as that goes on."""
        start_s, (rollout, train) = self.now_s, self.slowdown
        left_s = (self.end_s - self.rollout_s) * rollout
        if seconds * train < left_s:
            self.now_s += seconds * train
            self.rollout_s += seconds * train / rollout
        else:
            if left_s > 0:
                self.rollout_s, self.rollout_end_s = self.end_s, self.now_s + left_s
            self.now_s += left_s + (seconds - left_s / train)
        self.trained.append(Segment("train", start_s, self.now_s))


def _one_step(stages: Stages) -> Iteration:
    rollout_s, train_s = _side_by_side(stages)
    both_s = max(rollout_s, train_s)
    period_s = both_s + stages.sync_s
    timeline = [Segment("rollout", 0.0, rollout_s), Segment("train", period_s, period_s + train_s), *_sync(stages, period_s + both_s)]
    rollout_waits: dict[Wait, float] = {"training": both_s - rollout_s, "sync": stages.sync_s}
    train_waits: dict[Wait, float] = {"rollout": both_s - train_s, "sync": stages.sync_s}
    return _summary(period_s, rollout_s, train_s, rollout_waits, train_waits, 1, timeline)


def _async(streamed: bool, stages: Stages) -> Iteration:
    rollout_s, train_s = _side_by_side(stages)
    period_s = (streamed_period_s if streamed else batch_period_s)(rollout_s, train_s, stages.sync_s)
    # A rollout that has to wait does so for the weights of the training before the last.
    trained_s = 2 * period_s - stages.sync_s if rollout_s < period_s else rollout_s + (0 if streamed else train_s)
    timeline = [Segment("rollout", 0.0, rollout_s), Segment("train", trained_s - train_s, trained_s), *_sync(stages, trained_s)]
    reason: Wait = "sync" if stages.sync_s > train_s else "training"
    waits: dict[Wait, float] = {reason: period_s - rollout_s}
    return _summary(period_s, rollout_s, train_s, waits, {"rollout": period_s - train_s}, 1, timeline)


def _side_by_side(stages: Stages) -> tuple[float, float]:
    """Return the seconds of rollout and training where the one that is done first overlaps with the other all the time.

    So it is where one side binds. In variant (B) near balance both sides wait a little, the overlap may be less, and this
    is an upper limit.
    """
    rollout_s, train_s = float(stages.ready_s()[-1]), stages.train_s
    overlap_s = min(rollout_s * stages.rollout_slowdown, train_s * stages.train_slowdown)
    return rollout_s + overlap_s * (1 - 1 / stages.rollout_slowdown), train_s + overlap_s * (1 - 1 / stages.train_slowdown)


def _sync(stages: Stages, start_s: float) -> list[Segment]:
    drained_s = start_s + stages.drain_s
    return [Segment("drain", start_s, drained_s), Segment("transfer", drained_s, drained_s + stages.transfer_s)]


def _summary(
    period_s: float,
    rollout_s: float,
    train_s: float,
    rollout_waits: dict[Wait, float],
    train_waits: dict[Wait, float],
    staleness: int,
    timeline: list[Segment],
) -> Iteration:
    rollout_busy, rollout_wait = _share(rollout_s, period_s, rollout_waits)
    train_busy, train_wait = _share(train_s, period_s, train_waits)
    shown = tuple(segment for segment in timeline if segment.end_s > segment.start_s)
    return Iteration(period_s, rollout_busy, train_busy, rollout_wait, train_wait, staleness, shown)


def _share(busy_s: float, period_s: float, waits: dict[Wait, float]) -> tuple[float, Wait | None]:
    """Return the share of the period in which a side is busy, and the greatest of its waits if it has any."""
    if period_s - busy_s <= REL_TOL * period_s:
        return 1.0, None
    return busy_s / period_s, max(waits, key=lambda wait: waits[wait])
