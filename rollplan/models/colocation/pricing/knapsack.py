"""The knapsack behind exact pricing, compiled: its rows, Lagrangian prices for them, and what the bound leaves of the jobs."""

from __future__ import annotations

import numpy as np

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.compiled import compiled

ROWS = 7
"""Training time, training footprint, node work, node footprint, three dual feasible functions of the rollout."""
ROUNDS = 12
"""Steps of one tuning of Lagrangian prices."""


@compiled
def _whole_part(share: float, k: int) -> float:
    """Return Fekete and Schepers' dual feasible function u^(k), rounded down where it jumps: floor((k + 1) x) / k."""
    return float(np.floor((k + 1) * share * (1 - 1e-11)) / k)


@compiled
def fill_rows(numbers: Floats, demand: Ints, k: int, limit_s: float, node_gib: float, rows: Floats, column: int) -> None:
    """Write what job k takes of each row: training time, training footprint, node work, node footprint, three functions."""
    share = numbers[k, 0] / limit_s
    rows[0, column] = numbers[k, 1]
    rows[1, column] = numbers[k, 5]
    rows[2, column] = demand[k] * share
    rows[3, column] = demand[k] * numbers[k, 4] / node_gib if node_gib > 0 else 0.0
    for i in range(1, 4):
        rows[3 + i, column] = demand[k] * _whole_part(share, i)


@compiled
def top(gain: Floats, count: int, picks: int, best: Floats, place: Ints) -> float:
    """Return the sum of the `picks` largest positive gains; write them, in descending order, and where they are."""
    for i in range(picks):
        best[i] = 0.0
        place[i] = -1
    for k in range(count):
        value = gain[k]
        if value > best[picks - 1]:
            i = picks - 1
            while i > 0 and best[i - 1] < value:
                best[i] = best[i - 1]
                place[i] = place[i - 1]
                i -= 1
            best[i] = value
            place[i] = k
    total = 0.0
    for i in range(picks):
        total += best[i]
    return total


@compiled
def tune(
    rows: Floats, price: Floats, count: int, room: Floats, picks: int, need: float, weight: Floats, gain: Floats, trial: Floats, steps: int
) -> float:
    """Improve Lagrangian prices of the rows until their bound is below `need`; return the best bound, with its weights and gains."""
    best = np.empty(picks)
    place = np.empty(picks, dtype=np.int64)
    now = weight.copy()
    least = np.inf
    stalled = 0
    for _ in range(steps):
        bound = 0.0
        for k in range(count):
            trial[k] = price[k]
        for i in range(ROWS):
            if now[i] > 0:
                bound += now[i] * room[i]
                for k in range(count):
                    trial[k] -= now[i] * rows[i, k]
        bound += top(trial, count, picks, best, place)
        if bound < least:
            stalled = 0 if bound < least - 0.02 * (least - need) else stalled + 1
            least = bound
            for i in range(ROWS):
                weight[i] = now[i]
            for k in range(count):
                gain[k] = trial[k]
            if bound < need:
                return least
        else:
            stalled += 1
        if stalled > 3:
            return least
        # Polyak's step towards the sum that is needed, on rows scaled by their room.
        norm = 0.0
        for i in range(ROWS):
            if room[i] <= 0:
                continue
            slope = 1.0
            for j in range(picks):
                if place[j] >= 0:
                    slope -= rows[i, place[j]] / room[i]
            if now[i] <= 0 and slope > 0:
                slope = 0.0
            norm += slope * slope
        if norm < 1e-12:
            return least
        step = (bound - need + 1e-6 * abs(need)) / norm
        for i in range(ROWS):
            if room[i] <= 0:
                continue
            slope = 1.0
            for j in range(picks):
                if place[j] >= 0:
                    slope -= rows[i, place[j]] / room[i]
            now[i] = max(0.0, now[i] - step * slope / room[i])
    return least


@compiled
def keep(
    rows: Floats, price: Floats, gain: Floats, who: Ints, count: int, picks: int, bound: float, need: float, best: Floats, place: Ints
) -> int:
    """Drop the jobs with which the bound falls below `need`; return how many stay."""
    top(gain, count, picks, best, place)
    last = best[picks - 1]
    kept = 0
    for k in range(count):
        if bound - last + min(gain[k], last) >= need:
            price[kept] = price[k]
            gain[kept] = gain[k]
            who[kept] = who[k]
            for i in range(ROWS):
                rows[i, kept] = rows[i, k]
            kept += 1
    return kept


@compiled
def sort_by_gain(rows: Floats, price: Floats, gain: Floats, who: Ints, count: int) -> None:
    """Sort jobs by gain, descending; equal gains keep their order."""
    order = np.argsort(-gain[:count], kind="mergesort")
    held = np.empty(count)
    held[:] = gain[:count]
    for k in range(count):
        gain[k] = held[order[k]]
    held[:] = price[:count]
    for k in range(count):
        price[k] = held[order[k]]
    for i in range(ROWS):
        held[:] = rows[i, :count]
        for k in range(count):
            rows[i, k] = held[order[k]]
    seen = who[:count].copy()
    for k in range(count):
        who[k] = seen[order[k]]
