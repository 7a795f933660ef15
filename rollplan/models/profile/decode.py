"""The `decode` section of a profile: how long one decode step takes by batch and context, as measured on an engine.

Nothing is said about what was not measured: `DecodeCurve.ptl_ms` and the law that predictions use refuse a batch or a
context outside of the measured range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.fits.ptl import PtlFits
from rollplan.models.latency import FloatArray, IntArray, TableLatency
from rollplan.models.profile.origin import Spread, Text
from rollplan.models.reference.grids import completed
from rollplan.models.strict import Strict, refusal

Count = Annotated[int, Field(ge=1, le=10**9)]
FLOOR = 0.03
"""By how much two processes on one machine may differ without any of them having seen it in its own rounds: memory is
laid out anew and the clock rate moves. Relative; stated, not measured by the run itself."""


class DecodePoint(Strict):
    """One cell. context_tokens: asked for; attended_tokens: mean over the steps that count, own tokens included."""

    batch: Annotated[int, Field(ge=1, le=1_000_000)]
    context_tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    attended_tokens: Annotated[float, Field(gt=0, le=1e7)]
    ms: Spread

    @model_validator(mode="after")
    def _is_where_it_says(self) -> Self:
        if abs(self.attended_tokens - self.context_tokens) > max(1.0, 0.01 * self.context_tokens):
            raise refusal(f"was measured at {self.attended_tokens:g} tokens, not at {self.context_tokens}", "measure it again")
        if self.ms.median <= 0:
            raise refusal("has a step that takes no time", "measure it again")
        return self


class PrefillCost(Strict):
    """Seconds by which one prompt token delays everybody in its instance, the rest of its admission spread over them.

    Measured with prompts of prompt_tokens in a batch of `batch`: shorter prompts cost more per token, longer ones less.
    """

    prompt_tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)]
    s_per_token: Spread


class DecodeCurve(Strict):
    """What was measured on one instance of `tp` devices.

    points: a staircase without holes, since what does not fit into the KV cache is not there. max_num_seqs: the engine's
    slots. kv_tokens: capacity of its KV cache in tokens, as it reports it; None if it does not. max_model_len: of one
    sequence. prefill: None if no batch had room to measure it.
    """

    tp: Annotated[int, Field(ge=1, le=4096)]
    points: Annotated[tuple[DecodePoint, ...], Field(min_length=1, max_length=40_000)]
    prefill: PrefillCost | None = None
    max_num_seqs: Count
    max_model_len: Count
    kv_tokens: Count | None = None
    fits: PtlFits | None = None

    @model_validator(mode="after")
    def _has_no_holes(self) -> Self:
        cells = {(point.batch, point.context_tokens) for point in self.points}
        if len(cells) < len(self.points):
            raise refusal("has a point twice", "keep one of them")
        for batch in self.batches:
            for context in self.contexts:
                larger = any(b >= batch and c >= context for b, c in cells)
                if (batch, context) not in cells and (larger or context == self.contexts[0]):
                    raise refusal(f"has no point for batch {batch} at context {context}", "measure it, or leave out the larger ones")
        return self

    @property
    def batches(self) -> tuple[int, ...]:
        """Measured batches, ascending."""
        return tuple(sorted({point.batch for point in self.points}))

    @property
    def contexts(self) -> tuple[int, ...]:
        """Measured contexts in tokens per sequence, ascending."""
        return tuple(sorted({point.context_tokens for point in self.points}))

    def ms(self) -> FloatArray:
        """Return the medians (batches, contexts) in ms; NaN where nothing was measured."""
        grid = np.full((len(self.batches), len(self.contexts)), np.nan)
        for point in self.points:
            grid[self.batches.index(point.batch), self.contexts.index(point.context_tokens)] = point.ms.median
        return grid

    def complete_ms(self) -> FloatArray:
        """Return `ms` with the cells that do not fit into the KV cache filled in, see `reference.grids.completed`."""
        return completed(self.ms(), np.array(self.batches))

    def law(self) -> TableLatency:
        """Return the table of medians as a law, made monotone. It goes on outside of the range; `within` does not."""
        return TableLatency(np.array(self.batches), np.array(self.contexts, dtype=float), self.complete_ms())

    def within(self) -> WithinRange:
        """Return the law that refuses what lies outside of the measured batches and contexts."""
        return WithinRange(self.law(), self.tp)

    def ptl_ms(self, batch: int, context_tokens: float) -> float:
        """Return the milliseconds of one step; raise `InputError` for a point that is not between measured ones."""
        law = self.within()
        ms = 1000 * float(law.seconds(np.array([batch]), np.array([batch * float(context_tokens)]), np.array([1]))[0])
        if not any(point.batch >= batch and point.context_tokens >= context_tokens for point in self.points):
            raise _outside(self.tp, f"batch {batch} at context {context_tokens:g}", "does not fit into the KV cache and was not measured")
        return ms


class DecodeProfile(Strict):
    """Decode latency of one model. model: as it was asked for; architecture: None if its config is of a kind that is not understood.

    settings: of the engine, as far as they change a step. compute_threads: on a CPU.
    """

    model: Text
    architecture: Architecture | None = None
    settings: dict[str, str] = Field(default_factory=dict)
    compute_threads: Count | None = None
    curves: Annotated[tuple[DecodeCurve, ...], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _one_curve_for_each_tp(self) -> Self:
        if len({curve.tp for curve in self.curves}) < len(self.curves):
            raise refusal("has two curves of the same tp", "keep one of them")
        return self

    def curve(self, tp: int) -> DecodeCurve:
        """Return what was measured on `tp` devices; raise `InputError` if nothing was."""
        known = {curve.tp: curve for curve in self.curves}
        if tp not in known:
            text = ", ".join(map(str, sorted(known)))
            raise InputError(
                "profile", [Finding("decode", f"tp {tp}", "was not measured", f"measured: tp {text}; profile it with --tp {tp}")]
            )
        return known[tp]


@dataclass(frozen=True, slots=True, eq=False)
class WithinRange:
    """A measured table that raises `InputError` instead of going on outside of its batches and contexts."""

    table: TableLatency
    tp: int

    def seconds(self, batch: IntArray, kv_tokens: FloatArray, steps: IntArray) -> FloatArray:
        """Return the seconds of stretches, see `latency.DecodeLatency`."""
        batches, contexts = self.table.batches, self.table.contexts
        first = kv_tokens / batch
        for what, low, high, known in (
            ("batch", batch, batch, batches),
            ("context", first, first + steps - 1, contexts),
        ):
            if batch.size and (low.min() < known[0] or high.max() > known[-1]):
                seen = f"{what} {low.min():g}" if low.min() < known[0] else f"{what} {high.max():g}"
                raise _outside(self.tp, seen, f"is outside of the measured range, {known[0]:g} to {known[-1]:g}")
        return self.table.seconds(batch, kv_tokens, steps)


def _outside(tp: int, value: str, problem: str) -> InputError:
    remedy = "ask within it, or measure further with --batches and --contexts"
    return InputError("profile", [Finding(f"decode, tp {tp}", value, problem, remedy)])


def agree(first: Spread, second: Spread, floor: float = FLOOR) -> bool:
    """Return whether two measurements of one quantity say the same: the medians differ by no more than both quartile
    half-widths together plus `floor` of the smaller median.

    The half-widths alone would refuse too often: they hold about half of the rounds of one process, and no process sees
    what changes between processes (`FLOOR`).
    """
    allowed = (first.high - first.low + second.high - second.low) / 2 + floor * min(first.median, second.median)
    return abs(first.median - second.median) <= allowed
