"""Where samples come from: a file of one's own, a profile, or the logs inside a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rollplan.models.calibration.laws import Place
from rollplan.models.calibration.logged import samples_of
from rollplan.models.calibration.samples import DecodeSample, Samples, plain, samples
from rollplan.models.errors import Finding, InputError
from rollplan.models.profile.calibration import LeftOut
from rollplan.models.profile.decode import DecodeProfile
from rollplan.models.profile.file import Profile
from rollplan.models.profile.training import TrainingProfile
from rollplan.models.reference.gpus import gpu_name


@dataclass(frozen=True, slots=True)
class Source:
    """The samples of one file or one run. decode, training: sections of a profile that they come from, which name their model."""

    place: Place
    samples: Samples
    left_out: tuple[LeftOut, ...] = ()
    decode: DecodeProfile | None = None
    training: TrainingProfile | None = None


def read_sources(path: Path, rollout_gpus: int | None = None, train_gpus: int | None = None) -> list[Source]:
    """Return what a file holds; raise `InputError` with every fault, or if nothing in it can be calibrated with.

    rollout_gpus, train_gpus: of the runs in a profile whose logs do not say.
    """
    raw = plain(path)
    if not (isinstance(raw, dict) and str(raw.get("format", "")).startswith("rollplan/profile/")):
        return [Source(Place(path.name, "measured"), samples(raw, path))]
    return of_profile(Profile.build(raw, str(path)), path.name, rollout_gpus, train_gpus)


def of_profile(profile: Profile, name: str, rollout_gpus: int | None = None, train_gpus: int | None = None) -> list[Source]:
    """Return the samples of a profile: decode steps, micro-batches, and the phases of each run."""
    found = []
    for run in profile.runs:
        of_run, left_out = samples_of(run, rollout_gpus, train_gpus)
        found.append(Source(Place(f"{name}, {run.source}"[:1000], "imported"), of_run, tuple(left_out)))
    if profile.decode is not None or profile.training is not None:
        place = Place(name, "measured", _device(profile))
        found.append(Source(place, Samples(decode=_steps(profile.decode)), (), profile.decode, profile.training))
    if not found:
        problem = "holds nothing that can be calibrated with"
        raise InputError(name, [Finding(name, "", problem, "give a profile with `decode`, `training` or `runs`")])
    return found


def _steps(decode: DecodeProfile | None) -> tuple[DecodeSample, ...]:
    if decode is None:
        return ()
    return tuple(
        DecodeSample(tp=curve.tp, batch=point.batch, context=point.attended_tokens, ms=point.ms.median)
        for curve in decode.curves
        for point in curve.points
    )


def _device(profile: Profile) -> str:
    """Return the reference's name of the GPU of a profile; its own words if there is none."""
    device = profile.origin.device or "a device that it does not name"
    try:
        return gpu_name(device)
    except InputError:
        return device
