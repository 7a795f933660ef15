"""Periodic earliest-deadline-first: a timetable for a group whose jobs run several times per period.

Job k makes m_k runs in a period of P. Run i of a period is released at `offset_k + i gap_k` and due at
`offset_k + (i + 1) P / m_k`; the gap is P / m_k (even releases) or less (a job may use the first half of the period
and leave the second to others). Every free resource takes the waiting phase whose run is due first; nothing is preempted.
Runs may end late: when the starts of one period come again P later, and phases on one node stay apart when they do so for
ever, they are a timetable whatever was due when. All times are whole ticks, so equal starts are equal. Which offsets and
gaps are tried decides what is found.

The function is compiled by numba where that is installed and runs as it stands otherwise: same answers, more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rollplan.models.compiled import compiled

Ticks = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Edf = Callable[[int, Ticks, Ticks, Ticks, Ticks, Flags, Flags, Ticks, Ticks, Ticks, Ticks], int]
PERIODS = 4
"""Periods that are simulated: the start-up fades in the first ones if it ever does."""
_ROOM = 2
"""Periods that the fastest job can be ahead of the slowest: one of different offsets, one of runs that end late."""


def edf(
    period: int,
    runs: Ticks,
    rollout: Ticks,
    train: Ticks,
    delay: Ticks,
    pinned: Flags,
    gang: Flags,
    offset: Ticks,
    gap: Ticks,
    rollout_at: Ticks,
    train_at: Ticks,
) -> int:
    """Simulate, and return the first period whose starts come again `period` ticks later, -1 if none do or a run is a period late.

    period, a multiple of every runs[k], and all durations in ticks, shape (n,). pinned: shape (n, nodes). gang: jobs that
    take all their nodes at the same moment. offset: first release of each job, in [0, period). gap: ticks between the
    releases of a job's runs in one period, at most period / runs[k]. The starts are written to rollout_at, shape (n, w,
    nodes), and train_at, shape (n, w), with w = most runs * (PERIODS + _ROOM).
    """
    jobs, nodes = pinned.shape
    never = np.int64(9_000_000_000_000_000_000)
    node_free = np.zeros(nodes, dtype=np.int64)
    trainer_free = np.int64(0)
    run = np.zeros(jobs, dtype=np.int64)
    slot = np.zeros(jobs, dtype=np.int64)
    ready = np.zeros(jobs, dtype=np.int64)
    waiting = np.zeros(jobs, dtype=np.int64)
    rollout_end = np.full(jobs, never, dtype=np.int64)
    begun = np.zeros((jobs, nodes), dtype=np.bool_)
    passed = np.zeros(jobs, dtype=np.bool_)
    for k in range(jobs):
        slot[k] = period // runs[k]
        for n in range(nodes):
            waiting[k] += pinned[k, n]
    now = np.int64(0)
    while True:
        complete = True
        for k in range(jobs):
            if run[k] < PERIODS * runs[k]:
                complete = False
        if complete:
            break
        started = True
        while started:  # again after phases of no length, which free what they took at once
            started = False
            passed[:] = False
            for _ in range(jobs):
                k = -1
                for other in range(jobs):
                    if not passed[other] and (k < 0 or offset[other] + (run[other] + 1) * slot[other] < offset[k] + (run[k] + 1) * slot[k]):
                        k = other
                passed[k] = True
                if now > offset[k] + (run[k] + 1) * slot[k] + period:
                    return -1
                if rollout_end[k] <= now and trainer_free <= now:
                    train_at[k, run[k]] = now
                    trainer_free = now + train[k]
                    ready[k] = trainer_free + delay[k]
                    rollout_end[k] = never
                    run[k] += 1
                    for n in range(nodes):
                        begun[k, n] = False
                        waiting[k] += pinned[k, n]
                    started = True
                elif waiting[k] > 0 and max(ready[k], offset[k] + run[k] // runs[k] * period + run[k] % runs[k] * gap[k]) <= now:
                    free = 0
                    for n in range(nodes):
                        if pinned[k, n] and not begun[k, n] and node_free[n] <= now:
                            free += 1
                    if free > 0 and (free == waiting[k] or not gang[k]):
                        for n in range(nodes):
                            if pinned[k, n] and not begun[k, n] and node_free[n] <= now:
                                rollout_at[k, run[k], n] = now
                                begun[k, n] = True
                                waiting[k] -= 1
                                node_free[n] = now + rollout[k]
                        if waiting[k] == 0:
                            rollout_end[k] = now + rollout[k]
                        started = True
        after = never
        if now < trainer_free:
            after = trainer_free
        for n in range(nodes):
            if now < node_free[n] < after:
                after = node_free[n]
        for k in range(jobs):
            release = max(ready[k], offset[k] + run[k] // runs[k] * period + run[k] % runs[k] * gap[k])
            if now < release < after:
                after = release
            if now < rollout_end[k] < after:
                after = rollout_end[k]
        now = after
    for first in range(PERIODS - 1):
        same = True
        for k in range(jobs):
            for i in range(first * runs[k], (first + 1) * runs[k]):
                if train_at[k, i] + period != train_at[k, i + runs[k]]:
                    same = False
                for n in range(nodes):
                    if pinned[k, n] and rollout_at[k, i, n] + period != rollout_at[k, i + runs[k], n]:
                        same = False
        if same:
            return first
    return -1


FAST_EDF = compiled(edf)


def starts(
    period: int,
    runs: Ticks,
    rollout: Ticks,
    train: Ticks,
    delay: Ticks,
    pinned: Flags,
    gang: Flags,
    offset: Ticks,
    gap: Ticks,
    simulate: Edf = FAST_EDF,
) -> tuple[Ticks, Ticks] | None:
    """Return the starts of one period's runs, None if these offsets and gaps give none; arguments as of `edf`.

    Rollouts have shape (n, most runs, nodes), trainings (n, most runs); of job k the first runs[k] count.
    """
    most = int(runs.max())
    rollout_at = np.zeros((len(runs), most * (PERIODS + _ROOM), pinned.shape[1]), dtype=np.int64)
    train_at = np.zeros((len(runs), most * (PERIODS + _ROOM)), dtype=np.int64)
    first = simulate(period, runs, rollout, train, delay, pinned, gang, offset, gap, rollout_at, train_at)
    if first < 0:
        return None
    some = np.arange(most)[None, :] + first * runs[:, None]
    rollout_at, train_at = np.take_along_axis(rollout_at, some[:, :, None], axis=1), np.take_along_axis(train_at, some, axis=1)
    # Two periods were compared; a job that lags by more than one met runs of a third, which need not be like theirs.
    every = [(k, i) for k, times in enumerate(runs) for i in range(times)]
    nodes = ([(int(rollout_at[k, i, n]), int(rollout[k])) for k, i in every if pinned[k, n]] for n in range(pinned.shape[1]))
    trainings = [(int(train_at[k, i]), int(train[k])) for k, i in every]
    return (rollout_at, train_at) if all(_apart(phases, period) for phases in (*nodes, trainings)) else None


def _apart(phases: Iterable[tuple[int, int]], period: int) -> bool:
    """Return whether phases (start, length) on one node stay apart when they come again every period."""
    order = sorted((at % period, length) for at, length in phases)
    return all(at + length <= following for (at, length), (following, _) in pairwise([*order, *((at + period, 0) for at, _ in order[:1])]))
