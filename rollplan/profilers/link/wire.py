"""Transfers between ranks with torch.distributed: rank 0 commands and holds the clock, the others obey.

Every stream is a process group of its own, and so, with gloo, a TCP connection and a thread of its own. Commands and answers
go over one more group, of gloo, on the CPU. A receiver is ready before the clock starts.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_STOP, _SEND, _BROADCAST = 0, 1, 2


class TorchWire:
    """The same object on every rank: `send`, `broadcast` and `stop` are for rank 0, `obey` is for the others."""

    def __init__(self, store: dist.Store, rank: int, ranks: int, backend: str, device: str, streams: int, wait_s: float) -> None:
        """Connect; backend: gloo or nccl; device: cpu or cuda:N; streams: the most at once; wait_s: for any single transfer."""
        self.rank, self.ranks = rank, ranks
        self._device = torch.device(device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        dist.init_process_group(
            "gloo", store=dist.PrefixStore("link", store), rank=rank, world_size=ranks, timeout=timedelta(seconds=wait_s)
        )
        # The first group also broadcasts.
        members = [list(range(ranks)), *([0, 1] for _ in range(streams - 1))]
        self._groups: list[Any] = [dist.new_group(group, backend=backend, timeout=timedelta(seconds=wait_s)) for group in members]
        self._buffer = torch.ones(1, dtype=torch.uint8, device=self._device)
        self._introduce()

    def _introduce(self) -> None:
        """Let the ends of every stream connect.

        NCCL connects two ranks inside of their first transfer and blocks both until then: a receiver that says afterwards
        that it is ready would wait for a sender that waits for this.
        """
        for group in self._groups if self.rank < 2 else ():
            self._finish([dist.isend(self._buffer, 1, group=group) if self.rank == 0 else dist.irecv(self._buffer, 0, group=group)])
        self._synchronize()

    def send(self, size: int, streams: int) -> float:
        """Send `size` bytes to rank 1 over so many streams; return seconds until it has answered."""
        parts = self._parts(size, streams)
        self._command(_SEND, size, streams)
        answers = self._answers([1])
        began = time.perf_counter()
        works = [dist.isend(part, 1, group=group) for part, group in zip(parts, self._groups, strict=False)]
        self._finish(answers)
        spent = time.perf_counter() - began
        self._finish(works)
        return spent

    def broadcast(self, size: int) -> float:
        """Send `size` bytes to all ranks; return seconds until all have answered."""
        whole = self._parts(size, 1)[0]
        self._command(_BROADCAST, size, 1)
        answers = self._answers(range(1, self.ranks))
        began = time.perf_counter()
        dist.broadcast(whole, 0, group=self._groups[0])
        self._finish(answers)
        return time.perf_counter() - began

    def stop(self) -> None:
        """Let all ranks go; return once they have heard it."""
        self._command(_STOP, 0, 0)
        for other in range(1, self.ranks):
            dist.recv(_note(), other)

    def obey(self) -> None:
        """Do what rank 0 commands until it says stop."""
        while True:
            command = torch.zeros(3, dtype=torch.int64)
            dist.broadcast(command, 0)
            what, size, streams = command.tolist()
            if what == _STOP:
                dist.send(_note(), 0)
                return
            if what == _SEND and self.rank != 1:
                continue
            parts = self._parts(size, streams)
            works = (
                [] if what == _BROADCAST else [dist.irecv(part, 0, group=group) for part, group in zip(parts, self._groups, strict=False)]
            )
            dist.send(_note(), 0)
            if what == _BROADCAST:
                dist.broadcast(parts[0], 0, group=self._groups[0])
            self._finish(works)
            self._synchronize()
            dist.send(_note(), 0)

    def _command(self, what: int, size: int, streams: int) -> None:
        dist.broadcast(torch.tensor([what, size, streams], dtype=torch.int64), 0)

    def _answers(self, others: Any) -> list[Any]:
        """Wait until the others are ready; then ask for their answers, so that these need not ask for leave to come."""
        for other in others:
            dist.recv(_note(), other)
        return [dist.irecv(_note(), other) for other in others]

    def _parts(self, size: int, streams: int) -> list[torch.Tensor]:
        """Return `size` bytes as so many parts of nearly the same size."""
        if self._buffer.numel() < size:
            self._buffer = torch.ones(size, dtype=torch.uint8, device=self._device)
        return list(self._buffer[:size].tensor_split(streams))

    def _finish(self, works: list[Any]) -> None:
        for work in works:
            work.wait()

    def _synchronize(self) -> None:
        """Wait until the device has done what it was told; the CPU is done when it has said so."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _note() -> torch.Tensor:
    """Return the content of a message that only says that it came."""
    return torch.zeros(1, dtype=torch.uint8)
