"""Weights as bytes and back: a fixed order without gaps, written in parts, and a checksum.

The order is by size of an element, then by name, so that every tensor starts at a multiple of its element's size and the
received bytes are the weights: no second copy. A sender writes only the bytes that it sends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import torch

from rollplan.executor.sync.errors import WrongWeightsError
from rollplan.executor.sync.routes import WORD

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
_DTYPES: Mapping[str, Any] = {str(dtype).removeprefix("torch."): dtype for dtype in (*_FLOATS, *_WHOLE)}
_ROW = 1 << 15
"""Words of a row of the checksum: two rows fit into a core's cache."""
_ROWS_ON_DEVICE = 256
_MODULUS = 1 << 64
_MULTIPLIER = 0x9E3779B97F4A7C15
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor, and the bytes `first` to `last` (exclusive) that it takes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """Where every tensor lies."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, weights: Mapping[str, torch.Tensor]) -> Layout:
        """Return the layout of these weights; raise `WrongWeightsError` for what cannot be sent."""
        if not any(tensor.numel() for tensor in weights.values()):
            raise WrongWeightsError("the weights are empty; give at least one tensor with an element")
        for name, tensor in weights.items():
            if _name(tensor) not in _DTYPES or tensor.layout is not torch.strided or tensor.device.type == "meta":
                found = f"{_name(tensor)}, {tensor.layout}, on {tensor.device.type}"
                raise WrongWeightsError(f"{name} is {found}; give dense tensors of one of {', '.join(_DTYPES)}")
        return cls._laid({name: (_name(tensor), tuple(tensor.shape)) for name, tensor in weights.items()})

    @classmethod
    def _laid(cls, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Layout:
        entries, end = [], 0
        for name, (dtype, shape) in sorted(shapes.items(), key=lambda item: (-_DTYPES[item[1][0]].itemsize, item[0])):
            first, end = end, end + prod(shape) * _DTYPES[dtype].itemsize
            entries.append(Entry(name, dtype, shape, first, end))
        return cls(tuple(entries))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Read what `to_json` wrote."""
        return cls._laid({name: (dtype, tuple(shape)) for name, dtype, shape in json.loads(text)})

    def to_json(self) -> str:
        """Return names, dtypes and shapes, in order."""
        return json.dumps([[entry.name, entry.dtype, entry.shape] for entry in self.entries])

    @cached_property
    def size(self) -> int:
        """Bytes of all tensors."""
        return self.entries[-1].last

    @cached_property
    def digest(self) -> int:
        """A number, below 2^63, that tells this layout from others."""
        return int.from_bytes(hashlib.blake2b(self.to_json().encode(), digest_size=8).digest(), "big") >> 1

    def check(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Raise `WrongWeightsError` if these weights have other names, dtypes or shapes."""
        found = Layout.of(weights)
        if found == self:
            return
        known, given = ({entry.name: (entry.dtype, list(entry.shape)) for entry in layout.entries} for layout in (self, found))
        changed = [f"{name}: {given.get(name, 'missing')} after {known.get(name, 'nothing')}" for name in sorted(known | given)
                   if known.get(name) != given.get(name)]  # fmt: skip
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise WrongWeightsError(f"the weights have changed ({'; '.join(changed[:_SHOWN])}{more}); make a new transfer for a new model")

    def write(self, weights: Mapping[str, torch.Tensor], first: int, last: int, into: torch.Tensor) -> None:
        """Copy the bytes `first` to `last` into a flat tensor of bytes, on whatever device it is."""
        for entry in self.entries:
            begin, end = max(first, entry.first), min(last, entry.last)
            if begin < end:
                raw = _bytes(weights[entry.name].detach())
                into[begin - first : end - first].copy_(raw[begin - entry.first : end - entry.first])

    def read(self, buffer: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the weights in a flat tensor of `size` bytes: views of it."""
        return {entry.name: buffer[entry.first : entry.last].view(_DTYPES[entry.dtype]).view(entry.shape) for entry in self.entries}


def checksum(shard: torch.Tensor) -> int:
    r"""Return a number in [-2^63, 2^63) that depends on every byte of a shard, which starts at a multiple of `WORD` in its memory.

    With words x_ri in rows r of 2^15, arithmetic modulo 2^64, and an odd m:

    .. math:: h_r = m \, h_{r-1} + \sum_i (2 i + 1) \, x_{ri}, \quad h_{-1} = \text{number of bytes}

    Every word has an odd, hence invertible factor: a change within a single word is always seen, any other with high
    probability. It guards against faults, not against forgery; and it is computed where the bytes are, CPU or GPU.
    """
    whole = shard.numel() // WORD * WORD
    words = shard[:whole].view(torch.int64)
    tail = torch.zeros(WORD, dtype=torch.uint8, device=shard.device)
    tail[: shard.numel() - whole] = shard[whole:]
    factors = torch.arange(_ROW, dtype=torch.int64, device=shard.device) * 2 + 1
    rows = 1 if shard.device.type == "cpu" else _ROWS_ON_DEVICE
    full = words.numel() // _ROW * _ROW
    blocks = [words[at : min(at + rows * _ROW, full)].view(-1, _ROW) for at in range(0, full, rows * _ROW)]
    blocks += [words[full:].view(1, -1), tail.view(torch.int64).view(1, 1)]
    value: int = shard.numel()
    for block in blocks:
        for total in (block * factors[: block.shape[1]]).sum(dim=1).tolist():
            value = (value * _MULTIPLIER + total) % _MODULUS
    return value - _MODULUS if value >= _MODULUS // 2 else value


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor in order, as bytes; a copy only where they are not in order already."""
    flat = tensor.reshape(-1).contiguous()
    # A single element may keep a stride that stops torch from looking at its bytes.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)
