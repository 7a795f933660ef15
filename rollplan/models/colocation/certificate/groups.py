"""Which jobs may be a group, and on how many nodes at least: in plain Python, group by group.

Where jobs run once per period this is the closed form. Where they may run several times (max_rate > 1), more groups are
feasible. A timetable of period P' in which job k runs m_k times keeps the SLOs if P' <= m_k D_k for all k, D_k being what
the job tolerates; let P be the least m_k D_k. Idle time at the end stretches the timetable to the period P, and runs that
P does not need can be left out, so that ceil(P / D_k) of them are left. Hence every feasible group is found among P = j D_k with
j <= max_rate and these runs, and passes the tests that follow: runs of a job do not overlap, trainings do not, and on a
node neither do rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, fsum

from rollplan.models.colocation.certificate.plain import nodes_between
from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most


def fewest_nodes(problem: ColocationProblem, jobs: Sequence[JobData]) -> tuple[int, int] | None:
    """Return the (rollout, training) nodes that a group of jobs needs at least, None if it is not feasible."""
    if len({(job.rollout_pool, job.train_pool) for job in jobs}) > 1:
        return None
    rollout, train = problem.pools[jobs[0].rollout_pool], problem.pools[jobs[0].train_pool]
    if not at_most(fsum(job.train_memory_gib for job in jobs), train.memory_gib):
        return None
    if fsum(job.train_s / job.tolerable_s for job in jobs) > 1 + 1e-6:
        return None  # the share of the time in which they train, however often they run
    least: int | None = None
    for period in _periods(problem, jobs):
        runs = [ceil(period / job.tolerable_s * (1 - 2e-7)) for job in jobs]
        if (
            max(runs) <= problem.max_rate
            and all(at_most(count * job.solo_s, period) for count, job in zip(runs, jobs, strict=True))
            and at_most(fsum(count * job.train_s for count, job in zip(runs, jobs, strict=True)), period)
        ):
            shapes = ((job.rollout_nodes, count * job.rollout_s, job.rollout_memory_gib) for count, job in zip(runs, jobs, strict=True))
            nodes, _ = nodes_between(tuple(shapes), period, rollout.memory_gib)
            least = nodes if least is None else min(least, nodes)
    return None if least is None else (least, max(job.train_nodes for job in jobs))


def _periods(problem: ColocationProblem, jobs: Sequence[JobData]) -> Sequence[float]:
    """Return the periods worth trying."""
    wider = 1 + timetable_tolerance(problem)
    if problem.max_rate == 1:
        return [min(job.tolerable_s for job in jobs) * wider]
    return sorted({times * job.tolerable_s * wider for job in jobs for times in range(1, problem.max_rate + 1)})


def timetable_tolerance(problem: ColocationProblem) -> float:
    """Return by how much, relatively, a timetable may exceed its limits: it is replayed with a tolerance at each of its phases."""
    return 1e-7 if problem.max_rate > 1 or any(job.gang or job.delay_s > 0 for job in problem.jobs) else 0.0
