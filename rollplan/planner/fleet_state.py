"""What admission must know of every live group, as arrays with one row per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.problem import JobData, NodePool


class FleetState:
    """Rows of groups; rows of closed groups are reused, lowest first.

    size: jobs. cycle_s: longest solo time. limit_s: least tolerable period. train_s: sum of training. train_free_gib:
    free memory of a training node. trainers: training nodes. nodes: rollout nodes. node_gib: memory of
    an empty rollout node. load_s, free_gib: seconds and free memory of each rollout node, shape (rows, columns); nodes
    that do not exist have an infinite load.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._closed: list[int] = []
        self._allocate(16, 8)

    def open(self, pools: tuple[NodePool, ...], rollout_pool: int, train_pool: int) -> int:
        """Make an empty group and return its row."""
        if self._closed:
            row = self._closed.pop(0)
        else:
            row, self.rows = self.rows, self.rows + 1
            if row == len(self.size):
                self._allocate(2 * len(self.size), self.load_s.shape[1])
        self.size[row] = 0
        self.rollout_pool[row], self.train_pool[row] = rollout_pool, train_pool
        self.cycle_s[row] = self.train_s[row] = self.fullest_s[row] = 0.0
        self.limit_s[row] = np.inf
        self.train_free_gib[row] = pools[train_pool].memory_gib
        self.trainers[row] = self.nodes[row] = 0
        self.load_s[row] = np.inf
        self.node_gib[row] = self.free_gib[row] = pools[rollout_pool].memory_gib
        return row

    def add(self, row: int, job: JobData, nodes: tuple[int, ...]) -> None:
        """Put a job onto rollout nodes of a group; nodes beyond the present ones are added, and trainers it lacks."""
        while (columns := self.load_s.shape[1]) <= max(nodes):
            self._allocate(len(self.size), 2 * columns)
            self.free_gib[:, columns:] = self.node_gib[:, None]
        self.size[row] += 1
        self.cycle_s[row] = max(self.cycle_s[row], job.solo_s)
        self.limit_s[row] = min(self.limit_s[row], job.tolerable_s)
        self.train_s[row] += job.train_s
        self.train_free_gib[row] -= job.train_memory_gib
        self.trainers[row] = max(self.trainers[row], job.train_nodes)
        self.nodes[row] = max(self.nodes[row], max(nodes) + 1)
        at = list(nodes)
        self.load_s[row, at] = np.where(np.isinf(self.load_s[row, at]), 0.0, self.load_s[row, at]) + job.rollout_s
        self.free_gib[row, at] -= job.rollout_memory_gib
        self.fullest_s[row] = self.load_s[row, : self.nodes[row]].max()

    def close(self, row: int) -> None:
        """Give a row back."""
        self.size[row] = self.nodes[row] = self.trainers[row] = 0
        self._closed = sorted([*self._closed, row])

    def _allocate(self, rows: int, columns: int) -> None:
        self.size = self._grown("size", (rows,), np.int64)
        self.rollout_pool = self._grown("rollout_pool", (rows,), np.int64)
        self.train_pool = self._grown("train_pool", (rows,), np.int64)
        self.trainers = self._grown("trainers", (rows,), np.int64)
        self.nodes = self._grown("nodes", (rows,), np.int64)
        self.cycle_s = self._grown("cycle_s", (rows,), np.float64)
        self.limit_s = self._grown("limit_s", (rows,), np.float64)
        self.train_s = self._grown("train_s", (rows,), np.float64)
        self.fullest_s = self._grown("fullest_s", (rows,), np.float64)
        self.train_free_gib = self._grown("train_free_gib", (rows,), np.float64)
        self.node_gib = self._grown("node_gib", (rows,), np.float64)
        self.load_s = self._grown("load_s", (rows, columns), np.float64, np.inf)
        self.free_gib = self._grown("free_gib", (rows, columns), np.float64)

    def _grown(self, name: str, shape: tuple[int, ...], kind: type, fill: float = 0) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.full(shape, fill, dtype=kind)
        old = getattr(self, name, None)
        if old is not None:
            array[tuple(slice(0, n) for n in old.shape)] = old
        return array
