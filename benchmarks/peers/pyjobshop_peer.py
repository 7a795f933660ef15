"""PyJobShop on one shop: a problem as JSON on standard input, its answer as JSON on standard output. Runs in an environment of its own.

Input: machines, jobs (of each operation its [machine, duration] pairs), seconds. Output: makespan (null if it found nothing),
bound, seconds, versions.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from time import perf_counter
from typing import Any

from pyjobshop import Model


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    begun = perf_counter()
    model = Model()
    machines = [model.add_machine() for _ in range(given["machines"])]
    for chain in given["jobs"]:
        job = model.add_job()
        previous = None
        for ways in chain:
            task = model.add_task(job=job)
            for machine, duration in ways:
                model.add_mode(task, machines[machine], round(duration))
            if previous is not None:
                model.add_end_before_start(previous, task)
            previous = task
    result = model.solve(time_limit=given["seconds"], display=False)
    found = result.objective < float("inf")
    answer = {"makespan": result.objective if found else None, "bound": result.lower_bound, "seconds": perf_counter() - begun}
    print(json.dumps({**answer, "versions": f"PyJobShop {version('pyjobshop')}, OR-Tools {version('ortools')}"}))


if __name__ == "__main__":
    main()
