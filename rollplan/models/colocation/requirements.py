"""The requirements of a co-location problem one by one: what the problem is without some, and how to loosen each.

Without the limits of the pools every job could have nodes of its own, so that each conflict holds at least one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from math import ceil, floor, fsum
from typing import Literal, TypeAlias

from rollplan.models.colocation.problem import ColocationProblem, JobData

LARGEST_GROUP = 8
"""Most jobs in a group, and largest SLO, that a scenario can ask for."""
LARGEST_SLO = 1000.0


@dataclass(frozen=True, slots=True)
class Runs:
    """The job is to be planned at all."""

    job: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the job keeps in the memory of its nodes; dropped, it keeps nothing."""

    job: int
    role: Literal["rollout", "train"]


@dataclass(frozen=True, slots=True)
class Gang:
    """The rollout holds all its nodes at the same time."""

    job: int


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Most jobs that share nodes; dropped, the most that a scenario can ask for."""


@dataclass(frozen=True, slots=True)
class Slo:
    """The job's longest period; dropped, long enough for all jobs one after the other."""

    job: int


@dataclass(frozen=True, slots=True)
class PoolLimit:
    """The nodes of a pool; dropped, as many as needed."""

    pool: int


OfJob: TypeAlias = Runs | Footprint | Gang | Slo
Requirement: TypeAlias = OfJob | GroupSize | PoolLimit


def requirements(problem: ColocationProblem) -> list[list[Requirement]]:
    """Return the requirements that may exclude a plan, in groups: what one would rather be told comes last.

    Of jobs, those that need least of a limited pool come first, so that a conflict is made of few large jobs. Of pools,
    the one that is shortest comes last.
    """
    order = sorted(range(len(problem.jobs)), key=lambda k: (_share(problem, problem.jobs[k]), -k))
    jobs = problem.jobs
    groups: list[list[Requirement]] = [
        [Runs(k) for k in order],
        [Footprint(k, "train") for k in order if jobs[k].train_memory_gib > 0],
        [Footprint(k, "rollout") for k in order if jobs[k].rollout_memory_gib > 0],
        [Gang(k) for k in order if jobs[k].gang],
        [GroupSize()] if problem.max_group_size < min(LARGEST_GROUP, len(jobs)) else [],
        [Slo(k) for k in order if jobs[k].slo < _unlimited(problem, jobs[k])],
    ]
    shortest = sorted(
        (p for p, pool in enumerate(problem.pools) if pool.nodes is not None),
        key=lambda p: fsum(_share(problem, job, p) for job in jobs),
    )
    groups += [[PoolLimit(p)] for p in shortest]
    return [group for group in groups if group]


def relaxed(problem: ColocationProblem, kept: Set[Requirement]) -> ColocationProblem:
    """Return the problem with those of its requirements only; jobs that need not run are left out."""
    jobs = []
    for k, job in enumerate(problem.jobs):
        if Runs(k) in kept:
            dropped: list[OfJob] = [Footprint(k, "train"), Footprint(k, "rollout"), Gang(k), Slo(k)]
            for requirement in dropped:
                if requirement not in kept:
                    job = _without(problem, job, requirement)
            jobs.append(job)
    pools = tuple(pool if PoolLimit(p) in kept else replace(pool, nodes=None) for p, pool in enumerate(problem.pools))
    size = problem.max_group_size if GroupSize() in kept else max(problem.max_group_size, LARGEST_GROUP)
    return replace(problem, pools=pools, jobs=tuple(jobs), max_group_size=size)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of requirements of one kind, each stronger than the one before: how many, and number k as words and problem."""

    count: int
    at: Callable[[int], tuple[str, ColocationProblem]]


def changes(problem: ColocationProblem, loosened: list[Requirement]) -> Changes:
    """Return how requirements of one kind can be loosened in steps; the jobs of several are loosened alike."""
    one = len(loosened) == 1
    first = loosened[0]
    if isinstance(first, PoolLimit):
        return _more_nodes(problem, first.pool)
    if isinstance(first, GroupSize):
        least = problem.max_group_size + 1
        return Changes(
            max(0, LARGEST_GROUP - least + 1), lambda k: (f"max_group_size: {least + k}", replace(problem, max_group_size=least + k))
        )
    members = [requirement for requirement in loosened if not isinstance(requirement, PoolLimit | GroupSize)]
    if isinstance(first, Runs):
        return _fewer_jobs(problem, [requirement.job for requirement in members])
    if isinstance(first, Gang):
        words = "`gang: false`" if one else "`gang: false` for them"
        return Changes(1, lambda _: (words, _with(problem, {r.job: _without(problem, problem.jobs[r.job], r) for r in members})))
    if isinstance(first, Footprint):
        return _smaller_footprints(problem, [r for r in members if isinstance(r, Footprint)])
    return _looser_slo(problem, [requirement.job for requirement in members])


def _more_nodes(problem: ColocationProblem, p: int) -> Changes:
    """One node more after the other, up to what the jobs take on nodes of their own."""
    have = problem.pools[p].nodes or 0
    solo = sum(job.rollout_nodes * (job.rollout_pool == p) + job.train_nodes * (job.train_pool == p) for job in problem.jobs)

    def at(k: int) -> tuple[str, ColocationProblem]:
        pools = tuple(replace(pool, nodes=have + 1 + k) if index == p else pool for index, pool in enumerate(problem.pools))
        return str(have + 1 + k), replace(problem, pools=pools)

    return Changes(max(0, solo - have), at)


def _looser_slo(problem: ColocationProblem, jobs: list[int]) -> Changes:
    """One job's SLO in steps of 0.01; those of several in steps of 5 %, at most tenfold."""
    unlimited = [min(LARGEST_SLO, _unlimited(problem, problem.jobs[k])) for k in jobs]
    if len(jobs) == 1:
        job = problem.jobs[jobs[0]]
        least = floor(job.slo * 100 + 1e-9) + 1
        return Changes(
            max(0, ceil(unlimited[0] * 100) - least + 1),
            lambda k: (f"slo {(least + k) / 100:g}", _with(problem, {jobs[0]: replace(job, slo=(least + k) / 100)})),
        )

    def at(k: int) -> tuple[str, ColocationProblem]:
        factor = (21 + k) / 20
        slos = {j: replace(problem.jobs[j], slo=min(LARGEST_SLO, problem.jobs[j].slo * factor)) for j in jobs}
        return f"slo times {factor:g}", _with(problem, slos)

    return Changes(180, at)


