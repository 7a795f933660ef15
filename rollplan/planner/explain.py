"""Why a plan is as it is: what sets each period, how much room is left, and why a job is not elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import ColocationProblem, NodePool, at_most
from rollplan.models.errors import Finding, InputError
from rollplan.models.plan import Plan, PlannedGroup, PlannedJob
from rollplan.models.round_robin import period
from rollplan.planner.proofs import better_text, gangs_of, job_data, period_text, searched_text
from rollplan.planner.timetables import law_of

JOINING_S = 10.0
"""Seconds in which all other groups are asked for timetables with one more job, where jobs may run several times."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another place for a job: the group, why the job could not join it or at which extra cost in $/h.

    possible: False if the job could not; True if it could, or if that is not known, as the reason says then.
    """

    group: str
    possible: bool
    reason: str


@dataclass(frozen=True, slots=True)
class JobReason:
    """A job's place: what leaving it would cost ($/h more than now, alone), and every other group.

    proof: what is proven of its group's period. better: whether the group's pools could be busier if jobs ran several times
    per period, None where that was not asked.
    """

    job: str
    group: str
    alone_extra_per_h: float
    alternatives: tuple[Alternative, ...]
    proof: str
    better: str | None


def explain_job(plan: Plan, name: str) -> JobReason:
    """Return why a job shares nodes with whom it does; raise `InputError` if the plan does not hold it."""
    for group in plan.groups:
        for job in group.jobs:
            if job.name == name:
                gangs, seed, limits = gangs_of(plan), plan.settings.seed, Limits(JOINING_S)
                others = tuple(_alternative(plan, group, other, job, gangs, limits) for other in plan.groups if other is not group)
                proof, better = searched_text(group, gangs, seed), better_text(group, gangs, seed, plan.settings.max_rate)
                return JobReason(name, group.name, _extra_if_alone(plan, group, job), others, proof, better)
    names = [job.name for group in plan.groups for job in group.jobs]
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise InputError("plan", [Finding("--job", f"`{name}`", "is not a co-located job of the plan", f"choose from {shown or 'none'}")])


def proof_texts(plan: Plan) -> dict[str, str]:
    """Return for each group whether its period is the least, as far as that needs no search."""
    gangs = gangs_of(plan)
    return {group.name: period_text(group, gangs) for group in plan.groups}


def binding_text(group: PlannedGroup) -> str:
    """Return in one sentence what sets a group's period and how far it could grow."""
    job = next(job for job in group.jobs if job.name == group.tightest)
    room = f"could grow by {100 * (group.headroom - 1):.0f} % before the SLO of {group.tightest} ({job.slo:g}) breaks"
    if group.headroom < 1 + 5e-4:
        room = f"leaves the SLO of {group.tightest} ({job.slo:g}) no room"
    return f"{group.binds} sets the period of {group.period_s:.1f} s, which {room}"


def _extra_if_alone(plan: Plan, group: PlannedGroup, job: PlannedJob) -> float:
    """Return dollars per hour more if the job had its own nodes and the rest kept theirs, less what it frees."""
    rest = [other for other in group.jobs if other is not job]
    rollout, train = plan.pools[group.rollout_pool], plan.pools[group.train_pool]
    own = len(job.rollout_nodes) * rollout.price_per_node_h + job.train_nodes * train.price_per_node_h
    if not rest:
        return 0.0
    kept = {node for other in rest for node in other.rollout_nodes}
    freed = (group.rollout_nodes - len(kept)) * rollout.price_per_node_h
    freed += (group.train_nodes - max(other.train_nodes for other in rest)) * train.price_per_node_h
    return own - freed


def _alternative(
    plan: Plan, home: PlannedGroup, group: PlannedGroup, job: PlannedJob, gangs: Collection[str], limits: Limits
) -> Alternative:
    def refused(reason: str) -> Alternative:
        return Alternative(group.name, False, reason)

    jobs = (*group.jobs, job)
    if (group.rollout_pool, group.train_pool) != (home.rollout_pool, home.train_pool):
        return refused("its nodes are of other pools")
    if len(jobs) > plan.settings.max_group_size:
        return refused(f"it has {len(group.jobs)} jobs, at most {plan.settings.max_group_size} may share nodes")
    memory = plan.pools[group.train_pool].memory_gib_per_node
    resident = sum(other.train_memory_gib for other in jobs)
    if not at_most(resident, memory):
        return refused(f"a training node would keep {resident:.0f} GiB, it has {memory:.0f}")
    if plan.settings.max_rate > 1:
        return _with_timetable(plan, group, jobs, gangs, limits)
    if (reason := _too_slow(group, jobs)) is not None:
        return refused(reason)
    limit = min(other.slo * other.solo_s for other in jobs)
    missing = max(0, len(job.rollout_nodes) - _nodes_with_room(plan, group, job, limit))
    # With timetables the loads above only say what is impossible.
    provided = ", if a timetable exists" if any(other.runs for other in jobs) else ""
    return Alternative(group.name, True, f"it could join for {_more(plan, group, missing, job.train_nodes)}{provided}")


