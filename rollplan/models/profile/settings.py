"""What a profile says in a scenario's words, and how it goes into a split that names the profile.

    measured: profile.json          in a `split`, or in a job with `model` and `workload`

What the scenario writes itself wins, key by key. Measured decode steps replace a calibration of the reference. The profile of
a run of rollplan gives a job of co-location the times of its phases, from the run of the job's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.profile.file import Profile
from rollplan.models.profile.run import LoggedRun, LoggedStep
from rollplan.models.reference.architectures import architecture
from rollplan.models.strict import show

_CALIBRATED = ("scale", "overhead")
_JOB = ("engine", "trainer", "workload")
FRAMEWORK = "rollplan"
"""Framework of the runs that rollplan itself executed."""


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
        given = {key: value for key, value in given.items() if key in _JOB} | _phases(profile, holder, name)
    if not given:
        what, remedy = (
            "has neither decode steps, nor lengths, nor a calibration",
            "measure with `rollplan profile`, or use `rollplan calibrate`",
        )
        if not splits and any(run.framework == FRAMEWORK for run in profile.runs):
            what, remedy = "has no iteration that counts of a job whose stages take turns", "run more iterations, as a job of co-location"
        raise InputError("measured", [Finding("", show(name), what, remedy)])
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


def _phases(profile: Profile, holder: Mapping[object, object], name: str) -> dict[str, Any]:
    """Return phase times, switches and sync of a job of co-location, from its run; nothing if the profile has no runs of rollplan.

    worst: of the slowest iteration that counts; expected: the median. Writing the state holds the training nodes, so it is part
    of training. Raises `InputError` if the runs are those of other jobs.
    """
    runs = {run.source: run for run in profile.runs if run.framework == FRAMEWORK and run.mode == "sync" and run.kept}
    if not runs:
        return {}
    wanted = holder.get("name")
    run = runs.get(wanted) if isinstance(wanted, str) else None
    if run is None:
        what = f"has no run of a job called {show(wanted)}"
        raise InputError("measured", [Finding("", show(name), what, f"it has runs of {', '.join(sorted(runs))}: give the job this name")])
    found: dict[str, Any] = {"rollout": _phase(run, _rollout_s, _rollout_switch_s), "train": _phase(run, _train_s, _train_switch_s)}
    if "profile" in holder:
        # The job names a table of its own.
        found = {key: {"switch": value["switch"]} for key, value in found.items() if "switch" in value}
    sync = _seconds(run, lambda step: step.phases.get("sync"))
    return {**{key: value for key, value in found.items() if value}, **({"sync": _text(median(sync))} if sync else {})}


def _phase(run: LoggedRun, phase: Callable[[LoggedStep], float | None], switch: Callable[[LoggedStep], float | None]) -> dict[str, Any]:
    seconds, switches = _seconds(run, phase), _seconds(run, switch)
    time = {"time": {"worst": _text(max(seconds), 1e-6), "expected": _text(median(seconds), 1e-6)}} if seconds else {}
    return {**time, **({"switch": _text(median(switches))} if switches else {})}


def _seconds(run: LoggedRun, of: Callable[[LoggedStep], float | None]) -> list[float]:
    return [value for step in run.kept if (value := of(step)) is not None]


def _rollout_s(step: LoggedStep) -> float | None:
    return step.phases.get("generation")


def _train_s(step: LoggedStep) -> float | None:
    return step.phases["update"] + step.phases.get("checkpoint", 0.0) if "update" in step.phases else None


def _rollout_switch_s(step: LoggedStep) -> float | None:
    return step.amounts.get("rollout_switch_s")


def _train_switch_s(step: LoggedStep) -> float | None:
    both = step.phases.get("switch")
    return None if both is None else max(0.0, both - step.amounts.get("rollout_switch_s", 0.0))


def _text(seconds: float, least: float = 0.0) -> str:
    """Return a duration as a scenario writes it, to the microsecond."""
    return f"{max(round(seconds, 6), least)!r} s"


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
