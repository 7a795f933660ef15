"""Co-location: cost of every policy on the same jobs, proven gap of the exact plan, seconds including model build.

    python benchmarks/colocation.py [--time-limit 60]

13, 50 and 100 jobs drawn from RollMux Table 6 (Mixed, groups of at most 5), three seeds each. The paper reports more
than 5 hours for its brute force at 13 jobs (its instances are not published).
"""

from __future__ import annotations

import argparse
import platform
from time import perf_counter

from table6 import draw

from rollplan.models.certified import Limits, gap
from rollplan.models.colocation.certificate import checked_bound
from rollplan.models.colocation.verify import verify
from rollplan.planner.colocation import Method, heuristic, solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each exact plan")
    limit = parser.parse_args().time_limit
    print(f"Python {platform.python_version()}, {platform.machine()}, costs in $/h")
    columns = ("solo", "paper", "lossless", "exact", "bound")
    print(f"{'jobs':>5} {'seed':>5} {' '.join(f'{name:>9}' for name in columns)} {'gap %':>7} {'checked %':>10} {'seconds':>8}")
    for jobs in (13, 50, 100):
        for seed in (1, 2, 3):
            problem = draw(jobs, seed)
            methods: tuple[Method, ...] = ("paper", "lossless")
            costs = [plan.cost_per_h for method in methods if (plan := heuristic(problem, method)) is not None]
            started = perf_counter()
            found = solve(problem, "exact", Limits(limit))
            seconds = perf_counter() - started
            if faults := verify(problem, found.solution):
                raise SystemExit(f"{jobs} jobs, seed {seed}: {faults}")
            checked = gap(found.value, checked_bound(problem, found.witness).value)
            figures = [problem.solo_cost_per_h(), *costs, found.value, found.bound.value]
            print(
                f"{jobs:5} {seed:5} {' '.join(f'{x:9.2f}' for x in figures)} {100 * found.gap:7.2f} {100 * checked:10.2f} {seconds:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
