"""A second proof of a claimed optimum, for small shops: known bugs of solvers give wrong proofs.

It asks another question (is there anything shorter?) of another model: starts, and for two operations on one machine a Boolean
that says which comes first. No intervals, no classes of machines, no presolve, no hint; so none of the propagators, settings and
reductions that the first proof rests on.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

from rollplan.models import native
from rollplan.models.certified import Limits
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.timing import timed
from rollplan.models.job_shop.whole import WholeShop

MOST_OPERATIONS = 60
MOST_S = 5.0
Answer = Literal["confirmed", "open"]


def shorter(shop: WholeShop, makespan: float, limits: Limits) -> Schedule | Answer:
    """Return a schedule shorter than a makespan, "confirmed" if there is none, "open" if the time did not suffice.

    Takes at most `MOST_S` seconds and half of the time left.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts, places = _model(model, shop, shop.units(makespan) - 1)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_presolve = False
    solver.parameters.max_time_in_seconds = min(MOST_S, limits.left_s / 2)
    status = native.run(lambda: solver.solve(model), limits)
    if status == cp_model.INFEASIBLE:
        return "confirmed"
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "open"
    order = []
    for job, k, operation in shop.problem.operations():
        (place,) = (place for place, here in enumerate(places[job][k]) if solver.value(here))
        start = solver.value(starts[job][k])
        order.append((start, start + _duration(shop, job, k, operation[place].machine), job, k, (operation[place],)))
    return timed(shop.problem, [(job, k, ways) for _, _, job, k, ways in sorted(order, key=lambda each: each[:4])])


def _duration(shop: WholeShop, job: int, k: int, machine: int) -> int:
    return next(mode.duration for mode in shop.jobs[job][k] if machine in shop.resources[mode.resource])


def _model(model: Any, shop: WholeShop, upper: int) -> tuple[list[list[Any]], list[list[list[Any]]]]:
    """Fill the model; return the start of every operation, and whether it takes each of its alternatives."""
    starts = [[model.new_int_var(0, max(upper, 0), "") for _ in chain] for chain in shop.jobs]
    places: list[list[list[Any]]] = [[] for _ in shop.jobs]
    on_machine: dict[int, list[tuple[int, Any, Any]]] = defaultdict(list)
    for job, k, operation in shop.problem.operations():
        here = [model.new_bool_var("") for _ in operation]
        model.add_exactly_one(here)
        places[job].append(here)
        follows = starts[job][k + 1] if k + 1 < len(starts[job]) else None
        for way, literal in zip(operation, here, strict=True):
            duration = _duration(shop, job, k, way.machine)
            end = starts[job][k] + duration
            model.add(end <= (upper if follows is None else follows)).only_enforce_if(literal)
            if duration:
                on_machine[way.machine].append((duration, starts[job][k], literal))
    for runs in on_machine.values():
        for i, (first_takes, first, first_here) in enumerate(runs):
            for second_takes, second, second_here in runs[:i]:
                before = model.new_bool_var("")
                model.add(second >= first + first_takes).only_enforce_if(before, first_here, second_here)
                model.add(first >= second + second_takes).only_enforce_if(~before, first_here, second_here)
    return starts, places
