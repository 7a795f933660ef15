"""RollMux Algorithm 1, transcribed line by line in plain Python: the yardstick for checks, tests and benchmarks.

Source: arXiv 2512.11306, Algorithm 1 and section 4.2. It shares nothing with the array version in the planner. Where
the paper leaves GENERATEPLACEMENTS open, a placement uses as many existing rollout nodes with room as it can, in
order, and adds the rest. prune=False leaves line 4 out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from rollplan.models.colocation.problem import REL_TOL, ColocationProblem, JobData, at_most


@dataclass(slots=True)
class PlainGroup:
    """A live group: its jobs with their nodes, and the training nodes."""

    rollout_pool: int
    train_pool: int
    train_nodes: int
    jobs: list[JobData] = field(default_factory=list)
    pinning: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def rollout_nodes(self) -> int:
        """Rollout nodes in use."""
        return 1 + max((node for nodes in self.pinning for node in nodes), default=-1)

    def node_load_s(self, node: int) -> float:
        """Seconds per iteration that a rollout node is busy."""
        return sum(job.rollout_s for job, nodes in zip(self.jobs, self.pinning, strict=True) if node in nodes)

    def node_memory_gib(self, node: int) -> float:
        """Memory kept on a rollout node."""
        return sum(job.rollout_memory_gib for job, nodes in zip(self.jobs, self.pinning, strict=True) if node in nodes)

    @property
    def cycle_s(self) -> float:
        """T_cycle: the longest solo time."""
        return max(job.solo_s for job in self.jobs)

    @property
    def load_s(self) -> float:
        """T_load: the busiest resource."""
        return max(sum(job.train_s for job in self.jobs), *(self.node_load_s(node) for node in range(self.rollout_nodes)))


def admit(
    problem: ColocationProblem, groups: list[PlainGroup], job: JobData, prune: bool = True
) -> tuple[PlainGroup, tuple[int, ...]] | None:
    """Return the group (existing or new) and the rollout nodes for an arriving job; None if the pools are full."""
    best: tuple[float, PlainGroup, tuple[int, ...]] | None = None
    for group in groups:
        if prune and group.load_s >= group.cycle_s * (1 - REL_TOL):  # line 4
            continue
        if (group.rollout_pool, group.train_pool) != (job.rollout_pool, job.train_pool) or job.train_nodes > group.train_nodes:
            continue
        if len(group.jobs) >= problem.max_group_size:
            continue
        nodes = _placement(problem, group, job)
        if nodes is None or not _slo_holds(group, job, nodes):  # lines 8 and 10
            continue
        added = sum(node >= group.rollout_nodes for node in nodes)
        if not _pool_has(problem, groups, job.rollout_pool, added):
            continue
        extra = added * problem.pools[job.rollout_pool].price_per_node_h
        if extra < (best[0] if best else inf):  # line 13, strictly
            best = (extra, group, nodes)
    alone = (
        problem.pools[job.rollout_pool].price_per_node_h * job.rollout_nodes
        + problem.pools[job.train_pool].price_per_node_h * job.train_nodes
    )
    if alone < (best[0] if best else inf):
        if not _alone_fits(problem, groups, job):
            return None
        return PlainGroup(job.rollout_pool, job.train_pool, job.train_nodes), tuple(range(job.rollout_nodes))
    assert best is not None
    return best[1], best[2]


class StoppedError(Exception):
    """The run was stopped before the last job."""


def run(problem: ColocationProblem, prune: bool = True, stop: Callable[[], object] = lambda: None) -> list[PlainGroup] | None:
    """Admit all jobs of a problem in order; None if one found no room. Raise `StoppedError` once `stop` answers."""
    groups: list[PlainGroup] = []
    for job in problem.jobs:
        if stop():
            raise StoppedError
        found = admit(problem, groups, job, prune)
        if found is None:
            return None
        group, nodes = found
        if not group.jobs:
            groups.append(group)
        group.jobs.append(job)
        group.pinning.append(nodes)
    return groups


def cost_per_h(problem: ColocationProblem, groups: list[PlainGroup]) -> float:
    """Return dollars per hour of the groups."""
    nodes = [0] * len(problem.pools)
    for group in groups:
        nodes[group.rollout_pool] += group.rollout_nodes
        nodes[group.train_pool] += group.train_nodes
    return problem.price(nodes)


def _placement(problem: ColocationProblem, group: PlainGroup, job: JobData) -> tuple[int, ...] | None:
    rollout, train = problem.pools[group.rollout_pool], problem.pools[group.train_pool]
    free = train.memory_gib - sum(other.train_memory_gib for other in group.jobs)
    if job.train_memory_gib >= free - train.memory_gib * REL_TOL:
        return None
    limit = min(other.tolerable_s for other in [*group.jobs, job])
    nodes: list[int] = []
    node = 0
    while len(nodes) < job.rollout_nodes:
        memory_fits = job.rollout_memory_gib < rollout.memory_gib - group.node_memory_gib(node) - rollout.memory_gib * REL_TOL
        if memory_fits and at_most(group.node_load_s(node) + job.rollout_s, limit):
            nodes.append(node)
        elif node >= group.rollout_nodes:
            return None
        node += 1
    return tuple(nodes)


def _slo_holds(group: PlainGroup, job: JobData, nodes: tuple[int, ...]) -> bool:
    after = PlainGroup(group.rollout_pool, group.train_pool, group.train_nodes, [*group.jobs, job], [*group.pinning, nodes])
    period = max(after.cycle_s, after.load_s)
    return all(at_most(period, other.tolerable_s) for other in after.jobs)


def _alone_fits(problem: ColocationProblem, groups: list[PlainGroup], job: JobData) -> bool:
    rollout, train = problem.pools[job.rollout_pool], problem.pools[job.train_pool]
    if not (at_most(job.rollout_memory_gib, rollout.memory_gib) and at_most(job.train_memory_gib, train.memory_gib)):
        return False
    if job.rollout_pool == job.train_pool:
        return _pool_has(problem, groups, job.rollout_pool, job.rollout_nodes + job.train_nodes)
    return _pool_has(problem, groups, job.rollout_pool, job.rollout_nodes) and _pool_has(problem, groups, job.train_pool, job.train_nodes)


def _pool_has(problem: ColocationProblem, groups: list[PlainGroup], pool: int, more: int) -> bool:
    limit = problem.pools[pool].nodes
    if limit is None:
        return True
    used = sum(group.rollout_nodes * (group.rollout_pool == pool) + group.train_nodes * (group.train_pool == pool) for group in groups)
    return used + more <= limit
