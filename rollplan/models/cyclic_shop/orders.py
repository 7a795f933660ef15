"""The least period of given cyclic orders, exactly, and the earliest starts that reach it.

A schedule says in which cyclic order every resource serves its parts, and which phases run over the end of the period.
With both fixed, all that is left are arcs with seconds and shifts, and the least period is the largest ratio of a
cycle's seconds to its shifts (max-plus algebra; Baccelli et al., Synchronization and Linearity, 1992, 2.3). A run in
these orders without regard to the clock is monotone: shorter phases never end later.
"""

from __future__ import annotations

from itertools import pairwise
from math import floor

from rollplan.models.cyclic_shop.parts import Arc, Parts, parts_of, schedule_of
from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem

_NOISE = 1e-12
"""Relative rounding error of sums of seconds, far below the 1e-9 that schedules are judged by."""


def tightened(problem: CyclicShopProblem, schedule: CyclicSchedule) -> CyclicSchedule:
    """Return the schedule of least period that has the cyclic orders of `schedule`.

    Only the orders of `schedule` count: its times may be off, and its period too short for them.
    """
    parts = parts_of(problem)
    starts = [
        schedule.starts_s[part.job][part.run][part.phase][_place(problem, part.job, part.phase, part.resources[0])] for part in parts.items
    ]
    return at_least_period(problem, parts, starts, schedule.period_s)


def at_least_period(problem: CyclicShopProblem, parts: Parts, starts: list[float], period: float) -> CyclicSchedule:
    """Return the schedule of least period with the cyclic orders that `starts` have modulo `period`, in any unit."""
    arcs = order_arcs(parts, starts, period)
    floor_s = max(job.runs * job.alone_s for job in problem.jobs)
    period_s, earliest = least_period(len(parts.items), arcs, floor_s)
    shifts = [floor(start / period + 1e-9) for start in starts]
    return schedule_of(problem, parts, [at + period_s * shift for at, shift in zip(earliest, shifts, strict=True)], period_s)


def order_arcs(parts: Parts, starts: list[float], period: float) -> list[Arc]:
    """Return the arcs between parts when their starts are taken modulo the period: those of jobs and those of resources."""
    shifts = [floor(start / period + 1e-9) for start in starts]
    within = [start - shift * period for start, shift in zip(starts, shifts, strict=True)]
    arcs = [Arc(arc.before, arc.after, arc.seconds, arc.shift + shifts[arc.after] - shifts[arc.before]) for arc in parts.arcs]
    for members in parts.on_resources().values():
        turn = sorted(members, key=lambda index: (within[index], index))
        arcs += [Arc(a, b, parts.items[a].seconds, 0) for a, b in pairwise(turn)]
        arcs.append(Arc(turn[-1], turn[0], parts.items[turn[-1]].seconds, 1))
    return list(dict.fromkeys(arcs))


def least_period(size: int, arcs: list[Arc], floor_s: float) -> tuple[float, list[float]]:
    """Return the largest ratio of a cycle, at least `floor_s`, and the earliest starts at that period.

    The period is raised to the ratio of a cycle that still gains, until none does.
    """
    period_s = floor_s
    while True:
        earliest, cycle = _earliest(size, arcs, period_s)
        if cycle is None:
            return period_s, earliest
        seconds, shift = sum(arc.seconds for arc in cycle), sum(arc.shift for arc in cycle)
        if shift <= 0:
            raise ArithmeticError("a cycle of phases within one period: the orders contradict each other")
        if seconds <= period_s * shift * (1 + _NOISE):
            return period_s, earliest
        period_s = seconds / shift


def _earliest(size: int, arcs: list[Arc], period_s: float) -> tuple[list[float], list[Arc] | None]:
    """Return the earliest starts from 0 on, and a cycle that gains more than the period if there is one (Bellman-Ford)."""
    starts = [0.0] * size
    by: list[Arc | None] = [None] * size
    gains = [(arc.before, arc.after, arc.seconds - period_s * arc.shift, arc) for arc in arcs]
    slack = _NOISE * (period_s + sum(arc.seconds for arc in arcs))
    last: int | None = None
    for _ in range(size + 1):
        last = None
        for before, after, gain, arc in gains:
            if starts[before] + gain > starts[after] + slack:
                starts[after], by[after], last = starts[before] + gain, arc, after
        if last is None:
            return starts, None
    cycle: list[Arc] = []
    seen: dict[int, int] = {}
    at = last
    while at is not None and at not in seen:
        seen[at] = len(cycle)
        arc_in = by[at]
        if arc_in is None:
            return starts, None
        cycle.append(arc_in)
        at = arc_in.before
    assert at is not None
    return starts, cycle[seen[at] :]


def _place(problem: CyclicShopProblem, job: int, phase: int, resource: int) -> int:
    return problem.jobs[job].phases[phase].resources.index(resource)
