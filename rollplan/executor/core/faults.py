"""What is wrong with a job: a phase that shows no life, memory beyond what was declared. Says so in words for people."""

from __future__ import annotations

from collections.abc import Iterable

from rollplan.executor.core.jobs import Job
from rollplan.executor.core.runbook import Resource

GIB = 2**30
START_S = 120.0
"""A cold start loads weights from disk without saying anything; it is given this long at least."""


def hung(job: Job, at_s: float) -> str | None:
    """Return what hangs in a job, if something does: it runs, and showed no life for `hang_s`."""
    limit_s = job.run.hang_s
    if job.state == "starting":
        limit_s = max(limit_s, START_S)
        return f"hung: not ready {at_s - job.since_s:.0f} s after its start (limit {limit_s:g} s)" if at_s - job.since_s > limit_s else None
    for (what, resource), seen_s in job.seen_s.items():
        if at_s - seen_s > limit_s:
            return f"hung: {what} on {resource} showed no progress for {at_s - seen_s:.0f} s (hang_after {limit_s:g} s)"
    return None


def over_declared(job: Job, resource: Resource) -> str | None:
    """Return how a job exceeds the footprint that it declared for a node of a resource, if it does."""
    declared_gib = declared(job, resource)
    held_gib = job.held.get(resource.name, 0) / GIB
    if declared_gib is None or held_gib <= declared_gib:
        return None
    return (
        f"holds {held_gib:.3g} GiB of host memory on a node of {resource.name}, declared are {declared_gib:.3g} GiB: "
        f"declare at least {held_gib:.3g} GiB as its {resource.kind} memory and plan again"
    )


def over_node(jobs: Iterable[Job], resource: Resource) -> tuple[Job, str] | None:
    """Return the job to stop if resident jobs together exceed the memory of a node, and why.

    It is the one that is most above its declaration: the plan made room for what was declared, so those within it are not
    to blame. A job without a declaration declared nothing.
    """
    resident = [job for job in jobs if job.held.get(resource.name)]
    total_gib = sum(job.held[resource.name] for job in resident) / GIB
    if total_gib <= resource.memory_gib:
        return None
    worst = max(resident, key=lambda job: job.held[resource.name] / GIB - (declared(job, resource) or 0.0))
    held_gib = worst.held[resource.name] / GIB
    return worst, (
        f"jobs hold {total_gib:.3g} GiB of host memory on a node of {resource.name}, which has {resource.memory_gib:.3g} GiB; "
        f"{worst.run.name} with {held_gib:.3g} GiB is most above its declaration ({_declared_text(worst, resource)}): "
        f"declare its {resource.kind} memory and plan again, or give the nodes more"
    )


def declared(job: Job, resource: Resource) -> float | None:
    """Return the GiB per node that a job declared for this kind of resource, None if it did not."""
    return job.run.rollout_memory_gib if resource.kind == "rollout" else job.run.train_memory_gib


def _declared_text(job: Job, resource: Resource) -> str:
    declared_gib = declared(job, resource)
    return "nothing declared" if declared_gib is None else f"{declared_gib:.3g} GiB declared"
