"""Tensors in a file: safetensors, which transformers brings along, so that nothing that is read can run code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors whole or not at all; when this returns they are on the disk."""
    new = path.with_name(f"{path.name}.new")
    # The format allows no two tensors in one memory.
    save_file({name: one.detach().contiguous() for name, one in tensors.items()}, new)
    with open(new, "rb") as file:
        os.fsync(file.fileno())
    new.replace(path)


def read(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, in host memory."""
    found: dict[str, torch.Tensor] = load_file(path)
    return found
