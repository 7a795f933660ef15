"""The state of a run: its jobs, the permits of its resources, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rollplan.executor.core import dispatch
from rollplan.executor.core.events import Instruction
from rollplan.executor.core.jobs import Job
from rollplan.executor.core.permits import Permit
from rollplan.executor.core.records import Remark
from rollplan.executor.core.runbook import Resource, Runbook


class Board:
    """What the core knows. out: instructions of the answer in the making; now_s: when the event happened that it answers.

    Raises `ValueError` for a runbook that contradicts itself.
    """

    def __init__(self, runbook: Runbook, finished: Mapping[str, int]) -> None:
        _check(runbook, finished)
        self.resources: dict[str, Resource] = {resource.name: resource for resource in runbook.resources}
        self.permits = {
            resource.name: Permit(resource.jobs, runbook.policy, resource.moments, resource.period_s) for resource in runbook.resources
        }
        self.shared = {name for resource in runbook.resources if resource.on is not None for name in (resource.name, resource.on)}
        self.jobs = {
            run.name: Job(run, run.train in self.shared or not self.shared.isdisjoint(run.rollout), finished=finished.get(run.name, 0))
            for run in runbook.jobs
        }
        self.lost: set[str] = set()
        self.now_s = 0.0
        self.out: list[Instruction] = []
        self.remarks: list[Remark] = []

    def permits_of(self, job: Job) -> list[Permit]:
        """Return the permits of all resources of a job."""
        return [self.permits[name] for name in job.resources]

    def alone(self, resource: str) -> bool:
        """Return whether the nodes of a resource serve one job in one kind of phase only."""
        return len(self.resources[resource].jobs) == 1 and resource not in self.shared

    def remark(self, job: Job, text: str) -> None:
        """Keep something that people should read."""
        self.remarks.append(Remark(self.now_s, job.run.name, text))

    def status(self) -> dict[str, Any]:
        """Return plain data for screens: what every resource does and who waits for it, how far every job is."""
        return {
            "resources": {name: self._resource_status(name, permit) for name, permit in self.permits.items()},
            "jobs": {name: _job_status(job) for name, job in self.jobs.items()},
        }

    def _resource_status(self, name: str, permit: Permit) -> dict[str, Any]:
        does = _does(self.jobs[permit.holder], name) if permit.holder else None
        return {"holder": permit.holder, "does": does, "queue": list(permit.queue()), "lost": name in self.lost}


def known(name: str, names: Collection[str], what: str) -> None:
    """Raise `ValueError` for a name that the runbook does not have."""
    if name not in names:
        raise ValueError(f"there is no {what} {name!r} in the runbook, it has {', '.join(names)}")


def _does(job: Job, resource: str) -> str:
    if job.state == "stopping":
        return "stops"
    if resource != job.run.train:
        return f"rollout {job.rolling[resource]}"
    if job.training is not None:
        return f"training {job.training.iteration}"
    return f"sync {job.syncing}" if job.syncing is not None else "waits for samples"


def _job_status(job: Job) -> dict[str, Any]:
    newest = job.batches[max(job.batches)] if job.batches else None
    return {
        "state": job.state,
        "reason": job.reason,
        "iteration": job.finished,
        "iterations": job.run.iterations,
        "version": job.synced,
        "restarts": job.restarts,
        "samples": job.run.samples,
        "samples_done": newest.done if newest else 0,
    }


def _check(runbook: Runbook, finished: Mapping[str, int]) -> None:
    resources = {resource.name: resource for resource in runbook.resources}
    names = [run.name for run in runbook.jobs]
    for name in (*finished, *(name for resource in runbook.resources for name in resource.jobs)):
        known(name, names, "job")
    for run in runbook.jobs:
        if not run.rollout or len(set(run.rollout)) < len(run.rollout) or run.samples < 1:
            nodes = ", ".join(run.rollout) or "none"
            raise ValueError(f"job {run.name}: needs rollout resources, each once, and a sample, got {nodes} and {run.samples}")
        if not 1 <= run.chunks <= run.samples:
            raise ValueError(f"job {run.name}: chunks must be from 1 to its {run.samples} samples, got {run.chunks}")
        for name, kind in (*((node, "rollout") for node in run.rollout), (run.train, "train")):
            if name not in resources or resources[name].kind != kind or run.name not in resources[name].jobs:
                raise ValueError(f"job {run.name}: {name!r} must be a {kind} resource that lists the job")
        dispatch.deal((), run.rollout, run.dispatch)
