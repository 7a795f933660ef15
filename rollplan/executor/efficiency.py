"""What it was worth to share nodes: the work done per node and second, against every job on nodes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rollplan.executor.core.runbook import Runbook
from rollplan.models.plan import Plan


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Cost efficiency of a group, 1 for jobs that run alone (RollMux 7: throughput per dollar against solo).

    weighed_by: what the nodes were weighed by, `price`, or `nodes` where a pool is free. predicted, executed: with the plan's
    seconds of the jobs alone; measured: with the sum of what their own phases took in this run. None without a period of
    every job.
    """

    group: str
    jobs: tuple[str, ...]
    weighed_by: str
    predicted: float
    executed: float | None
    measured: float | None


def efficiencies(
    plan: Plan, runbook: Runbook, periods: Mapping[str, tuple[float, float | None]], alone_s: Mapping[str, float]
) -> Iterator[Efficiency]:
    """Yield the efficiency of every group in which several jobs ran.

    periods: predicted and executed seconds by job; alone_s: what the phases of each job took in sum. With w_j for what the nodes of
    job j alone weigh, s_j for its seconds of an iteration alone, p_j for the period and W for what the group's nodes weigh:
    (sum of w_j * s_j / p_j) / W.
    """
    jobs = {job.name: job for job in runbook.jobs}
    for group in plan.groups:
        members = [job for job in group.jobs if job.name in jobs]
        if len(members) < 2:
            continue
        prices = [plan.pools[pool].price_per_node_h for pool in (group.rollout_pool, group.train_pool)]
        by_price = min(prices) > 0
        rollout, train = prices if by_price else (1.0, 1.0)
        used = {resource.name: resource for job in members for resource in runbook.resources if job.name in resource.jobs}
        whole = sum(resource.nodes * (rollout if resource.kind == "rollout" else train) for resource in used.values())
        share = {job.name: (len(job.rollout_nodes) * rollout + job.train_nodes * train) / whole for job in members}
        planned_s = {name: jobs[name].predicted.solo_s for name in share}
        predicted = sum(share[name] * planned_s[name] / periods[name][0] for name in share)
        executed_s = {name: seconds for name in share if (seconds := periods[name][1])}
        executed = measured = None
        if executed_s.keys() == share.keys():
            executed, measured = (sum(share[name] * solo_s[name] / executed_s[name] for name in share) for solo_s in (planned_s, alone_s))
        yield Efficiency(group.name, tuple(share), "price" if by_price else "nodes", predicted, executed, measured)
