"""Files that a scenario names: read once, and put in its place, so that a scenario is complete and has one hash.

    model: {config: qwen3_8b/config.json}                      a Hugging Face configuration
    lengths: {file: lengths.csv, column: tokens}               token counts of responses
    latency: {file: latency.csv}                               measured decode steps: tp, context, batch, ms
    measured: profile.json                                     what a profile says, where the scenario says nothing

Paths are relative to the scenario's folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rollplan.models.errors import Finding, InputError
from rollplan.models.latency_given import inline_latency
from rollplan.models.lengths.given import inline_trace
from rollplan.models.profile.settings import with_profile
from rollplan.models.reference.architectures import from_hf_config
from rollplan.models.strict import show

_OWN = "model"
"""Source of faults of the mapping itself, not of the file it names; `lengths` and `latency` are theirs."""


def inlined(raw: object, scenario: Path) -> object:
    """Return the scenario's plain data with the files in place of their names; raise `InputError` with every fault.

    What has another shape than expected is left as it is: validation will speak of it.
    """
    jobs = raw.get("jobs") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(jobs, list):
        return raw
    faults: list[Finding] = []
    done = [_job(f"jobs[{index}]", job, scenario.parent, faults) for index, job in enumerate(jobs)]
    if faults:
        raise InputError(str(scenario), faults)
    return {**raw, "jobs": done}


def _job(path: str, job: object, folder: Path, faults: list[Finding]) -> object:
    if not isinstance(job, dict):
        return job
    job = _holder(path, job, folder, faults, splits=False)
    if isinstance(split := job.get("split"), dict):
        job["split"] = _holder(f"{path}.split", split, folder, faults, splits=True)
    return job


def _holder(path: str, holder: dict[object, object], folder: Path, faults: list[Finding], splits: bool) -> dict[object, object]:
    """Return a mapping that may hold a model and a workload with their files inlined."""
    holder = dict(holder)
    if isinstance(model := holder.get("model"), dict) and "config" in model:
        holder["model"] = _read(f"{path}.model", "config", model, lambda: _model(model, folder), faults)
    if "measured" in holder:
        holder = _with_profile(f"{path}.measured", holder, folder, faults, splits)
    workload = holder.get("workload")
    if isinstance(workload, dict) and isinstance(lengths := workload.get("lengths"), dict):
        read = _read(f"{path}.workload.lengths", "file", lengths, lambda: inline_trace(lengths, folder), faults)
        holder["workload"] = {**workload, "lengths": read}
    engine = holder.get("engine")
    if isinstance(engine, dict) and isinstance(latency := engine.get("latency"), dict):
        read = _read(f"{path}.engine.latency", "file", latency, lambda: inline_latency(latency, folder), faults)
        holder["engine"] = {**engine, "latency": read}
    return holder


def _with_profile(path: str, holder: dict[object, object], folder: Path, faults: list[Finding], splits: bool) -> dict[object, object]:
    """Return a mapping with what the profile says that it names, and without the name."""
    try:
        return with_profile(holder, folder, splits)
    except InputError as error:
        faults += [_placed(path, "", {"": holder["measured"]}, error.source, found) for found in error.findings]
        return {key: value for key, value in holder.items() if key != "measured"}


def _model(model: dict[object, object], folder: Path) -> object:
    config, name = model["config"], model.get("name")
    faults = [
        Finding(str(key), show(value), "cannot stand beside `config`", "give `config` and, if you like, `name`")
        for key, value in model.items()
        if key not in ("config", "name")
    ]
    if not isinstance(config, str) or not config.strip() or "\0" in config:
        faults.append(Finding("config", show(config), "is not a path", "write the path of a config.json"))
    if not (name is None or (isinstance(name, str) and 1 <= len(name) <= 100)):
        faults.append(Finding("name", show(name), "is not a name", "write text of at most 100 characters, or leave it out"))
    if faults or not isinstance(config, str) or not (name is None or isinstance(name, str)):
        raise InputError(_OWN, faults)
    return from_hf_config(folder / config, name).model_dump(exclude_unset=True)


def _read(path: str, key: str, given: dict[object, object], read: Callable[[], object], faults: list[Finding]) -> object:
    """Return what `read` makes of the file that `key` names; collect its faults under the place that names it."""
    try:
        return read()
    except InputError as error:
        faults += [_placed(path, key, given, error.source, found) for found in error.findings]
    except OSError as error:
        faults.append(
            Finding(_joined(path, key), show(given[key]), f"cannot be read ({error.strerror})", "check the path and its permissions")
        )
    return given


def _placed(path: str, key: str, given: dict[object, object], source: str, found: Finding) -> Finding:
    """Return a fault with its place in the scenario: of what stands there, of the file as a whole, or inside of the file."""
    if source in (_OWN, "lengths", "latency", "measured"):
        return Finding(_joined(path, found.path.removeprefix(source).strip(".")), found.value, found.problem, found.remedy)
    if found.path == source:
        return Finding(_joined(path, key), show(given[key]), found.problem, found.remedy)
    return Finding(f"{_joined(path, key)}, {found.path}", found.value, found.problem, found.remedy)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if key else path
