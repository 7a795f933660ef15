"""A law of output lengths from a histogram: uniform inside each bin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rollplan.models.lengths.quantile import QuantileLaw


def histogram_law(edges: Sequence[float], shares: Sequence[float], limit_tokens: float | None = None) -> QuantileLaw:
    """Return the law of a histogram; raise `ValueError` if it is none.

    edges (n + 1): tokens, ascending from at least 0; a first edge below one token means one. shares (n): of all
    responses, at least 0; read from figures, they need not sum up to exactly 1, and are scaled so that they do.
    limit_tokens: at least the last edge, which it is when absent.
    """
    if len(edges) != len(shares) + 1 or not shares:
        raise ValueError(f"a histogram of n bins has n + 1 edges, got {len(edges)} edges and {len(shares)} shares")
    if min(edges) < 0 or max(edges) < 1 or sorted(set(edges)) != list(edges):
        raise ValueError(f"edges must be at least 0 and ascending, got {list(edges)}")
    total = sum(shares)
    if min(shares) < 0 or not 0.99 <= total <= 1.01:
        raise ValueError(f"shares must be at least 0 and sum up to 1 within 0.01, got {min(shares):g} at least and {total:g} in sum")
    below = [0.0, *(min(part / total, 1.0) for part in accumulate(shares[:-1])), 1.0]
    tokens = [max(1.0, float(edge)) for edge in edges]
    return QuantileLaw(float(edges[-1] if limit_tokens is None else limit_tokens), tuple(zip(below, tokens, strict=True)))
