"""Multi-rate groups on snapshots of RollMux Table 6: cost beside strict round robin and FIFO, and what their promises are worth.

    python benchmarks/multi_rate.py [--seeds 6] [--jobs 10 14] [--draws 40] [--planner SECONDS]

A snapshot is a number of jobs of one mix (BL, RH, TH, Mixed) with one SLO rule (uniform in 1 to 2, 1.1, 1.5); each takes
one rollout and one training node alone; groups of at most 4, up to 4 runs per period. Every group is asked for its
fewest nodes under each law, and a dynamic program over subsets finds the cheapest partition, so the plans are exact.

RR      strict round robin, closed form
FIFO    RR or a FIFO regime within all SLOs at nominal durations (best pinning, best of three first orders)
EDF     RR or a timetable that periodic EDF finds
MR      RR or a timetable that periodic EDF or CP-SAT finds; CP-SAT settles what EDF leaves open
bound   fewest nodes that the necessary tests leave: no timetable with up to 4 runs per period costs less

Then every FIFO regime in a plan runs again with phases that take 0.3 to 1 of their time, and every timetable by its order.
With --planner, `planner.colocation.solve` plans each snapshot in so many seconds, and its plan is compared with MR.
"""

from __future__ import annotations

import argparse
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random
from statistics import fmean, quantiles
from time import perf_counter

import numpy as np
from table6 import RANGES

from rollplan.models.certified import Limits
from rollplan.models.colocation.nodes import pin
from rollplan.models.colocation.problem import ColocationProblem, Group, JobData, NodePool, at_most
from rollplan.models.colocation.rates.necessary import Groups, least_nodes
from rollplan.models.colocation.rates.pinning import pinnings
from rollplan.models.colocation.rates.timetables import RateTimetables
from rollplan.models.colocation.verify import verify
from rollplan.models.compiled import HAVE_COMPILER
from rollplan.planner.colocation import solve
from rollplan.planner.fifo import fifo_regime
from rollplan.planner.frozen import planned, run_by_order

POOLS = (NodePool("h20", 14.80, 1.0), NodePool("h800", 42.24, 1.0))
MIXES = {"BL": RANGES[:3], "RH": RANGES[3:6], "TH": RANGES[6:], "Mixed": RANGES}
SLOS: dict[str, Callable[[Random], float]] = {
    "U(1,2)": lambda random: round(random.uniform(1, 2), 2),
    "1.1": lambda _: 1.1,
    "1.5": lambda _: 1.5,
}
LAWS = ("RR", "FIFO", "EDF", "MR", "bound")
Members = tuple[int, ...]


@dataclass
class Promise:
    """What became of the groups that strict round robin cannot host on as few nodes."""

    groups: int = 0
    broken: int = 0
    runs: int = 0
    late: int = 0
    open: int = 0
    worst: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """Costs of the solo plan and of each law's plan in $/h."""

    solo: float
    cost: dict[str, float]

    def saving(self, law: str) -> float:
        """Per cent of the cost of strict round robin."""
        return 100 * (1 - self.cost[law] / self.cost["RR"])


def draw(mix: str, slo: str, jobs: int, seed: int) -> ColocationProblem:
    random = Random(f"{mix} {slo} {jobs} {seed}")
    made = []
    for number in range(jobs):
        low, high, train_low, train_high = random.choice(MIXES[mix])
        rollout_s, train_s = round(random.uniform(low, high), 1), round(random.uniform(train_low, train_high), 1)
        made.append(JobData(f"j{number}", SLOS[slo](random), rollout_s, train_s))
    return ColocationProblem(POOLS, tuple(made), max_group_size=4, max_rate=4)


def fifo_group(problem: ColocationProblem, members: Members, nodes: int) -> Group | None:
    """Return a pinning to so many nodes with which FIFO keeps every SLO, None if there is none."""
    jobs = [problem.jobs[k] for k in members]
    size = len(jobs)
    if sum(job.train_s / job.tolerable_s for job in jobs) > 1 + 1e-9:
        return None
    for node_masks in pinnings(range(1, 1 << size), (1,) * size, nodes):
        loads = [sum(jobs[k].rollout_s / jobs[k].tolerable_s for k in range(size) if mask >> k & 1) for mask in node_masks]
        if max(loads) <= 1 + 1e-9:
            group = Group(members, pin(node_masks, size), nodes, 1)
            for order in orders(jobs):
                if breach(problem, group, [1.0] * size, [1.0] * size, order) == 0:
                    return group
    return None


def orders(jobs: list[JobData]) -> Iterator[list[int]]:
    """Three first orders: as listed, longest iteration first, shortest first."""
    yield list(range(len(jobs)))
    longest = sorted(range(len(jobs)), key=lambda k: -jobs[k].solo_s)
    yield longest
    yield longest[::-1]


