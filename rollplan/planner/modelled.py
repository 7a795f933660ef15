"""The one job with a model that `fit`, `dispatch` and `calibrate` are asked about."""

from __future__ import annotations

from dataclasses import dataclass

from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.recipe import Workload
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split


@dataclass(frozen=True, slots=True)
class ModelledJob:
    """A job whose stages follow from a model and a workload. split: as given, with both of them."""

    name: str
    split: Split
    model: Architecture
    workload: Workload


def modelled_job(scenario: Scenario, name: str | None = None) -> ModelledJob:
    """Return the job of this name, or the only one with a model; raise `InputError` if there is none, or several to choose from."""
    jobs = {
        job.name: ModelledJob(job.name, split, split.model, split.workload)
        for job in scenario.jobs
        if (split := job.split) is not None and split.model is not None and split.workload is not None
    }
    names = ", ".join(jobs)
    if name is not None and name not in jobs:
        remedy = f"choose from {names}" if names else "give it a `split` with both"
        raise InputError(scenario.name, [Finding("job", f"`{name}`", "has no `model` and `workload`", remedy)])
    if name is None and len(jobs) != 1:
        remedy = f"choose one with --job: {names}" if names else "give a job a `split` with `model` and `workload`"
        raise InputError(scenario.name, [Finding("jobs", "", f"has {len(jobs)} jobs with a `model`", remedy)])
    return jobs[name] if name is not None else next(iter(jobs.values()))
