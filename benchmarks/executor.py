"""The executor on real engines: predicted beside executed, and what it gains, each measured side by side in one run.

    python benchmarks/executor.py --python ENV/bin/python [--part co-execution async migration switch] [--iterations 12]

ENV holds Ray and torch. Tiny GRPO and PPO jobs (program `rl`) on the CPUs of this machine; leave it alone meanwhile.

co-execution  two jobs alone on nodes of their own, then the plan made from what was measured, executed on one rollout and
              one training node: period against the plan, cost efficiency against alone (ideal 2; RollMux Fig. 10a: 1.82),
              rewards against alone
async         one job serial, then the plan of the streamed way from what was measured, then executed: speed-up
migration     two jobs on two rollout nodes with heavy-tailed responses, with and without moving the tail (RollMux Fig. 11:
              1.06 to 1.28); every token is compared
switch        a larger model: cold start against warm switch (RollMux Fig. 4: up to 48)
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

RL = "rollplan.executor.programs.rl"
MEMORY = "3 GiB"
TINY = {"samples_per_prompt": 8, "max_tokens": 64}
JOBS: Mapping[str, Mapping[str, Any]] = {
    "grpo": {**TINY, "repeat_rollout": 12, "repeat_train": 12},
    "ppo": {**TINY, "algorithm": "ppo", "repeat_rollout": 12, "repeat_train": 12},
}
"""`repeat_*` computes the same again, so that phases take seconds and not what Ray takes to call a function."""
TAIL = {**TINY, "median_tokens": 16, "tail": 1.2, "max_tokens": 256, "repeat_rollout": 2, "repeat_train": 3}
LARGE = {**TINY, "hidden": 768, "layers": 4, "dtype": "float32", "max_tokens": 8, "median_tokens": 4}


@dataclass(frozen=True)
class Bench:
    """Where it runs, with what, and for how many iterations."""

    folder: Path
    python: str
    iterations: int

    def command(self, *words: object) -> str:
        """Return what a verb prints; leave with its output if it fails."""
        done = subprocess.run([sys.executable, "-m", "rollplan", *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"rollplan {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, name: str, scenario: Mapping[str, Any], *options: str) -> Run:
        """Plan a scenario and run the plan."""
        file, plan, folder = (self.folder / f"{name}{suffix}" for suffix in (".yaml", ".json", ".run"))
        file.write_text(yaml.safe_dump(dict(scenario), sort_keys=False))
        self.command("plan", file, "-o", plan, "-q", *options)
        told = self.command("run", plan, "--python", self.python, "--json", "-q", "-o", self.folder / f"{name}-profile.json")
        return Run(json.loads(told), [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()])


@dataclass(frozen=True)
class Run:
    """A report and the records behind it."""

    report: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]

    def job(self, name: str) -> Mapping[str, Any]:
        """Return the report of a job."""
        return next(job for job in self.report["jobs"] if job["name"] == name)

    def phase(self, job: str, name: str) -> Mapping[str, Any]:
        """Return a phase, predicted beside executed."""
        return next(phase for phase in self.job(job)["phases"] if phase["phase"] == name)

    def learned(self, job: str, value: str = "reward") -> list[float]:
        """Return a value of every training record, in order."""
        own = [record for record in self.records if record["job"] == job and record["kind"] == "train" and value in record["values"]]
        return [record["values"][value] for record in sorted(own, key=lambda record: (record["iteration"], record["start_s"]))]


def pools(rollout: int | None = None) -> dict[str, Any]:
    shape = {"gpu": "CPU", "gpus_per_node": 1, "price": "1 $/h", "memory": "8 GiB"}
    limited = {} if rollout is None else {"nodes": rollout}
    return {"roll": {"role": "rollout", **shape, **limited}, "train": {"role": "train", **shape}}


def job(
    name: str, settings: Mapping[str, Any], iterations: int, times: Mapping[str, Any], nodes: int = 1, **program: Any
) -> dict[str, Any]:
    """times: `measured: FILE`, or guesses of `rollout` and `train` for a first run, which nothing is concluded from."""
    phases = {"rollout": {"nodes": nodes, "memory": MEMORY}, "train": {"memory": MEMORY}}
    for phase, seconds in times.items():
        if phase in phases:
            phases[phase]["time"] = seconds
    measured = {"measured": times["measured"]} if "measured" in times else {}
    run = {"module": RL, "iterations": iterations, "samples": 64, "settings": dict(settings), **program}
    return {"name": name, "slo": 1.5, **measured, **phases, "program": run}


def scenario(name: str, jobs: Sequence[Mapping[str, Any]], rollout: int | None = None) -> dict[str, Any]:
    return {"name": name, "pools": pools(rollout), "overheads": "zero", "jobs": list(jobs)}


def co_execution(bench: Bench) -> None:
    guess = {"rollout": "2 s", "train": "2 s"}
    alone = bench.run(
        "alone", scenario("alone", [job(name, one, bench.iterations, guess) for name, one in JOBS.items()]), "--method", "solo"
    )
    measured = {"measured": "alone-profile.json"}
    together = bench.run("together", scenario("together", [job(name, one, bench.iterations, measured) for name, one in JOBS.items()]))
    groups = {one["group"] for one in together.report["jobs"]}
    print(f"co-execution: {len(JOBS)} jobs in {len(groups)} group on 1 + 1 nodes; alone on 2 + 2; {bench.iterations} iterations")
    print("job    alone s  planned s  executed s  difference  rewards")
    worth = 0.0
    for name in JOBS:
        before, after = alone.phase(name, "iteration"), together.phase(name, "iteration")
        same = "as alone" if alone.learned(name) == together.learned(name) else "NOT as alone"
        rise = "{:.2f} to {:.2f}".format(*[together.learned(name)[index] for index in (0, -1)])
        numbers = f"{before['executed_s']:8.2f} {after['predicted_s']:10.2f} {after['executed_s']:11.2f} {after['difference']:+11.1%}"
        print(f"{name:5} {numbers}  {rise}, {same}")
        worth += before["executed_s"] / after["executed_s"]
    print(f"cost efficiency against alone: {worth:.2f} (ideal {len(JOBS)}, RollMux Fig. 10a 1.82)\n")


def split(name: str, way: str, rollout_s: float, train_s: float, sync_s: float, iterations: int) -> dict[str, Any]:
    seconds = {"rollout": {"roll": {1: f"{rollout_s} s"}}, "train": {"train": {1: f"{train_s} s"}}}
    run = {"module": RL, "iterations": iterations, "samples": 64, "fill": 16, "settings": dict(JOBS["grpo"])}
    made = {**seconds, "budget": {"roll": 1, "train": 1}, "sync": f"{sync_s} s", "pipelining": [way]}
    return {"name": name, "pools": pools(), "jobs": [{"name": "grpo", "split": made, "program": run}]}


def streamed(bench: Bench) -> None:
    serial = bench.run("serial", split("serial", "serial", 2, 2, 0, bench.iterations))
    rollout_s, train_s, sync_s = (serial.phase("grpo", name)["executed_s"] for name in ("rollout", "train", "sync"))
    print(f"async: one job, {bench.iterations} iterations; serial phases {rollout_s:.2f} + {train_s:.2f} s, sync {sync_s:.2f} s")
    print("way             predicted s  executed s  difference  speed-up predicted  executed")
    before = serial.phase("grpo", "iteration")["executed_s"]
    for way in ("one-step", "async-batch", "async-streamed"):
        made = bench.run(way, split(way, way, rollout_s, train_s, sync_s, bench.iterations))
        after = made.phase("grpo", "iteration")
        predicted, executed = after["predicted_s"], after["executed_s"]
        planned = (rollout_s + train_s + sync_s) / predicted
        print(f"{way:15} {predicted:11.2f} {executed:11.2f} {after['difference']:+11.1%} {planned:19.2f} {before / executed:9.2f}")
    print(f"serial          {rollout_s + train_s + sync_s:11.2f} {before:11.2f}\n")


def migration(bench: Bench) -> None:
    guess = {"rollout": "2 s", "train": "1 s"}
    found = {}
    for name, program in (("whole", {}), ("moved", {"migrate_at": 0.8, "migrate_to": 1})):
        jobs = [job(one, TAIL, bench.iterations, guess, nodes=2, **program) for one in ("left", "right")]
        found[name] = bench.run(name, scenario(name, jobs, rollout=2))
    whole, moved = found["whole"], found["moved"]
    print(f"migration: two jobs on 2 + 1 nodes, the tail of 20 % moves to one; {bench.iterations} iterations")
    print("job    whole s  moved s  gain  tokens")
    for name in ("left", "right"):
        before, after = (run.phase(name, "iteration")["executed_s"] for run in (whole, moved))
        same = whole.learned(name, "tokens_crc") == moved.learned(name, "tokens_crc")
        moves = sum(record["kind"] == "migrate" and record["job"] == name for record in moved.records)
        print(f"{name:5} {before:8.2f} {after:8.2f} {before / after:5.2f}  {'identical' if same else 'DIFFERENT'}, {moves} moves")
    print("RollMux Fig. 11: 1.06 to 1.28\n")


def switch(bench: Bench) -> None:
    jobs = [job(name, LARGE, 4, {"rollout": "2 s", "train": "2 s"}) for name in ("left", "right")]
    made = bench.run("switch", scenario("switch", jobs))
    print("switch: cold start (process, program, state) against warm (load and off-load)")
    print("job    nodes     cold s  warm s  ratio")
    for one in made.report["jobs"]:
        for start in one["starts"]:
            print(f"{one['name']:6} {start['pool']:8} {start['cold_s']:7.2f} {start['warm_s']:7.3f} {start['ratio']:6.0f}")
    print("RollMux Fig. 4: up to 48\n")


PARTS: Mapping[str, Callable[[Bench], None]] = {"co-execution": co_execution, "async": streamed, "migration": migration, "switch": switch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter with Ray and torch")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--iterations", type=int, default=12)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}")
    with TemporaryDirectory(prefix="rollplan-") as folder:
        for part in options.part:
            PARTS[part](Bench(Path(folder), options.python, options.iterations))


if __name__ == "__main__":
    main()