def breach(problem: ColocationProblem, group: Group, rollout: list[float], train: list[float], order: list[int]) -> float | None:
    """Return by which factor the worst job's mean iteration exceeds what it tolerates, 0 if none does, None without a regime."""
    jobs = [problem.jobs[k] for k in group.jobs]
    rollout_s = [round(job.rollout_s * factor, 1) for job, factor in zip(jobs, rollout, strict=True)]
    train_s = [round(job.train_s * factor, 1) for job, factor in zip(jobs, train, strict=True)]
    regime = fifo_regime(rollout_s, train_s, group.pinning, order)
    if regime is None:
        return None
    means = [(regime.iteration_s(k), job.tolerable_s) for k, job in enumerate(jobs)]
    return max((mean / limit for mean, limit in means if not at_most(mean, limit)), default=0.0)


def plans(problem: ColocationProblem, unproved: Counter[str]) -> dict[str, tuple[float, list[Group]]]:
    """Return the cheapest plan of each law, and count groups whose node counts are not proved; groups of the bound are not plans."""
    timetables = {law: RateTimetables(problem, Limits(3600), decided=law == "MR") for law in ("EDF", "MR")}
    table: dict[str, dict[int, tuple[float, Group]]] = {law: {} for law in LAWS}
    for size in range(1, problem.max_group_size + 1):
        groups = list(combinations(range(len(problem.jobs)), size))
        least = least_nodes(Groups.of(problem, groups), problem.max_rate)
        strict_least = least_nodes(Groups.of(problem, groups), 1)
        for members, fewest, strict in zip(groups, least.tolist(), strict_least.tolist(), strict=True):
            mask = sum(1 << k for k in members)
            found: dict[str, tuple[int, Group]] = {}
            if strict:
                found |= {law: (strict, Group(members, (), strict, 1)) for law in ("RR", "FIFO", "EDF", "MR")}
            if fewest:
                found["bound"] = fewest, Group(members, (), fewest, 1)
                for law in ("EDF", "MR") if fewest != strict else ():
                    group, proved = timetables[law].fewest(members)
                    unproved[law] += not proved
                    if group is not None:
                        found[law] = group.rollout_nodes, group
            for nodes in range(2, strict or size + 1):  # on one node FIFO is round robin
                if (queued := fifo_group(problem, members, nodes)) is not None:
                    found["FIFO"] = nodes, queued
                    break
            for law, (nodes, group) in found.items():
                table[law][mask] = problem.price([nodes, 1]), group
    return {law: partition(len(problem.jobs), table[law]) for law in LAWS}


def partition(jobs: int, table: dict[int, tuple[float, Group]]) -> tuple[float, list[Group]]:
    """Return the cheapest partition into groups of a table: dynamic program over subsets, lowest job first."""
    masks = [np.array([mask for mask in table if mask & -mask == 1 << k], dtype=np.int64) for k in range(jobs)]
    costs = [np.array([table[int(mask)][0] for mask in some]) for some in masks]
    best, chosen = np.zeros(1 << jobs), np.zeros(1 << jobs, dtype=np.int64)
    for mask in range(1, 1 << jobs):
        lowest = (mask & -mask).bit_length() - 1
        inside = (masks[lowest] & ~mask) == 0
        totals = costs[lowest][inside] + best[mask ^ masks[lowest][inside]]
        place = int(totals.argmin())
        best[mask], chosen[mask] = totals[place], masks[lowest][inside][place]
    groups, rest = [], (1 << jobs) - 1
    while rest:
        groups.append(table[int(chosen[rest])][1])
        rest ^= int(chosen[rest])
    return float(best[-1]), groups


def try_fifo(problem: ColocationProblem, group: Group, draws: int, random: Random, promise: Promise) -> None:
    """Run a FIFO group with phases that last 0.3 to 1 of their time, a job's phases all alike."""
    jobs = [problem.jobs[k] for k in group.jobs]
    size = len(jobs)
    order = next(order for order in orders(jobs) if breach(problem, group, [1.0] * size, [1.0] * size, order) == 0)
    factors = [([random.uniform(0.3, 1) for _ in jobs], [random.uniform(0.3, 1) for _ in jobs]) for _ in range(draws)]
    results = [breach(problem, group, rollout, train, order) for rollout, train in factors]
    found = [result for result in results if result is not None]
    promise.groups += 1
    promise.broken += any(found)
    promise.runs += len(found)
    promise.open += draws - len(found)
    promise.late += sum(result > 0 for result in found)
    promise.worst = max(promise.worst, *found)


