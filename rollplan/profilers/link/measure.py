"""What is measured on a link, and in which sizes, within a time limit. Standard library only: the worker uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rollplan.profilers.repeat import rounds, steady
from rollplan.profilers.worker import PROGRESS

PING = 8
"""Bytes of the smallest message."""
"""What the worker's lines for the user begin with."""
_FIRST, _LARGEST = 2**16, 2**29
_SHARE = 1 / 30
"""The largest transfer over one stream takes about this share of the time limit."""
_SPREAD = 0.02
_PINGS, _MOST_PINGS = 10, 300


class Wire(Protocol):
    """Ranks that wait for commands; every method returns seconds until all receivers have answered."""

    ranks: int

    def send(self, size: int, streams: int) -> float:
        """Send `size` bytes from rank 0 to rank 1, in equal parts over so many streams at once."""
        ...

    def broadcast(self, size: int) -> float:
        """Send `size` bytes from rank 0 to all ranks."""
        ...


class Point(NamedTuple):
    """One thing to measure: as in `LinkSample`."""

    kind: str
    bytes: int
    streams: int


def measure(
    wire: Wire,
    streams: Sequence[int],
    sizes: Sequence[int],
    time_limit_s: float,
    clock: Callable[[], float] = time.perf_counter,
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Return all samples as plain data: kind, bytes, streams, ranks, seconds (a list).

    streams: numbers of streams; one is always measured. sizes: bytes; empty: chosen so that a slow link does not take for
    ever. Every point is measured at least once, however long that takes.
    """
    began = clock()
    wire.send(PING, 1)
    pings = steady(lambda: wire.send(PING, 1), _SPREAD, _PINGS, _MOST_PINGS, time_limit_s / 10, clock)
    chosen = sorted(set(sizes)) or chosen_sizes(lambda size: wire.send(size, 1), time_limit_s * _SHARE)
    say(f"{PROGRESS}transfers of {', '.join(f'{size / 1e6:.4g}' for size in chosen)} MB")
    values = rounds(
        {point: _warm(wire, point) for point in points(chosen, streams)},
        _SPREAD,
        budget_s=max(time_limit_s - (clock() - began), 0.0),
        clock=clock,
    )
    found = {Point("point_to_point", PING, 1): pings, **values}
    return [
        {**point._asdict(), "ranks": wire.ranks if point.kind == "broadcast" else 2, "seconds": seconds} for point, seconds in found.items()
    ]


def chosen_sizes(seconds: Callable[[int], float], target_s: float) -> list[int]:
    """Return three sizes in bytes; the largest takes between half and all of `target_s`, or is `_LARGEST`."""
    size = _FIRST
    while size < _LARGEST and 2 * seconds(size) <= target_s:
        size *= 2
    return [size // 16, size // 4, size]


def points(sizes: Sequence[int], streams: Sequence[int]) -> list[Point]:
    """Return what is measured apart from the smallest message: several streams only in the two largest sizes."""
    several = [count for count in sorted(set(streams)) if count > 1]
    return [
        *(Point("point_to_point", size, 1) for size in sizes),
        *(Point("streams", size, count) for count in several for size in sizes[-2:]),
        *(Point("broadcast", size, 1) for size in sizes),
    ]


def _warm(wire: Wire, point: Point) -> Callable[[], float]:
    """Return a sampler that first, untimed, sends a quarter: TCP closes its window while a connection is idle."""

    def transfer(size: int) -> float:
        return wire.broadcast(size) if point.kind == "broadcast" else wire.send(size, point.streams)

    def sample() -> float:
        transfer(max(point.bytes // 4, point.streams))
        return transfer(point.bytes)

    return sample
