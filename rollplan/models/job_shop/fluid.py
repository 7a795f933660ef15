"""The fluid bound of flexible shops: operations may be divided among their alternatives.

    minimise T  subject to  for each machine  its share of the durations + least head + least tail <= T
                            for each job      its share of the durations                           <= T

Head and tail are the least over all operations that may run on the machine; each of these operations already needs that much.
From prices y of machines and z of jobs, not negative and 1 in total, follows the bound: prices times heads and tails, and for each
operation the least of duration * (y of the machine + z of the job). Any prices prove a bound, so it does not matter how
exactly the LP was solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, fsum
from typing import Any

import numpy as np

from rollplan.models import native
from rollplan.models.certified import Bound, Limits
from rollplan.models.job_shop.bounds import shortest
from rollplan.models.job_shop.problem import JobShopProblem, Operation

Prices = tuple[list[float], list[float]]
"""Of machines and of jobs."""


@dataclass(frozen=True, slots=True)
class Fluid:
    """The LP's answer: its bound, and the shop in which every operation keeps the alternative with the largest share."""

    bound: Bound
    rounded: JobShopProblem


def fluid(problem: JobShopProblem, limits: Limits) -> Fluid | None:
    """Solve the LP; return None if it is not solved within `limits`."""
    solved = native.run(lambda: _solved(problem, limits.left_s), limits)
    if solved is None:
        return None
    prices, shares = solved
    left = iter(shares)
    chains: list[list[Operation]] = [[] for _ in problem.jobs]
    for job, _, operation in problem.operations():
        shared = [(next(left), -place) for place in range(len(operation))]
        chains[job].append((operation[-max(shared)[1]],))
    return Fluid(Bound(proven(problem, prices), "LP relaxation"), replace(problem, jobs=tuple(map(tuple, chains))))


def proven(problem: JobShopProblem, prices: Prices) -> float:
    """Return the bound that prices prove; they are cut to what is allowed, and divided by their total."""
    machines, jobs = ([max(0.0, price) for price in side] for side in prices)
    total = fsum([*machines, *jobs])
    if total <= 0:
        return 0.0
    parts = [price * idle for price, idle in zip(machines, _idle(problem), strict=True)]
    for job, _, operation in problem.operations():
        parts.append(min(way.duration * (machines[way.machine] + jobs[job]) for way in operation))
    bound = fsum(parts) / total * (1 - 1e-12)
    return float(ceil(bound * (1 - 1e-9))) if problem.whole else bound


def _idle(problem: JobShopProblem) -> list[float]:
    """Return the least head plus the least tail of the operations that may run on each machine."""
    demands = shortest(problem)
    heads, tails = [float("inf")] * problem.machines, [float("inf")] * problem.machines
    for job, k, operation in problem.operations():
        head, _, tail = demands[job][k]
        for way in operation:
            heads[way.machine] = min(heads[way.machine], head)
            tails[way.machine] = min(tails[way.machine], tail)
    return [head + tail if head < float("inf") else 0.0 for head, tail in zip(heads, tails, strict=True)]


def _solved(problem: JobShopProblem, seconds: float) -> tuple[Prices, list[float]] | None:
    """Solve the LP; return the dual prices of machines and jobs, and the share of every alternative; None without a solution."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    ways = [(number, job, way) for number, (job, _, operation) in enumerate(problem.operations()) for way in operation]
    columns = np.arange(len(ways))
    durations = np.array([way.duration for _, _, way in ways])
    rows = problem.machines + len(problem.jobs)
    loads = csr_array((durations, ([way.machine for _, _, way in ways], columns)), shape=(rows, len(ways) + 1))
    chains = csr_array((durations, ([problem.machines + job for _, job, _ in ways], columns)), shape=(rows, len(ways) + 1))
    longest = csr_array((np.full(rows, -1.0), (np.arange(rows), np.full(rows, len(ways)))), shape=(rows, len(ways) + 1))
    once: Any = csr_array((np.ones(len(ways)), ([number for number, _, _ in ways], columns)), shape=(problem.size, len(ways) + 1))
    cost = np.zeros(len(ways) + 1)
    cost[-1] = 1.0
    limit = np.array([-idle for idle in _idle(problem)] + [0.0] * len(problem.jobs))
    found = linprog(
        cost,
        A_ub=loads + chains + longest,
        b_ub=limit,
        A_eq=once,
        b_eq=np.ones(problem.size),
        options={"time_limit": seconds},
        method="highs",
    )
    if found.status != 0 or found.x is None:
        return None
    prices = [-float(price) for price in found.ineqlin.marginals]
    return (prices[: problem.machines], prices[problem.machines :]), found.x[:-1].tolist()
