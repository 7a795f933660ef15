"""The fluid bound, by loops: work, memory and places poured into nodes (docs/bounds.md, section 2)."""

from __future__ import annotations

from rollplan.models.colocation.problem import ColocationProblem


def fluid_bound(problem: ColocationProblem) -> float:
    """Return sum over pools of price * the largest of three needs: work, memory, places in groups (docs/bounds.md)."""
    total = 0.0
    for index, pool in enumerate(problem.pools):
        for rollout in (True, False):
            work = memory = places = 0.0
            for job in problem.jobs:
                if (job.rollout_pool if rollout else job.train_pool) != index:
                    continue
                nodes = job.rollout_nodes if rollout else job.train_nodes
                work += nodes * (job.rollout_s if rollout else job.train_s) / job.tolerable_s
                memory += nodes * (job.rollout_memory_gib if rollout else job.train_memory_gib)
                places += nodes / problem.max_group_size
            total += pool.price_per_node_h * max(work, places, memory / pool.memory_gib if pool.memory_gib else 0.0)
    return total * (1 - 1e-9)
