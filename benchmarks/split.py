"""Splits: deriving stage times and comparing all candidates, beside a plain double loop over the same tables, in one run.

    python benchmarks/split.py [--gpus 8 128 1024] [--table 512] [--repeats 3]

Qwen3-8B, 64 prompts with 16 samples each, on so many GPUs of each of three kinds, every stage anywhere, three ways of
pipelining. Then one pool with measured tables for every count. The plain loop is what one writes first: every pair of pools
and counts, every way, one at a time. Both must find the same time.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from itertools import product
from statistics import median
from time import perf_counter
from typing import TypeVar

import numpy as np

from rollplan import Scenario
from rollplan.models.split.exact import exact, ranking
from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import SplitProblem
from rollplan.models.stages.compile import compiled

KINDS = {"h100": ("H100", "3.2 $/h"), "h20": ("H20", "1.85 $/h"), "b200": ("B200", "6 $/h")}
WORKLOAD = {"prompts": 64, "samples_per_prompt": 16, "prompt_tokens": 512, "lengths": {"mean": 3000, "sigma": 0.8, "limit": 16384}}

T = TypeVar("T")


def scenario(gpus: int) -> Scenario:
    pools = {name: {"gpu": gpu, "nodes": -(-gpus // 8), "price": price, "memory": "2 TB"} for name, (gpu, price) in KINDS.items()}
    split = {"budget": dict.fromkeys(KINDS, gpus), "model": "Qwen3-8B", "workload": WORKLOAD}
    return Scenario.from_dict({"name": "benchmark", "pools": pools, "jobs": [{"name": "job", "split": split}]})


def tables(gpus: int) -> SplitProblem:
    """One pool and every count: perfect scaling with 5 % noise, so that counts neither help nor hurt in order."""
    noise = np.random.default_rng(0).uniform(0.95, 1.05, (2, gpus))
    rollout, train = ({k: float(work * noise[row, k - 1] / k) for k in range(1, gpus + 1)} for row, work in enumerate((3e4, 1e4)))
    return SplitProblem({"a": gpus}, {"a": rollout}, {"a": train}, {"a": 1.0}, 2.0, pipelining=("mini-batch", "one-step", "async-batch"))


def plain(problem: SplitProblem) -> tuple[float, int]:
    """Return the least time and how many candidates were compared, one after the other."""
    least, compared = float("inf"), 0
    for (p, rollout), (q, train) in product(problem.rollout.items(), problem.train.items()):
        for x, y in product(rollout, train):
            if x <= problem.budgets[p] and y <= problem.budgets[q] and (p != q or x + y <= problem.budgets[p]):
                for way in problem.pipelining:
                    least = min(least, stages(problem, way, (p, q), (x, y))[2])
                    compared += 1
    for pool, pairs in problem.turns().items():
        for gpus, (rollout_s, train_s) in pairs.items():
            if gpus <= problem.budgets[pool]:
                least = min(least, rollout_s + train_s + problem.switch_s + problem.sync_s)
                compared += 1
    return least, compared


def timed(repeats: int, action: Callable[[], T]) -> tuple[float, T]:
    """Return the median seconds of an action and its last result."""
    seconds = []
    for _ in range(repeats):
        started = perf_counter()
        found = action()
        seconds.append(perf_counter() - started)
    return median(seconds), found


def row(what: str, derive_s: float, problem: SplitProblem, repeats: int) -> None:
    exact_s, found = timed(repeats, lambda: exact(problem))
    ranking_s, _ = timed(repeats, lambda: ranking(problem, 4))
    plain_s, (least, compared) = timed(1, lambda: plain(problem))
    if not np.isclose(found.value, least, rtol=1e-9):
        raise SystemExit(f"{what}: ours {found.value} s, the plain loop {least} s")
    times = f"{derive_s:10.2f} {exact_s:9.4f} {ranking_s:10.4f} {plain_s:9.3f}"
    print(f"{what:<22} {compared:>10} {times} {plain_s / exact_s:7.1f} {found.value:12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="*", default=[8, 128, 1024], help="GPUs of each of three kinds")
    parser.add_argument("--table", type=int, default=512, help="GPUs of the pool with measured tables")
    parser.add_argument("--repeats", type=int, default=3, help="runs of ours, of which the median counts")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    heads = f"{'derive, s':>10} {'exact, s':>9} {'ranking, s':>10} {'plain, s':>9}"
    print(f"{'GPUs':<22} {'candidates':>10} {heads} {'ratio':>7} {'iteration, s':>12}")
    for gpus in options.gpus:
        asked = scenario(gpus)
        split = asked.jobs[0].split
        assert split is not None
        derive_s, ready = timed(options.repeats, lambda asked=asked, split=split: compiled(split, asked.pools))
        row(f"{gpus} of each of 3 kinds", derive_s, ready.problem, options.repeats)
    row(f"{options.table} measured", 0.0, tables(options.table), options.repeats)


if __name__ == "__main__":
    main()
