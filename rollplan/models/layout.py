"""Parallel layouts: how one copy of a model, and its copies, lie on GPUs.

The words are those of Megatron-LM and PyTorch's device mesh: tensor (tp), pipeline (pp), context (cp), data (dp) and
expert (ep) parallelism. Tensor, pipeline and context parallelism divide one copy; data parallelism repeats it; expert
parallelism spreads the experts over ranks that the others already use, so it adds no GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rollplan.models.architecture import Architecture

_TEXT = re.compile(r"(tp|pp|cp|ep|dp)([0-9]{1,9})")


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Degrees of parallelism, each at least 1; `ep` divides `tp * cp * dp`."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if (self.tp * self.cp * self.dp) % self.ep:
            raise ValueError(f"ep must divide tp * cp * dp = {self.tp * self.cp * self.dp}, got {self.ep}")

    @property
    def gpus(self) -> int:
        """GPUs of all copies together."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def gpus_per_copy(self) -> int:
        """GPUs that one copy of the model (one replica, one instance) lies on."""
        return self.tp * self.pp * self.cp

    def __str__(self) -> str:
        """Return `tp4-pp2-dp8`: what is 1 is left out, `dp` never."""
        parts = [f"{name}{getattr(self, name)}" for name in ("tp", "pp", "cp", "ep") if getattr(self, name) > 1]
        return "-".join([*parts, f"dp{self.dp}"])

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read what `str` writes; raise `ValueError` for anything else."""
        found = [_TEXT.fullmatch(part) for part in text.split("-")]
        degrees = {match[1]: int(match[2]) for match in found if match}
        if len(degrees) < len(found):
            raise ValueError(f"layout must look like tp4-pp2-dp8, got {text}")
        return cls(**degrees)


def divisors(number: int) -> list[int]:
    """Return all divisors, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def obstacle(model: Architecture, layout: Layout, gpus_per_node: int) -> str | None:
    """Return the rule that a layout of this model breaks, None if it breaks none.

    Engines and trainers share these: heads and KV heads are divided evenly or KV heads are repeated evenly, tensor
    parallelism stays inside a node, layers and experts are divided evenly.
    """
    if model.heads % layout.tp:
        return f"tp {layout.tp} does not divide the {model.heads} attention heads"
    if model.kv_heads % layout.tp and layout.tp % model.kv_heads:
        return f"tp {layout.tp} neither divides nor repeats the {model.kv_heads} KV heads"
    if layout.tp > gpus_per_node:
        return f"tp {layout.tp} spans nodes of {gpus_per_node} GPUs"
    if gpus_per_node % layout.tp:
        return f"tp {layout.tp} does not divide a node of {gpus_per_node} GPUs"
    if model.layers % layout.pp:
        return f"pp {layout.pp} does not divide the {model.layers} layers"
    if layout.ep > 1 and not model.moe:
        return f"ep {layout.ep} asks for experts, {model.name} has none"
    if layout.ep > 1 and model.experts % layout.ep:
        return f"ep {layout.ep} does not divide the {model.experts} experts"
    return None


def layouts(
    model: Architecture,
    gpus: int,
    gpus_per_node: int,
    tp: Collection[int] | None = None,
    pp: Collection[int] | None = None,
    cp: Collection[int] | None = None,
    ep: Collection[int] | None = None,
) -> Iterator[Layout]:
    """Yield every layout of exactly `gpus` GPUs that breaks no rule, by (tp, pp, cp, ep).

    tp, pp, cp, ep: degrees to consider; absent, all. Divisors are enumerated, because the loops of HybridFlow's
    Algorithm 2 (Sheng et al. 2025) as printed are empty below one machine and miss layouts with small tp and large pp.
    Context parallelism takes powers of two.
    """
    for t in _allowed(divisors(gpus), tp):
        if obstacle(model, Layout(tp=t), gpus_per_node):
            continue
        for p in _allowed(divisors(gpus // t), pp):
            if p > model.layers:
                break
            for c in _allowed([d for d in divisors(gpus // (t * p)) if d & (d - 1) == 0], cp):
                copies = gpus // (t * p * c)
                for e in _allowed(divisors(t * c * copies) if model.moe else [1], ep):
                    layout = Layout(t, p, c, e, copies)
                    if obstacle(model, layout, gpus_per_node) is None:
                        yield layout


def _allowed(degrees: list[int], considered: Collection[int] | None) -> list[int]:
    return degrees if considered is None else [degree for degree in degrees if degree in considered]
