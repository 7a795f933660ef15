"""Independent proof of a co-location bound from its witness.

The witness of an LP bound are prices u_k per job and s_p per pool. If no feasible group S has
cost(S) + sum_p s_p * nodes(S, p) < sum_{k in S} u_k, no plan costs less than sum u - sum s_p * N_p; a group that is
cheaper by d lowers the bound by d, once for each leader. All feasible groups are searched here by a depth-first search
of its own, in plain Python: nothing of the solver is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, fsum, isfinite

from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most


class SearchStoppedError(Exception):
    """The search for violated groups was stopped before its end."""


@dataclass(frozen=True, slots=True)
class CheckedBound:
    """A bound proven here: dollars per hour, the argument, and what was said against the witness."""

    value: float
    proof: str
    note: str = ""


def checked_bound(
    problem: ColocationProblem, duals: Sequence[float], capacity_duals: Sequence[float], stop: Callable[[], object] = lambda: None
) -> CheckedBound:
    """Return the best bound that can be proven from the witness; without a usable witness, the fluid bound.

    duals: one price per job, $/h; capacity_duals: one per pool, $/(h node). stop: when it answers, the search ends and
    only the fluid bound stands.
    """
    fluid = CheckedBound(fluid_bound(problem), "fluid")
    if not duals:
        return fluid
    if len(duals) != len(problem.jobs) or len(capacity_duals) != len(problem.pools):
        return CheckedBound(fluid.value, fluid.proof, "the witness has the wrong number of prices")
    if not all(isfinite(price) and price >= 0 for price in (*duals, *capacity_duals)):
        return CheckedBound(fluid.value, fluid.proof, "the witness has a price that is negative or not finite")
    if any(price > 0 and pool.nodes is None for price, pool in zip(capacity_duals, problem.pools, strict=True)):
        return CheckedBound(fluid.value, fluid.proof, "the witness prices a pool that has no limit")
    try:
        violation = sum(_least_reduced_cost(problem, leader, duals, capacity_duals, stop) for leader in range(len(problem.jobs)))
    except SearchStoppedError:
        return CheckedBound(fluid.value, fluid.proof, "the search for violated groups was stopped")
    capacity = fsum(price * (pool.nodes or 0) for price, pool in zip(capacity_duals, problem.pools, strict=True))
    value = problem.next_cost(fsum(duals) - capacity + violation)
    return CheckedBound(value, "LP duals, every feasible group searched") if value > fluid.value else fluid


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


def _least_reduced_cost(
    problem: ColocationProblem, leader: int, duals: Sequence[float], capacity_duals: Sequence[float], stop: Callable[[], object]
) -> float:
    """Return min(0, least reduced cost) of the feasible groups in which `leader` tolerates least (ties: lowest index)."""
    head = problem.jobs[leader]
    limit = head.tolerable_s
    others = [
        (duals[k], k, job)
        for k, job in enumerate(problem.jobs)
        if k != leader
        and (job.rollout_pool, job.train_pool) == (head.rollout_pool, head.train_pool)
        and (job.tolerable_s, k) > (limit, leader)
        and duals[k] > 0
        and at_most(job.solo_s, limit)
        and at_most(head.train_s + job.train_s, limit)
    ]
    others.sort(key=lambda item: (-item[0], item[1]))
    rollout_price = problem.pools[head.rollout_pool].price_per_node_h + capacity_duals[head.rollout_pool]
    train_price = problem.pools[head.train_pool].price_per_node_h + capacity_duals[head.train_pool]
    rollout_memory = problem.pools[head.rollout_pool].memory_gib
    train_memory = problem.pools[head.train_pool].memory_gib
    best = 0.0

    def search(group: list[JobData], price: float, start: int) -> None:
        nonlocal best
        if stop():
            raise SearchStoppedError
        trainers = max(job.train_nodes for job in group)
        work = fsum(job.rollout_nodes * job.rollout_s for job in group)
        nodes = max(max(job.rollout_nodes for job in group), ceil(work / limit * (1 - 1e-9)))
        if rollout_memory > 0:
            resident = fsum(job.rollout_nodes * job.rollout_memory_gib for job in group)
            nodes = max(nodes, ceil(resident / rollout_memory * (1 - 1e-9)))
        floor = rollout_price * nodes + train_price * trainers - price
        if floor < best:
            exact = _fewest_nodes(
                tuple((job.rollout_nodes, job.rollout_s, job.rollout_memory_gib) for job in sorted(group, key=lambda j: j.rollout_s)),
                limit,
                rollout_memory,
            )
            best = min(best, floor + rollout_price * (exact - nodes))
        places = problem.max_group_size - len(group)
        if places == 0:
            return
        trained = fsum(job.train_s for job in group)
        kept = fsum(job.train_memory_gib for job in group)
        for position in range(start, len(others)):
            # Sorted by price: whatever is added from here on earns at most `places` times this price.
            if floor - places * others[position][0] >= best:
                return
            dual, _, job = others[position]
            if at_most(trained + job.train_s, limit) and at_most(kept + job.train_memory_gib, train_memory):
                search([*group, job], price + dual, position + 1)

    search([head], duals[leader], 0)
    return best


@lru_cache(maxsize=100_000)
def _fewest_nodes(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> int:
    """Return the fewest nodes that host jobs (copies, seconds, GiB), by branching on where the next job goes.

    Each job's copies go to different nodes, at most `period_s` seconds and `memory_gib` on each node.
    """
    upper = sum(copies for copies, _, _ in jobs)
    best = upper

    def place(index: int, loads: tuple[tuple[float, float, int], ...]) -> None:
        """loads: (seconds, GiB, how many nodes stand exactly so), all nodes in use."""
        nonlocal best
        used = sum(count for _, _, count in loads)
        if used >= best:
            return
        if index == len(jobs):
            best = used
            return
        copies, seconds, memory = jobs[index]
        fitting = [kind for kind in loads if at_most(kind[0] + seconds, period_s) and at_most(kind[1] + memory, memory_gib)]
        for chosen in _choices(copies, [count for _, _, count in fitting]):
            after = [kind for kind in loads if kind not in fitting]
            for (busy, kept, count), taken in zip(fitting, chosen, strict=True):
                after += [(busy + seconds, kept + memory, taken)] if taken else []
                after += [(busy, kept, count - taken)] if count > taken else []
            new = copies - sum(chosen)
            after += [(seconds, memory, new)] if new else []
            place(index + 1, tuple(after))

    place(0, ())
    return best


def _choices(copies: int, counts: list[int]) -> list[tuple[int, ...]]:
    """Return all ways to take at most `copies` from kinds of `counts` nodes, fullest use first."""
    ways: list[tuple[int, ...]] = [()]
    for count in counts:
        ways = [(*way, taken) for way in ways for taken in range(min(count, copies - sum(way)), -1, -1)]
    return sorted(ways, key=lambda way: -sum(way))
