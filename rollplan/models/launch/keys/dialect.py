"""What the table of keys says of one dialect of one framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollplan.models.launch.settings import FrameworkName, SettingName

Notation = Literal["override", "flag", "yaml", "toml"]
"""`key=value`, `--key value`, `key: value`, `key = value`."""
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """GPUs of one side as a product of keys.

    nodes: (nodes, GPUs per node). engines: (engines, GPUs of one...). gpus: one key. own: the framework's own way, which
    the module that reads or writes it knows; `keys` then only says where to look.
    """

    kind: Literal["nodes", "engines", "gpus", "own"]
    keys: Keys


@dataclass(frozen=True, slots=True)
class Dialect:
    """One set of keys of one framework.

    in_samples: settings that are counted in prompts here, but in responses there. defaults: what the framework takes if
    the key is absent. marks: keys of which each tells the dialect (a trailing dot stands for all keys below it);
    programs: words in the command that do.
    """

    framework: FrameworkName
    name: str
    notation: Notation
    rollout: Count
    train: Count
    keys: Mapping[SettingName, Keys]
    in_samples: frozenset[SettingName] = frozenset()
    defaults: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    marks: Keys = ()
    programs: Keys = ()