def try_timetable(problem: ColocationProblem, group: Group, draws: int, random: Random, promise: Promise) -> None:
    """Run a timetable's order with such phases (half of the draws: another factor in every iteration); count phases that end late."""
    jobs = [problem.jobs[k] for k in group.jobs]
    by_clock = planned(jobs, group, 10)
    promise.groups += 1
    before = promise.late
    for run in range(draws):
        factors: dict[tuple[str, int, int], float] = {}

        def shorter(kind: str, job: int, iteration: int, run: int = run, factors: dict[tuple[str, int, int], float] = factors) -> float:
            return factors.setdefault((kind, job, iteration if run % 2 else 0), random.uniform(0.3, 1))

        by_order = run_by_order(
            jobs, group, 10, lambda k, i: jobs[k].rollout_s * shorter("r", k, i), lambda k, i: jobs[k].train_s * shorter("t", k, i)
        )
        promise.late += sum(done.end_s > plan.end_s + 1e-6 for plan, done in zip(by_clock, by_order, strict=True))
        promise.runs += 1
    promise.broken += promise.late > before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="snapshots of each mix, SLO rule and size")
    parser.add_argument("--jobs", type=int, nargs="+", default=[10, 14], help="jobs of a snapshot")
    parser.add_argument("--draws", type=int, default=40, help="runs with shorter phases of each group")
    parser.add_argument("--planner", type=float, default=0.0, help="seconds for the exact planner on each snapshot, 0 to leave it out")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, numba {'there' if HAVE_COMPILER else 'absent'}\n")
    print("| mix, SLO | solo/RR | FIFO | EDF | MR | bound | MR over FIFO | MR p10 / median / p90 / max | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    everything: list[Snapshot] = []
    queues, tables, shapes, unproved = Promise(), Promise(), Counter[str](), Counter[str]()
    random, dearer = Random(0), list[float]()
    for mix in MIXES:
        for slo in SLOS:
            started, rows = perf_counter(), []
            for jobs, seed in ((jobs, seed) for jobs in options.jobs for seed in range(options.seeds)):
                problem = draw(mix, slo, jobs, seed)
                found = plans(problem, unproved)
                rows.append(Snapshot(problem.solo_cost_per_h(), {law: found[law][0] for law in LAWS}))
                if options.planner:
                    dearer.append(by_planner(problem, options.planner) / found["MR"][0] - 1)
                for group in found["FIFO"][1]:
                    if group.pinning:
                        try_fifo(problem, group, options.draws, random, queues)
                for group in found["MR"][1]:
                    if group.timetable is not None:
                        try_timetable(problem, group, options.draws, random, tables)
                        shapes[f"{len(group.jobs)} jobs, {group.rollout_nodes} nodes"] += 1
            everything += rows
            print(row(f"{mix} {slo}", rows, perf_counter() - started), flush=True)
    print(row("**all**", everything, 0.0))
    none = sum(snapshot.saving("MR") < 1e-9 for snapshot in everything)
    print(f"\n{len(everything)} snapshots; MR saves nothing in {none}. Groups with timetables:", dict(sorted(shapes.items())))
    print(f"Groups whose fewest nodes stayed unproved: {unproved['EDF']} with EDF and the necessary tests, {unproved['MR']} with CP-SAT")
    print(f"FIFO: {queues.broken} of {queues.groups} groups miss an SLO in one of {options.draws} runs with shorter phases", end=" ")
    print(f"({100 * queues.late / max(1, queues.runs):.1f} % of the runs, worst {queues.worst:.2f} times what is tolerated;", end=" ")
    print(f"{queues.open} runs without a regime)")
    print(f"Timetables by order: {tables.late} late ends in {tables.runs} runs of {tables.groups} groups")
    if dearer:
        equal = sum(abs(more) <= 1e-9 for more in dearer)
        print(f"planner.colocation.solve costs the same in {equal} of {len(dearer)} snapshots, at most {100 * max(dearer):.2f} % more")
    if tables.late:
        raise SystemExit("a phase ended late although none got longer")


def by_planner(problem: ColocationProblem, seconds: float) -> float:
    """Return the cost of the exact planner's plan."""
    found = solve(problem, "exact", Limits(seconds))
    if faults := verify(problem, found.solution):
        raise SystemExit(f"a plan is wrong: {faults}")
    return found.value


def row(name: str, rows: list[Snapshot], seconds: float) -> str:
    totals = {law: sum(snapshot.cost[law] for snapshot in rows) for law in LAWS}
    savings = [snapshot.saving("MR") for snapshot in rows]
    tenths = quantiles(savings, n=10, method="inclusive") if len(savings) > 1 else [savings[0]] * 9
    parts = [f"{100 * (1 - totals[law] / totals['RR']):.1f}" for law in ("FIFO", "EDF", "MR", "bound")]
    spread = " / ".join(f"{x:.1f}" for x in (tenths[0], tenths[4], tenths[8], max(savings)))
    solo = fmean(snapshot.solo for snapshot in rows) / fmean(snapshot.cost["RR"] for snapshot in rows)
    over = 100 * (1 - totals["MR"] / totals["FIFO"])
    return f"| {name} | {solo:.2f} | {' | '.join(parts)} | {over:.1f} | {spread} | {seconds:.0f} |"


if __name__ == "__main__":
    main()
