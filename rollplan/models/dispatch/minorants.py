"""Affine laws that no decode step undercuts, so that bounds for affine laws hold for tables too.

A table is bilinear in batch B and context x = kv_tokens / B on each cell of its grid, and so is alpha + beta B +
gamma B x. Their difference is least at the corner of a cell. So an affine law that does not exceed the table at the
corners, clipped to the batches and contexts that can occur, exceeds it nowhere. Beyond the largest measured batch, where
a table is not bilinear, every batch counts as a corner. For each measured batch, a linear program finds the affine law
below the table that is highest there.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.latency import AffineLatency, FloatArray, TableLatency

_ROUNDING = 1e-12


def minorants(latency: AffineLatency | TableLatency, most: int, contexts: tuple[float, float], typical: float) -> list[AffineLatency]:
    """Return affine laws whose steps take no longer, for batches of 1 to `most` sequences.

    contexts: least and largest average context of a batch in tokens. typical: the context at which to be tight. An affine
    law is its own minorant.
    """
    if isinstance(latency, AffineLatency):
        return [latency]
    measured = {1, most, *(int(b) for b in latency.batches if 1 < b < most)}
    batches = np.array(sorted(measured.union(range(int(latency.batches[-1]), most))))
    low, high = contexts
    knots = np.array(sorted({low, high, *(float(x) for x in latency.contexts if low < x < high)}))
    size, context = (axis.ravel() for axis in np.meshgrid(batches, knots, indexing="ij"))
    ms = 1000 * latency.seconds(size, size * context, np.ones_like(size))
    points = np.column_stack([np.ones(size.size), size, size * context / 1000])
    aims = [np.array([1.0, batch, batch * typical / 1000]) for batch in sorted(measured)]
    return [AffineLatency(float(ms.min()) * (1 - _ROUNDING)), *(law for aim in aims if (law := _highest(points, ms, aim)) is not None)]


def _highest(points: FloatArray, ms: FloatArray, aim: FloatArray) -> AffineLatency | None:
    """Return the affine law with points @ (fixed, per sequence, per kilotoken) <= ms that is highest at `aim`, if it is a law."""
    from scipy.optimize import linprog

    found = linprog(-aim / aim.max(), A_ub=points, b_ub=ms / ms.max(), bounds=(0, None), method="highs").x
    if found is None or found[0] + found[1] <= 0:
        return None
    # The solver keeps its constraints up to a tolerance; clipping and scaling put the law below every point.
    coefficients = np.maximum(found, 0)
    coefficients *= float((ms / (points @ coefficients)).min()) * (1 - _ROUNDING)
    return AffineLatency(*(float(value) for value in coefficients))