def _smaller_footprints(problem: ColocationProblem, footprints: list[Footprint]) -> Changes:
    """One in steps of 2 %, rounded down to 0.1 GiB; several by the same share."""
    one = len(footprints) == 1

    def at(k: int) -> tuple[str, ColocationProblem]:
        left = {f.job: floor(getattr(problem.jobs[f.job], f"{f.role}_memory_gib") * (49 - k) / 5) / 10 for f in footprints}
        role = footprints[0].role
        small = {
            j: replace(problem.jobs[j], rollout_memory_gib=gib) if role == "rollout" else replace(problem.jobs[j], train_memory_gib=gib)
            for j, gib in left.items()
        }
        return f"at most {left[footprints[0].job]:.1f} GiB" if one else f"{(49 - k) * 2} % of it", _with(problem, small)

    return Changes(50, at)


def _fewer_jobs(problem: ColocationProblem, jobs: list[int]) -> Changes:
    """Leave out jobs, the largest first."""

    def at(k: int) -> tuple[str, ColocationProblem]:
        left_out = jobs[-1 - k :]
        words = "leaving it out" if len(jobs) == 1 else f"leaving out {some([problem.jobs[j].name for j in reversed(left_out)])}"
        return words, replace(problem, jobs=tuple(job for j, job in enumerate(problem.jobs) if j not in left_out))

    return Changes(min(len(jobs), len(problem.jobs) - 1), at)


def some(names: list[str], limit: int = 4) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names) if len(names) <= limit else f"{', '.join(names[:limit])} and {len(names) - limit} more"


def _with(problem: ColocationProblem, changed: dict[int, JobData]) -> ColocationProblem:
    return replace(problem, jobs=tuple(changed.get(k, job) for k, job in enumerate(problem.jobs)))


def _without(problem: ColocationProblem, job: JobData, requirement: OfJob) -> JobData:
    if isinstance(requirement, Footprint):
        return replace(job, rollout_memory_gib=0.0) if requirement.role == "rollout" else replace(job, train_memory_gib=0.0)
    if isinstance(requirement, Gang):
        return replace(job, gang=False)
    return replace(job, slo=max(job.slo, _unlimited(problem, job)))


def _unlimited(problem: ColocationProblem, job: JobData) -> float:
    """Return the SLO at which the job waits for all jobs, one after the other, which no group exceeds."""
    return fsum(other.solo_s for other in problem.jobs) / job.solo_s


def _share(problem: ColocationProblem, job: JobData, only: int | None = None) -> float:
    """Return how much the job takes at least of a limited pool: of the one it needs most of, or of one."""
    shares = [0.0]
    for p, nodes, busy_s in ((job.rollout_pool, job.rollout_nodes, job.rollout_s), (job.train_pool, job.train_nodes, job.train_s)):
        limit = problem.pools[p].nodes
        if limit is not None and only in (None, p):
            shares.append(nodes * max(busy_s / job.tolerable_s, 1 / problem.max_group_size) / max(limit, 0.5))
    return max(shares) if only is None else sum(shares)
