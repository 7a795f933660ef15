"""From a partition to a plan: fewest nodes, pinning, cost."""

from __future__ import annotations

from collections.abc import Iterable

from rollplan.models.colocation.nodes import cover, fitting_sets, pin
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group


def solution_of(problem: ColocationProblem, groups: Iterable[list[int]]) -> ColocationSolution:
    """Build the plan of a partition: fewest nodes for each group, jobs pinned to them, groups in order of their jobs."""
    built = tuple(group_of(problem, sorted(members)) for members in sorted(map(sorted, groups)))
    return ColocationSolution(built, cost_of(problem, built))


def group_of(problem: ColocationProblem, members: list[int]) -> Group:
    """Build one group on the fewest nodes; the round-robin order is the order of the jobs (any order is as good)."""
    jobs = [problem.jobs[k] for k in members]
    sets = fitting_sets(
        [job.rollout_s for job in jobs],
        [job.rollout_memory_gib for job in jobs],
        min(job.tolerable_s for job in jobs),
        problem.pools[jobs[0].rollout_pool].memory_gib,
    )
    nodes = cover(sets, tuple(job.rollout_nodes for job in jobs))
    return Group(tuple(members), pin(nodes, len(jobs)), len(nodes), max(job.train_nodes for job in jobs))


def pool_totals(problem: ColocationProblem, groups: Iterable[Group]) -> list[int]:
    """Return the nodes that groups take of each pool."""
    nodes = [0] * len(problem.pools)
    for group in groups:
        job = problem.jobs[group.jobs[0]]
        nodes[job.rollout_pool] += group.rollout_nodes
        nodes[job.train_pool] += group.train_nodes
    return nodes


def pools_suffice(problem: ColocationProblem, groups: Iterable[Group]) -> bool:
    """Return whether the pools have the nodes that groups take."""
    totals = pool_totals(problem, groups)
    return all(pool.nodes is None or nodes <= pool.nodes for pool, nodes in zip(problem.pools, totals, strict=True))


def cost_of(problem: ColocationProblem, groups: Iterable[Group]) -> float:
    """Return dollars per hour of the groups' nodes."""
    return problem.price(pool_totals(problem, groups))
