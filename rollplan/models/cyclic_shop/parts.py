"""Parts and arcs: what has a start of its own in one period, and what must follow what.

A *part* is a phase of one run on one resource, or on all of them if it starts together. Phases that take no time or hold
no resource have no part; a delay lengthens the arcs that lead over it. An arc (a, b, seconds, shift) says: b of period
i + shift starts no earlier than `seconds` after the start of a in period i.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from rollplan.models.cyclic_shop.problem import CyclicSchedule, CyclicShopProblem, Phase


@dataclass(frozen=True, slots=True)
class Part:
    """One start: run `run` of job `job`, its phase `phase`, on `resources` (one, or all that start together)."""

    job: int
    run: int
    phase: int
    resources: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Arc:
    """Part `after` starts at least `seconds` after the start of part `before`, `shift` periods later."""

    before: int
    after: int
    seconds: float
    shift: int


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of a shop, the arcs of its jobs, and which pairs of parts may not overlap.

    apart: pairs of different jobs. Parts of one job are kept apart by its arcs.
    """

    items: tuple[Part, ...]
    arcs: tuple[Arc, ...]
    apart: tuple[tuple[int, int], ...]

    def on_resources(self) -> dict[int, list[int]]:
        """Return the parts on each resource."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, part in enumerate(self.items):
            for resource in part.resources:
                found[resource].append(index)
        return found


def parts_of(problem: CyclicShopProblem) -> Parts:
    """Return the parts and arcs of a shop."""
    items: list[Part] = []
    arcs: list[Arc] = []
    for number, job in enumerate(problem.jobs):
        stages: list[tuple[list[int], float]] = []  # the parts of a phase, and the seconds from their start to the next phase
        head_s = 0.0  # delays before the job's first part
        for run in range(job.runs):
            for position, phase in enumerate(job.phases):
                places = list(_places(phase))
                if places:
                    stages.append((list(range(len(items), len(items) + len(places))), phase.seconds))
                    items += [Part(number, run, position, resources, phase.seconds) for resources in places]
                elif stages:
                    stages[-1] = (stages[-1][0], stages[-1][1] + phase.seconds)
                else:
                    head_s += phase.seconds
        for place, (before, seconds) in enumerate(stages):
            last = place == len(stages) - 1
            after, _ = stages[0] if last else stages[place + 1]
            arcs += [Arc(a, b, seconds + head_s * last, int(last)) for a in before for b in after]
    apart = [
        (a, b)
        for a, b in combinations(range(len(items)), 2)
        if items[a].job != items[b].job and set(items[a].resources) & set(items[b].resources)
    ]
    return Parts(tuple(items), tuple(arcs), tuple(apart))


def _places(phase: Phase) -> Iterator[tuple[int, ...]]:
    """Yield the resources of each part of a phase."""
    if phase.seconds == 0 or not phase.resources:
        return
    if phase.together:
        yield phase.resources
    else:
        yield from ((resource,) for resource in phase.resources)


def schedule_of(problem: CyclicShopProblem, parts: Parts, starts_s: list[float], period_s: float) -> CyclicSchedule:
    """Return a schedule from the starts of its parts; phases of no time start when the phase before them has ended."""
    placed = {
        (part.job, part.run, part.phase, resource): start
        for part, start in zip(parts.items, starts_s, strict=True)
        for resource in part.resources
    }
    jobs = []
    for number, job in enumerate(problem.jobs):
        runs = []
        for run in range(job.runs):
            first = next(position for position, phase in enumerate(job.phases) if phase.seconds and phase.resources)
            at_s = min(placed[number, run, first, resource] for resource in job.phases[first].resources)
            at_s -= sum(phase.seconds for phase in job.phases[:first])
            phases = []
            for position, phase in enumerate(job.phases):
                starts = tuple(placed.get((number, run, position, resource), at_s) for resource in phase.resources)
                at_s = max(starts, default=at_s) + phase.seconds
                phases.append(starts)
            runs.append(tuple(phases))
        jobs.append(tuple(runs))
    return CyclicSchedule(period_s, tuple(jobs))
