"""Simple policies to compare with: every job alone, random groups, and the idlest group first.

RollMux 6 (baselines of Fig. 14) describes Random and Greedy in one sentence each and lets them break SLOs. Here they
respect SLOs, so that their plans are plans, unless `blind` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, JobData, at_most
from rollplan.models.colocation.solution import cost_of, solution_of
from rollplan.models.round_robin import period


def solo(problem: ColocationProblem) -> ColocationSolution:
    """Give every job its own nodes."""
    return solution_of(problem, ([k] for k in range(len(problem.jobs))))


def random_groups(problem: ColocationProblem, seed: int = 0, blind: bool = False) -> ColocationSolution | None:
    """Put each job, in order, into a random group that can take it or a new one, on random nodes with room."""
    random = Random(seed)
    return _one_by_one(problem, blind, lambda options: random.choice(options), lambda nodes, _: random.sample(nodes, len(nodes)))


def greedy(problem: ColocationProblem, blind: bool = False) -> ColocationSolution | None:
    """Put each job, in order, into the group with the largest idle share that can take it, on its idlest nodes."""

    def idlest(options: list[_Open | None]) -> _Open | None:
        groups = [option for option in options if option is not None]
        return max(groups, key=lambda group: group.idle_share) if groups else None

    return _one_by_one(problem, blind, idlest, lambda nodes, load: sorted(nodes, key=lambda node: (load(node), node)))


class _Open:
    """A group under construction."""

    def __init__(self, problem: ColocationProblem) -> None:
        self.problem = problem
        self.members: list[int] = []
        self.pinning: list[tuple[int, ...]] = []

    @property
    def jobs(self) -> list[JobData]:
        return [self.problem.jobs[k] for k in self.members]

    @property
    def nodes(self) -> int:
        return 1 + max((node for nodes in self.pinning for node in nodes), default=-1)

    @property
    def idle_share(self) -> float:
        """Mean of the idle shares of the two pools in a meta-iteration."""
        jobs = self.jobs
        seconds = period([job.rollout_s for job in jobs], [job.train_s for job in jobs], self.pinning).seconds
        rollout = sum(job.rollout_s * job.rollout_nodes for job in jobs) / (seconds * self.nodes)
        return 1 - (rollout + sum(job.train_s for job in jobs) / seconds) / 2

    def load(self, node: int) -> float:
        """Seconds per iteration that a node is busy."""
        return sum(job.rollout_s for job, nodes in zip(self.jobs, self.pinning, strict=True) if node in nodes)

    def room(self, k: int, blind: bool) -> list[int] | None:
        """Return the existing nodes that can take job k, None if the group cannot take it at all."""
        job, jobs, problem = self.problem.jobs[k], self.jobs, self.problem
        same_pools = (job.rollout_pool, job.train_pool) == (jobs[0].rollout_pool, jobs[0].train_pool)
        if not same_pools or len(jobs) >= problem.max_group_size:
            return None
        if not at_most(sum(other.train_memory_gib for other in [*jobs, job]), problem.pools[job.train_pool].memory_gib):
            return None
        limit = float("inf") if blind else min(other.tolerable_s for other in [*jobs, job])
        # Neither the longest job, nor the training pool, nor a node that is full already may exceed the new limit.
        shortest = max(job.solo_s, sum(o.train_s for o in [*jobs, job]), *(o.solo_s for o in jobs), *map(self.load, range(self.nodes)))
        if not at_most(shortest, limit):
            return None
        memory = problem.pools[job.rollout_pool].memory_gib
        return [
            node
            for node in range(self.nodes)
            if at_most(self.load(node) + job.rollout_s, limit)
            and at_most(
                job.rollout_memory_gib + sum(o.rollout_memory_gib for o, nodes in zip(jobs, self.pinning, strict=True) if node in nodes),
                memory,
            )
        ]


def _one_by_one(
    problem: ColocationProblem,
    blind: bool,
    choose: Callable[[list[_Open | None]], _Open | None],
    order: Callable[[list[int], Callable[[int], float]], list[int]],
) -> ColocationSolution | None:
    """Place the jobs in order; `choose` picks a group (None: a new one), `order` sorts its nodes with room."""
    groups: list[_Open] = []
    for k, job in enumerate(problem.jobs):
        options: list[_Open | None] = [group for group in groups if group.room(k, blind) is not None]
        chosen = choose([*options, None])
        if chosen is None:
            chosen = _Open(problem)
            groups.append(chosen)
            nodes: list[int] = []
        else:
            nodes = order(chosen.room(k, blind) or [], chosen.load)[: job.rollout_nodes]
        nodes += range(chosen.nodes, chosen.nodes + job.rollout_nodes - len(nodes))
        chosen.members.append(k)
        chosen.pinning.append(tuple(sorted(nodes)))
    built = tuple(Group(tuple(g.members), tuple(g.pinning), g.nodes, max(job.train_nodes for job in g.jobs)) for g in groups)
    used = [0] * len(problem.pools)
    for group in built:
        used[problem.jobs[group.jobs[0]].rollout_pool] += group.rollout_nodes
        used[problem.jobs[group.jobs[0]].train_pool] += group.train_nodes
    if any(pool.nodes is not None and nodes > pool.nodes for pool, nodes in zip(problem.pools, used, strict=True)):
        return None
    return ColocationSolution(built, cost_of(problem, built))
