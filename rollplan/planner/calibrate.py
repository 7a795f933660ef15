"""Calibrate a job: its own samples beside the laws that plans use, and the constants with which they agree."""

from __future__ import annotations

from collections.abc import Sequence

from rollplan import __version__
from rollplan.models.calibration.engine import engine
from rollplan.models.calibration.factors import interference, sync
from rollplan.models.calibration.found import Found, Stamp
from rollplan.models.calibration.laws import Job
from rollplan.models.calibration.read import Source
from rollplan.models.calibration.trainer import forward, trainer
from rollplan.models.calibration.usable import Usable
from rollplan.models.errors import Finding, InputError
from rollplan.models.profile.calibration import Calibration
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import budgets


def calibrate(scenario: Scenario, sources: Sequence[Source], date: str, job: str | None = None) -> Profile:
    """Return a profile with the calibration of one job.

    date: ISO 8601, of the result. Raises `InputError` if the job has no model, or if no sample says anything about it.
    """
    asked = job_of(scenario, job)
    usable = Usable(asked)
    for source in sources:
        usable.take(source)
    stamp = Stamp(f"rollplan {__version__}", date)
    found = _found(asked, usable, stamp)
    if not found.numbers:
        faults = [Finding(text.sample, "", f"is left out: {text.reason}", "correct it, or give other samples") for text in usable.left_out]
        nothing = Finding(
            "samples", "", "hold no time that can be calibrated with", "give decode, rollout, training, interference or sync samples"
        )
        raise InputError(scenario.name, faults[:10] or [nothing])
    calibration = Calibration(
        job=asked.name,
        model=asked.model.name,
        numbers=found.numbers,
        comparisons=found.comparisons,
        left_out=tuple(usable.left_out),
        notes=found.notes,
    )
    names = "; ".join(dict.fromkeys(source.place.source for source in sources))
    measured = any(source.place.kind == "measured" for source in sources)
    origin = Origin(kind="measured" if measured else "imported", by=stamp.by, date=date, source=names[:1000])
    return Profile(name=f"calibration of {asked.name}", origin=origin, calibration=calibration)


def job_of(scenario: Scenario, name: str | None) -> Job:
    """Return the one job with a model that is meant; raise `InputError` if there is none, or several without a name."""
    found = [
        Job(entry.name, split, split.model, split.workload, {pool: scenario.pools[pool] for pool in budgets(split, scenario.pools)})
        for entry in scenario.jobs
        if (split := entry.split) is not None and split.model is not None and split.workload is not None
    ]
    chosen = [entry for entry in found if name in (None, entry.name)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(entry.name for entry in found)
    if name is not None:
        remedy = f"choose from {names}" if names else "give it a `split` with both"
        raise InputError(scenario.name, [Finding("--job", f"`{name}`", "has no `model` and `workload`", remedy)])
    remedy = f"choose one with --job: {names}" if names else "give a job a `split` with `model` and `workload`"
    raise InputError(scenario.name, [Finding("jobs", "", f"has {len(found)} jobs with a `model`", remedy)])


def _found(job: Job, usable: Usable, stamp: Stamp) -> Found:
    # Micro-batches on one GPU know no communication and no padding: whole updates say more, where there are any.
    idle = f"{len(usable.micro_batches)} micro-batches on one GPU are not used beside whole updates, which say more"
    return (
        Found(notes=(idle,) if usable.updates and usable.micro_batches else ())
        + engine(job, usable.decode, usable.rollout, stamp)
        + trainer(job, usable.updates or usable.micro_batches, stamp)
        + forward(usable.forward, stamp)
        + interference(job, "rollout", usable.rollout_beside, stamp)
        + interference(job, "train", usable.train_beside, stamp)
        + sync(job, usable.sync, stamp)
    )
