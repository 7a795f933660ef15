"""Simple policies to compare with: every job alone, random groups, and the idlest group first.

RollMux 6 (baselines of Fig. 14) describes Random and Greedy in one sentence each and lets them break SLOs. Here they
respect SLOs, so that their plans are plans, unless `blind` is set, which the benchmarks do.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, at_most
from rollplan.models.colocation.solution import cost_of, pools_suffice, solution_of


def solo(problem: ColocationProblem) -> ColocationSolution:
    """Give every job its own nodes."""
    return solution_of(problem, ([k] for k in range(len(problem.jobs))))


def random_groups(
    problem: ColocationProblem, seed: int = 0, blind: bool = False, stop: Callable[[], object] = lambda: None
) -> ColocationSolution | None:
    """Put each job, in order, into a random group that can take it or a new one, on random nodes with room.

    None if the pools have too few nodes, or if `stop` answered before the end.
    """
    random = Random(seed)
    return _one_by_one(problem, blind, stop, random.choice, lambda nodes, _: random.sample(nodes, len(nodes)))


def greedy(problem: ColocationProblem, blind: bool = False, stop: Callable[[], object] = lambda: None) -> ColocationSolution | None:
    """Put each job, in order, into the group with the largest idle share that can take it, on its idlest nodes.

    None if the pools have too few nodes, or if `stop` answered before the end.
    """

    def idlest(options: list[_Open | None]) -> _Open | None:
        groups = [option for option in options if option is not None]
        return max(groups, key=lambda group: group.idle_share) if groups else None

    return _one_by_one(problem, blind, stop, idlest, lambda nodes, busy_s: sorted(nodes, key=lambda node: (busy_s[node], node)))


class _Open:
    """A group under construction, with the sums that decide who may join."""

    def __init__(self, problem: ColocationProblem, pools: tuple[int, int]) -> None:
        self.problem, self.pools = problem, pools
        self.members: list[int] = []
        self.pinning: list[tuple[int, ...]] = []
        self.busy_s: list[float] = []
        self.kept_gib: list[float] = []
        self.longest_s = self.train_s = self.train_gib = self.work_s = 0.0
        self.limit_s = float("inf")
        self.idle_share = 1.0

    def room(self, k: int, blind: bool) -> list[int] | None:
        """Return the existing nodes that can take job k, None if the group cannot take it at all."""
        job, problem = self.problem.jobs[k], self.problem
        if (job.rollout_pool, job.train_pool) != self.pools or len(self.members) >= problem.max_group_size:
            return None
        if not at_most(self.train_gib + job.train_memory_gib, problem.pools[job.train_pool].memory_gib):
            return None
        limit = float("inf") if blind else min(self.limit_s, job.tolerable_s)
        # Neither the longest job, nor the training pool, nor a node that is full already may exceed the new limit.
        if not at_most(max(self.longest_s, job.solo_s, self.train_s + job.train_s, *self.busy_s), limit):
            return None
        memory = problem.pools[job.rollout_pool].memory_gib
        return [
            node
            for node, (busy, kept) in enumerate(zip(self.busy_s, self.kept_gib, strict=True))
            if at_most(busy + job.rollout_s, limit) and at_most(kept + job.rollout_memory_gib, memory)
        ]

    def add(self, k: int, nodes: tuple[int, ...]) -> None:
        """Pin job k to nodes; those beyond the present ones are new."""
        job = self.problem.jobs[k]
        self.members.append(k)
        self.pinning.append(nodes)
        missing = max(nodes) + 1 - len(self.busy_s)
        self.busy_s += [0.0] * missing
        self.kept_gib += [0.0] * missing
        for node in nodes:
            self.busy_s[node] += job.rollout_s
            self.kept_gib[node] += job.rollout_memory_gib
        self.longest_s, self.limit_s = max(self.longest_s, job.solo_s), min(self.limit_s, job.tolerable_s)
        self.train_s += job.train_s
        self.train_gib += job.train_memory_gib
        self.work_s += job.rollout_s * job.rollout_nodes
        period_s = max(self.longest_s, self.train_s, *self.busy_s)
        self.idle_share = 1 - (self.work_s / len(self.busy_s) + self.train_s) / (2 * period_s)

    def group(self) -> Group:
        """Return the group as built."""
        trainers = max(self.problem.jobs[k].train_nodes for k in self.members)
        return Group(tuple(self.members), tuple(self.pinning), len(self.busy_s), trainers)


def _one_by_one(
    problem: ColocationProblem,
    blind: bool,
    stop: Callable[[], object],
    choose: Callable[[list[_Open | None]], _Open | None],
    order: Callable[[list[int], list[float]], list[int]],
) -> ColocationSolution | None:
    """Place the jobs in order; `choose` picks a group (None: a new one), `order` sorts its nodes with room."""
    groups: list[_Open] = []
    for k, job in enumerate(problem.jobs):
        if stop():
            return None
        rooms = {id(group): room for group in groups if (room := group.room(k, blind)) is not None}
        chosen = choose([*(group for group in groups if id(group) in rooms), None])
        nodes: list[int] = []
        if chosen is None:
            chosen = _Open(problem, (job.rollout_pool, job.train_pool))
            groups.append(chosen)
        else:
            nodes = order(rooms[id(chosen)], chosen.busy_s)[: job.rollout_nodes]
        first_new = len(chosen.busy_s)
        chosen.add(k, tuple(sorted([*nodes, *range(first_new, first_new + job.rollout_nodes - len(nodes))])))
    built = tuple(group.group() for group in groups)
    return ColocationSolution(built, cost_of(problem, built)) if pools_suffice(problem, built) else None
