"""Co-execution groups as cyclic shops: the training pool is resource 0, rollout node n is resource n + 1."""

from __future__ import annotations

from collections.abc import Sequence

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, JobData, Run, Timetable, at_most
from rollplan.models.cyclic_shop.bounds import lower_bound
from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem, Phase, ShopJob


def shop_of(jobs: Sequence[JobData], pinning: Sequence[Sequence[int]], runs: Sequence[int] | None = None) -> CyclicShopProblem:
    """Return the cyclic shop of a group; runs[i] are the iterations of its i-th job per period, one if not given."""
    names = ("training pool", *(f"rollout node {node}" for node in range(1 + max(node for nodes in pinning for node in nodes))))
    shop_jobs = []
    for job, nodes, count in zip(jobs, pinning, runs or [1] * len(jobs), strict=True):
        phases = [Phase(job.rollout_s, tuple(node + 1 for node in nodes), job.gang), Phase(job.train_s, (0,))]
        if job.delay_s > 0:
            phases.append(Phase(job.delay_s))
        shop_jobs.append(ShopJob(job.name, tuple(phases), count))
    return CyclicShopProblem(names, tuple(shop_jobs))


def timetable_of(schedule: CyclicSchedule) -> Timetable:
    """Return the timetable of a schedule of `shop_of`: every training within the period, in order."""
    period_s = schedule.period_s
    jobs = []
    for runs in schedule.starts_s:
        moved = []
        for rollout, (train_at_s,), *_ in runs:
            # A start that rounding puts just before the end of a period belongs to the next one.
            shift_s = period_s * ((train_at_s + 1e-9 * period_s) // period_s)
            moved.append(Run(tuple(at_s - shift_s for at_s in rollout), max(0.0, train_at_s - shift_s)))
        jobs.append(tuple(sorted(moved, key=lambda run: run.train_at_s)))
    return Timetable(period_s, tuple(jobs))


def unproven_periods(problem: ColocationProblem, solution: ColocationSolution) -> str | None:
    """Return in words how many timetables are longer than a bound without search, and how far at most; None if none is.

    Groups without a timetable run in strict round robin, whose period is that bound (docs/round_robin.md).
    """
    excess = []
    for group in solution.groups:
        if group.timetable is not None:
            least_s = _least_s(problem, group, group.timetable)
            if not at_most(group.timetable.period_s, least_s):
                excess.append(group.timetable.period_s / least_s - 1)
    if not excess:
        return None
    return (
        f"{len(excess)} timetables are up to {100 * max(excess):.1f} % longer than the loads of their nodes and jobs: whether "
        "shorter ones exist was not looked at (`explain --job` does)"
    )


def _least_s(problem: ColocationProblem, group: Group, table: Timetable) -> float:
    jobs = [problem.jobs[k] for k in group.jobs]
    return lower_bound(shop_of(jobs, group.pinning, [max(1, len(runs)) for runs in table.runs])).seconds
