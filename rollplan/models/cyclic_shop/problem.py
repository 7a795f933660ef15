"""The cyclic phase shop: the problem and its solution, as data.

Every job repeats its phases in order, one iteration at a time: the first phase of an iteration starts when the last one
of the iteration before has ended. A phase holds each of its resources for a fixed time, and a resource serves one phase
at a time. The schedule repeats every P seconds, and job k runs `runs` iterations in them. Sought is the least P.

A gang rollout is a phase that starts `together` on all its nodes; data-parallel instances start each on its own. A link
is a resource like any other. A phase without resources is a delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """A step of an iteration: `seconds` on each of `resources`; none of them makes it a delay.

    together: it starts at the same moment on all its resources. Otherwise it starts on each when that is free, and the
    next phase waits for all.
    """

    seconds: float
    resources: tuple[int, ...] = ()
    together: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"seconds of a phase must be finite and at least 0, got {self.seconds}")
        if len(set(self.resources)) < len(self.resources):
            raise ValueError(f"resources of a phase must be different, got {self.resources}")


@dataclass(frozen=True, slots=True)
class ShopJob:
    """A job: the phases of one iteration in their order, and its iterations per period."""

    name: str
    phases: tuple[Phase, ...]
    runs: int = 1

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"{self.name}: runs must be at least 1, got {self.runs}")
        if not any(phase.seconds and phase.resources for phase in self.phases):
            raise ValueError(f"{self.name}: some phase must hold a resource for some time, got none")

    @property
    def alone_s(self) -> float:
        """Seconds of one iteration with all resources to itself."""
        return math.fsum(phase.seconds for phase in self.phases)


@dataclass(frozen=True, slots=True)
class CyclicShopProblem:
    """Resources by name, and the jobs that share them."""

    resources: tuple[str, ...]
    jobs: tuple[ShopJob, ...]

    def __post_init__(self) -> None:
        if not self.jobs:
            raise ValueError("a shop must have at least one job, got none")
        for job in self.jobs:
            for phase in job.phases:
                if any(not 0 <= resource < len(self.resources) for resource in phase.resources):
                    raise ValueError(f"{job.name}: resources must be in 0..{len(self.resources) - 1}, got {phase.resources}")


@dataclass(frozen=True, slots=True)
class CyclicSchedule:
    """A schedule that repeats every `period_s` seconds.

    starts_s[job][run][phase][i]: when the phase starts on its i-th resource, in seconds; empty for delays.
    """

    period_s: float
    starts_s: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
