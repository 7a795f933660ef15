"""The settings of the program `rl`: names, types, defaults, and what is refused. docs/programs.md says what they mean.

Only the standard library is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal, get_args, get_type_hints

from rollplan.executor.core.runbook import Setting

_WORDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
_MOST: Mapping[str, float] = {"digits": 10, "gamma": 1.0, "lam": 1.0}


@dataclass(frozen=True, slots=True)
class RlSettings:
    """Settings of the program `rl`. Whole numbers are at least 1, others at least 0."""

    algorithm: Literal["grpo", "ppo"] = "grpo"
    engine: Literal["torch", "vllm"] = "torch"
    model: str = "tiny"
    hidden: int = 64
    layers: int = 2
    vocabulary: int = 16
    dtype: Literal["auto", "float64", "float32", "bfloat16"] = "auto"
    samples_per_prompt: int = 8
    digits: int = 8
    prompt_tokens: int = 4
    lengths: Literal["drawn", "eos"] = "drawn"
    median_tokens: int = 12
    tail: float = 0.8
    max_tokens: int = 64
    lr: float = 3e-3
    temperature: float = 1.0
    clip: float = 0.2
    kl: float = 0.0
    value: float = 0.5
    gamma: float = 1.0
    lam: float = 1.0
    max_norm: float = 1.0
    micro_tokens: int = 8192
    repeat_rollout: int = 1
    repeat_train: int = 1
    enforce_eager: bool = True
    kv_gib: float = 0.0
    threads: int = 1

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if kind in (int, float):
                least, most = int(kind is int), _MOST.get(name)
                if not isfinite(value) or value < least or (most is not None and value > most):
                    limit = f"at least {least}" if most is None else f"from {least} to {most:g}"
                    raise ValueError(f"setting {name} must be {limit}, got {value}")
            if (choices := get_args(kind)) and value not in choices:
                raise ValueError(f"setting {name} must be one of {', '.join(choices)}, got {value!r}")
        if self.algorithm == "grpo" and self.samples_per_prompt < 2:
            raise ValueError("setting samples_per_prompt must be at least 2 for grpo, which compares the responses to one prompt; got 1")
        if self.engine == "vllm" and self.repeat_rollout > 1:
            raise ValueError(f"setting repeat_rollout is of the torch engine; with vllm it must be 1, got {self.repeat_rollout}")

    @classmethod
    def of(cls, given: Mapping[str, Setting]) -> RlSettings:
        """Return checked settings; `ValueError` for a name that is unknown and for a value of another type."""
        kinds: Mapping[str, Any] = get_type_hints(cls)
        for name, value in given.items():
            if name not in kinds:
                near = get_close_matches(name, kinds, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(one.name for one in fields(cls))}"
                raise ValueError(f"setting {name} is unknown to the program rl; {hint}")
            kind = str if get_args(kinds[name]) else kinds[name]
            accepted = (int, float) if kind is float else (kind,)
            if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
                raise ValueError(f"setting {name} must be {_WORDS[kind]}, got {value!r}")
        return cls(**dict(given))  # type: ignore[arg-type]  # each was checked above
