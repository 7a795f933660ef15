"""Interference of stages that run side by side, and weight sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rollplan.models.calibration.found import Found, Stamp, compared, fitted, kept, no_better
from rollplan.models.calibration.laws import Job
from rollplan.models.calibration.robust import Constants, Observed, fit
from rollplan.models.profile.calibration import NumberName
from rollplan.models.reference.sync import weight_sync_seconds

MOST_INTERFERENCE = 100.0
MOST_SYNC_S = 1e7


def interference(job: Job, stage: Literal["rollout", "train"], pairs: Sequence[Observed], stamp: Stamp) -> Found:
    """Return by which factor a stage is slower beside the other one, at least 1; nothing without samples."""
    if not pairs:
        return Found()
    name: NumberName = "interference_rollout" if stage == "rollout" else "interference_train"
    default = float(getattr(job.split.interference, stage))
    found = fit(pairs, Constants((default,), (1.0,), (MOST_INTERFERENCE,), (True,)))
    comparison = (compared("interference_rollout" if stage == "rollout" else "interference_train", pairs, found),)
    if not found.better:
        return Found((kept(name, default, no_better(found)),), comparison)
    note = "nothing gets faster by company: 1 is the least" if found.values[0] <= 1 + 1e-6 else None
    if found.values[0] >= MOST_INTERFERENCE * 0.999:
        note = "is at the end of its range: check the units of the samples"
    return Found((fitted(name, default, found.values[0], found.intervals[0], stamp.origin(pairs), len(pairs), note),), comparison)


def sync(job: Job, syncs: Sequence[Observed], stamp: Stamp) -> Found:
    """Return the seconds of a weight sync that nothing hides; nothing without samples."""
    if not syncs:
        return Found()
    default = job.split.sync_s if job.split.sync_s is not None else weight_sync_seconds(job.model.params_b).value
    found = fit(syncs, Constants((default,), (0.0,), (MOST_SYNC_S,), (True,)))
    comparison = (compared("sync", syncs, found),)
    if not found.better:
        return Found((kept("sync_s", default, no_better(found)),), comparison)
    return Found((fitted("sync_s", default, found.values[0], found.intervals[0], stamp.origin(syncs), len(syncs)),), comparison)
