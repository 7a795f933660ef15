"""Messages between the ranks of a transfer, in a process group of its own that torch.distributed's default one knows nothing of.

gloo: one TCP connection for each pair of ranks, so every pair is a stream. NCCL: RDMA where it finds it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import torch
import torch.distributed as dist

from rollplan.executor.sync.errors import SyncError
from rollplan.executor.sync.meeting import first_line, left, meet

Message = tuple[int, torch.Tensor]
"""The other rank, and what goes there or comes from there."""
_POLL_S = 0.0002
_PROBE_S = 60.0


class Wire(Protocol):
    """What moves messages. Between two ranks, both name them in the same order."""

    device: torch.device

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], until: float) -> float:
        """Send and receive all of these at once; return the moment (`time.monotonic`) at which the first one was through.

        Raises `SyncError` if a rank is gone, or not done at the moment `until`.
        """

    def close(self) -> None:
        """Break all connections, so that who waits for this rank learns of it."""


class GlooWire:
    """TCP between CPUs."""

    def __init__(self, store: dist.Store, me: int, names: Sequence[str], place: dict[str, str], until: float) -> None:
        """Connect to all ranks. place: `interface` or `hostname` to bind to."""
        self.device = torch.device("cpu")
        self._me, self._names = me, names
        self._sent, self._received = Counter[int](), Counter[int]()
        options = dist.ProcessGroupGloo._Options()
        options._threads = 1
        options._timeout = left(until)
        try:
            # Connected at once, not when first used: a rank that dies before its first transfer is missed as well.
            options._devices = [dist.ProcessGroupGloo.create_device(lazy_init=False, **place)]
            self._group = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), me, len(names), options)
        except RuntimeError as error:
            where = " ".join(place.values())
            raise SyncError(f"{names[me]} cannot connect over {where} ({first_line(error)}); see what the other ranks say") from None

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], until: float) -> float:
        """See `Wire`."""
        began = None
        works = []
        for count, move, messages in ((self._received, self._group.recv, receives), (self._sent, self._group.send, sends)):
            for peer, content in messages:
                with self._naming(peer):
                    works.append((peer, move([content], peer, self._next(count, peer))))
        for peer, work in works:
            with self._naming(peer):
                work.wait(left(until))
            began = time.monotonic() if began is None else began
        return time.monotonic() if began is None else began

    @contextmanager
    def _naming(self, peer: int) -> Iterator[None]:
        """Say what an error of torch means, and with whom."""
        try:
            yield
        except RuntimeError as error:
            late = "Timed out" in str(error)
            what = "was not done in time with" if late else "has lost its connection to"
            why = "hangs, or never began" if late else first_line(error)
            raise SyncError(f"{self._names[self._me]} {what} {self._names[peer]} ({why}); look at that rank") from None

    def _next(self, count: Counter[int], peer: int) -> int:
        """Return the number of a message, which both ends count."""
        count[peer] = (count[peer] + 1) % 2**31
        return count[peer]

    def close(self) -> None:
        """See `Wire`."""
        with suppress(RuntimeError):
            self._group.abort()


class NcclWire:
    """Between GPUs, whatever NCCL finds between them."""

    def __init__(self, store: dist.Store, me: int, names: Sequence[str], until: float) -> None:
        """Prepare; NCCL connects inside of the first exchange."""
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._me, self._names = me, names
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = left(until)
        self._group = dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), me, len(names), options)

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], until: float) -> float:
        """See `Wire`; all in one NCCL group, which moves them at once and in any order of ranks."""
        if not sends and not receives:
            return time.monotonic()
        try:
            self._group._start_coalescing()
            for peer, content in receives:
                self._group.recv([content], peer, 0)
            for peer, content in sends:
                self._group.send([content], peer, 0)
            self._group._end_coalescing().wait()
            done = torch.cuda.Event()
            done.record()
            while not done.query():
                if time.monotonic() > until:
                    others = ", ".join(self._names[peer] for peer in sorted({peer for peer, _ in (*sends, *receives)}))
                    raise SyncError(f"{self._names[self._me]} was not done in time with {others} (NCCL); look at those ranks")
                time.sleep(_POLL_S)
        except RuntimeError as error:
            raise SyncError(f"{self._names[self._me]} has lost the others ({first_line(error)}); look at their ranks") from None
        return time.monotonic()

    def close(self) -> None:
        """See `Wire`."""
        with suppress(RuntimeError):
            self._group.abort()


def try_nccl(store: dist.Store, me: int, names: Sequence[str], interface: str | None, until: float) -> tuple[NcclWire | None, str]:
    """Return a wire that has carried a message around all ranks, or None and why it has not; the same on all ranks."""
    wire, why = None, ""
    until = min(until, time.monotonic() + _PROBE_S)
    if interface is not None:
        # NCCL takes a bare name as a prefix: eth1 would be eth10, too.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
    try:
        wire = NcclWire(store, me, names, until)
        note, other = (torch.ones(1, dtype=torch.uint8, device=wire.device) for _ in range(2))
        wire.exchange([((me + 1) % len(names), note)], [((me - 1) % len(names), other)], until)
    except (RuntimeError, SyncError) as error:
        why = first_line(error)
    found = meet(store, "nccl", me, {"why": why}, names, until + _PROBE_S)
    unable = next((f"{name}: {said['why']}" for name, said in zip(names, found, strict=True) if said["why"]), None)
    if unable is None:
        return wire, ""
    if wire is not None:
        wire.close()
    return None, unable
