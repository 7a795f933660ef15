"""P||Cmax side by side: LPT, MULTIFIT, ours, and a plain CP-SAT model, on published instances at the same limit.

    python benchmarks/pcmax.py --instances instances.jsonl [--time-limit 1] [--family lawrinenko] [--each]

One JSON object per line: name, family, m (machines), jobs (whole processing times), opt (published optimum). Instances of
this kind are in github.com/JayWestfield/parallel-BnB-for-P-Cmax (MIT). Ratios are makespan over published optimum;
`proven` counts answers that equal the bound of the same solver. Seconds are wall time with model building. All run on one
thread. The plain model has one Boolean for each job and machine, loads below the makespan, and the solver's defaults. A
bound above the published optimum, or an assignment that the verifier rejects, ends the benchmark with an error.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import ortools
from ortools.sat.python import cp_model

from rollplan.models.certified import Limits
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, lpt, solution
from rollplan.models.pcmax.verify import verify
from rollplan.planner.pcmax.multifit import multifit
from rollplan.planner.pcmax.solve import solve


@dataclass(frozen=True)
class Answer:
    """Makespan (None: no assignment), bound and seconds of one solver on one instance."""

    value: int | None
    bound: float
    seconds: float


@dataclass(frozen=True)
class Line:
    """One instance: makespans of LPT and MULTIFIT, answers of ours and of the plain model, published optimum."""

    rules: tuple[int, int]
    answers: tuple[Answer, Answer]
    optimum: int


def ours(problem: PcmaxProblem, time_limit_s: float) -> Answer:
    started = perf_counter()
    found = solve(problem, limits=Limits(time_limit_s))
    return Answer(checked(problem, found.solution), found.bound.value, perf_counter() - started)


def plain(problem: PcmaxProblem, time_limit_s: float) -> Answer:
    started = perf_counter()
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, sum(problem.times), "")
    place = [[model.new_bool_var("") for _ in range(problem.machines)] for _ in problem.times]
    for row in place:
        model.add_exactly_one(row)
    for i in range(problem.machines):
        model.add(cp_model.LinearExpr.weighted_sum([row[i] for row in place], problem.times) <= makespan)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = max(0.0, time_limit_s - (perf_counter() - started))
    status = solver.solve(model)
    value = None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        machines = [[j for j, row in enumerate(place) if solver.value(row[i])] for i in range(problem.machines)]
        value = checked(problem, solution(problem, machines))
    return Answer(value, solver.best_objective_bound, perf_counter() - started)


def checked(problem: PcmaxProblem, found: PcmaxSolution) -> int:
    """Return the makespan of an assignment that is right."""
    if faults := verify(problem, found):
        raise SystemExit("; ".join(faults))
    return found.makespan


def row(name: str, lines: list[Line]) -> str:
    """Return a line of the table: how far from the published optimum, how many proven, how long."""
    rules = [[line.rules[k] / line.optimum for line in lines] for k in (0, 1)]
    cells = [f"{median(ratios):.4f} {max(ratios):.4f}" for ratios in rules]
    for k in (0, 1):
        found = [line.answers[k] for line in lines]
        ratios = [answer.value / line.optimum for answer, line in zip(found, lines, strict=True) if answer.value is not None]
        proven = sum(answer.value is not None and answer.value <= answer.bound + 1e-6 for answer in found)
        counts = f"{sum(ratio <= 1.01 for ratio in ratios):>5} {ratios.count(1.0):>4} {proven:>6}"
        seconds = [answer.seconds for answer in found]
        spread = f"{mean(ratios):.4f} {max(ratios):.4f}" if ratios else f"{'-':>6} {'-':>6}"
        cells.append(f"{spread} {counts} {mean(seconds):>5.2f} {max(seconds):>5.2f}")
    return f"{name:<10} {len(lines):>4} | {' | '.join(cells)}"


def measured(each: dict[str, Any], time_limit_s: float) -> Line:
    """Return what all make of one instance."""
    problem = PcmaxProblem(tuple(each["jobs"]), each["m"])
    answers = (ours(problem, time_limit_s), plain(problem, time_limit_s))
    for answer in answers:
        if answer.bound > each["opt"] + 1e-6:
            raise SystemExit(f"{each['name']}: bound {answer.bound} above the published optimum {each['opt']}")
    return Line((lpt(problem).makespan, multifit(problem).makespan), answers, each["opt"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=Path, required=True, help="JSON lines")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds for each solver and instance")
    parser.add_argument("--family", help="this family only")
    parser.add_argument("--each", action="store_true", help="print what ours left open, too")
    options = parser.parse_args()
    given = [json.loads(line) for line in options.instances.read_text().splitlines() if line.strip()]
    families = sorted({each["family"] for each in given if options.family in (None, each["family"])})
    print(f"Python {platform.python_version()}, {platform.machine()}, OR-Tools {ortools.__version__}; limit {options.time_limit:g} s")
    heads = "  mean    max  <=1% best proven     s max s"
    print(f"{'':15} | {'LPT':<13} | {'MULTIFIT':<13} | {'ours':<{len(heads)}} | plain CP-SAT")
    print(f"{'family':<10} {'n':>4} | median    max | median    max | {heads} | {heads}")
    every: list[Line] = []
    for family in families:
        lines = []
        for each in given:
            if each["family"] == family:
                lines.append(measured(each, options.time_limit))
                found = lines[-1].answers[0]
                if options.each and found.value != found.bound:
                    print(f"  open: {each['name']}, optimum {each['opt']}, found {found.value}, bound {found.bound}")
        print(row(family, lines), flush=True)
        every += lines
    print(row("all", every))


if __name__ == "__main__":
    main()
