"""Co-location of whole fleets beside what a user would write instead: same jobs, same limit, same machine, one run.

    python benchmarks/fleet.py [--instances FOLDER] [--jobs 50 100] [--time-limit 60] [--peers cp-sat cbc] [--gang]

FOLDER holds JSON files with jobs, prices in cents per hour and the best known value and bound (see `read`); without it
jobs are drawn from RollMux Table 6. Beside ours: one CP-SAT model and one PuLP/CBC model of the whole problem (leader
formulation, pinning included), and RollMux's admission. Every plan is checked here, by the definitions.

In the files a sync delays its job and holds no node, and the closed form is the law of the period. For rollplan that
form is a lower bound there, so these figures compare searches, not plans to be run. `--gang` makes all rollouts on several
nodes gangs and asks for timetables: what that costs more.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import inf
from pathlib import Path
from time import perf_counter

from monoliths import PEERS
from table6 import draw

from rollplan.models.certified import Limits
from rollplan.models.colocation.exact import exact
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool, at_most
from rollplan.models.colocation.verify import verify
from rollplan.planner.colocation import best_heuristic, heuristic, solve


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem in $/h, and what is known of its optimum in $/h."""

    name: str
    problem: ColocationProblem
    best: float = inf
    bound: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=Path, help="folder of JSON files")
    parser.add_argument("--jobs", type=int, nargs="+", default=[], help="only instances of these sizes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="of drawn instances")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each search")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="models to run beside ours")
    parser.add_argument("--gang", action="store_true", help="rollouts on several nodes start on all of them together")
    options = parser.parse_args()
    instances = list(read(options.instances, options.jobs)) if options.instances else drawn(options.jobs or [13, 50, 100], options.seeds)
    named = ", ".join(f"{package} {version(package)}" for package in ("ortools", "PuLP", "highspy", "numpy"))
    print(f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}, {named}; costs in $/h")
    print(
        "| instance | best known | ours | bound | gap | seconds | stopped | RollMux admission |" + "".join(f" {p} |" for p in options.peers)
    )
    print("| --- |" + " --- |" * (7 + len(options.peers)))
    for instance in instances:
        print(line(instance, options.time_limit, options.peers, options.gang), flush=True)


def line(instance: Instance, limit_s: float, peers: list[str], gang: bool) -> str:
    """Solve one instance with everything and return a row of the table; peers as ratios of their cost to ours."""
    problem = instance.problem
    if gang:
        problem = replace(problem, jobs=tuple(replace(job, gang=job.rollout_nodes > 1) for job in problem.jobs))
    begun = perf_counter()
    found = solve(problem, "exact", Limits(limit_s)) if gang else exact(problem, Limits(limit_s), best_heuristic(problem))
    seconds = perf_counter() - begun
    if faults := (verify(problem, found.solution) if gang else by_closed_form(problem, found.solution)):
        raise SystemExit(f"{instance.name}: {faults[:3]}")
    admitted = heuristic(instance.problem, "paper")
    cells = [
        instance.name,
        "-" if instance.best == inf else f"{instance.best:.2f}",
        f"{found.value:.2f}" + ("" if instance.best == inf else f" ({found.value / instance.best:.4f})"),
        f"{found.bound.value:.2f}",
        f"{100 * (found.value - found.bound.value) / found.value:.2f} %",
        f"{seconds:.1f}",
        found.stopped,
        "-" if admitted is None else f"{admitted.cost_per_h / found.value:.3f}",
    ]
    for peer in peers:
        answer = PEERS[peer](instance.problem, limit_s)
        cells.append(
            "no plan" if answer is None else f"{answer.value / found.value:.3f} (gap {100 * answer.gap:.1f} %, {answer.seconds:.0f} s)"
        )
    return f"| {' | '.join(cells)} |"


def by_closed_form(problem: ColocationProblem, plan: ColocationSolution) -> list[str]:
    """Return what breaks the definitions of the files: the period is max(solo, training, node load), syncs delay only."""
    faults = [] if sorted(k for group in plan.groups for k in group.jobs) == list(range(len(problem.jobs))) else ["not a partition"]
    cents = 0.0
    for group in plan.groups:
        jobs = [problem.jobs[k] for k in group.jobs]
        limit = min(job.tolerable_s for job in jobs)
        rollout, train = problem.pools[jobs[0].rollout_pool], problem.pools[jobs[0].train_pool]
        nodes = [[job for job, pinned in zip(jobs, group.pinning, strict=True) if node in pinned] for node in range(group.rollout_nodes)]
        holds = (
            len(jobs) <= problem.max_group_size
            and all(len(set(pinned)) == job.rollout_nodes for job, pinned in zip(jobs, group.pinning, strict=True))
            and at_most(max(job.solo_s for job in jobs), limit)
            and at_most(sum(job.train_s for job in jobs), limit)
            and at_most(sum(job.train_memory_gib for job in jobs), train.memory_gib)
            and all(at_most(sum(job.rollout_s for job in here), limit) for here in nodes)
            and all(at_most(sum(job.rollout_memory_gib for job in here), rollout.memory_gib) for here in nodes)
            and group.train_nodes == max(job.train_nodes for job in jobs)
        )
        if not holds:
            faults.append(f"group of {', '.join(job.name for job in jobs)}")
        cents += group.rollout_nodes * rollout.price_per_node_h + group.train_nodes * train.price_per_node_h
    if abs(cents - plan.cost_per_h) > 1e-6 * cents:
        faults.append(f"costs {cents}, says {plan.cost_per_h}")
    return faults


def read(folder: Path, sizes: list[int]) -> Iterator[Instance]:
    """Yield the instances of a folder, smallest first."""
    files = sorted(folder.glob("*.json"), key=lambda path: (len(json.loads(path.read_text())["jobs"]), path.name))
    for path in files:
        raw = json.loads(path.read_text())
        if sizes and len(raw["jobs"]) not in sizes:
            continue
        pools = tuple(
            NodePool(kind, raw[f"{kind}_node_price_cents_per_h"] / 100, float(raw["node_memory_gb"])) for kind in ("rollout", "train")
        )
        jobs = tuple(
            JobData(
                name=job["name"],
                slo=job["slo"],
                rollout_s=job["rollout_s"],
                train_s=job["train_s"],
                delay_s=job["sync_s"],
                rollout_nodes=job["rollout_nodes"],
                train_nodes=job["train_nodes"],
                rollout_memory_gib=job["rollout_memory_gb"],
                train_memory_gib=job["train_memory_gb"],
            )
            for job in raw["jobs"]
        )
        known = raw["best_known_cents_per_h"]
        yield Instance(raw["name"], ColocationProblem(pools, jobs, raw["max_group_size"]), known["ub"] / 100, known["lb"] / 100)


def drawn(sizes: list[int], seeds: list[int]) -> list[Instance]:
    """Return instances drawn from RollMux Table 6."""
    return [Instance(f"table6_{jobs}_{seed}", draw(jobs, seed)) for jobs in sizes for seed in seeds]


if __name__ == "__main__":
    main()
