"""Keys and values of one setting, as far as the table alone tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollplan.models.launch.keys import Count, Dialect
from rollplan.models.launch.settings import LaunchSettings, SettingName

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Written:
    """Keys with their values, and remarks on what keys cannot say (another program, a flag to leave out)."""

    values: Mapping[str, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def and_then(self, other: Written) -> Written:
        """Return both, later values over earlier ones, each remark once."""
        return Written({**self.values, **other.values}, tuple(dict.fromkeys((*self.notes, *other.notes))))


def key_of(table: Dialect, want: LaunchSettings, name: SettingName) -> str | None:
    """Return the key of a setting: the one that the configuration uses already, else that of its engine, else the first."""
    keys = table.keys.get(name, ())
    if want.read.get(name) in keys:
        return want.read[name]
    of_engine = [key for key in keys if want.rollout_engine is not None and key.startswith(f"{want.rollout_engine}.")]
    return next(iter((*of_engine, *keys)), None)


def direct(table: Dialect, want: LaunchSettings, name: SettingName, value: Value | None) -> Written | None:
    """Return one key with a value, in responses where the framework counts those."""
    key = key_of(table, want, name)
    if key is None or value is None:
        return None
    if name in table.in_samples:
        if want.samples_per_prompt is None:
            return None
        value = int(value) * want.samples_per_prompt
    return Written({key: value})


def count(table: Count, want: LaunchSettings, gpus: int | None, unit: int | None = None) -> Written | None:
    """Return GPUs of one side; nodes are as full as divides the number and keeps units (engines, copies of the model) whole."""
    if gpus is None:
        return None
    match table.kind:
        case "gpus":
            return Written({table.keys[0]: gpus})
        case "nodes":
            most = want.gpus_per_node or 8
            sizes = [size for size in range(1, most + 1) if gpus % size == 0]
            per_node = max((size for size in sizes if size % (unit or 1) == 0 or (unit or 1) % size == 0), default=max(sizes))
            return Written({table.keys[0]: gpus // per_node, table.keys[1]: per_node})
        case "engines":
            size = 1
            for degree in (want.rollout_tp, want.rollout_pp, want.rollout_dp)[: len(table.keys) - 1]:
                size *= degree or 1
            return None if gpus % size else Written({table.keys[0]: gpus // size})
        case "own":
            return None


def engine_size(table: Dialect, want: LaunchSettings) -> Written | None:
    """Return the tensor degree of engines, and how many of them keep the GPUs."""
    own = direct(table, want, "rollout_tp", want.rollout_tp)
    if own is None or table.rollout.kind != "engines" or want.rollout_gpus is None:
        return own
    engines = count(table.rollout, want, want.rollout_gpus, want.rollout_unit)
    return None if engines is None else own.and_then(engines)


def samples(table: Dialect, want: LaunchSettings) -> Written | None:
    """Return samples per prompt, and the batches that count them, so that their prompts stay."""
    found = direct(table, want, "samples_per_prompt", want.samples_per_prompt)
    for name in sorted(table.in_samples):
        if found is not None and (batch := direct(table, want, name, getattr(want, name))) is not None:
            found = found.and_then(batch)
    return found
