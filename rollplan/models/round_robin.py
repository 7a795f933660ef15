r"""Strict round robin without a barrier: the period of a co-execution group in closed form.

Every resource (each rollout node, the training pool) serves its jobs in the same cyclic order, once per iteration; a
job's rollout starts on each of its nodes as soon as that node and the job's weights are free. Then

.. math:: P = \max\Bigl(\max_j (r_j + t_j),\ \sum_j t_j,\ \max_n \sum_{j \in n} r_j\Bigr)

for any order and any pinning (proof: docs/round_robin.md; RollMux 4.3 defines the terms T_cycle and T_load). It is
only a lower bound when one rollout needs several nodes at the same moment, so gang jobs never get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Binding = Literal["solo", "training", "rollout node"]


@dataclass(frozen=True, slots=True)
class Period:
    """A period in seconds and what sets it: the longest job alone, the training pool, or one rollout node.

    index: the job (position in the group) for `solo`, the node for `rollout node`, None for `training`.
    """

    seconds: float
    binding: Binding
    index: int | None


def period(rollout_s: Sequence[float], train_s: Sequence[float], pinning: Sequence[Sequence[int]]) -> Period:
    """Return the period of a group; `pinning[j]` lists the rollout nodes of job j. Of equal terms, `solo` is named."""
    solo = [rollout + train for rollout, train in zip(rollout_s, train_s, strict=True)]
    loads: dict[int, float] = {}
    for rollout, nodes in zip(rollout_s, pinning, strict=True):
        for node in nodes:
            loads[node] = loads.get(node, 0.0) + rollout
    longest = max(range(len(solo)), key=solo.__getitem__)
    fullest = max(sorted(loads), key=loads.__getitem__)
    candidates = (
        Period(solo[longest], "solo", longest),
        Period(sum(train_s), "training", None),
        Period(loads[fullest], "rollout node", fullest),
    )
    return max(candidates, key=lambda candidate: candidate.seconds)
