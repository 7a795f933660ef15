"""What a group with several runs per period needs at least: rates, and tests that no timetable can fail.

Job k of a group makes m_k runs in a period P with P / m_k <= slo_k * solo_k. More time and fewer runs only help, so of
all (P, m) those with P = j * slo_k * solo_k and m_i = ceil(P / (slo_i * solo_i)) decide. The tests are proved in
docs/multi_rate.md. They are evaluated for many groups of one size at once: arrays of shape (groups, size).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.nodes import cover
from rollplan.models.colocation.problem import REL_TOL, ColocationProblem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of one size, all arrays of shape (groups, size); node_memory_gib is that of a rollout node of their pool."""

    rollout_s: Floats
    train_s: Floats
    delay_s: Floats
    tolerable_s: Floats
    memory_gib: Floats
    rollout_nodes: Ints
    node_memory_gib: float

    @classmethod
    def of(cls, problem: ColocationProblem, members: Sequence[Sequence[int]]) -> Groups:
        """Collect the numbers of groups that share a pair of pools; members[g] are the jobs of group g."""
        jobs = [[problem.jobs[k] for k in group] for group in members]
        return cls(
            rollout_s=np.array([[job.rollout_s for job in group] for group in jobs]),
            train_s=np.array([[job.train_s for job in group] for group in jobs]),
            delay_s=np.array([[job.delay_s for job in group] for group in jobs]),
            tolerable_s=np.array([[job.tolerable_s for job in group] for group in jobs]),
            memory_gib=np.array([[job.rollout_memory_gib for job in group] for group in jobs]),
            rollout_nodes=np.array([[job.rollout_nodes for job in group] for group in jobs]),
            node_memory_gib=problem.pools[jobs[0][0].rollout_pool].memory_gib,
        )

    def joined(self, members: npt.NDArray[np.intp]) -> Groups:
        """Return groups of these one-job groups; members[g]: which of them make up group g."""
        return Groups(
            self.rollout_s[members, 0],
            self.train_s[members, 0],
            self.delay_s[members, 0],
            self.tolerable_s[members, 0],
            self.memory_gib[members, 0],
            self.rollout_nodes[members, 0],
            self.node_memory_gib,
        )

    def __len__(self) -> int:
        return len(self.rollout_s)


@dataclass(frozen=True, slots=True)
class Rates:
    """Periods in seconds, shape (groups,), and runs per period, shape (groups, size)."""

    period_s: Floats
    runs: Ints


def rates(tolerable_s: Floats, max_rate: int) -> Iterator[Rates]:
    """Yield the (P, m) that decide, those with too many runs included; tolerable_s: slo * solo, shape (groups, size)."""
    for job in range(tolerable_s.shape[1]):
        for times in range(1, max_rate + 1):
            period_s = times * tolerable_s[:, job]
            yield Rates(period_s, np.ceil(period_s[:, None] / tolerable_s * (1 - REL_TOL)).astype(np.int64))


def node_sets(groups: Groups, rates: Rates, max_rate: int) -> Bools:
    """Return which sets of jobs one rollout node may host, shape (groups, 2**size); column = bit mask of the jobs.

    A row without any True is a group that has no timetable with these rates, on however many nodes. The sets are closed
    under taking subsets.
    """
    size = groups.rollout_s.shape[1]
    runs = rates.runs
    period_s = rates.period_s * (1 + 2 * REL_TOL)
    room_s = period_s[:, None] - runs * (groups.rollout_s + groups.train_s)
    late_train_s, late_rollout_s = blocking(groups, runs)
    fits = np.zeros((len(groups), 1 << size), dtype=bool)
    fits[:, 0] = (
        (runs.max(axis=1) <= max_rate)
        & ((runs * groups.train_s).sum(axis=1) <= period_s)
        & (room_s >= runs * groups.delay_s).all(axis=1)
        & (room_s >= late_train_s.sum(axis=1)).all(axis=1)
    )
    some = np.flatnonzero(fits[:, 0])
    if len(some) == 0:
        return fits
    load_s = runs[some] * groups.rollout_s[some]
    memory_gib, node_memory_gib = groups.memory_gib[some], groups.node_memory_gib * (1 + REL_TOL)
    period_s, room_s, late_train_s, late_rollout_s = period_s[some], room_s[some], late_train_s[some], late_rollout_s[some]
    both = late_train_s + late_rollout_s
    inside = np.ones((len(some), 1 << size), dtype=bool)
    for mask in range(1, 1 << size):
        members = [k for k in range(size) if mask >> k & 1]
        # Whatever holds for a set holds for its subsets; for the empty one everything does.
        fit = inside[:, [mask & ~(1 << k) for k in members]].all(axis=1)
        fit &= (load_s[:, members].sum(axis=1) <= period_s) & (memory_gib[:, members].sum(axis=1) <= node_memory_gib)
        for k in members:
            fit &= room_s[:, k] >= late_rollout_s[:, members, k].sum(axis=1)
        if len(members) == 2:
            first, second = members
            fit &= (room_s[:, first] >= both[:, second, first]) & (room_s[:, second] >= both[:, first, second])
        inside[:, mask] = fit
    alone = np.asarray(inside[:, [1 << k for k in range(size)]].all(axis=1))
    fits[some] = inside & alone[:, None]
    return fits


def blocking(groups: Groups, runs: Ints) -> tuple[Floats, Floats]:
    """Return for jobs j, k the seconds per period in which j holds the trainer (a node that both use) and k can do nothing.

    Shape (groups, size, size), [g, j, k]: m_j (train_j - rollout_k)+ and m_j (rollout_j - train_k)+, 0 for j = k.
    """
    others = 1 - np.eye(groups.rollout_s.shape[1])
    train = np.maximum(0.0, groups.train_s[:, :, None] - groups.rollout_s[:, None, :])
    rollout = np.maximum(0.0, groups.rollout_s[:, :, None] - groups.train_s[:, None, :])
    return train * runs[:, :, None] * others, rollout * runs[:, :, None] * others


def least_nodes(groups: Groups, max_rate: int) -> Ints:
    """Return the fewest rollout nodes that the tests leave to each group, shape (groups,); 0 where none has a timetable.

    With max_rate 1, without delays and with independent starts, these are the fewest nodes of strict round robin.
    """
    least = np.zeros(len(groups), dtype=np.int64)
    for candidate in rates(groups.tolerable_s, max_rate):
        fits = node_sets(groups, candidate, max_rate)
        some = np.flatnonzero(fits[:, 0])
        if len(some) == 0:
            continue
        counts = _covers(fits[some], groups.rollout_nodes[some])
        least[some] = np.where(least[some] == 0, counts, np.minimum(least[some], counts))
    return least


def _covers(fits: Bools, demand: Ints) -> Ints:
    """Return the fewest nodes for each row of fitting sets and demands; equal rows share one answer."""
    keys = np.ascontiguousarray(np.concatenate([np.packbits(fits, axis=1), demand.astype(np.uint16).view(np.uint8)], axis=1))
    _, first, inverse = np.unique(keys.view(np.dtype((np.void, keys.shape[1]))).ravel(), return_index=True, return_inverse=True)
    answers = [len(cover(masks(fits[row]), tuple(map(int, demand[row])))) for row in first]
    return np.asarray(np.array(answers, dtype=np.int64)[inverse])


def masks(fits: Bools) -> tuple[int, ...]:
    """Turn one row of `node_sets` into bit masks."""
    return tuple(int(mask) for mask in np.flatnonzero(fits) if mask)
