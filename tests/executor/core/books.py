"""Runbooks for tests: a co-execution group, and a job alone in some way of overlapping its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rollplan.executor.core.runbook import JobRun, Policy, Predicted, Resource, Runbook

TRAIN = "train"


def job(name: str, nodes: Sequence[str], rollout_s: float = 2.0, train_s: float = 1.0, sync_s: float = 0.0, **settings: Any) -> JobRun:
    """One job that is pinned to rollout nodes; it takes this many seconds per iteration."""
    usual: dict[str, Any] = {"iterations": 3, "samples": 6, **settings}
    predicted = Predicted(rollout_s, train_s, 0.0, 0.0, sync_s, rollout_s + train_s + sync_s, rollout_s + train_s + sync_s)
    return JobRun(name=name, group="g", module="m", rollout=tuple(nodes), train=TRAIN, predicted=predicted, **usual)


def book(*jobs: JobRun, policy: Policy = "round-robin", memory_gib: float = 100.0) -> Runbook:
    """The jobs of one group, in the order of their turns, on the nodes that they name and one training resource."""
    nodes = dict.fromkeys(node for run in jobs for node in run.rollout)
    rollout = tuple(
        Resource(node, "h20", "rollout", tuple(run.name for run in jobs if node in run.rollout), 1, 8, memory_gib) for node in nodes
    )
    train = Resource(TRAIN, "h800", "train", tuple(run.name for run in jobs), 1, 8, memory_gib)
    return Runbook("seal", policy, (*rollout, train), jobs)


def group(
    rollout_s: Sequence[float], train_s: Sequence[float], pinning: Sequence[Sequence[int]], policy: Policy = "round-robin", **settings: Any
) -> Runbook:
    """Jobs 0, 1, ... as `rollplan.planner.simulate` and `rollplan.models.round_robin` take them."""
    jobs = (
        job(str(place), [f"n{node}" for node in nodes], rollout, train, **settings)
        for place, (rollout, train, nodes) in enumerate(zip(rollout_s, train_s, pinning, strict=True))
    )
    return book(*jobs, policy=policy)


def colocated(runbook: Runbook) -> Runbook:
    """The same with rollout and training on the same nodes."""
    resources = tuple(replace(one, on=TRAIN) if one.kind == "rollout" else one for one in runbook.resources)
    return replace(runbook, resources=resources)
