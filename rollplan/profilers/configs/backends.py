"""AReaL's placement strings: `sglang:d8t2p1`, `megatron:(attn:d4p2t2c2|ffn:d2p2t4e2)`, `sglang:d4+fsdp:d4`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

_DEGREES = re.compile(r"(?:([dtpcem])(\d{1,6}))+")
_DEGREE = re.compile(r"([dtpcem])(\d{1,6})")
_NAMED = re.compile(r"([A-Za-z_]+)(?:[\[(]([A-Za-z_]\w*)[\])])?[:.](.+)")
_HYBRID = re.compile(r"\(?attn:([^|()]+)\|ffn:([^|()]+)\)?")
ENGINES = ("sglang", "vllm")


@dataclass(frozen=True, slots=True)
class Backend:
    """One side: its engine or trainer, and degrees of data, tensor, pipeline, context and expert parallelism.

    engine: empty where the (old) string does not say. hybrid: attention and experts are laid out apart.
    """

    engine: str
    d: int = 1
    t: int = 1
    p: int = 1
    c: int = 1
    e: int = 1
    hybrid: bool = False

    @property
    def gpus(self) -> int:
        """GPUs; expert parallelism uses those of the others."""
        return prod((self.d, self.t, self.p, self.c))


def backend(text: str) -> Backend | None:
    """Return one side; None if the text is not one."""
    text = text.strip()
    named = _NAMED.fullmatch(text)
    engine, inside = (named[1], named[3]) if named and named[1] not in ("attn",) else ("", text)
    if (hybrid := _HYBRID.fullmatch(inside.strip())) is not None:
        attention, experts = _degrees(hybrid[1]), _degrees(hybrid[2])
        if attention is None or experts is None or "e" in attention:
            return None
        return _built(engine, {**attention, "e": experts.get("e", 1)}, hybrid=True)
    degrees = _degrees(inside)
    return None if degrees is None else _built(engine, degrees, hybrid=False)


def allocation(text: str) -> tuple[Backend, Backend, bool] | None:
    """Return rollout, training and whether they share their GPUs, of an `allocation_mode`; None if it is not understood."""
    parts = [(index, part) for index, group in enumerate(text.split("+")) for part in re.split(r"\|(?!ffn)", group)]
    sides = [(index, backend(part)) for index, part in parts]
    rollout = next(((index, side) for index, side in sides if side is not None and side.engine in ENGINES), None)
    if rollout is None or any(side is None for _, side in sides):
        return None
    trainers = [(index, side) for index, side in sides if side is not None and side.engine not in ENGINES]
    if not trainers:
        return None
    return rollout[1], trainers[0][1], rollout[0] == trainers[0][0]


def _built(engine: str, degrees: Mapping[str, int], hybrid: bool) -> Backend:
    d, t, p, c, e = (degrees.get(letter, 1) for letter in "dtpce")
    return Backend(engine, d, t, p, c, e, hybrid)


def _degrees(text: str) -> dict[str, int] | None:
    """Return degrees by letter; `m` is the old word for the model (tensor) degree."""
    if _DEGREES.fullmatch(text.strip()) is None:
        return None
    found: dict[str, int] = {}
    for letter, size in _DEGREE.findall(text):
        name = "t" if letter == "m" else letter
        if name in found or int(size) < 1:
            return None
        found[name] = int(size)
    return found
