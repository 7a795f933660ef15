"""Training as measured on one device: passes over micro-batches, the optimizer step, moves of the state, and the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rollplan.models.architecture import Architecture
from rollplan.models.fits.step import StepFit, StepLaw, fit_step
from rollplan.models.profile.origin import AtLeastZero, Positive, Spread, Text
from rollplan.models.reference.tables import Sourced
from rollplan.models.strict import Strict, refusal

Count = Annotated[int, Field(ge=1, le=10**9)]
Kind = Literal["update", "log-prob"]


class TrainingPoint(Strict):
    """One micro-batch: `sequences` of `sequence_length` tokens each.

    forward_backward_s: one micro-batch, gradients added to those that are there. log_prob_s: the same tokens without
    gradients. peak_gib, log_prob_peak_gib: most memory that the pass had, weights, gradients and optimizer included; on a
    GPU by torch's allocator, on a CPU the growth of the resident set since before the model was made, which is coarse.
    """

    sequences: Count
    sequence_length: Count
    forward_backward_s: Spread
    log_prob_s: Spread | None = None
    peak_gib: Positive | None = None
    log_prob_peak_gib: Positive | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch."""
        return self.sequences * self.sequence_length

    @property
    def sum_sq(self) -> float:
        """Sum of the squared lengths, which attention grows with."""
        return float(self.sequences) * self.sequence_length**2

    def spread_of(self, kind: Kind) -> Spread | None:
        """Return the measured seconds of one kind of pass."""
        return self.forward_backward_s if kind == "update" else self.log_prob_s


class PassLaw(Strict):
    """Seconds of one pass: a_s + b_s_per_token * tokens + c_s_per_token2 * sum of squared lengths, each constant at least 0.

    terms: those that the points tell apart; the others are 0 and hidden in these. worst_error: largest share by which the law is
    off a point that it was fitted to; worst_left_out: by which it is off a point that it was not fitted to, absent with too few points.
    """

    a_s: AtLeastZero
    b_s_per_token: AtLeastZero
    c_s_per_token2: AtLeastZero
    terms: Annotated[tuple[Literal["a", "b", "c"], ...], Field(min_length=1)]
    worst_error: AtLeastZero
    worst_left_out: AtLeastZero | None = None

    @classmethod
    def of(cls, fit: StepFit) -> Self:
        """Return a fit as the file has it."""
        law = {"a_s": fit.law.a_s, "b_s_per_token": fit.law.b_s_per_token, "c_s_per_token2": fit.law.c_s_per_token2}
        return cls.model_validate({**law, "terms": fit.terms, "worst_error": fit.worst, "worst_left_out": fit.worst_left_out})

    def seconds(self, tokens: float, sum_sq: float) -> float:
        """Return the law's value, wherever it is asked for: `TrainingProfile.predict` says whether to trust it."""
        return StepLaw(self.a_s, self.b_s_per_token, self.c_s_per_token2).seconds(tokens, sum_sq)


class Move(Strict):
    """Training state on its way from or to the device.

    warm: between the device and page-locked host memory; on a CPU between two places of the same memory. cold: between the
    device and a file. gib: size of what is moved. from_storage: share of a cold load that the operating system says it
    read from the storage device, not from its cache; absent where it does not say.
    """

    what: Literal["weights", "optimizer"]
    direction: Literal["offload", "load"]
    temperature: Literal["warm", "cold"]
    gib: Positive
    seconds: Spread
    from_storage: Annotated[float, Field(ge=0, le=1)] | None = None

    @property
    def gb_s(self) -> Spread:
        """10^9 bytes per second."""
        gb, time = self.gib * 2**30 / 1e9, self.seconds
        return Spread(median=gb / time.median, low=gb / time.high, high=gb / time.low, repeats=time.repeats)

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if self.seconds.low <= 0:
            raise refusal("has a move that takes no time", "measure again with a clock that resolves it")
        return self


class MemoryTerm(Strict):
    """GiB of one term: what the memory bill says and what was measured. `activations and logits`: peak less the other terms."""

    term: Literal["weights", "gradients", "optimizer", "activations and logits", "peak"]
    predicted_gib: AtLeastZero
    measured_gib: AtLeastZero

    @property
    def error(self) -> float | None:
        """Prediction less measurement, by the measurement; None where nothing was measured."""
        return self.predicted_gib / self.measured_gib - 1 if self.measured_gib > 0 else None


class MemoryCheck(Strict):
    """The memory of one pass over one micro-batch beside the memory bill, term by term. The bill's reserve is left out."""

    kind: Kind
    sequences: Count
    sequence_length: Count
    terms: tuple[MemoryTerm, ...]


class TrainingProfile(Strict):
    """What one device takes to train one model, whole on it (no parallelism), with torch and transformers.

    optimizer: which, and the type of its state; `optimizer_s` is one step of it, once per update whatever the tokens. update,
    log_prob: laws fitted to the points, for one micro-batch. skipped: what was asked for and not measured, and why.
    """

    model: Architecture
    dtype: Literal["bfloat16", "float32"]
    checkpointing: Literal["none", "full"]
    optimizer: Text
    threads: Count | None = None
    points: Annotated[tuple[TrainingPoint, ...], Field(min_length=1, max_length=10_000)]
    optimizer_s: Spread
    update: PassLaw
    log_prob: PassLaw | None = None
    moves: tuple[Move, ...] = ()
    memory: tuple[MemoryCheck, ...] = ()
    skipped: tuple[Text, ...] = ()

    def predict(self, lengths: Sequence[int], kind: Kind = "update") -> Sourced:
        """Return the seconds of one pass over a micro-batch of sequences of these lengths, by the law.

        `measured` inside the range of the points: tokens, and mean length as a token sees it (sum of squares by sum). Outside
        it is `estimated`, and the note says what is outside. Raise `ValueError` for no sequences, lengths below 1, or log-probs
        that were not measured.
        """
        law = self.update if kind == "update" else self.log_prob
        if law is None:
            raise ValueError("log_prob was not measured: measure it, or ask for the update")
        if not lengths or min(lengths) < 1:
            raise ValueError(f"lengths must be at least one of at least 1 token, got {list(lengths)[:5]}")
        tokens, sum_sq = float(sum(lengths)), float(sum(length**2 for length in lengths))
        seen = [point for point in self.points if point.spread_of(kind)]
        outside = [
            f"{value:.0f} {words} are outside the measured {min(known):.0f} to {max(known):.0f}"
            for value, words, known in (
                (tokens, "tokens", [point.tokens for point in seen]),
                (sum_sq / tokens, "tokens per sequence", [point.sequence_length for point in seen]),
            )
            if not min(known) <= value <= max(known)
        ]
        where = "; ".join(outside) or f"inside the measured range of {len(seen)} micro-batches"
        error = law.worst_left_out if law.worst_left_out is not None else law.worst_error
        note = f"{where}; the law is up to {error:.1%} off {'points left out' if law.worst_left_out is not None else 'its own points'}"
        return Sourced(law.seconds(tokens, sum_sq), "estimated" if outside else "measured", note)


def fitted(points: Sequence[TrainingPoint], kind: Kind) -> StepFit | None:
    """Return the law of one kind of pass through the medians of the points; None if none of them has it."""
    seen = [(point, spread) for point in points if (spread := point.spread_of(kind)) and spread.median > 0]
    if not seen:
        return None
    return fit_step([point.tokens for point, _ in seen], [point.sum_sq for point, _ in seen], [spread.median for _, spread in seen])
