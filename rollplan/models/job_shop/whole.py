"""The problem in whole numbers, as CP-SAT takes it, and with machines that differ in nothing as one resource.

Durations are whole numbers of a decimal unit. Where they are not (too many decimals for 31 bits) they are rounded DOWN: every
schedule is one of the shorter durations, too, so the least makespan in whole numbers, times the unit, is a true bound. A
schedule in whole numbers is read as an order, and its times are computed from the true durations.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, nextafter

from rollplan.models.job_shop.problem import JobShopProblem
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.timing import in_order, timed

LARGEST = 2**31 - 1
"""Makespans in whole numbers stay below (an open bug of CP-SAT gives wrong proofs beyond: google/or-tools issue 5293)."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A resource that can carry out an operation, and how many units of time it takes there."""

    resource: int
    duration: int


@dataclass(frozen=True, slots=True)
class WholeShop:
    """The problem in whole numbers.

    unit: true time of one. rounded: whether durations lost something. resources: the machines of each, which are
    interchangeable in every operation. jobs: the modes of each operation. heads, tails: least time before and after an
    operation in its job.
    """

    problem: JobShopProblem
    unit: Fraction
    rounded: bool
    resources: tuple[tuple[int, ...], ...]
    jobs: tuple[tuple[tuple[Mode, ...], ...], ...]
    heads: tuple[tuple[int, ...], ...]
    tails: tuple[tuple[int, ...], ...]

    def units(self, makespan: float) -> int:
        """Return the largest makespan in whole numbers that a schedule of this true makespan can have."""
        return floor(Fraction(makespan) * (1 + Fraction(1, 10**12)) / self.unit)

    def time(self, units: int) -> float:
        """Return the true time that a bound in whole numbers proves, never too large."""
        exact = units * self.unit
        return float(exact) if float(exact) == exact else nextafter(float(exact), -inf) * (1 - 1e-12)

    def least_units(self, bound: float) -> int:
        """Return the least makespan in whole numbers that a bound of the true one leaves; none where durations were rounded down."""
        if self.rounded:
            return 0
        return ceil(Fraction(bound) * (1 - Fraction(1, 10**12)) / self.unit)

    def schedule(self, resources: list[list[int]], starts: list[list[int]]) -> Schedule:
        """Return the schedule that takes the operations in the order of these starts, with true durations."""
        order = []
        for job, k, operation in self.problem.operations():
            resource, start = resources[job][k], starts[job][k]
            duration = next(mode.duration for mode in self.jobs[job][k] if mode.resource == resource)
            ways = [way for way in operation if way.machine in self.resources[resource]]
            order.append((start, start + duration, job, k, ways))
        order.sort(key=lambda each: each[:4])
        return timed(self.problem, [(job, k, ways) for _, _, job, k, ways in order])

    def hint(self, schedule: Schedule) -> tuple[list[list[int]], list[list[int]]]:
        """Return resources and starts in whole numbers of a schedule's order, each as early as it can."""
        resource_of = {machine: r for r, machines in enumerate(self.resources) for machine in machines}
        free: dict[int, int] = defaultdict(int)
        ready = [0] * len(self.jobs)
        resources: list[list[int]] = [[] for _ in self.jobs]
        starts: list[list[int]] = [[] for _ in self.jobs]
        for job, k, (way,) in in_order(self.problem, schedule):
            resource = resource_of[way.machine]
            duration = next(mode.duration for mode in self.jobs[job][k] if mode.resource == resource)
            start = max(ready[job], free[way.machine]) if duration else ready[job]
            ready[job] = start + duration
            if duration:
                free[way.machine] = ready[job]
            resources[job].append(resource)
            starts[job].append(start)
        return resources, starts


def whole(problem: JobShopProblem, makespan: float) -> WholeShop:
    """Return the problem in whole numbers; makespan: of a known schedule, no better one is longer."""
    unit, rounded = _unit(problem, makespan)
    resources = _resources(problem)
    resource_of = {machine: r for r, machines in enumerate(resources) for machine in machines}
    jobs = tuple(
        tuple(
            tuple(Mode(r, d) for r, d in {resource_of[way.machine]: floor(_exact(way.duration) / unit) for way in ways}.items())
            for ways in chain
        )
        for chain in problem.jobs
    )
    least = [[min(mode.duration for mode in modes) for modes in chain] for chain in jobs]
    heads = tuple(tuple(sum(row[:k]) for k in range(len(row))) for row in least)
    tails = tuple(tuple(sum(row[k + 1 :]) for k in range(len(row))) for row in least)
    return WholeShop(problem, unit, rounded, resources, jobs, heads, tails)


def _exact(duration: float) -> Fraction:
    """Return the decimal number that the user wrote, not the float nearest to it."""
    return Fraction(repr(duration))


def _unit(problem: JobShopProblem, makespan: float) -> tuple[Fraction, bool]:
    """Return the coarsest decimal unit in which all durations are whole, or else the finest that the solver can take."""
    durations = {_exact(way.duration) for _, _, operation in problem.operations() for way in operation}
    unit = Fraction(1)
    while Fraction(makespan) / unit >= LARGEST:
        unit *= 10
    while any(duration % unit for duration in durations) and Fraction(makespan) / (unit / 10) < LARGEST:
        unit /= 10
    return unit, any(duration % unit for duration in durations)


def _resources(problem: JobShopProblem) -> tuple[tuple[int, ...], ...]:
    """Return the machines in classes: those of a class take the same time in every operation, so their names do not matter."""
    used: dict[int, list[tuple[int, int, float]]] = {machine: [] for machine in range(problem.machines)}
    for job, k, operation in problem.operations():
        for way in operation:
            used[way.machine].append((job, k, way.duration))
    classes: dict[tuple[tuple[int, int, float], ...], list[int]] = defaultdict(list)
    for machine, operations in used.items():
        if operations:
            classes[tuple(operations)].append(machine)
    return tuple(tuple(machines) for machines in classes.values())
