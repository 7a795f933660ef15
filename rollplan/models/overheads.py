"""Sync, switch and residency by model size: published measurements, and the law between them.

Sources: RollMux (arXiv 2512.11306) Table 2 (host memory per 8-GPU node), Fig. 4 (warm start), Fig. 12 (weight
sync; the split into point-to-point and broadcast is digitised). Measured sizes are used as they are; sizes between
two measured ones are interpolated linearly and marked as estimated. No table is extrapolated: outside it memory must
be given, and a switch that is not given counts as 0 s with a warning. Sync follows its law, which holds for any size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

GB_PER_GIB = 2**30 / 1e9
Provenance = Literal["measured", "imported", "reference", "estimated"]

ROLLOUT_MEMORY_GB: Mapping[float, float] = {3: 113.4, 7: 275.7, 14: 445.4, 32: 490.3}
TRAIN_MEMORY_GB: Mapping[float, float] = {3: 156.2, 7: 240.0, 14: 456.1, 32: 520.4}
ROLLOUT_SWITCH_S: Mapping[float, float] = {3: 0.8, 7: 0.9, 14: 1.8, 32: 1.7}
TRAIN_SWITCH_S: Mapping[float, float] = {3: 1.9, 7: 4.1, 14: 4.7, 32: 5.9}
SYNC_8_TO_8_S: Mapping[float, float] = {7: 0.9, 14: 1.7, 32: 3.9}
SYNC_16_TO_16_S: Mapping[float, float] = {7: 3.1, 14: 5.8, 32: 12.3}
WEIGHTS_GB: Mapping[float, float] = {7: 15.2, 14: 29.6, 32: 65.6}
"""bf16 bytes of the Qwen2.5 models behind the nominal sizes 7B, 14B, 32B (two bytes per parameter)."""

STREAM_GB_S = 2.5
"""One stream over the slow link, 20 Gbps. It limits each stream, not the link (Fig. 12: 16 GPUs take half the time of 8)."""
STREAM_OVERHEAD = 1.05
BROADCAST_ONE_NODE_GB_S = 250.0
BROADCAST_MANY_NODES_GB_S = 5.9


@dataclass(frozen=True, slots=True)
class Looked:
    """A value with its provenance."""

    value: float
    provenance: Provenance


def look_up(table: Mapping[float, float], size_b: float) -> Looked | None:
    """Return the table's value at `size_b` (10^9 parameters), interpolated between measured sizes, None outside them."""
    if size_b in table:
        return Looked(table[size_b], "reference")
    sizes = sorted(table)
    if not sizes[0] < size_b < sizes[-1]:
        return None
    after = bisect_left(sizes, size_b)
    low, high = sizes[after - 1], sizes[after]
    share = (size_b - low) / (high - low)
    return Looked(table[low] + share * (table[high] - table[low]), "estimated")


def point_to_point_s(weights_gb: float, streams: int, stream_gb_s: float = STREAM_GB_S) -> float:
    """Seconds to send one model copy of `weights_gb` as disjoint shards over `streams` parallel streams.

    RollMux 5.2 with Fig. 12: bytes / (streams * 20 Gbps) * 1.05; within 10 % of all six published values.
    """
    return weights_gb / (streams * stream_gb_s) * STREAM_OVERHEAD


def broadcast_s(weights_gb: float, nodes: int) -> float:
    """Seconds to spread the copy inside the rollout pool (Fig. 12: about 250 GB/s in a node, 5.9 GB/s across)."""
    return weights_gb / (BROADCAST_ONE_NODE_GB_S if nodes == 1 else BROADCAST_MANY_NODES_GB_S)


def sync_time(size_b: float, rollout_nodes: int, train_nodes: int, train_gpus: int, stream_gb_s: float | None) -> Looked:
    """Seconds to bring new weights from the training to the rollout nodes.

    Fig. 12 where it was measured (7B, 14B, 32B; 8 to 8 and 16 to 16 GPUs; 20 Gbps), else the two-stage law.
    """
    measured = {(1, 1, 8): SYNC_8_TO_8_S, (2, 2, 16): SYNC_16_TO_16_S}.get((rollout_nodes, train_nodes, train_gpus), {})
    if stream_gb_s is None and size_b in measured:
        return Looked(measured[size_b], "reference")
    weights = WEIGHTS_GB.get(size_b, 2 * size_b)
    seconds = point_to_point_s(weights, train_gpus, stream_gb_s or STREAM_GB_S) + broadcast_s(weights, rollout_nodes)
    return Looked(seconds, "estimated")
