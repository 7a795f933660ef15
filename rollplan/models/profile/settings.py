"""What a profile says in a scenario's words, and how it goes into a split that names the profile.

    measured: profile.json          in a `split`, or in a job with `model` and `workload`

What the scenario writes itself wins, key by key. Measured decode steps replace a calibration of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.profile.file import Profile
from rollplan.models.reference.architectures import architecture
from rollplan.models.strict import show

_CALIBRATED = ("scale", "overhead")
_JOB = ("engine", "trainer", "workload")


def with_profile(holder: Mapping[object, object], folder: Path, splits: bool) -> dict[object, object]:
    """Return a mapping that names a profile with what the profile says in its place; files are named for later reading.

    splits: a `split` takes everything; a job of co-location has no place for interference, and its sync is another one.

    Raise `InputError` for a name that is no path, a file that is no profile, and one that says nothing of a split.
    """
    name = holder["measured"]
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InputError("measured", [Finding("", show(name), "is not text", "write the path of a profile")])
    profile = Profile.load(folder / name)
    given = _settings(profile, name)
    if not splits:
        given = {key: value for key, value in given.items() if key in _JOB}
    if not given:
        what = "has neither decode steps, nor lengths, nor a calibration"
        raise InputError("measured", [Finding("", show(name), what, "measure with `rollplan profile`, or use `rollplan calibrate`")])
    _of_this_model(profile, holder.get("model"), name)
    rest = {key: value for key, value in holder.items() if key != "measured"}
    return _merged(given, rest)


def _of_this_model(profile: Profile, model: object, name: str) -> None:
    """Refuse decode steps of another model: nobody would see that a plan rests on them."""
    shape = None if profile.decode is None else profile.decode.architecture
    wanted = _architecture(model)
    if shape is not None and wanted is not None and (shape.layers, shape.hidden) != (wanted.layers, wanted.hidden):
        what = f"has decode steps of {shape.name} ({shape.layers} layers of {shape.hidden}), not of {wanted.name}"
        remedy = "measure this model, or say that you want them with `engine: {latency: {file: ...}}`"
        raise InputError("measured", [Finding("", show(name), what, remedy)])


def _architecture(model: object) -> Architecture | None:
    """Return the model that a scenario names; None where validation will refuse it."""
    with suppress(ValidationError, InputError):
        return architecture(model) if isinstance(model, str) else Architecture.model_validate(model)
    return None


def _settings(profile: Profile, name: str) -> dict[str, Any]:
    """Return the keys of a split that a profile gives."""
    found: dict[str, Any] = {} if profile.calibration is None else profile.calibration.settings()
    if profile.decode is not None:
        found["engine"] = {"latency": {"file": name}}
    if profile.lengths is not None and profile.lengths.unit == "tokens":
        found["workload"] = {"lengths": {"file": name}}
    return found


def _merged(given: Mapping[str, Any], own: dict[object, object]) -> dict[object, object]:
    """Return `own` with what is given where it says nothing; a split without model or workload takes neither from a profile."""
    merged = dict(own)
    for key, value in given.items():
        mine = own.get(key)
        if isinstance(value, dict) and (isinstance(mine, dict) or (key not in own and key != "workload")):
            merged[key] = _one_latency({**value, **(mine if isinstance(mine, dict) else {})}, mine)
        elif key not in own and key != "workload":
            merged[key] = value
    return merged


def _one_latency(section: dict[str, Any], own: object) -> dict[str, Any]:
    """Return a section whose latency comes from one place: scale and overhead were fitted together, and correct the reference."""
    written = set(own) if isinstance(own, dict) else set()
    if written & {"ptl", "latency", *_CALIBRATED}:
        return {key: value for key, value in section.items() if key in written or key not in (*_CALIBRATED, "latency")}
    return section
