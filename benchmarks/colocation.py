"""Co-location: cost of every policy on the same jobs, proven gap of the exact plan, seconds including model build.

    python benchmarks/colocation.py [--time-limit 60] [--jobs 13 50 100]

13, 50 and 100 jobs drawn from RollMux Table 6 (Mixed, groups of at most 5), three seeds each. The paper reports more
than 5 hours for its brute force at 13 jobs (its instances are not published). random* and greedy* are the paper's
baselines, which do not look at SLOs: cost, and the share of jobs within their SLO.
"""

from __future__ import annotations

import argparse
import platform
from time import perf_counter

from table6 import draw

from rollplan.models.certified import Limits, gap
from rollplan.models.colocation.certificate import checked_bound, partition_bound
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, at_most
from rollplan.models.colocation.verify import verify
from rollplan.models.round_robin import period
from rollplan.planner.baselines import greedy, random_groups
from rollplan.planner.colocation import Method, heuristic, solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each exact plan")
    parser.add_argument("--jobs", type=int, nargs="+", default=[13, 50, 100], help="sizes of the problems")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, costs in $/h")
    columns = ("solo", "paper", "lossless", "exact", "bound")
    head = f"{'jobs':>5} {'seed':>5} {' '.join(f'{name:>9}' for name in columns)} {'gap %':>7} {'checked %':>10} {'seconds':>8}"
    print(f"{head}   {'random*':>14} {'greedy*':>14}")
    for jobs in options.jobs:
        for seed in (1, 2, 3):
            problem = draw(jobs, seed)
            methods: tuple[Method, ...] = ("paper", "lossless")
            costs = [plan.cost_per_h for method in methods if (plan := heuristic(problem, method)) is not None]
            started = perf_counter()
            found = solve(problem, "exact", Limits(options.time_limit))
            seconds = perf_counter() - started
            if faults := verify(problem, found.solution):
                raise SystemExit(f"{jobs} jobs, seed {seed}: {faults}")
            proofs = [checked_bound(problem, found.witness), partition_bound(problem)]
            checked = gap(found.value, max(proof.value for proof in proofs if proof is not None))
            figures = [problem.solo_cost_per_h(), *costs, found.value, found.bound.value]
            line = f"{jobs:5} {seed:5} {' '.join(f'{x:9.2f}' for x in figures)} {100 * found.gap:7.2f} {100 * checked:10.2f} {seconds:8.2f}"
            blind = [random_groups(problem, seed, blind=True), greedy(problem, blind=True)]
            print(line, " ", " ".join(f"{plan.cost_per_h:9.2f} {within_slo(problem, plan):.2f}" for plan in blind if plan), flush=True)


def within_slo(problem: ColocationProblem, plan: ColocationSolution) -> float:
    """Return the share of jobs whose period is within their SLO."""
    kept = 0
    for group in plan.groups:
        jobs = [problem.jobs[k] for k in group.jobs]
        seconds = period([job.rollout_s for job in jobs], [job.train_s for job in jobs], group.pinning).seconds
        kept += sum(at_most(seconds, job.tolerable_s) for job in jobs)
    return kept / len(problem.jobs)


if __name__ == "__main__":
    main()
