"""Work-conserving first-in-first-out service of a group: what RollMux does with one queue per node.

When a phase ends, the job's next phase joins the queue of its node (the trainer), and the freed node starts the phase
that has waited longest. Nothing makes the rates of the jobs equal, so a short job may run twice while a long one runs
once. Simulated in whole microseconds until the same state comes again; from then on everything repeats. Source: RollMux
(arXiv 2512.11306) 5.1. The iteration times are no guarantee: shorter phases can make them longer (docs/multi_rate.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollplan.models.compiled import compiled

Ticks = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
TICKS_PER_S = 10**6


@dataclass(frozen=True, slots=True)
class Regime:
    """What repeats: its seconds, and how often each job runs in it."""

    period_s: float
    runs: tuple[int, ...]

    def iteration_s(self, job: int) -> float:
        """Return the mean seconds of an iteration; infinite for a job that never runs."""
        return self.period_s / self.runs[job] if self.runs[job] else float("inf")


def fifo_regime(
    rollout_s: Sequence[float],
    train_s: Sequence[float],
    pinning: Sequence[Sequence[int]],
    order: Sequence[int] | None = None,
    most_steps: int = 100_000,
) -> Regime | None:
    """Return the regime that FIFO service reaches, None if no state came again within `most_steps` events.

    rollout_s[j], train_s[j]: seconds per iteration, rounded to microseconds. pinning[j]: rollout nodes of job j, which
    start independently. order: in which order the jobs queue at the beginning (absent: their own).
    """
    jobs = len(pinning)
    pinned = np.zeros((jobs, 1 + max(node for nodes in pinning for node in nodes)), dtype=bool)
    for job, nodes in enumerate(pinning):
        pinned[job, list(nodes)] = True
    rollout, train = (np.array([round(x * TICKS_PER_S) for x in seconds], dtype=np.int64) for seconds in (rollout_s, train_s))
    first = np.array(range(jobs) if order is None else order, dtype=np.int64)
    runs = np.zeros(jobs, dtype=np.int64)
    period = FAST_FIFO(rollout, train, pinned, first, most_steps, runs)
    return Regime(int(period) / TICKS_PER_S, tuple(int(times) for times in runs)) if period > 0 else None


def fifo(rollout: Ticks, train: Ticks, pinned: Flags, first: Ticks, most_steps: int, runs: Ticks) -> int:
    """Return the ticks after which a state comes again, 0 if none does, and write how often each job ran in them to `runs`.

    pinned: shape (n, nodes). first: the jobs in the order in which they queue at tick 0. A state is what every queue
    holds and how long every phase under way still takes; it is compared with the one at the last power of two of steps.
    """
    jobs, nodes = pinned.shape
    queue = np.full((nodes + 1, jobs), -1, dtype=np.int64)
    left = np.full(nodes + 1, -1, dtype=np.int64)
    open_nodes = np.zeros(jobs, dtype=np.int64)
    kept_queue, kept_left, kept_open, kept_runs = queue.copy(), left.copy(), open_nodes.copy(), runs.copy()
    now = kept_now = np.int64(0)
    for k in first:
        for x in range(nodes):
            if pinned[k, x]:
                _join(queue, x, k)
                open_nodes[k] += 1
    keep_at = 1
    for step in range(most_steps):
        for x in range(nodes + 1):  # the head of a queue is what its node works on
            if queue[x, 0] >= 0 and left[x] < 0:
                left[x] = train[queue[x, 0]] if x == nodes else rollout[queue[x, 0]]
        if step > 0 and (left == kept_left).all() and (queue == kept_queue).all() and (open_nodes == kept_open).all() and now > kept_now:
            runs -= kept_runs
            return int(now - kept_now)
        if step == keep_at:
            kept_queue[:], kept_left[:], kept_open[:], kept_runs[:] = queue, left, open_nodes, runs
            kept_now = now
            keep_at *= 2
        passed = np.int64(-1)
        for x in range(nodes + 1):
            if left[x] >= 0 and (passed < 0 or left[x] < passed):
                passed = left[x]
        now += passed
        for x in range(nodes + 1):
            if left[x] >= 0:
                left[x] -= passed
        ended = left == 0
        for x in range(nodes + 1):
            if not ended[x]:
                continue
            k = queue[x, 0]
            left[x] = -1
            queue[x, :-1] = queue[x, 1:].copy()
            queue[x, -1] = -1
            if x == nodes:
                runs[k] += 1
                for y in range(nodes):
                    if pinned[k, y]:
                        _join(queue, y, k)
                        open_nodes[k] += 1
            else:
                open_nodes[k] -= 1
                if open_nodes[k] == 0:
                    _join(queue, nodes, k)
    return 0


@compiled
def _join(queue: Ticks, node: int, job: int) -> None:
    place = 0
    while queue[node, place] >= 0:
        place += 1
    queue[node, place] = job


FAST_FIFO = compiled(fifo)
