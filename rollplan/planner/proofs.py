"""What is proven of a group's period, in sentences: is it the least, and would repeating short jobs use the nodes better?"""

from __future__ import annotations

from collections.abc import Collection

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import JobData, at_most
from rollplan.models.cyclic_shop.bounds import lower_bound
from rollplan.models.cyclic_shop.groups import shop_of
from rollplan.models.errors import Finding, InputError
from rollplan.models.plan import Plan, PlannedGroup
from rollplan.models.round_robin_proof import better_schedule, least_period
from rollplan.models.scenario import Scenario

SEARCH_S = 2.0
"""Seconds for each of the two searches of a group."""
MOST_RUNS = 4
"""Runs per period up to which repeated jobs are looked at."""


def gangs_of(plan: Plan) -> frozenset[str]:
    """Return the jobs whose rollout needs all its nodes at the same moment; raise `InputError` if the scenario inside is none."""
    return frozenset(job.name for job in Scenario.from_dict(plan.scenario.content, "the scenario in the plan").jobs if job.gang)


def period_text(group: PlannedGroup, gangs: Collection[str]) -> str:
    """Return whether no schedule with the same runs is shorter, as far as loads and jobs tell; nothing is searched."""
    jobs = job_data(group, gangs)
    pinning, runs = [job.rollout_nodes for job in group.jobs], [job.iterations for job in group.jobs]
    try:
        least = lower_bound(shop_of(jobs, pinning, runs))
    except ValueError as error:
        raise _impossible(group, error) from None
    if at_most(group.period_s, least.seconds):
        return f"{_what(group)} attains the least period of {least.seconds:.1f} s: {least.reason} takes that long"
    return f"no schedule takes less than {least.seconds:.1f} s ({least.reason}); `--job` searches for shorter ones than {_what(group)}"


def searched_text(group: PlannedGroup, gangs: Collection[str], seed: int) -> str:
    """Return the same after a search with CP-SAT where loads and jobs do not tell."""
    jobs = job_data(group, gangs)
    runs = [job.iterations for job in group.jobs]
    try:
        proof = least_period(jobs, [job.rollout_nodes for job in group.jobs], runs, Limits(time_s=SEARCH_S), seed)
    except ValueError as error:
        raise _impossible(group, error) from None
    if at_most(group.period_s, proof.bound_s):
        return f"{_what(group)} attains the least period of {proof.bound_s:.1f} s: {_why(proof.reason)}"
    if proof.proven:
        return f"the least period is {proof.least_s:.1f} s: {_why(proof.reason)}; {_what(group)} takes {group.period_s:.1f} s"
    found = f"the shortest period found is {proof.least_s:.1f} s, none is below {proof.bound_s:.1f} s"
    return f"{found}; {_what(group)} takes {group.period_s:.1f} s"


def better_text(group: PlannedGroup, gangs: Collection[str], seed: int, max_rate: int = 1) -> str | None:
    """Return whether the pools would be busier if some jobs ran several times per period, None if some do or the job is alone.

    max_rate: how many runs per period the plan allows. A busier schedule on the same nodes makes no plan cheaper by itself.
    """
    if len(group.jobs) == 1 or any(job.iterations > 1 for job in group.jobs):
        return None
    jobs = job_data(group, gangs)
    try:
        better, complete = better_schedule(
            jobs, [job.rollout_nodes for job in group.jobs], MOST_RUNS, limits=Limits(time_s=SEARCH_S), seed=seed
        )
    except ValueError as error:
        raise _impossible(group, error) from None
    searched = "" if complete else " (searched for a while only)"
    if better is None:
        return f"no schedule with up to {MOST_RUNS} runs of a job per period keeps the SLOs and the pools busier{searched}"
    runs = ", ".join(f"{job.name} x{times}" for job, times in zip(group.jobs, better.runs, strict=True))
    needs = max(better.runs)
    allowed = f"it needs `max_rate: {needs}`, the plan has {max_rate}" if needs > max_rate else f"`max_rate: {max_rate}` allows it"
    return (
        f"a better schedule exists: {runs} in {better.timetable.period_s:.1f} s keep all SLOs and the pools "
        f"{better.utilisation:.3f} busy in sum, strict round robin {better.round_robin:.3f}{searched}; {allowed}, "
        "and these nodes would cost the same"
    )


def job_data(group: PlannedGroup, gangs: Collection[str]) -> list[JobData]:
    """Return the jobs with the plan's seconds; what solo time has beyond the two phases is a delay."""
    try:
        return [
            JobData(
                name=job.name,
                slo=job.slo,
                rollout_s=job.rollout_s,
                train_s=job.train_s,
                rollout_nodes=len(job.rollout_nodes),
                train_nodes=job.train_nodes,
                rollout_memory_gib=job.rollout_memory_gib,
                train_memory_gib=job.train_memory_gib,
                gang=job.name in gangs,
                delay_s=0.0 if at_most(job.solo_s, job.rollout_s + job.train_s) else job.solo_s - job.rollout_s - job.train_s,
            )
            for job in group.jobs
        ]
    except ValueError as error:
        raise _impossible(group, error) from None


def _what(group: PlannedGroup) -> str:
    return "the timetable" if any(job.runs for job in group.jobs) else "strict round robin"


def _why(reason: str) -> str:
    return reason if reason.startswith("CP-SAT") else f"{reason} takes that long"


def _impossible(group: PlannedGroup, error: ValueError) -> InputError:
    return InputError("plan", [Finding(f"group {group.name}", "", str(error), "plan again")])
