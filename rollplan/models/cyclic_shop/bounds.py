r"""What no period can be below, each bound with the reason in words.

A *clique* is a set of parts of which no two can run at the same moment: those of one resource, those of one job, gang
phases that share resources pairwise. Its seconds per period all come one after another. With more than one run per period
*blocking* adds to that. Between two turns of job k on resource n the job runs its other phases, g_k seconds. A turn of
job j on n that is longer than g_k makes k wait, so

.. math:: P \ge m_k\,alone_k + \sum_j m_j\,(d_j - g_k)^+

where the sum is over turns that do not overlap: all on one resource, or all of one job.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollplan.models.cyclic_shop.parts import parts_of
from rollplan.models.cyclic_shop.problem import CyclicShopProblem, ShopJob

_MAX_CLIQUE_PARTS = 24
"""Beyond so many kinds of parts only resources and jobs are looked at, not all cliques."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """No schedule has a shorter period than `seconds`, because of `reason`."""

    seconds: float
    reason: str


def lower_bound(problem: CyclicShopProblem) -> LowerBound:
    """Return the largest of the bounds; of equal ones the simplest reason."""
    return max([*_jobs(problem), *_resources(problem), _clique(problem), *_blocking(problem)], key=lambda bound: bound.seconds)


def _jobs(problem: CyclicShopProblem) -> list[LowerBound]:
    return [LowerBound(job.runs * job.alone_s, f"job {job.name} alone") for job in problem.jobs]


def _resources(problem: CyclicShopProblem) -> list[LowerBound]:
    load = [0.0] * len(problem.resources)
    for job in problem.jobs:
        for phase in job.phases:
            for resource in phase.resources:
                load[resource] += job.runs * phase.seconds
    return [LowerBound(seconds, name) for seconds, name in zip(load, problem.resources, strict=True)]


def _clique(problem: CyclicShopProblem) -> LowerBound:
    """Return the heaviest clique of parts; the runs of a phase count as one part of their summed seconds."""
    parts = parts_of(problem).items
    kinds = [part for part in parts if part.run == 0]
    if len(kinds) > _MAX_CLIQUE_PARTS:
        return LowerBound(0.0, "")
    weights = [problem.jobs[part.job].runs * part.seconds for part in kinds]
    order = sorted(range(len(kinds)), key=lambda index: (-weights[index], index))
    exclude = [
        {
            b
            for b, other in enumerate(kinds)
            if a != b and (set(part.resources) & set(other.resources) or (part.job == other.job and part.phase != other.phase))
        }
        for a, part in enumerate(kinds)
    ]
    best, members = 0.0, list[int]()

    def grow(chosen: list[int], seconds: float, candidates: list[int]) -> None:
        nonlocal best, members
        if seconds > best:
            best, members = seconds, chosen
        left = sum(weights[index] for index in candidates)
        for place, index in enumerate(candidates):
            if seconds + left <= best * (1 + 1e-12):
                return
            left -= weights[index]
            rest = [other for other in candidates[place + 1 :] if other in exclude[index]]
            grow([*chosen, index], seconds + weights[index], rest)

    grow([], 0.0, order)
    names = dict.fromkeys(problem.jobs[kinds[index].job].name for index in sorted(members))
    return LowerBound(best, f"phases of {', '.join(names)} that exclude each other")


def _blocking(problem: CyclicShopProblem) -> list[LowerBound]:
    found = []
    for k, job in enumerate(problem.jobs):
        others = [other for j, other in enumerate(problem.jobs) if j != k]
        least_s = job.runs * job.alone_s
        gaps_s = _gaps(job)
        for resource, gap_s in gaps_s.items():
            waiting = sum(
                other.runs * max(0.0, phase.seconds - gap_s) for other in others for phase in other.phases if resource in phase.resources
            )
            found.append(LowerBound(least_s + waiting, f"{problem.resources[resource]} makes job {job.name} wait"))
        # Turns of one job on several resources do not overlap either, if all of them bar the same way through k's phases.
        single = {
            r: gap for r, gap in gaps_s.items() if any(r in p.resources and (p.together or len(p.resources) == 1) for p in job.phases)
        }
        for other in others:
            turns = [[phase.seconds - single[r] for r in phase.resources if r in single] for phase in other.phases]
            waiting = other.runs * sum(max(0.0, *turn) for turn in turns if turn)
            found.append(LowerBound(least_s + waiting, f"job {other.name} makes job {job.name} wait"))
    return found


def _gaps(job: ShopJob) -> dict[int, float]:
    """Return for each resource that one phase of the job holds: the seconds of its other phases."""
    holds = [(resource, phase.seconds) for phase in job.phases for resource in phase.resources if phase.seconds > 0]
    once = [resource for resource, _ in holds]
    return {resource: job.alone_s - seconds for resource, seconds in holds if once.count(resource) == 1}
