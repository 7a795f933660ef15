"""A group run by the order of its timetable: every node keeps its cyclic order, and nobody waits for the clock.

Each phase starts when the phase before it on its node and the phase before it of its job are over. Start times are then
maxima of sums of durations, so phases that take less than planned make no later phase end late (max-plus algebra;
Baccelli et al. 1992). With one run per job and period this is strict round robin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollplan.models.colocation.problem import Group, JobData
from rollplan.planner.simulate import Phase

Seconds = Callable[[int, int], float]
"""Seconds of a phase of (position of the job in its group, iteration)."""


def planned(jobs: Sequence[JobData], group: Group, periods: int) -> tuple[Phase, ...]:
    """Return the phases of some periods by the clock, in the order of their starts; jobs[i] is the group's i-th job."""
    if group.timetable is None:
        raise ValueError("timetable must be given, strict round robin has `simulate`")
    phases = []
    for k, (job, nodes, runs) in enumerate(zip(jobs, group.pinning, group.timetable.runs, strict=True)):
        for iteration in range(periods * len(runs)):
            run, base_s = runs[iteration % len(runs)], iteration // len(runs) * group.timetable.period_s
            for node, at_s in zip(nodes, run.rollout_at_s, strict=True):
                phases.append(Phase(k, iteration, "rollout", node, base_s + at_s, base_s + at_s + job.rollout_s))
            at_s = base_s + run.train_at_s
            phases.append(Phase(k, iteration, "train", None, at_s, at_s + job.train_s))
    # A phase of no length goes before one that starts with it, so this order keeps every order of nodes and jobs.
    return tuple(sorted(phases, key=lambda phase: (round(phase.start_s, 7), round(phase.end_s, 7), phase.job)))


def run_by_order(jobs: Sequence[JobData], group: Group, periods: int, rollout_s: Seconds, train_s: Seconds) -> tuple[Phase, ...]:
    """Return the same phases as `planned`, in the same order, when their durations are these; nothing starts before the first plan."""
    plan = planned(jobs, group, periods)
    begin_s = plan[0].start_s
    free_s: dict[int | None, float] = {}
    job_free_s = [begin_s] * len(jobs)
    rollouts_end_s = [begin_s] * len(jobs)
    gangs: dict[tuple[int, int], float] = {}
    run: list[Phase] = []
    for phase in plan:
        job, key = jobs[phase.job], (phase.job, phase.iteration)
        if phase.kind == "rollout":
            seconds = rollout_s(*key)
            start_s = max(job_free_s[phase.job], free_s.get(phase.node, begin_s))
            if job.gang:
                together = max(free_s.get(node, begin_s) for node in group.pinning[phase.job])
                start_s = gangs.setdefault(key, max(start_s, together))
            rollouts_end_s[phase.job] = max(rollouts_end_s[phase.job], start_s + seconds)
        else:
            seconds = train_s(*key)
            start_s = max(rollouts_end_s[phase.job], free_s.get(None, begin_s))
            job_free_s[phase.job] = start_s + seconds + job.delay_s
        free_s[phase.node] = start_s + seconds
        run.append(Phase(phase.job, phase.iteration, phase.kind, phase.node, start_s, start_s + seconds))
    return tuple(run)
