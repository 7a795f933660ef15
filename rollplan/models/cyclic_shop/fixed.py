"""CP-SAT: is there a schedule of a given period?

Starts are whole numbers. Each run of a job is anchored: one of its parts starts within [0, T). Two parts of different
jobs that share a resource are kept apart for one whole number h of periods between them:

    d_a <= s_b - s_a + h T <= T - d_b

One literal for each possible h enforces its two bounds. That is what makes the model fast: with h as an integer variable,
or with a no-overlap of three copies of each interval, bounds of orders that contradict each other creep up in steps of
one unit, and groups of four jobs in milliseconds were not decided in 5 s; literals take 2 ms (docs/cyclic_shop.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rollplan.models.certified import Limits
from rollplan.models.cyclic_shop.grid import Grid
from rollplan.models.cyclic_shop.parts import Arc, Part, Parts

EFFORT = 2.0
"""Deterministic time of one question, about as many seconds; small groups take a few thousandths of it."""


@dataclass(frozen=True, slots=True)
class Window:
    """Where a start may lie, in units."""

    first: int
    last: int


def starts_at(
    parts: Parts, grid: Grid, period: int, limits: Limits, seed: int = 0, presolve: bool = False, effort: float = EFFORT
) -> list[int] | Literal["refuted", "unknown"]:
    """Return starts in units for a period of so many units, that there are none, or that the limits came first."""
    from ortools.sat.python import cp_model

    seconds = [grid.up(part.seconds) for part in parts.items]
    arcs = [Arc(arc.before, arc.after, grid.up(arc.seconds), arc.shift) for arc in parts.arcs]
    windows = _windows(parts, arcs, period)
    if windows is None:
        return "refuted"
    model = cp_model.CpModel()
    starts = [model.new_int_var(window.first, window.last, "") for window in windows]
    for arc in arcs:
        if arc.before != arc.after:
            model.add(starts[arc.after] >= starts[arc.before] + int(arc.seconds) - period * arc.shift)
    for a, b in parts.apart:
        keep_apart(model, (starts[a], windows[a], seconds[a]), (starts[b], windows[b], seconds[b]), period)
    solver = solver_of(limits, seed, presolve, effort)
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return [solver.value(start) for start in starts]
    return "refuted" if status == cp_model.INFEASIBLE else "unknown"


Placed = tuple[Any, Window, int]
"""A start variable, where it may lie, and how long its part takes."""


def keep_apart(model: Any, one: Placed, other: Placed, period: int, only_if: Sequence[Any] = ()) -> bool:
    """Keep two parts from overlapping in any period, if all literals of `only_if` hold; return whether that is possible."""
    (a, at_a, length_a), (b, at_b, length_b) = one, other
    ways = list(_ways(at_b.first - at_a.last, at_b.last - at_a.first, length_a, length_b, period))
    if not ways:
        model.add_bool_or([literal.negated() for literal in only_if])
        return False
    if len(ways) == 1:
        literals: list[list[Any]] = [[]]
    elif len(ways) == 2:
        literal = model.new_bool_var("")
        literals = [[literal], [literal.negated()]]
    else:
        literals = [[model.new_bool_var("")] for _ in ways]
        model.add_exactly_one([literal for (literal,) in literals])
    for (least, most), chosen in zip(ways, literals, strict=True):
        bounds = model.add_linear_constraint(b - a, least, most)
        if [*chosen, *only_if]:
            bounds.only_enforce_if([*chosen, *only_if])
    return True


def _ways(nearest: int, farthest: int, length_a: int, length_b: int, period: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of s_b - s_a that keep the two apart, one for each number of periods between them."""
    for periods in range(-(-nearest // period) - 1, farthest // period + 1):
        least, most = length_a + period * periods, period * (periods + 1) - length_b
        if max(least, nearest) <= min(most, farthest):
            yield least, most


def solver_of(limits: Limits, seed: int, presolve: bool, effort: float = EFFORT) -> Any:
    """Return a solver of one worker and a deterministic limit, so that the same question has the same answer."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_presolve = presolve
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = max(1e-3, limits.left_s)
    solver.parameters.catch_sigint_signal = False
    return solver


def _windows(parts: Parts, arcs: list[Arc], period: int) -> list[Window] | None:
    """Return where each part may start, None if a job does not fit into its period."""
    first, last = [-period] * len(parts.items), [2 * period - 1] * len(parts.items)
    for index in _anchors(parts.items):
        first[index], last[index] = 0, period - 1
    # The whole schedule may be turned: the job with most phases starts it.
    turned = max(_anchors(parts.items), key=lambda index: (parts.items[index].run == 0, parts.items[index].seconds, -index))
    first[turned] = last[turned] = 0
    for _ in range(len(parts.items) + 1):
        changed = False
        for arc in arcs:
            gain = int(arc.seconds) - period * arc.shift
            if first[arc.before] + gain > first[arc.after]:
                first[arc.after], changed = first[arc.before] + gain, True
            if last[arc.after] - gain < last[arc.before]:
                last[arc.before], changed = last[arc.after] - gain, True
        if any(early > late for early, late in zip(first, last, strict=True)):
            return None
        if not changed:
            return [Window(early, late) for early, late in zip(first, last, strict=True)]
    return None


def _anchors(items: tuple[Part, ...]) -> list[int]:
    """Return one part of each run, always of the same phase: one that has a single part if there is any, else the first.

    Of the runs of a job, the one whose anchor comes first in the period is called the first, so all lie in [0, T).
    """
    anchors: list[int] = []
    for job in sorted({part.job for part in items}):
        first = [index for index, part in enumerate(items) if part.job == job and part.run == 0]
        phases = [items[index].phase for index in first]
        phase = next((phase for phase in phases if phases.count(phase) == 1), phases[0])
        resources = next(items[index].resources for index in first if items[index].phase == phase)
        anchors += [index for index, part in enumerate(items) if (part.job, part.phase, part.resources) == (job, phase, resources)]
    return anchors
