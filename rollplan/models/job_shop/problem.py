"""P4 b: jobs of operations in a fixed order, each on one of some machines, so that the last one ends as early as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

LONGEST = 2.0**53
"""Durations in total stay below: up to here every whole number is a float."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to carry out an operation: a machine (counted from 0), and how long it takes there in the problem's unit of time."""

    machine: int
    duration: float


Operation = tuple[Alternative, ...]
"""Ways to carry it out, one machine at most once: a single one in a job shop, several in a flexible one."""


@dataclass(frozen=True)
class JobShopProblem:
    """Jobs, each a chain of operations; a machine does one operation at a time and never interrupts it.

    machines: how many there are. jobs: the operations of each in their order; a job without operations ends at 0. Durations
    have one unit of time, whichever, and so has the makespan; an operation of duration 0 does not occupy its machine.

    Raises `ValueError` for a value out of range.
    """

    machines: int
    jobs: tuple[tuple[Operation, ...], ...]

    def __post_init__(self) -> None:
        if self.machines < 1:
            raise ValueError(f"machines must be at least 1, got {self.machines}")
        if not self.jobs:
            raise ValueError("jobs must not be empty, got none; give at least one job")
        for job, k, operation in self.operations():
            where = f"operation {k} of job {job}"
            if not operation:
                raise ValueError(f"{where} has no alternative; give at least one machine and its duration")
            for way in operation:
                if not 0 <= way.machine < self.machines:
                    raise ValueError(f"{where} needs machine {way.machine}, the machines are 0 to {self.machines - 1}")
                if not (isfinite(way.duration) and way.duration >= 0):
                    raise ValueError(f"{where} takes {way.duration} on machine {way.machine}, must be a finite number, at least 0")
            if len({way.machine for way in operation}) < len(operation):
                raise ValueError(f"{where} gives a machine twice; keep the shorter alternative")
        if self.horizon >= LONGEST:
            raise ValueError(f"durations add up to {self.horizon:g}, must stay below {LONGEST:g}; take a larger unit of time")

    def operations(self) -> Iterator[tuple[int, int, Operation]]:
        """Yield job, position and operation, job after job."""
        for job, chain in enumerate(self.jobs):
            for k, operation in enumerate(chain):
                yield job, k, operation

    @cached_property
    def size(self) -> int:
        """Return the number of operations."""
        return sum(len(chain) for chain in self.jobs)

    @cached_property
    def horizon(self) -> float:
        """Return the longest durations of all operations added up: some optimal schedule ends no later."""
        return float(sum(max(way.duration for way in operation) for _, _, operation in self.operations()))

    @cached_property
    def whole(self) -> bool:
        """Return whether all durations are whole numbers; then the least makespan is one, too."""
        return all(way.duration == int(way.duration) for _, _, operation in self.operations() for way in operation)

    @property
    def flexible(self) -> bool:
        """Return whether some operation has a choice of machines."""
        return any(len(operation) > 1 for _, _, operation in self.operations())


def job_shop(rows: Sequence[Sequence[tuple[int, float]]], machines: int | None = None) -> JobShopProblem:
    """Return a classical job shop from (machine, duration) pairs, machines counted from 0."""
    jobs = tuple(tuple((Alternative(machine, float(duration)),) for machine, duration in row) for row in rows)
    last = max((machine for row in rows for machine, _ in row), default=0)
    return JobShopProblem(last + 1 if machines is None else machines, jobs)


def flow_shop(durations: Sequence[Sequence[float]]) -> JobShopProblem:
    """Return a flow shop: a row for each job, a column for each machine, all in this order; jobs may overtake each other.

    Raises `ValueError` where rows differ in length.
    """
    return hybrid_flow_shop([1] * (len(durations[0]) if durations else 0), durations)


def hybrid_flow_shop(parallel: Sequence[int], durations: Sequence[Sequence[float]]) -> JobShopProblem:
    """Return a hybrid flow shop: stage s has `parallel[s]` identical machines, numbered stage after stage.

    durations: a row for each job, a column for each stage. Raises `ValueError` where the numbers of stages differ, or a
    stage has no machine.
    """
    for stage, count in enumerate(parallel):
        if count < 1:
            raise ValueError(f"stage {stage} has {count} machines, must have at least 1")
    first = [sum(parallel[:stage]) for stage in range(len(parallel) + 1)]
    for job, row in enumerate(durations):
        if len(row) != len(parallel):
            raise ValueError(f"job {job} has {len(row)} durations, there are {len(parallel)} stages")
    jobs = tuple(
        tuple(tuple(Alternative(machine, float(row[s])) for machine in range(first[s], first[s + 1])) for s in range(len(parallel)))
        for row in durations
    )
    return JobShopProblem(first[-1], jobs)
