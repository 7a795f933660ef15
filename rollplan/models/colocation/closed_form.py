"""What can be said before any search: jobs that fit nowhere, and a bound in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np

from rollplan.models.colocation.problem import ColocationProblem, at_most


def fluid_bound(problem: ColocationProblem) -> float:
    """Return the closed-form bound in dollars per hour: work and memory poured into nodes without regard to pieces.

    A node of a group gives at most its period, which no member k lets exceed slo_k * solo_k; so
    n_rollout(S) >= sum over S of r_k * rollout_k / (slo_k * solo_k), likewise for training, memory and group size.
    """
    needs = pool_needs(problem)
    return sum(pool.price_per_node_h * need for pool, need in zip(problem.pools, needs, strict=True)) / (1 + 1e-9)


def pool_needs(problem: ColocationProblem) -> list[float]:
    """Return the nodes that each pool must give at least: the largest of work, memory and places (docs/bounds.md)."""
    needs = [0.0] * len(problem.pools)
    for pool_index, pool in enumerate(problem.pools):
        for use in ("rollout", "train"):
            jobs = [job for job in problem.jobs if (job.rollout_pool if use == "rollout" else job.train_pool) == pool_index]
            if not jobs:
                continue
            nodes = np.array([job.rollout_nodes if use == "rollout" else job.train_nodes for job in jobs])
            busy = np.array([job.rollout_s if use == "rollout" else job.train_s for job in jobs])
            memory = np.array([job.rollout_memory_gib if use == "rollout" else job.train_memory_gib for job in jobs])
            shares = [nodes * busy / np.array([job.tolerable_s for job in jobs]), nodes / problem.max_group_size]
            if pool.memory_gib > 0:
                shares.append(nodes * memory / pool.memory_gib)
            needs[pool_index] += max(float(share.sum()) for share in shares)
    return needs


def impossible(problem: ColocationProblem) -> Iterator[str]:
    """Yield what excludes every plan before any search: jobs that fit nowhere even alone, pools that are too small."""
    yield from impossible_jobs(problem)
    for pool, need in zip(problem.pools, pool_needs(problem), strict=True):
        least = ceil(need * (1 - 1e-9) - 1e-9)
        if pool.nodes is not None and least > pool.nodes:
            yield (
                f"pool {pool.name}: the jobs need at least {least} nodes however they are grouped, it has {pool.nodes} for "
                "co-located jobs (raise `nodes`, loosen `slo`, or remove jobs)"
            )


def impossible_jobs(problem: ColocationProblem) -> Iterator[str]:
    """Yield, for each job that fits nowhere even alone, the requirement that excludes it."""
    for job in problem.jobs:
        for phase, pool_index, nodes, memory in (
            ("rollout", job.rollout_pool, job.rollout_nodes, job.rollout_memory_gib),
            ("training", job.train_pool, job.train_nodes, job.train_memory_gib),
        ):
            pool = problem.pools[pool_index]
            if not at_most(memory, pool.memory_gib):
                yield (
                    f"job {job.name}: {phase} keeps {memory:.1f} GiB resident on each node, a node of pool {pool.name} has "
                    f"{pool.memory_gib:.1f} GiB (more memory per node, or a smaller footprint)"
                )
            if pool.nodes is not None and nodes > pool.nodes:
                yield f"job {job.name}: {phase} needs {nodes} nodes, pool {pool.name} has {pool.nodes} for co-located jobs (raise `nodes`)"
