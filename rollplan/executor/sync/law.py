r"""How long new weights take: one copy in parallel streams and trees behind them, beside flat pulls.

With w the weights in GB, N streams, R rollout ranks, s a stream's limit, l the slow link's (infinite if only streams are
limited), b the speed at which a copy spreads inside the rollout site, and f the seconds of a trip:

.. math::
    \text{two-stage} &= f + c_1 \max(w / (N s),\; w / l) + w / b \\
    \text{flat} &= f + c_2 \max(w / s,\; R w / l)

RollMux Fig. 12 gives c_1 = 1.05 and c_2 = 1.2, with s = 20 Gbps (`models/overheads.py`, which plans use, is this law
without latency and link).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from rollplan.models.overheads import BROADCAST_MANY_NODES_GB_S, BROADCAST_ONE_NODE_GB_S, STREAM_GB_S, STREAM_OVERHEAD

FLAT_OVERHEAD = 1.2
"""What verl's flat all-gather takes of bytes / 20 Gbps in RollMux Fig. 12: 1.22, 1.17, 1.17 for 8 to 8 GPUs, 1.35, 1.28, 1.29 for 16."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a transfer, in GB/s: of a stream, of the slow link, and of spreading a copy inside the rollout site.

    latency_s: one trip over the slow link. stream_overhead, flat_overhead: seconds by seconds of the bytes alone (headers, start).
    """

    stream_gb_s: float
    broadcast_gb_s: float
    link_gb_s: float = inf
    latency_s: float = 0.0
    stream_overhead: float = STREAM_OVERHEAD
    flat_overhead: float = FLAT_OVERHEAD

    def __post_init__(self) -> None:
        for name in ("stream_gb_s", "broadcast_gb_s", "link_gb_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not (isfinite(self.latency_s) and self.latency_s >= 0):
            raise ValueError(f"latency_s must be finite and at least 0, got {self.latency_s}")
        for name in ("stream_overhead", "flat_overhead"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


def rollmux(rollout_nodes: int) -> Limits:
    """Return the limits of RollMux Fig. 12 for a rollout site of so many 8-GPU nodes."""
    return Limits(STREAM_GB_S, BROADCAST_ONE_NODE_GB_S if rollout_nodes == 1 else BROADCAST_MANY_NODES_GB_S)


def crossing_s(weights_gb: float, streams: int, limits: Limits) -> float:
    """Seconds of the first of two stages: one copy over the slow link, in so many streams."""
    return limits.latency_s + limits.stream_overhead * max(weights_gb / (streams * limits.stream_gb_s), weights_gb / limits.link_gb_s)


def two_stage_s(weights_gb: float, train_ranks: int, rollout_ranks: int, limits: Limits) -> float:
    """Seconds until every rollout rank has `weights_gb`, with one copy in min(train, rollout ranks) streams."""
    spread = weights_gb / limits.broadcast_gb_s if rollout_ranks > 1 else 0.0
    return crossing_s(weights_gb, min(train_ranks, rollout_ranks), limits) + spread


def flat_s(weights_gb: float, rollout_ranks: int, limits: Limits) -> float:
    """Seconds until every rollout rank has pulled `weights_gb` over the slow link."""
    bound = max(weights_gb / limits.stream_gb_s, rollout_ranks * weights_gb / limits.link_gb_s)
    return limits.latency_s + limits.flat_overhead * bound


def speed_up(weights_gb: float, train_ranks: int, rollout_ranks: int, limits: Limits) -> float:
    """Return flat by two-stage."""
    return flat_s(weights_gb, rollout_ranks, limits) / two_stage_s(weights_gb, train_ranks, rollout_ranks, limits)
