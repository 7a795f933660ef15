"""One search by CP-SAT: the lean model, its settings, and what it hands over while it runs.

A start per operation within head and tail, intervals of fixed size on it, one disjunctive constraint per machine, and the
makespan. An operation with a choice has a Boolean per resource. Interchangeable machines are one cumulative resource, and get
their names afterwards, so their symmetry never enters. Every variable has a hint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.whole import WholeShop

Setting = bool | int | float


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of CP-SAT by their names; those that the installed version does not know are left out.

    subsolvers: the complete searches that run; the remaining workers improve the incumbent by neighbourhoods.
    """

    name: str
    workers: int
    parameters: tuple[tuple[str, Setting], ...] = ()
    subsolvers: tuple[str, ...] = ()


@dataclass(slots=True)
class Search:
    """A search for a schedule shorter than a known one.

    found: called with every better schedule. raised: called with every better bound, in whole numbers.
    """

    shop: WholeShop
    settings: Settings
    seed: int
    found: Callable[[Schedule], None]
    raised: Callable[[int], None]
    _solver: Any = field(default=None)

    def stop(self) -> None:
        """Ask the search to come back; ask again until it does, since a search that has not begun does not hear it."""
        if self._solver is not None:
            self._solver.stop_search()

    def run(self, start: Schedule, lower: int, seconds: float, deterministic: float | None = None) -> bool:
        """Search for at most so many seconds and units of deterministic time; return whether nothing better is left.

        start: the known schedule, given as a hint. lower: a proven bound in whole numbers.
        """
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        variables = _Model(model, self.shop, start, lower)

        def met(callback: Any) -> None:
            self.found(variables.read(callback.value))

        watch = type("Watch", (cp_model.CpSolverSolutionCallback,), {"on_solution_callback": met})
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.random_seed = self.seed
        parameters.num_workers = self.settings.workers
        parameters.max_time_in_seconds = seconds
        if deterministic is not None:
            parameters.max_deterministic_time = deterministic
        for name, value in self.settings.parameters:
            if hasattr(parameters, name):
                setattr(parameters, name, value)
        parameters.subsolvers.extend(self.settings.subsolvers)
        solver.best_bound_callback = lambda bound: self.raised(round(bound))
        self._solver = solver
        status = solver.solve(model, watch())
        self._solver = None
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self.found(variables.read(solver.value))
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT refuses the model: {model.validate()}")
        if status == cp_model.INFEASIBLE:
            return False  # wrong: the known schedule is a solution; so nothing it says counts
        self.raised(round(solver.best_objective_bound))
        return bool(status == cp_model.OPTIMAL)


class _Model:
    """The variables of a shop in a model of CP-SAT."""

    def __init__(self, model: Any, shop: WholeShop, start: Schedule, lower: int) -> None:
        resources, starts = shop.hint(start)
        self.shop = shop
        upper = shop.units(start.makespan)
        self.makespan = makespan = model.new_int_var(min(lower, upper), upper, "")
        model.minimize(makespan)
        self.starts: list[list[Any]] = []
        self.chosen: list[list[list[Any]]] = []
        runs: list[list[Any]] = [[] for _ in shop.resources]
        last = 0
        for job, chain in enumerate(shop.jobs):
            self.starts.append([])
            self.chosen.append([])
            for k, modes in enumerate(chain):
                shortest = min(mode.duration for mode in modes)
                begin = model.new_int_var(shop.heads[job][k], upper - shop.tails[job][k] - shortest, "")
                self.starts[job].append(begin)
                model.add_hint(begin, starts[job][k])
                if k:
                    self._follow(model, job, k - 1, begin)
                literals = [model.new_bool_var("") for _ in modes] if len(modes) > 1 else []
                if literals:
                    model.add_exactly_one(literals)
                self.chosen[job].append(literals)
                for place, mode in enumerate(modes):
                    if literals:
                        model.add_hint(literals[place], mode.resource == resources[job][k])
                    if mode.duration and literals:
                        runs[mode.resource].append(model.new_optional_fixed_size_interval_var(begin, mode.duration, literals[place], ""))
                    elif mode.duration:
                        runs[mode.resource].append(model.new_fixed_size_interval_var(begin, mode.duration, ""))
                last = max(last, starts[job][k] + next(mode.duration for mode in modes if mode.resource == resources[job][k]))
            if chain:
                self._follow(model, job, len(chain) - 1, makespan)
        model.add_hint(makespan, last)
        for machines, intervals in zip(shop.resources, runs, strict=True):
            if len(machines) == 1:
                model.add_no_overlap(intervals)
            elif len(intervals) > len(machines):
                model.add_cumulative(intervals, [1] * len(intervals), len(machines))

    def _follow(self, model: Any, job: int, k: int, moment: Any) -> None:
        """Let operation k of a job end before a moment."""
        modes, begin = self.shop.jobs[job][k], self.starts[job][k]
        shortest = min(mode.duration for mode in modes)
        model.add(moment >= begin + shortest)
        for mode, literal in zip(modes, self.chosen[job][k], strict=False):
            if mode.duration > shortest:
                model.add(moment >= begin + mode.duration).only_enforce_if(literal)

    def read(self, value: Callable[[Any], int]) -> Schedule:
        """Return the schedule of a solution."""
        resources = []
        for chain, chosen in zip(self.shop.jobs, self.chosen, strict=True):
            row = []
            for modes, literals in zip(chain, chosen, strict=True):
                row.append(
                    next((mode.resource for mode, literal in zip(modes, literals, strict=False) if value(literal)), modes[0].resource)
                )
            resources.append(row)
        return self.shop.schedule(resources, [[value(begin) for begin in row] for row in self.starts])
