"""Training: the share of the peak speed (MFU) and the seconds per update that no GPU speeds up; log-prob passes."""

from __future__ import annotations

from collections.abc import Sequence

from rollplan.models.calibration.found import Found, Stamp, best, compared, fitted, kept, no_better, separable
from rollplan.models.calibration.laws import Job
from rollplan.models.calibration.robust import Constants, Observed, fit
from rollplan.models.reference.gpus import gpu
from rollplan.models.reference.training import train_mfu

LEAST_MFU = 1e-4
MOST_OVERHEAD_S = 1e6


def trainer(job: Job, updates: Sequence[Observed], stamp: Stamp) -> Found:
    """Return MFU and overhead by the law of the update, which is linear in 1 / MFU; nothing without samples."""
    if not updates:
        return Found()
    settings = job.split.trainer
    mfu = settings.mfu if settings.mfu is not None else train_mfu(job.model, _gpu(job)).value
    default = (1 / mfu, settings.overhead_s)
    constants = Constants(default, (1.0, 0.0), (1 / LEAST_MFU, MOST_OVERHEAD_S), (True, True))
    speed = constants.fixed_at(default, (True, False))
    found, told = best(updates, [constants, speed] if separable(updates, constants) else [speed], default)
    comparison = (compared("update", updates, found),)
    if not found.better:
        return Found((kept("mfu", mfu, no_better(found)), kept("trainer_overhead_s", default[1], no_better(found))), comparison)
    origin, count = stamp.origin(updates), len(updates)
    slowness = found.intervals[0]
    interval = None if slowness is None else (1 / slowness[1], 1 / slowness[0])
    impossible = "is all of the peak speed: check tokens, GPUs and time of the samples" if found.values[0] <= 1 + 1e-6 else None
    overhead = (
        fitted("trainer_overhead_s", default[1], found.values[1], found.intervals[1], origin, count)
        if told[1]
        else kept("trainer_overhead_s", default[1], "kept: too few updates, or too alike, to tell it from MFU")
    )
    return Found((fitted("mfu", mfu, 1 / found.values[0], interval, origin, count, impossible), overhead), comparison)


def forward(job: Job, passes: Sequence[Observed], stamp: Stamp) -> Found:
    """Return the factor of log-prob passes on the reference; nothing without samples."""
    if not passes:
        return Found()
    default = job.split.trainer.forward_scale
    found = fit(passes, Constants((default,), (1e-3,), (1e3,), (True,)))
    comparison = (compared("forward", passes, found),)
    if not found.better:
        return Found((kept("forward", default, no_better(found)),), comparison)
    return Found((fitted("forward", default, found.values[0], found.intervals[0], stamp.origin(passes), len(passes)),), comparison)


def _gpu(job: Job) -> str:
    """Return the GPU that trains; of several kinds the first, as only the default rests on it."""
    return gpu(next(pool.gpu for pool in job.pools.values() if pool.role in ("train", "any"))).name
