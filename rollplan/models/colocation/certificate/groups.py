"""Which jobs may be a group, and on how many nodes at least: in plain Python, group by group.

Where jobs run once per period this is the closed form. Where they may run several times (max_rate > 1), more groups are
feasible. A timetable of period P' in which job k runs m_k times keeps the SLOs if P' <= m_k D_k for all k, D_k being what
the job tolerates; let P be the least m_k D_k. Idle time at the end stretches the timetable to the period P, and runs that
P does not need can be left out, so that ceil(P / D_k) of them are left. Hence every feasible group is found among P = j D_k with
j <= max_rate and these runs, and passes the tests that follow: runs of a job do not overlap, trainings do not, on a node
neither do rollouts, and what a job's own phases leave of the period has room for what of the others' cannot lie beside them
(`hosts.py`). Without one of its jobs a group passes on no more nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import ceil, fsum

from rollplan.models.colocation.certificate.hosts import full_nodes, nodes_at_least
from rollplan.models.colocation.certificate.plain import nodes_between
from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most


def all_groups(problem: ColocationProblem, stop: Callable[[], object] = lambda: None) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """Yield every group that may be feasible, as ascending jobs, with the (rollout, training) nodes that it needs at least.

    stop: when it answers, no more groups follow.
    """

    everyone = range(len(problem.jobs))
    # A part of a feasible group is feasible: pairs that are not keep most larger groups from being looked at.
    joins: list[set[int]] = [set() for _ in everyone]
    for first, second in combinations(everyone, 2) if problem.max_group_size > 1 else ():
        if stop():
            return
        if fewest_nodes(problem, [problem.jobs[first], problem.jobs[second]]) is not None:
            joins[first].add(second)
    pending: list[tuple[tuple[int, ...], set[int], int]] = [((k,), joins[k], 1) for k in everyone]
    while pending:
        members, others, at_least = pending.pop()
        if stop():
            return
        if (nodes := fewest_nodes(problem, [problem.jobs[k] for k in members], at_least)) is None:
            continue
        yield members, nodes
        if len(members) < problem.max_group_size:
            pending += [((*members, k), others & joins[k], nodes[0]) for k in sorted(others)]


def fewest_nodes(problem: ColocationProblem, jobs: Sequence[JobData], at_least: int = 1) -> tuple[int, int] | None:
    """Return the (rollout, training) nodes that a group of jobs needs at least, None if it is not feasible.

    at_least: rollout nodes that a part of the group is known to need.
    """
    if len({(job.rollout_pool, job.train_pool) for job in jobs}) > 1:
        return None
    rollout, train = problem.pools[jobs[0].rollout_pool], problem.pools[jobs[0].train_pool]
    if not at_most(fsum(job.train_memory_gib for job in jobs), train.memory_gib):
        return None
    tolerable_s = [job.tolerable_s for job in jobs]
    if fsum(job.train_s / limit for job, limit in zip(jobs, tolerable_s, strict=True)) > 1 + 1e-6:
        return None  # the share of the time in which they train, however often they run
    nodes = _once(problem, jobs, rollout.memory_gib) if problem.max_rate == 1 else _often(problem, jobs, tolerable_s, at_least)
    return None if nodes is None else (nodes, max(job.train_nodes for job in jobs))


def _once(problem: ColocationProblem, jobs: Sequence[JobData], memory_gib: float) -> int | None:
    """Return the rollout nodes of a group by the closed form, None if it is not feasible."""
    period_s = min(job.tolerable_s for job in jobs) * (1 + timetable_tolerance(problem))
    if not (at_most(max(job.solo_s for job in jobs), period_s) and at_most(fsum(job.train_s for job in jobs), period_s)):
        return None
    return nodes_between(tuple((job.rollout_nodes, job.rollout_s, job.rollout_memory_gib) for job in jobs), period_s, memory_gib)[0]


def _often(problem: ColocationProblem, jobs: Sequence[JobData], tolerable_s: Sequence[float], at_least: int) -> int | None:
    """Return the rollout nodes that a group needs at least if its jobs may run several times, None if it is not feasible."""
    demand = tuple(job.rollout_nodes for job in jobs)
    at_least = max(at_least, *demand)
    memory_gib = problem.pools[jobs[0].rollout_pool].memory_gib
    least: int | None = None
    for runs, period_s in _rates(tolerable_s, problem.max_rate, timetable_tolerance(problem)):
        fits = all(at_most(count * job.solo_s, period_s) for count, job in zip(runs, jobs, strict=True))
        if not fits or not at_most(fsum(count * job.train_s for count, job in zip(runs, jobs, strict=True)), period_s):
            continue
        full = full_nodes(jobs, runs, period_s, memory_gib)
        if full is not None:
            nodes = nodes_at_least(full, demand)
            least = nodes if least is None else min(least, nodes)
            if least <= at_least:
                break
    return least


def _rates(tolerable_s: Sequence[float], max_rate: int, tolerance: float) -> Iterable[tuple[tuple[int, ...], float]]:
    """Return the runs per period worth trying, each with the longest period for which they are enough."""
    longest: dict[tuple[int, ...], float] = {}
    for period_s in sorted({times * limit * (1 + tolerance) for limit in tolerable_s for times in range(1, max_rate + 1)}):
        enough = period_s * (1 - 2 * tolerance)
        runs = tuple([ceil(enough / limit) for limit in tolerable_s])
        if max(runs) > max_rate:
            break  # and more for longer periods
        longest[runs] = period_s
    return longest.items()


def timetable_tolerance(problem: ColocationProblem) -> float:
    """Return by how much, relatively, a timetable may exceed its limits: it is replayed with a tolerance at each of its phases."""
    replayed = problem.max_rate > 1 or any(job.gang or job.delay_s > 0 for job in problem.jobs)
    return max(1e-7, 2e-8 * problem.max_group_size) if replayed else 0.0
