"""Tensors that move between the device and host memory as one, and stay the same objects for whoever holds them.

On a GPU host memory is page-locked and the device's memory is given back to the driver. On a CPU "device memory" is memory
that off-loading gives back to the system: tensors lose their storage and get a new one when they are loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

_ALIGN = 64


class Movable:
    """Named tensors on one device, with a place in host memory.

    tensors: gives the tensors by name, plain ones (of a DTensor: its local part); asked whenever something moves, because
    gradients and moments come and go. Tensors that share a storage move once. Views that others made of them stay valid.
    """

    def __init__(self, tensors: Callable[[], Mapping[str, torch.Tensor]], device: torch.device) -> None:
        self._tensors, self._cuda = tensors, device.type == "cuda"
        self._host = torch.empty(0, dtype=torch.uint8)
        self._away: dict[int, tuple[Any, int, int]] = {}

    @property
    def loaded(self) -> bool:
        """Return whether the tensors are on the device."""
        return not self._away

    def state_bytes(self) -> int:
        """Return the bytes of the tensors, wherever they are."""
        if self._away:
            return sum(size for _, _, size in self._away.values())
        return sum(storage.nbytes() for storage in self._storages().values())

    def offload(self) -> None:
        """Copy everything to host memory and give the device's memory back; nothing happens where that is done."""
        if self._away:
            return
        start = 0
        for key, storage in self._storages().items():
            self._away[key] = (storage, start, storage.nbytes())
            start += -(-storage.nbytes() // _ALIGN) * _ALIGN
        if len(self._host) < start:
            # The old block goes first: both at once may not fit.
            self._host = torch.empty(0, dtype=torch.uint8)
            self._host = torch.empty(start, dtype=torch.uint8, pin_memory=self._cuda)
        for storage, first, size in self._away.values():
            self._host[first : first + size].copy_(_bytes_of(storage), non_blocking=True)
        if self._cuda:
            torch.cuda.synchronize()
        for storage, _, _ in self._away.values():
            storage.resize_(0)
        give_back(self._cuda)

    def load(self) -> None:
        """Copy everything back; nothing happens where that is done."""
        for storage, first, size in self._away.values():
            storage.resize_(size)
            _bytes_of(storage).copy_(self._host[first : first + size], non_blocking=True)
        if self._cuda and self._away:
            torch.cuda.synchronize()
        self._away.clear()

    def where_it_is(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor with the values of `tensor`: itself, or its place in host memory, which may be written as well."""
        if (place := self._away.get(tensor.untyped_storage()._cdata)) is None:
            return tensor
        _, first, size = place
        typed = self._host[first : first + size].view(tensor.dtype)
        return typed.as_strided(tensor.size(), tensor.stride(), typed.storage_offset() + tensor.storage_offset())

    def _storages(self) -> dict[int, Any]:
        storages = (tensor.untyped_storage() for tensor in self._tensors().values())
        return {storage._cdata: storage for storage in storages if storage.nbytes()}


def give_back(cuda: bool) -> None:
    """Give memory that was freed back: torch's to the driver, or the C library's to the system."""
    if cuda:
        torch.cuda.empty_cache()
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _bytes_of(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