def _more(plan: Plan, group: PlannedGroup, rollout_nodes: int, train_nodes: int) -> str:
    """Return what so many more rollout nodes and, in all, so many training nodes cost."""
    trainers = max(0, train_nodes - group.train_nodes)
    extra = rollout_nodes * plan.pools[group.rollout_pool].price_per_node_h + trainers * plan.pools[group.train_pool].price_per_node_h
    return f"{extra:.2f} $/h more there ({rollout_nodes} rollout, {trainers} training nodes)"


def _too_slow(group: PlannedGroup, jobs: Collection[PlannedJob]) -> str | None:
    """Return why strict round robin on the group's nodes breaks an SLO of `jobs`, as far as loads and jobs tell."""
    strictest = min(jobs, key=lambda other: other.slo * other.solo_s)
    limit = strictest.slo * strictest.solo_s
    tolerates = f"{strictest.name} tolerates {limit:.1f} s (SLO {strictest.slo:g})"
    longest = max(jobs, key=lambda other: other.solo_s)
    if not at_most(longest.solo_s, limit):
        return f"{longest.name} alone takes {longest.solo_s:.1f} s, {tolerates}"
    training = sum(other.train_s for other in jobs)
    if not at_most(training, limit):
        return f"training would take {training:.1f} s per period, {tolerates}"
    fullest = period([other.rollout_s for other in group.jobs], [0.0] * len(group.jobs), [other.rollout_nodes for other in group.jobs])
    if not at_most(fullest.seconds, limit):
        return f"its rollout nodes are busy {fullest.seconds:.1f} s, {tolerates}"
    return None


def _with_timetable(plan: Plan, group: PlannedGroup, jobs: tuple[PlannedJob, ...], gangs: Collection[str], limits: Limits) -> Alternative:
    """Return whether the jobs may be a group if they may run several times per period: by the law that made the plan."""
    pools = tuple(
        NodePool(name, plan.pools[name].price_per_node_h, plan.pools[name].memory_gib_per_node)
        for name in (group.rollout_pool, group.train_pool)
    )
    together = tuple(job_data(group.model_copy(update={"jobs": jobs}), gangs))
    most = plan.settings.max_rate
    law = law_of(ColocationProblem(pools, together, plan.settings.max_group_size, most), limits, plan.settings.seed)
    assert law is not None, "several runs per period have a law"
    found, proved = law.fewest(tuple(range(len(together))))
    if found is None:
        reason, often = _too_slow(group, jobs), f"with up to {most} runs of a job per period"
        if not proved:
            strict = "" if reason is None else f"; not in strict round robin, {reason}"
            return Alternative(group.name, True, f"it is not known whether it could join {often}{strict}")
        return Alternative(group.name, False, f"no timetable {often}" if reason is None else f"in strict round robin {reason}; nor {often}")
    more = _more(plan, group, max(0, found.rollout_nodes - group.rollout_nodes), found.train_nodes)
    runs = () if found.timetable is None else zip(found.jobs, found.timetable.runs, strict=True)
    often = ", ".join(f"{jobs[k].name} x{len(each)}" for k, each in runs if len(each) > 1)
    return Alternative(group.name, True, f"it could join for {more}{f', with {often} per period' if often else ''}")


def _nodes_with_room(plan: Plan, group: PlannedGroup, job: PlannedJob, limit_s: float) -> int:
    """Return how many of the group's rollout nodes could host the job as they stand."""
    memory = plan.pools[group.rollout_pool].memory_gib_per_node
    count = 0
    for node in range(group.rollout_nodes):
        here = [other for other in group.jobs if node in other.rollout_nodes]
        busy = sum(other.rollout_s for other in here) + job.rollout_s
        kept = sum(other.rollout_memory_gib for other in here) + job.rollout_memory_gib
        count += at_most(busy, limit_s) and at_most(kept, memory)
    return count
