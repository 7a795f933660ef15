"""Independent verifier of a schedule, in plain Python from the definitions; it shares the problem's data with the solvers, no code."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from rollplan.models.job_shop.problem import JobShopProblem
from rollplan.models.job_shop.solution import Schedule

_REL_TOL = 1e-9


def verify(problem: JobShopProblem, schedule: Schedule) -> tuple[str, ...]:
    """Return what is wrong with a schedule, in words; empty when it is feasible and its makespan right.

    Times may be off by 1e-9 of the makespan, which is the rounding of sums of floats.
    """
    shape = [len(chain) for chain in problem.jobs]
    for name, given in (("machines", schedule.machines), ("starts", schedule.starts)):
        if [len(row) for row in given] != shape:
            return (f"{name} have the shape {[len(row) for row in given]}, the jobs have {shape} operations",)
    found: list[str] = []
    busy: dict[int, list[tuple[float, float, str]]] = {}
    slack = _REL_TOL * abs(schedule.makespan)
    last = 0.0
    for job, chain in enumerate(problem.jobs):
        ready = 0.0
        for k, operation in enumerate(chain):
            name, start, machine = f"operation {k} of job {job}", schedule.starts[job][k], schedule.machines[job][k]
            durations = [way.duration for way in operation if way.machine == machine]
            if not durations:
                found.append(f"{name} runs on machine {machine}, which is none of its alternatives")
                continue
            if not isfinite(start) or start < ready - slack:
                found.append(f"{name} starts at {start:.12g}, before {ready:.12g}, when the one before it ends")
            ready = start + durations[0]
            last = max(last, ready)
            if durations[0] > 0:
                busy.setdefault(machine, []).append((start, ready, name))
    for machine, runs in sorted(busy.items()):
        runs.sort()
        for (_, end, before), (start, _, after) in pairwise(runs):
            if start < end - slack:
                found.append(f"machine {machine} starts {after} at {start:.12g}, before {before} ends at {end:.12g}")
    if not abs(schedule.makespan - last) <= _REL_TOL * max(last, 1e-300):
        found.append(f"the last operation ends at {last:.12g}, the schedule says {schedule.makespan:.12g}")
    return tuple(found)
