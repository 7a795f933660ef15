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
from rollplan.planner.modelled import modelled_job


def calibrate(scenario: Scenario, sources: Sequence[Source], date: str, job: str | None = None) -> Profile:
    """Return a profile with the calibration of one job.

    date: ISO 8601, of the result. Raises `InputError` if the job has no model, or if no sample says anything about it.
    """
    chosen = modelled_job(scenario, job)
    pools = {pool: scenario.pools[pool] for pool in budgets(chosen.split, scenario.pools)}
    asked = Job(chosen.name, chosen.split, chosen.model, chosen.workload, pools)
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


def _found(job: Job, usable: Usable, stamp: Stamp) -> Found:
    # Micro-batches on one GPU know no communication and no padding: whole updates say more, where there are any.
    idle = f"{len(usable.micro_batches)} micro-batches on one GPU are not used beside whole updates, which say more"
    return (
        Found(notes=(idle,) if usable.updates and usable.micro_batches else ())
        + engine(job, usable.decode, usable.rollout, stamp)
        + trainer(job, usable.updates or usable.micro_batches, stamp)
        + forward(job, usable.forward, stamp)
        + interference(job, "rollout", usable.rollout_beside, stamp)
        + interference(job, "train", usable.train_beside, stamp)
        + sync(job, usable.sync, stamp)
    )
