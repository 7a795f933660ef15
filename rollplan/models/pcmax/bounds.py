"""Lower bounds on the makespan in closed form.

    average      the machines share the sum
    longest      wherever the longest job is, its machine takes that long
    pigeonhole   some machine has k + 1 of the k m + 1 longest jobs, at least the k + 1 shortest of these
    dual         a dual-feasible function f turns jobs that fit into the capacity C into jobs that fit into f(C); so C is too
                 small if sum of f(p_j) > m f(C). Three families of f with a threshold each: Martello and Toth's (1990,
                 their L2), Fekete and Schepers' u^(k) (2001), and Carlier, Clautiaux and Moukrim's f_1 (2007). Bisection
                 finds the capacity.

The makespan is a sum of jobs: every bound rises to the next sum that a subset of the jobs has.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.certified import Bound
from rollplan.models.latency import IntArray
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.subset_sums import at_least, subset_sums

_EFFORT = 20_000
"""Thresholds times different processing times that one capacity is tested with: about a millisecond."""
_MOST_PARTS = 20
_MOST_BITS = 10**9
"""Jobs times the capacity up to which sums of subsets are listed: about a tenth of a second."""


def lower_bound(problem: PcmaxProblem) -> Bound:
    """Return the best bound on the makespan in the problem's units, a whole number."""
    low = simple_bound(problem)
    high = 2 * low  # the average and one more job: no list schedule needs more (Graham 1966)
    times, jobs = np.unique(np.array(problem.times, dtype=np.int64), return_counts=True)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _too_small(times, jobs, problem.machines, middle) else (low, middle)
    return Bound(lifted(problem, low), "closed form")


def simple_bound(problem: PcmaxProblem) -> int:
    """Return the best of average, longest and pigeonhole."""
    times, m = sorted(problem.times, reverse=True), problem.machines
    pigeonhole = [sum(times[k * m - k : k * m + 1]) for k in range(1, (len(times) - 1) // m + 1)]
    return max(-(-sum(times) // m), times[0], *pigeonhole)


def lifted(problem: PcmaxProblem, value: int) -> int:
    """Return the least sum of jobs that is at least `value`, or the value itself where listing the sums takes long."""
    most = 2 * value  # some schedule ends by then
    if len(problem) * most > _MOST_BITS:
        return value
    found = at_least(subset_sums(problem.times, most), value)
    return value if found is None else found


def _too_small(times: IntArray, jobs: IntArray, machines: int, capacity: int) -> bool:
    """Return whether a dual-feasible function shows that the jobs do not fit into machines of this capacity.

    times (d): different processing times, rising, none longer than the capacity. jobs (d): how many jobs have each.
    """
    thresholds = times[2 * times <= capacity]
    most = max(1, _EFFORT // times.size)
    if thresholds.size > most:
        thresholds = thresholds[np.linspace(0, thresholds.size - 1, most).astype(np.int64)]
    at, parts = thresholds[:, None], np.arange(1, _MOST_PARTS + 1)[:, None]
    # Martello and Toth: what leaves less room than the threshold fills the machine, what is below it is nothing.
    filled = np.where(times > capacity - at, capacity, np.where(times >= at, times, 0)) @ jobs
    # Fekete and Schepers: shares of 1 / k, those between two of them rounded down.
    share = (parts + 1) * times
    rounded = np.where(share % capacity == 0, parts * times, share // capacity * capacity) @ jobs
    # Boschetti and Mingozzi: how many of the threshold fit; a job of more than half takes what the rest of it does not.
    fits, twice = capacity // at, 2 * times
    counted = np.where(twice > capacity, 2 * (fits - (capacity - times) // at), np.where(twice == capacity, fits, 2 * (times // at)))
    return bool(
        (filled > machines * capacity).any()
        or (rounded > machines * parts[:, 0] * capacity).any()
        or (counted @ jobs > 2 * machines * fits[:, 0]).any()
    )
