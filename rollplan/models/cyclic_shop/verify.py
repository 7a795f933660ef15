"""Independent verifier of a cyclic schedule: replays it from the definitions and knows nothing of the solver."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem, Phase

REL_TOL = 1e-9
"""Of a period: what starts may be off by, from rounding."""


def verify(problem: CyclicShopProblem, schedule: CyclicSchedule) -> tuple[str, ...]:
    """Return what is wrong with a schedule, in words; empty when it can be repeated for ever."""
    period_s = schedule.period_s
    if not (isfinite(period_s) and period_s > 0):
        return (f"the period must be positive and finite, got {period_s}",)
    shape = [[len(phase.resources) for phase in job.phases] for job in problem.jobs for _ in range(job.runs)]
    if (
        len(schedule.starts_s) != len(problem.jobs)
        or [[len(starts) for starts in run] for job in schedule.starts_s for run in job] != shape
    ):
        return ("the schedule does not have exactly one start for each run, phase and resource",)
    if not all(isfinite(start) for job in schedule.starts_s for run in job for starts in run for start in starts):
        return ("every start must be finite",)
    tolerance_s = REL_TOL * period_s
    found: list[str] = []
    busy: dict[int, list[tuple[float, float, str]]] = {}
    for job, runs in zip(problem.jobs, schedule.starts_s, strict=True):
        if len(runs) != job.runs:
            return (f"job {job.name} runs {len(runs)} times, must run {job.runs} times",)
        # What came before the first run is the last one, a period earlier.
        ready_s = _end(job.phases, runs[-1]) - period_s
        for number, run in enumerate(runs):
            for position, (phase, starts) in enumerate(zip(job.phases, run, strict=True)):
                where = f"job {job.name}, run {number + 1}, phase {position + 1}"
                for resource, start in zip(phase.resources, starts, strict=True):
                    if start < ready_s - tolerance_s:
                        found.append(f"{where} starts {ready_s - start:g} s too early on {problem.resources[resource]}")
                    if phase.seconds > 0:
                        busy.setdefault(resource, []).append((start % period_s, phase.seconds, where))
                if phase.together and starts and max(starts) - min(starts) > tolerance_s:
                    found.append(f"{where} does not start at the same moment on all its resources")
                ready_s = max(starts, default=ready_s) + phase.seconds
    for resource, pieces in sorted(busy.items()):
        pieces.sort()
        turns = [*pieces, (pieces[0][0] + period_s, *pieces[0][1:])]
        found += [
            f"{one} runs into {other} on {problem.resources[resource]}"
            for (start, seconds, one), (after, _, other) in pairwise(turns)
            if start + seconds > after + tolerance_s
        ]
    return tuple(found)


def _end(phases: tuple[Phase, ...], run: tuple[tuple[float, ...], ...]) -> float:
    """Return when a run ends: after its last phase with a resource, and the delays behind it."""
    end_s = float("-inf")
    for phase, starts in zip(phases, run, strict=True):
        end_s = max(starts, default=end_s) + phase.seconds
    return end_s
