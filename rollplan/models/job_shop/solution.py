"""The answer to P4 b: on which machine and when every operation starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Machines and start times of the operations of each job, in their order, and when the last one ends."""

    machines: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[float, ...], ...]
    makespan: float
