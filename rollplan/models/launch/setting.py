"""A change of launch settings, written in the framework's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from rollplan.models.launch.keys import Notation, dialect
from rollplan.models.launch.settings import FrameworkName, LaunchSettings, SettingName
from rollplan.models.launch.write import Value, Written
from rollplan.models.launch.writers import written

Adjustable = Literal[
    "placement",
    "rollout_gpus",
    "train_gpus",
    "staleness",
    "sync_every",
    "prompts_per_step",
    "samples_per_prompt",
    "rollout_tp",
    "max_num_seqs",
    "gpu_memory_utilization",
]
"""Settings that can be written."""
ADJUSTABLE: tuple[Adjustable, ...] = get_args(Adjustable)
_SIDES: frozenset[SettingName] = frozenset({"rollout_gpus", "train_gpus"})
_MAY_OVERLAP: tuple[FrameworkName, ...] = ("ROLL", "slime")
"""Where sides that share GPUs need not have the same number of them."""
_SPECIAL = re.compile(r"[|()&;<> $*]")
"""What a shell takes for itself."""


def setting(settings: LaunchSettings, name: Adjustable, value: float | str) -> str | None:
    """Return one change as text, several keys apart by spaces (by lines in files); None if the framework cannot express it."""
    lines = changed_lines(settings, {name: value})
    if lines is None:
        return None
    return ("\n" if dialect(settings.framework, settings.dialect).notation in ("yaml", "toml") else " ").join(lines)


def changed_lines(settings: LaunchSettings, changes: Mapping[Adjustable, float | str]) -> tuple[str, ...] | None:
    """Return changes that belong together, one key per line, each key once.

    What depends on several settings (training GPUs that are the cluster without rollout's, batches counted in responses)
    is written for all changes together. Remarks start with `#`. None if one of them cannot be expressed; raises
    `ValueError` for a setting that does not exist or a value that it cannot have.
    """
    table = dialect(settings.framework, settings.dialect)
    want = _wanted(settings, changes)
    names: list[SettingName] = list(changes)
    if want.placement == "colocated" and _SIDES & changes.keys():
        if want.rollout_gpus != want.train_gpus and want.framework not in _MAY_OVERLAP:
            return None
        names = ["placement", *(name for name in names if name not in {"placement", *_SIDES})]
    whole = Written()
    for name in names:
        part = written(want, name)
        if part is None:
            return None
        whole = whole.and_then(part)
    lines = [_line(table.notation, key, value) for key, value in whole.values.items()]
    return (*lines, *(f"# {note}" for note in whole.notes))


def _wanted(settings: LaunchSettings, changes: Mapping[Adjustable, float | str]) -> LaunchSettings:
    """Return the settings after the changes."""
    data = settings.model_dump()
    for name, value in changes.items():
        if name not in ADJUSTABLE:
            raise ValueError(f"{name} cannot be written; settings that can: {', '.join(ADJUSTABLE)}")
        data[name] = value if isinstance(value, str) or name in ("staleness", "gpu_memory_utilization") else _whole(name, value)
    if len(given := _SIDES & changes.keys()) == 1 and data["placement"] == "colocated":
        data["rollout_gpus"] = data["train_gpus"] = data[next(iter(given))]
    elif "placement" in changes and changes["placement"] != settings.placement and not given:
        # Sides that share their GPUs have all of them; how many each gets when they part is not told.
        data["rollout_gpus"] = data["train_gpus"] = settings.total_gpus if changes["placement"] == "colocated" else None
    return LaunchSettings.model_validate(data)


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise ValueError(f"{name} must be a whole number, got {value}")
    return int(value)


def _line(notation: Notation, key: str, value: Value) -> str:
    match notation:
        case "override":
            return f"{key}='{value}'" if _SPECIAL.search(str(value)) else f"{key}={value}"
        case "flag":
            return key if value is True else f"{key} {value}"
        case "yaml":
            return f"{key}: {str(value).lower() if isinstance(value, bool) else value}"
        case "toml":
            return f"{key} = {str(value).lower() if isinstance(value, bool) else value}"
