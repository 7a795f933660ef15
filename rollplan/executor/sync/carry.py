"""One version on its way through one rank: what comes in, what is passed on, and whether it is what was sent.

Every shard travels behind a head of three numbers: its version, its checksum, and the digest of the layout. Who passes a
shard on passes its head on as it is, so that the last one checks what the first one sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from rollplan.executor.sync.flatten import checksum
from rollplan.executor.sync.routes import Hop, Routes
from rollplan.executor.sync.wire import Message, Wire

Shard = tuple[int, int]
_CHECKERS = 4
"""Threads that add up checksums: memory is slower than four cores."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A shard and its head, on the device of the wire."""

    head: torch.Tensor
    content: torch.Tensor

    @classmethod
    def packed(cls, content: torch.Tensor, version: int, digest: int) -> Parcel:
        """Return what a trainer sends."""
        return cls(torch.tensor([version, checksum(content), digest], dtype=torch.int64, device=content.device), content)

    @classmethod
    def empty(cls, room: torch.Tensor) -> Parcel:
        """Return room for what comes in."""
        return cls(torch.zeros(3, dtype=torch.int64, device=room.device), room)

    @property
    def version(self) -> int:
        """What its head says."""
        return int(self.head[0])

    def fault(self, digest: int) -> str | None:
        """Return what is wrong with it, None if it is as it was sent."""
        _, expected, theirs = self.head.tolist()
        if theirs != digest:
            return "belongs to weights of another layout"
        found = checksum(self.content)
        return None if found == expected else f"came damaged (checksum {found % 2**64:016x}, sent {expected % 2**64:016x})"


@dataclass(frozen=True, slots=True)
class Moments:
    """Of `time.monotonic`: when the first message was through, and when this rank's part of the first stage was."""

    started: float
    first_stage: float


def carry(
    wire: Wire, me: int, routes: Routes, parcels: Mapping[Shard, Parcel], until: float, arrived: Callable[[Hop], None] = lambda _: None
) -> Moments:
    """Do this rank's part of all stages; `arrived` is told of each shard that came in, as soon as its stage is done."""
    started = first_stage = None
    for number, stage in enumerate(routes):
        incoming = [hop for hop in stage if hop.target == me]
        outgoing = [hop for hop in stage if hop.source == me]
        if not incoming and not outgoing:
            continue
        sends = _messages(((hop.target, hop) for hop in outgoing), parcels)
        through = wire.exchange(sends, _messages(((hop.source, hop) for hop in incoming), parcels), until)
        started = through if started is None else started
        first_stage = time.monotonic() if number == 0 else first_stage
        for hop in incoming:
            arrived(hop)
    started = time.monotonic() if started is None else started
    return Moments(started, started if first_stage is None else first_stage)


def carry_and_check(
    wire: Wire, me: int, routes: Routes, parcels: Mapping[Shard, Parcel], digest: int, until: float
) -> tuple[Moments, list[tuple[Hop, str]]]:
    """The same on a rank that receives; return what is wrong as well. Shards are checked while others are on their way."""
    with ThreadPoolExecutor(_CHECKERS) as pool:
        checks = []
        moments = carry(
            wire, me, routes, parcels, until, lambda hop: checks.append((hop, pool.submit(parcels[hop.first, hop.last].fault, digest)))
        )
        found = [(hop, check.result()) for hop, check in checks]
    return moments, [(hop, fault) for hop, fault in found if fault is not None]


def _messages(hops: Iterable[tuple[int, Hop]], parcels: Mapping[Shard, Parcel]) -> list[Message]:
    """Return head and content of each shard, with the rank at the other end."""
    pairs = ((peer, parcels[hop.first, hop.last]) for peer, hop in hops)
    return [(peer, part) for peer, parcel in pairs for part in (parcel.head, parcel.content)]
