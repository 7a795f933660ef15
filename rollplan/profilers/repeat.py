"""Repeat a measurement until its quartiles lie close together, or until the time for it is spent. Standard library only: workers use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import quantiles
from typing import TypeVar

K = TypeVar("K")


def half_width(values: list[float]) -> float:
    """Return half of the distance between the quartiles, by the median; infinite for fewer than two values."""
    if len(values) < 2:
        return float("inf")
    low, median, high = quantiles(values, n=4, method="inclusive")
    if median > 0:
        return (high - low) / 2 / median
    return 0.0 if high == low else float("inf")


def steady(
    sample: Callable[[], float],
    spread: float,
    least: int = 3,
    most: int = 50,
    budget_s: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return repeated values of one quantity: see `rounds`, of which this is the case of one point."""
    return rounds({None: sample}, spread, least, most, budget_s, clock)[None]


def rounds(
    samplers: Mapping[K, Callable[[], float]],
    spread: float,
    least: int = 3,
    most: int = 50,
    budget_s: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
    together: bool = False,
) -> dict[K, list[float]]:
    """Return repeated values of several quantities, taken in turns so that a disturbance falls on all of them alike.

    A quantity is steady once it has `least` values and `half_width` is at most `spread`; only the others go into the next
    round, or all of them if they are measured `together`: whoever compares quantities with each other wants that all have
    met the same moods of the machine. It ends when all are steady, or have `most` values, or when `budget_s` of `clock` have
    passed: every quantity then has at least one value, and whoever asks sees from the values whether they are steady. A
    round that has begun stops as soon as the budget is spent, the first round excepted.
    """
    if least < 1 or most < least:
        raise ValueError(f"least = {least} and most = {most}: 1 <= least <= most is needed")
    began = clock()
    values: dict[K, list[float]] = {key: [] for key in samplers}
    while True:
        open_points = [key for key, seen in values.items() if len(seen) < most and not (len(seen) >= least and half_width(seen) <= spread)]
        if not open_points:
            return values
        for key in values if together else open_points:
            if values[key] and clock() - began >= budget_s:
                return values
            values[key].append(samplers[key]())
