r"""Laws of the per-token latency (PTL) fitted to a grid of points, each with its error, and whether the points obey them.

    affine    a + b B + c B C / 1000, the coefficients at least 0 (non-negative least squares)
    convex    for each context a piecewise linear curve in batch, convex and never falling; never falling with context either

Both minimise the sum of squared *relative* errors: a batch of 1 counts as much as one of 512. `use` says which of them to
trust; where none holds (mixtures of experts saturate in batch: they are concave), it is the table itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rollplan.models.errors import Finding, InputError
from rollplan.models.latency import AffineLatency, FloatArray, TableLatency
from rollplan.models.strict import Strict, refusal

Ms = Annotated[float, Field(ge=0, le=1e9)]
Share = Annotated[float, Field(ge=0, le=1e6)]
GOOD, WORST = 0.03, 0.15
"""A fit is used if half of the points are within the first and all within the second, relative."""


class AffineFit(Strict):
    """PTL in ms = fixed_ms + per_sequence_ms B + per_kilotoken_ms B C / 1000, and its relative errors on the points."""

    fixed_ms: Ms
    per_sequence_ms: Ms
    per_kilotoken_ms: Ms
    median_error: Share
    worst_error: Share

    def law(self) -> AffineLatency:
        """Return the law."""
        return AffineLatency(self.fixed_ms, self.per_sequence_ms, self.per_kilotoken_ms)


class ConvexFit(Strict):
    """A grid of ms, one row for each batch, one column for each context, and its relative errors on the points."""

    batches: tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...]
    contexts: tuple[Annotated[float, Field(gt=0, le=1e7)], ...]
    ms: tuple[tuple[Ms, ...], ...]
    median_error: Share
    worst_error: Share

    @model_validator(mode="after")
    def _is_a_law(self) -> Self:
        try:
            self.law()
        except ValueError as error:
            raise refusal(f"is not a grid of latencies: {error}", "give one row per batch") from None
        return self

    def law(self) -> TableLatency:
        """Return the law: linear between the points of the grid."""
        return TableLatency(np.array(self.batches), np.array(self.contexts), np.array(self.ms))


class Shape(Strict):
    """Whether the raw points are monotone and convex in batch, context by context.

    falls: share of neighbours in batch of which the larger one takes less time; worst_fall: the largest such fall,
    relative. dents: share of inner points above the chord of their neighbours; worst_dent: by how much at most, relative.
    """

    monotone: bool
    convex: bool
    falls: Share
    worst_fall: Share
    dents: Share
    worst_dent: Share


class PtlFits(Strict):
    """All laws of one grid. convex: None without cvxpy. use: which one holds; reason: why, with its errors."""

    affine: AffineFit
    convex: ConvexFit | None = None
    raw: Shape
    use: Literal["affine", "convex", "table"]
    reason: Annotated[str, Field(min_length=1, max_length=1000)]


def fit_ptl(batches: Sequence[int], contexts: Sequence[float], ms: FloatArray) -> PtlFits:
    """Fit the laws to ms (m, n) at m batches and n contexts, both ascending; NaN where nothing was measured."""
    size, length = np.asarray(batches, dtype=float), np.asarray(contexts, dtype=float)
    grid = np.asarray(ms, dtype=float)
    if grid.shape != (size.size, length.size) or not np.isfinite(grid).any():
        raise ValueError(f"ms must have shape ({size.size}, {length.size}) and at least one value, got {grid.shape}")
    affine = fit_affine(size, length, grid)
    convex = fit_convex(size, length, grid) if find_spec("cvxpy") else None
    raw = shape(size, grid)
    return PtlFits(affine=affine, convex=convex, raw=raw, **_judged(affine, convex, raw))


def fit_affine(batches: FloatArray, contexts: FloatArray, ms: FloatArray) -> AffineFit:
    """Fit the affine law. One batch, or one context, cannot tell its part from the others: that coefficient is 0."""
    from scipy.optimize import nnls

    known = np.isfinite(ms)
    batch, context = (axis[known] for axis in np.meshgrid(batches, contexts, indexing="ij"))
    terms = np.stack([np.ones(batch.size), batch, batch * context / 1000], axis=1)
    told_apart = [True, np.unique(batch).size > 1, np.unique(context).size > 1]
    weights, _ = nnls(terms * told_apart / ms[known][:, None], np.ones(batch.size))
    median, worst = _errors(terms @ weights, ms[known])
    fixed, sequence, kilotoken = (float(weight) for weight in weights)
    return AffineFit(fixed_ms=fixed, per_sequence_ms=sequence, per_kilotoken_ms=kilotoken, median_error=median, worst_error=worst)


def fit_convex(batches: FloatArray, contexts: FloatArray, ms: FloatArray) -> ConvexFit:
    r"""Fit convex curves in batch, all contexts jointly; raise `InputError` without cvxpy.

    .. math:: \min_{x \ge 0} \sum_{(i,j)\ \text{measured}} (x_{ij} / t_{ij} - 1)^2

    subject to slopes in batch that are at least 0 and do not fall, and x that does not fall with context. A convex
    quadratic program: one optimum, no starting point. Cells that were not measured follow from the constraints alone, so
    a small weight holds them at the least value that these allow.
    """
    if find_spec("cvxpy") is None:
        raise InputError("fit", [Finding("convex", "", "needs cvxpy, which is missing", "pip install 'rollplan[fit]'")])
    cp: Any = import_module("cvxpy")
    known = np.isfinite(ms)
    scale = float(np.nanmedian(ms))
    x = cp.Variable(ms.shape, nonneg=True)
    weights = np.where(known, scale / np.where(known, ms, 1), 0)
    aim = cp.sum_squares(cp.multiply(weights, x) - known) + 1e-4 * cp.sum(cp.multiply(~known, x))
    rules = []
    if batches.size > 1:
        slopes = cp.multiply(1 / np.diff(batches)[:, None] @ np.ones((1, contexts.size)), cp.diff(x, axis=0))
        rules.append(slopes[0] >= 0)
        if batches.size > 2:
            rules.append(cp.diff(slopes, axis=0) >= 0)
    if contexts.size > 1:
        rules.append(cp.diff(x, axis=1) >= 0)
    cp.Problem(cp.Minimize(aim), rules).solve(solver=cp.CLARABEL)
    found = np.maximum(scale * np.asarray(x.value, dtype=float), 0)
    median, worst = _errors(found[known], ms[known])
    rows = tuple(tuple(float(value) for value in row) for row in found)
    sizes, lengths = tuple(int(batch) for batch in batches), tuple(float(context) for context in contexts)
    return ConvexFit(batches=sizes, contexts=lengths, ms=rows, median_error=median, worst_error=worst)


def shape(batches: FloatArray, ms: FloatArray) -> Shape:
    """Return whether the raw points rise and bend upwards with the batch."""
    falls: list[float] = []
    dents: list[float] = []
    for column in ms.T:
        known = np.isfinite(column)
        size, curve = batches[known], column[known]
        falls += (1 - curve[1:] / curve[:-1]).tolist()
        share = (size[1:-1] - size[:-2]) / (size[2:] - size[:-2]) if size.size > 2 else np.zeros(0)
        chord = curve[:-2] + share * (curve[2:] - curve[:-2]) if size.size > 2 else np.zeros(0)
        dents += (1 - chord / curve[1:-1]).tolist() if size.size > 2 else []
    down, above = np.array(falls), np.array(dents)
    return Shape(
        monotone=bool(not (down > 0).any()),
        convex=bool(not (above > 1e-9).any()),
        falls=float((down > 0).mean()) if down.size else 0.0,
        worst_fall=float(max(0.0, down.max(initial=0.0))),
        dents=float((above > 1e-9).mean()) if above.size else 0.0,
        worst_dent=float(max(0.0, above.max(initial=0.0))),
    )


def _errors(fitted: FloatArray, seen: FloatArray) -> tuple[float, float]:
    """Return the median and the largest relative error."""
    errors = np.abs(fitted / seen - 1)
    return float(np.median(errors)), float(errors.max())


def _judged(affine: AffineFit, convex: ConvexFit | None, raw: Shape) -> dict[str, Any]:
    """Return which law to use, and why."""
    for name, fit in (("affine", affine), ("convex", convex)):
        if fit is not None and fit.median_error <= GOOD and fit.worst_error <= WORST and fit_is_positive(fit):
            return {
                "use": name,
                "reason": f"the {name} law is within {fit.median_error:.1%} of half of the points, {fit.worst_error:.1%} at worst",
            }
    best = min(fit.worst_error for fit in (affine, convex) if fit is not None)
    bend = (
        f"; {raw.dents:.0%} of the inner points lie above the chord of their neighbours: it saturates in batch" if raw.dents > 0.5 else ""
    )
    return {
        "use": "table",
        "reason": f"no law is within {GOOD:.0%} of half and {WORST:.0%} of all points (best worst case {best:.1%}){bend}",
    }


def fit_is_positive(fit: AffineFit | ConvexFit) -> bool:
    """Return whether a step takes time at all."""
    return fit.fixed_ms + fit.per_sequence_ms > 0 if isinstance(fit, AffineFit) else fit.ms[0][0] > 0
