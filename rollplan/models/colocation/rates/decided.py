"""CP-SAT decides whether given rates have a timetable on given nodes, where periodic EDF found none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import JobData, Timetable, at_most
from rollplan.models.cyclic_shop.fixed import starts_at
from rollplan.models.cyclic_shop.grid import grid_of
from rollplan.models.cyclic_shop.groups import shop_of, timetable_of
from rollplan.models.cyclic_shop.orders import at_least_period
from rollplan.models.cyclic_shop.parts import parts_of

_EFFORT = 0.5
"""Deterministic time of one question, about as many seconds; most take a few thousandths of it."""


def decide(
    jobs: Sequence[JobData],
    pinning: Sequence[Sequence[int]],
    period_s: float,
    runs: Sequence[int],
    limits: Limits,
    seed: int = 0,
) -> Timetable | Literal["refuted", "unknown"]:
    """Return a timetable of at most this period with these runs, that there is none, or that the limits came first.

    pinning[i]: rollout nodes of jobs[i]. What is refuted is refuted twice, without and with presolve.
    """
    shop = shop_of(jobs, pinning, runs)
    parts = parts_of(shop)
    grid = grid_of([*(arc.seconds for arc in parts.arcs), *(part.seconds for part in parts.items), period_s], period_s)
    # Rounding durations up adds less than a unit for each part of a cycle, so what is refuted with that much more time is refuted.
    periods = [grid.up(period_s) + len(parts.items), grid.down(period_s)] if grid.rounded else [grid.down(period_s)]
    for place, period in enumerate(periods):
        starts = starts_at(parts, grid, period, limits, seed, effort=_EFFORT)
        if starts == "refuted":
            starts = starts_at(parts, grid, period, limits, seed, presolve=True, effort=_EFFORT)
        if isinstance(starts, str):
            return starts if place == 0 else "unknown"
        if any(job.rollout_s == 0 or job.train_s == 0 for job in jobs):
            return "unknown"  # the shop may run a phase of no length inside another, an order may not
        schedule = at_least_period(shop, parts, [float(start) for start in starts], period)
        if at_most(schedule.period_s, period_s):
            return timetable_of(schedule)
    return "unknown"
