"""A second proof that a co-location problem has no plan, which shares no code with the solvers.

Either a pool is too small for the work, memory and places of its jobs, however they are grouped; or all partitions of a
few jobs are compared. Both use the closed form of a group's period, which for gangs and delays is a lower bound: what is
excluded by it is excluded for them, too. It is none where a job may run several times per period.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most

MOST_JOBS = 10
_MOST_DEMANDS = 5000


def excluded(problem: ColocationProblem, stop: Callable[[], object] = lambda: None) -> bool:
    """Return whether it is proven that there is no plan; False says nothing."""
    if _short_of_nodes(problem):
        return True
    if len(problem.jobs) > MOST_JOBS or problem.max_rate > 1:
        return False
    return _no_partition(problem, stop)


def _short_of_nodes(problem: ColocationProblem) -> bool:
    """Return whether some pool has fewer nodes than work or places need, counted in fractions."""
    for p, pool in enumerate(problem.pools):
        if pool.nodes is None:
            continue
        needed = Fraction(0)
        for users in (
            [(job.rollout_nodes, job.rollout_s, job.rollout_memory_gib, job) for job in problem.jobs if job.rollout_pool == p],
            [(job.train_nodes, job.train_s, job.train_memory_gib, job) for job in problem.jobs if job.train_pool == p],
        ):
            busy = kept = places = Fraction(0)
            for nodes, seconds, memory_gib, job in users:
                busy += nodes * Fraction(seconds) / (Fraction(job.slo) * Fraction(job.solo_s))
                kept += nodes * Fraction(memory_gib) / Fraction(pool.memory_gib) if pool.memory_gib > 0 else 0
                places += Fraction(nodes, problem.max_group_size)
            needed += max(busy, kept, places)
        if needed > pool.nodes * (1 + Fraction(1, 10**8)):
            return True
    return False


def _no_partition(problem: ColocationProblem, stop: Callable[[], object]) -> bool:
    """Return whether every partition of the jobs breaks a limit: for each set of jobs, its least totals of nodes."""
    size = len(problem.jobs)
    groups: dict[int, tuple[int, ...]] = {}
    for members in range(1, 1 << size):
        nodes = _nodes(problem, [k for k in range(size) if members >> k & 1])
        if nodes is not None:
            groups[members] = nodes
    nothing = (0,) * len(problem.pools)
    least: dict[int, list[tuple[int, ...]]] = {0: [nothing]}
    for jobs in range(1, 1 << size):
        if stop():
            return False
        first = jobs & -jobs
        found: set[tuple[int, ...]] = set()
        members = jobs
        while members:
            if members & first and members in groups:
                found |= {tuple(map(sum, zip(totals, groups[members], strict=True))) for totals in least[jobs ^ members]}
            members = (members - 1) & jobs
        least[jobs] = _undominated([totals for totals in found if _within(problem, totals)])
    return not least[(1 << size) - 1]


def _within(problem: ColocationProblem, totals: Sequence[int]) -> bool:
    return all(pool.nodes is None or nodes <= pool.nodes for pool, nodes in zip(problem.pools, totals, strict=True))


def _undominated(found: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    kept: list[tuple[int, ...]] = []
    for totals in sorted(found):
        if not any(all(a <= b for a, b in zip(other, totals, strict=True)) for other in kept):
            kept.append(totals)
    return kept


def _nodes(problem: ColocationProblem, members: list[int]) -> tuple[int, ...] | None:
    """Return the nodes that a group takes of each pool at least, None if it is none."""
    jobs = [problem.jobs[k] for k in members]
    if len(jobs) > problem.max_group_size or len({(job.rollout_pool, job.train_pool) for job in jobs}) > 1:
        return None
    rollout, train = problem.pools[jobs[0].rollout_pool], problem.pools[jobs[0].train_pool]
    period_s = min(job.slo * job.solo_s for job in jobs)
    if not at_most(max(job.solo_s for job in jobs), period_s) or not at_most(sum(job.train_s for job in jobs), period_s):
        return None
    if not at_most(sum(job.train_memory_gib for job in jobs), train.memory_gib):
        return None
    if not all(at_most(job.rollout_memory_gib, rollout.memory_gib) for job in jobs):
        return None
    nodes = [0] * len(problem.pools)
    nodes[jobs[0].rollout_pool] += _rollout_nodes(jobs, period_s, rollout.memory_gib)
    nodes[jobs[0].train_pool] += max(job.train_nodes for job in jobs)
    return tuple(nodes)


def _rollout_nodes(jobs: list[JobData], period_s: float, memory_gib: float) -> int:
    """Return the fewest rollout nodes; for very wide jobs only what the widest needs."""
    if prod(job.rollout_nodes + 1 for job in jobs) > _MOST_DEMANDS:
        return max(job.rollout_nodes for job in jobs)
    hosts = [
        chosen
        for chosen in range(1, 1 << len(jobs))
        if at_most(sum(job.rollout_s for k, job in enumerate(jobs) if chosen >> k & 1), period_s)
        and at_most(sum(job.rollout_memory_gib for k, job in enumerate(jobs) if chosen >> k & 1), memory_gib)
    ]
    hosts = [chosen for chosen in hosts if not any(chosen != other and chosen & other == chosen for other in hosts)]
    reached = {tuple(job.rollout_nodes for job in jobs)}
    for nodes in range(sum(job.rollout_nodes for job in jobs) + 1):
        if any(not any(open_nodes) for open_nodes in reached):
            return nodes
        reached = {
            tuple(max(0, left - (chosen >> k & 1)) for k, left in enumerate(open_nodes))
            for open_nodes in reached
            for chosen in hosts
            if chosen >> next(k for k, left in enumerate(open_nodes) if left) & 1
        }
    raise ArithmeticError("a node hosts at least one job")
