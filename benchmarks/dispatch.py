"""Dispatch side by side: every heuristic, and the best of all, on the lengths and the latency of StreamRL's figures.

1,024 requests with the lengths of StreamRL (arXiv 2504.15930) Fig. 7 and prompts of 340 tokens; per-token latency of its
Fig. 6; both digitised. Each instance has 512 slots and a KV cache of 495,000 tokens (7B on one 80 GB GPU). The ratio is
the makespan over that of equal shares in random order; `gap` is the distance from what no dispatch can undercut. The
last two columns have a ranker of recall 0.87: what its estimates promise is not what they bring.
"""

from __future__ import annotations

import argparse
import platform
from time import perf_counter

import numpy as np

from rollplan.models.certified import gap
from rollplan.models.decode import Admission
from rollplan.models.dispatch.bounds import lower_bound
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import with_recall
from rollplan.models.dispatch.verify import verify
from rollplan.models.latency import TableLatency
from rollplan.planner.dispatch.solve import HEURISTICS, Method, solve

LATENCY = TableLatency.of_batch({1: 8.40, 2: 8.75, 4: 8.95, 8: 9.05, 16: 9.45, 32: 10.3, 64: 11.7, 128: 15.25, 256: 21.4, 512: 36.85})
# fmt: off
BARS = [.1253, .1694, .1213, .1165, .0771, .0616, .0528, .0302, .0333, .0212, .0153, .0222, .0153, .0047, .0073,
        .0038, .0066, .0028, .0127, .0078, .0078, .0193, .0059, .0071, .0080, .0104, .0090, .0106, .0059, .0087]
# fmt: on
RECALL = 0.87


def draw(requests: int, instances: int) -> DispatchProblem:
    """Return the problem, its lengths evenly spaced over the distribution and in random order."""
    rising = np.concatenate([[0.0], np.cumsum(BARS)])
    levels = (np.arange(requests) + 0.5) / requests
    lengths = np.interp(levels, rising / rising[-1], np.linspace(818.5, 19928.8, len(BARS) + 1)).round().astype(int)
    shuffled = np.random.default_rng(1).permutation(lengths)
    return DispatchProblem(np.full(requests, 340), shuffled, instances, Admission(512, 495_000), LATENCY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1024)
    parser.add_argument("--instances", type=int, nargs="+", default=[4, 8, 16, 64])
    options = parser.parse_args()
    methods: list[Method] = [*HEURISTICS, "best"]
    print(f"Python {platform.python_version()}, {platform.machine()}; {options.requests} requests")
    print("instances method       makespan s  ratio    gap  time s   recall 0.87: ratio weighed")
    for instances in options.instances:
        problem = draw(options.requests, instances)
        erring = with_recall(problem, RECALL, np.random.default_rng(2))
        bound_s, random_s = lower_bound(problem).value, solve(problem, "even").value
        for method in methods:
            started = perf_counter()
            found = solve(problem, method)
            taken_s = perf_counter() - started
            if faults := verify(problem, found.solution):
                raise SystemExit(f"{method} on {instances} instances: {'; '.join(faults)}")
            believed = solve(erring, method).value / random_s
            weighed = f"{solve(erring, recall=RECALL).value / random_s:7.3f}" if method == "best" else ""
            row = f"{instances:>9} {method:<12} {found.value:>10.2f} {found.value / random_s:>6.3f} {gap(found.value, bound_s):>6.1%}"
            print(f"{row} {taken_s:>7.3f}   {believed:>18.3f} {weighed}".rstrip())


if __name__ == "__main__":
    main()
