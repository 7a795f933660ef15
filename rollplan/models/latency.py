"""Per-token latency (PTL): how long one decode step takes for a batch of sequences with so much context.

    ptl_ms(B, kv_tokens) = c0 + scale * (a + b * B + c * kv_tokens / 1000)      affine, or
    ptl_ms(B, kv_tokens) = c0 + scale * table(B, kv_tokens / B)                 measured

`kv_tokens` counts the tokens that all B sequences attend to together. In a stretch of steps in which nobody comes or
goes, B is constant and every step adds B tokens, so the seconds of a stretch are a closed form for both laws.
`scale` and `c0` are calibration: kernel measurements know no scheduler, sampler or host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class DecodeLatency(Protocol):
    """Anything that tells the seconds of a stretch of decode steps."""

    def seconds(self, batch: IntArray, kv_tokens: FloatArray, steps: IntArray) -> FloatArray:
        """Return the seconds of stretches of `steps` decode steps each; arrays of one length.

        batch: sequences in the batch, at least 1. kv_tokens: tokens attended to in the first step of the stretch, by
        all sequences together; every further step adds `batch`.
        """


def ptl_ms(latency: DecodeLatency, batch: int, kv_tokens: float) -> float:
    """Return the milliseconds of one step."""
    return 1000 * float(latency.seconds(np.array([batch]), np.array([float(kv_tokens)]), np.array([1]))[0])


@dataclass(frozen=True, slots=True)
class AffineLatency:
    """PTL that is affine in batch and context: fixed_ms + per_sequence_ms * B + per_kilotoken_ms * kv_tokens / 1000."""

    fixed_ms: float
    per_sequence_ms: float = 0.0
    per_kilotoken_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            _finite(name, getattr(self, name))
        if self.fixed_ms + self.per_sequence_ms <= 0:
            raise ValueError(f"a step must take some time, got {self.fixed_ms} ms + {self.per_sequence_ms} ms per sequence")

    def seconds(self, batch: IntArray, kv_tokens: FloatArray, steps: IntArray) -> FloatArray:
        """Return the seconds of stretches, see `DecodeLatency`."""
        tokens = steps * kv_tokens + batch * (steps * (steps - 1) / 2)
        return (steps * (self.fixed_ms + self.per_sequence_ms * batch) + self.per_kilotoken_ms * tokens / 1000) / 1000

    def calibrated(self, scale: float, overhead_ms: float) -> AffineLatency:
        """Return the law with `scale` times its latency plus `overhead_ms` per step."""
        _finite("scale", scale)
        _finite("overhead_ms", overhead_ms)
        return AffineLatency(overhead_ms + scale * self.fixed_ms, scale * self.per_sequence_ms, scale * self.per_kilotoken_ms)


@dataclass(frozen=True, slots=True, eq=False)
class TableLatency:
    """Measured PTL, bilinear between the points of a grid.

    batches (m), contexts (n): ascending; context is tokens per sequence. ms (m, n): milliseconds of a step; replaced by
    its upper envelope, so that more sequences or more context never take less time (kernels switch tiles, and 5.6 % of
    measured neighbours go down). Outside of the grid the last slope goes on, but not so steeply that a small batch or a
    short context would take less than its proportional share of the first measured one: `outside` says where.
    """

    batches: IntArray
    contexts: FloatArray
    ms: FloatArray
    _grid: tuple[FloatArray, FloatArray, FloatArray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        batches = np.asarray(self.batches, dtype=np.int64)
        contexts = np.asarray(self.contexts, dtype=np.float64)
        ms = np.asarray(self.ms, dtype=np.float64)
        if ms.shape != (batches.size, contexts.size) or not ms.size:
            raise ValueError(f"ms must have shape ({batches.size}, {contexts.size}), one row per batch, got {ms.shape}")
        if batches[0] < 1 or np.any(np.diff(batches) <= 0):
            raise ValueError(f"batches must be at least 1 and ascending, got {batches.tolist()}")
        if contexts[0] < 0 or np.any(np.diff(contexts) <= 0):
            raise ValueError(f"contexts must be at least 0 and ascending, got {contexts.tolist()}")
        if not (np.all(np.isfinite(ms)) and np.all(ms > 0)):
            raise ValueError(f"ms must be finite and above 0, got {ms.min()} to {ms.max()}")
        ms = _envelope(ms)
        object.__setattr__(self, "batches", batches)
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "ms", ms)
        rows, down = _from_zero(batches.astype(np.float64), ms)
        columns, across = _from_zero(contexts, _envelope(down).T)
        object.__setattr__(self, "_grid", (rows, columns, _envelope(across.T)))

    @classmethod
    def of_batch(cls, curve_ms: dict[int, float]) -> TableLatency:
        """Return a table in batch alone, from {batch: milliseconds}."""
        batches = sorted(curve_ms)
        return cls(np.array(batches), np.zeros(1), np.array([[curve_ms[batch]] for batch in batches]))

    def calibrated(self, scale: float, overhead_ms: float) -> TableLatency:
        """Return the table with `scale` times its latency plus `overhead_ms` per step."""
        _finite("scale", scale)
        _finite("overhead_ms", overhead_ms)
        return TableLatency(self.batches, self.contexts, overhead_ms + scale * self.ms)

    def seconds(self, batch: IntArray, kv_tokens: FloatArray, steps: IntArray) -> FloatArray:
        """Return the seconds of stretches, see `DecodeLatency`.

        Along a stretch the context per sequence grows by one token per step, so the sum over steps is taken in closed
        form on each linear piece of the table.
        """
        context = kv_tokens / batch
        contexts, ms = self._at(batch)
        slope = np.diff(ms, axis=1) / np.diff(contexts)
        constant = ms[:, :-1] - slope * contexts[:-1]
        # before[:, j]: steps taken before context j + 1 of the grid is reached; pieces 0 and -1 go on outside.
        before = np.clip(np.ceil(contexts[None, 1:-1] - context[:, None]), 0, steps[:, None])
        low = np.concatenate([np.zeros((len(steps), 1)), before], axis=1)
        high = np.concatenate([before, steps[:, None].astype(float)], axis=1)
        count = high - low
        tokens = count * context[:, None] + count * (low + high - 1) / 2
        return np.asarray((constant * count + slope * tokens).sum(axis=1) / 1000)

    def outside(self, batch: int, context: float) -> bool:
        """Return whether a point is not between measured ones, so that the last slope was used."""
        known = (self.batches[0] <= batch <= self.batches[-1], self.contexts[0] <= context <= self.contexts[-1])
        return not (known[0] and (known[1] or self.contexts.size == 1))

    def _at(self, batch: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return contexts (k) and the milliseconds there at each batch (stretches, k), never falling with context."""
        batches, contexts, ms = self._grid
        row = np.clip(np.searchsorted(batches, batch, side="right") - 1, 0, batches.size - 2)
        share = ((batch - batches[row]) / np.diff(batches)[row])[:, None]
        return contexts, np.maximum.accumulate(ms[row] + share * (ms[row + 1] - ms[row]), axis=1)


def _envelope(ms: FloatArray) -> FloatArray:
    """Return the least grid that is nowhere below `ms` and never falls along an axis."""
    return np.asarray(np.maximum.accumulate(np.maximum.accumulate(ms, axis=0), axis=1))


def _from_zero(points: FloatArray, ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ascending points (k) and rows of milliseconds (k, ...) with what goes on to 0 added, and at least two of each.

    Towards 0 the first slope goes on, unless it would fall below 0 there.
    """
    if points.size == 1:
        return np.array([0.0, points[0] + 1]), np.concatenate([ms, ms])
    if points[0] == 0:
        return points, ms
    slope = (ms[1] - ms[0]) / (points[1] - points[0])
    return np.concatenate([[0.0], points]), np.concatenate([np.maximum(ms[:1] - slope * points[0], 0), ms])


def _finite(name: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
