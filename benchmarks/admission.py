"""Admission: one decision of ours beside a plain Python transcription of RollMux Algorithm 1, in the same run.

    python benchmarks/admission.py [--live 2000] [--arrivals 50]

Both hold the same live groups. For each arriving job both decide, in turn; the decisions must be the same.
The paper reports 591 ms for its own at 2,000 jobs (Table 5), on another machine.
"""

from __future__ import annotations

import argparse
import platform
from random import Random
from statistics import median
from time import perf_counter

from table6 import POOLS, draw, draw_job

from rollplan.models.colocation import algorithm1
from rollplan.planner.admission import Fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--live", type=int, default=2000, help="jobs that run when the measured ones arrive")
    parser.add_argument("--arrivals", type=int, default=50, help="decisions measured")
    options = parser.parse_args()
    problem = draw(options.live, seed=1)
    fleets = {"paper": Fleet(POOLS, 5, "paper"), "lossless": Fleet(POOLS, 5, "lossless")}
    for fleet in fleets.values():
        for job in problem.jobs:
            fleet.admit(job)
    groups = algorithm1.run(problem)
    if groups is None:
        raise SystemExit("the plain transcription found no room")
    seconds: dict[str, list[float]] = {"plain": [], "paper": [], "lossless": []}
    random = Random(2)
    for number in range(options.arrivals):
        job = draw_job(random, number)
        started = perf_counter()
        plain = algorithm1.admit(problem, groups, job)
        seconds["plain"].append(perf_counter() - started)
        for mode, fleet in fleets.items():
            started = perf_counter()
            ours = fleet.admit(job)
            seconds[mode].append(perf_counter() - started)
            if ours is None or plain is None or (mode == "paper" and ours.nodes != plain[1]):
                raise SystemExit(f"decisions differ: {ours} and {plain}")
            fleet.remove(ours.ticket)
    print(f"Python {platform.python_version()}, {platform.machine()}")
    print(f"{options.live} live jobs in {len(groups)} groups, median of {options.arrivals} decisions")
    print(f"plain transcription of Algorithm 1  {1e3 * median(seconds['plain']):8.3f} ms")
    for mode in fleets:
        print(f"ours, {mode:<9}                     {1e3 * median(seconds[mode]):8.3f} ms", end="")
        print(f"   ratio {median(p / o for p, o in zip(seconds['plain'], seconds[mode], strict=True)):6.1f}")


if __name__ == "__main__":
    main()
