r"""Laws of a link fitted to timed transfers.

A transfer of n bytes over k streams takes `start + n / rate(k)` seconds. Two hypotheses say what more streams do:

    per stream   rate(k) = k c         every stream has a limit c of its own
    shared       rate(k) = T           all streams share one limit T
    both         rate(k) = min(k c, T) the first holds until the second does

Once it is known from which number of streams on the link is full, each of them is linear in (start, 1/c, 1/T), all at
least 0: every such number is tried. Errors are relative, and count as they are, not squared: one transfer that was
disturbed does not move the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from rollplan.models.latency import FloatArray
from rollplan.models.profile.link import BroadcastLaw, LinkProfile, LinkSample, StreamLaw

TOLERANCE = 0.05
"""A number of streams fills the link if it gets the total but for this; a simpler hypothesis is kept if it is off by so much more."""
_SMALLEST_WEIGHT = 1e-6
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Affine:
    """seconds = start_s + bytes / (gb_s 10^9), with its mean relative error on what it was fitted to."""

    start_s: float
    gb_s: float
    error: float


def fit_affine(sizes: Sequence[int], seconds: Sequence[float]) -> Affine:
    """Fit the law to transfers of at least two sizes in bytes; raise `ValueError` if time does not grow with size."""
    if len(set(sizes)) < 2:
        raise ValueError(f"{len(set(sizes))} size: two are needed to tell start from bandwidth; measure another with --megabytes")
    terms = np.stack([np.ones(len(sizes)), np.asarray(sizes, dtype=float)], axis=1)
    (start, per_byte), error = robust(terms, np.asarray(seconds, dtype=float))
    return Affine(float(start), _rate(float(per_byte)), error)


def robust(terms: FloatArray, seconds: FloatArray) -> tuple[FloatArray, float]:
    r"""Return x >= 0 of least sum of |relative errors|, and their mean.

    .. math:: \min_{x \ge 0} \sum_i |(A x)_i / t_i - 1|

    terms A (m, n), seconds t (m,), positive. Iteratively reweighted non-negative least squares: each square is divided by
    its own root.
    """
    from scipy.optimize import nnls

    rows = terms / seconds[:, None]
    # Columns of bytes and of ones differ by many powers of ten.
    scale = np.abs(rows).max(axis=0)
    rows = rows / scale
    weights = np.ones(seconds.size)
    best, best_error = np.zeros(scale.size), np.inf
    for _ in range(_ROUNDS):
        found, _ = nnls(rows * weights[:, None], weights)
        off = np.abs(rows @ found - 1)
        if off.mean() < best_error:
            best, best_error = found, float(off.mean())
        weights = 1 / np.sqrt(np.maximum(off, _SMALLEST_WEIGHT))
    return best / scale, best_error


def fit_streams(sizes: Sequence[int], streams: Sequence[int], seconds: Sequence[float]) -> StreamLaw:
    """Fit the law to transfers of `sizes` bytes over `streams` streams that took `seconds` until the answer was back.

    One stream must be among them, with two sizes. Raises `ValueError` if not, or if time does not grow with size.
    """
    alone = [(size, spent) for size, count, spent in zip(sizes, streams, seconds, strict=True) if count == 1]
    single = fit_affine([size for size, _ in alone], [spent for _, spent in alone])
    counts = sorted(set(streams))
    if len(counts) == 1:
        return StreamLaw(
            latency_s=single.start_s / 2,
            limited="unknown",
            per_stream_gb_s=single.gb_s,
            most_streams=1,
            error=single.error,
            error_if_per_stream=single.error,
            error_if_shared=single.error,
        )
    size, count, spent = (np.asarray(values, dtype=float) for values in (sizes, streams, seconds))
    shared, own = _shared(size, count, spent), _per_stream(size, count, spent)
    # Neighbouring numbers of streams enclose the corner of the law.
    corners = (_both(size, count, spent, before, full) for before, full in pairwise(counts))
    both = [found for found in corners if found is not None]
    least = min(found.worst for found in (shared, own, *both))
    kept = [found for found in (shared, own) if found.worst <= least + TOLERANCE] or both
    chosen = min(kept, key=lambda found: found.error)
    return StreamLaw(
        latency_s=chosen.start_s / 2,
        limited=chosen.limited,
        per_stream_gb_s=chosen.per_stream_gb_s,
        total_gb_s=chosen.total_gb_s,
        streams_to_fill=None if chosen.total_gb_s is None else _fewest(counts, chosen.per_stream_gb_s, chosen.total_gb_s),
        most_streams=counts[-1],
        error=chosen.error,
        error_if_per_stream=own.error,
        error_if_shared=shared.error,
    )


def fit_link(backend: Literal["gloo", "nccl"], ranks: int, interface: str, loopback: bool, samples: Sequence[LinkSample]) -> LinkProfile:
    """Return the section with the laws of all samples; raise `ValueError` if none holds from rank to rank."""
    pair = [sample for sample in samples if sample.kind != "broadcast"]
    law = fit_streams(*zip(*((sample.bytes, sample.streams, sample.seconds.median) for sample in pair), strict=True))
    spread = [sample for sample in samples if sample.kind == "broadcast"]
    broadcast = _broadcast(spread, law.latency_s) if spread else None
    return LinkProfile(
        backend=backend, ranks=ranks, interface=interface, loopback=loopback, samples=tuple(samples), law=law, broadcast=broadcast
    )


def _broadcast(samples: Sequence[LinkSample], latency_s: float) -> BroadcastLaw | None:
    """Return the law of broadcast, None if these samples have none: where no more is needed, they must not spoil the rest."""
    try:
        found = fit_affine([sample.bytes for sample in samples], [sample.seconds.median for sample in samples])
    except ValueError:
        return None
    # The clock stops when the answers are back: one latency after the last byte.
    return BroadcastLaw(ranks=samples[0].ranks, start_s=max(found.start_s - latency_s, 0.0), gb_s=found.gb_s, error=found.error)


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """error: mean over all transfers. worst: over numbers of streams, of the median of each: no number may be sacrificed."""

    limited: Literal["per stream", "shared", "both"]
    start_s: float
    per_stream_gb_s: float
    total_gb_s: float | None
    error: float
    worst: float


def _shared(size: FloatArray, streams: FloatArray, seconds: FloatArray) -> _Hypothesis:
    """Fit the law that any number of streams fills the link."""
    (start, per_byte), *errors = _fitted([size], streams, seconds)
    rate = _rate(per_byte)
    return _Hypothesis("shared", start, rate, rate, *errors)


def _per_stream(size: FloatArray, streams: FloatArray, seconds: FloatArray) -> _Hypothesis:
    """Fit the law that no number of streams fills the link."""
    (start, per_byte), *errors = _fitted([size / streams], streams, seconds)
    return _Hypothesis("per stream", start, _rate(per_byte), None, *errors)


def _both(size: FloatArray, streams: FloatArray, seconds: FloatArray, before: int, full: int) -> _Hypothesis | None:
    """Fit the law that `full` streams and more fill the link, `before` and fewer do not; None if its rates contradict that."""
    filled = streams >= full
    columns = [np.where(filled, 0, size / streams), np.where(filled, size, 0)]
    (start, per_own_byte, per_shared_byte), *errors = _fitted(columns, streams, seconds)
    if min(per_own_byte, per_shared_byte) <= 0:
        return None
    stream, total = _rate(per_own_byte), _rate(per_shared_byte)
    if not before * stream <= total <= full * stream:
        return None
    return _Hypothesis("both", start, stream, total, *errors)


def _fitted(columns: Sequence[FloatArray], streams: FloatArray, seconds: FloatArray) -> tuple[list[float], float, float]:
    """Return start and seconds per byte of each column, the mean error, and the worst one of a number of streams."""
    terms = np.stack([np.ones(seconds.size), *columns], axis=1)
    found, error = robust(terms, seconds)
    off = np.abs(terms @ found / seconds - 1)
    worst = max(float(np.median(off[streams == count])) for count in np.unique(streams))
    return [float(value) for value in found], error, worst


def _fewest(counts: Sequence[int], per_stream_gb_s: float, total_gb_s: float) -> int:
    """Return the least of the measured numbers of streams that fills the link."""
    return next(count for count in counts if count * per_stream_gb_s >= (1 - TOLERANCE) * total_gb_s)


def _rate(s_per_byte: float) -> float:
    """Return GB/s."""
    if s_per_byte <= 0:
        raise ValueError("the time does not grow with the size; measure larger transfers with --megabytes")
    return 1e-9 / s_per_byte
