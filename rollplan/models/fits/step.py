r"""The law of one pass over a micro-batch, and its constants from measurements.

.. math:: t = a + b \sum_i l_i + c \sum_i l_i^2

l_i tokens of sequence i; a what every pass costs (launches, the host), b the multiplications with the weights, c attention,
which grows with the square of the length (PaLM, Chowdhery et al. 2022, appendix B, counts the same operations). None of
them can be negative: a negative constant fits better only where the measurements are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
_ALIKE = 1e-6
"""Share of the largest singular value below which two terms cannot be told apart."""


@dataclass(frozen=True, slots=True)
class StepLaw:
    """Seconds of a pass: a_s, b_s_per_token, c_s_per_token2, each at least 0."""

    a_s: float
    b_s_per_token: float
    c_s_per_token2: float

    def seconds(self, tokens: float, sum_sq: float) -> float:
        """Return the seconds of sequences with `tokens` tokens in all and `sum_sq` as the sum of squared lengths."""
        return self.a_s + self.b_s_per_token * tokens + self.c_s_per_token2 * sum_sq


@dataclass(frozen=True, slots=True)
class StepFit:
    """A law and how far it is from its own measurements, in their order, as shares of the measured seconds.

    errors: law minus measurement. left_out: the same by a law fitted without that measurement; None for measurements
    without which the terms can no longer be told apart. terms: those that the measurements tell apart.
    """

    law: StepLaw
    errors: tuple[float, ...]
    left_out: tuple[float | None, ...]
    terms: tuple[str, ...]

    @property
    def worst(self) -> float:
        """Largest error, without sign."""
        return max(map(abs, self.errors))

    @property
    def worst_left_out(self) -> float | None:
        """Largest leave-one-out error, without sign; None if none could be left out."""
        return max((abs(error) for error in self.left_out if error is not None), default=None)


def fit_step(tokens: Sequence[float], sum_sq: Sequence[float], seconds: Sequence[float]) -> StepFit:
    """Return the law with non-negative constants whose relative errors have the least sum of squares.

    tokens, sum_sq, seconds (n): one entry per micro-batch, all positive. Where the lengths do not tell attention from
    the rest (one sequence length, or too few micro-batches) the law has no c; with one amount of tokens it has no a: the
    other terms carry what cannot be told apart, so such a law holds for these lengths or this amount only.
    Raise `ValueError` for inputs that are empty, of different lengths, or not positive and finite.
    """
    if not len(tokens) == len(sum_sq) == len(seconds) >= 1:
        raise ValueError(f"tokens, sum_sq and seconds must have one length of at least 1, got {len(tokens)}, {len(sum_sq)}, {len(seconds)}")
    if not all(isfinite(value) and value > 0 for values in (tokens, sum_sq, seconds) for value in values):
        raise ValueError("tokens, sum_sq and seconds must be positive and finite: leave out passes that were not measured")
    time = np.array(seconds, dtype=float)
    table = np.column_stack([np.ones_like(time), np.array(tokens, dtype=float), np.array(sum_sq, dtype=float)])
    terms = _terms(table)
    constants = _solve(table, time, terms)
    left_out: list[float | None] = []
    for index in range(time.size):
        others = np.arange(time.size) != index
        if others.any() and _terms(table[others]) == terms:
            found = _solve(table[others], time[others], terms)
            left_out.append(float(table[index] @ found / time[index] - 1))
        else:
            left_out.append(None)
    errors = tuple(float(error) for error in table @ constants / time - 1)
    law = StepLaw(*(float(value) for value in constants))
    return StepFit(law, errors, tuple(left_out), tuple(_NAMES[term] for term in terms))


_NAMES = ("a", "b", "c")


def _terms(table: FloatArray) -> tuple[int, ...]:
    """Return the columns that can be told apart: all, else without c, else without a, else b alone."""
    for terms in ((0, 1, 2), (0, 1), (1, 2)):
        scaled = table[:, terms] / np.linalg.norm(table[:, terms], axis=0)
        values = np.linalg.svd(scaled, compute_uv=False)
        if values.size == len(terms) and values[-1] > _ALIKE * values[0]:
            return terms
    return (1,)


def _solve(table: FloatArray, time: FloatArray, terms: tuple[int, ...]) -> FloatArray:
    """Return all three constants, zeros for the terms that are left out."""
    from scipy.optimize import nnls

    relative = table[:, terms] / time[:, None]
    scale = np.linalg.norm(relative, axis=0)
    found, _ = nnls(relative / scale, np.ones_like(time))
    constants = np.zeros(3)
    constants[list(terms)] = found / scale
    return constants
