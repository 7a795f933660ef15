"""What an execution says of itself: nodes, edges, switches of parallelism, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollplan.executor.dataflow.flow import Failure


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """queue_len: items that could run now and wait for a worker. gpus: of its workers together. devices: (machine, number).

    done, failed, skipped: items so far; one is skipped where it failed before.
    """

    workers: int
    draining: int
    gpus: float
    queue_len: int
    busy: int
    done: int
    failed: int
    skipped: int
    devices: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """waiting: items that left the source and did not reach the target. oversized: items above max_size_bytes.

    Latency: seconds from an item's result until the target's function begins, and what the answer takes to come back; None
    as long as no item has passed. bytes_moved counts every item once. meant: transport by the policies; really: by the runtime.
    """

    waiting: int
    items: int
    bytes_moved: int
    oversized: int
    latency_mean_s: float | None
    latency_p95_s: float | None
    meant: str
    really: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of parallelism. at_s: since the run started. by: `adaptive back-pressure`, `operator`, or `fault`."""

    at_s: float
    by: str
    node: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave. outputs: of each kept node, per iteration, by number; None where an item failed or was skipped.

    iterations: that were finished; fewer than asked for if a failure stopped the run. memory: the most that was seen of each
    device, in bytes; keys are `machine 0 GPU 3`, and `host` for all processes together.
    """

    outputs: Mapping[str, tuple[tuple[Any, ...], ...]]
    iterations: int
    failures: tuple[Failure, ...]
    switches: tuple[Switch, ...]
    nodes: Mapping[str, NodeStatus]
    edges: Mapping[str, EdgeStatus]
    memory: Mapping[str, int]
    seconds: float
