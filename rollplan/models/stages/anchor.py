"""Measured times win: a law is shifted so that it passes through the counts that were measured.

The factor measured / law is interpolated linearly in log(GPUs) on a logarithmic scale between measured counts, and kept
beyond them. So the law gives the shape, the measurements the level; with two measurements they give the slope as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log

import numpy as np


def anchored(law_s: Mapping[int, float], measured_s: Mapping[int, float]) -> dict[int, float]:
    """Return seconds for every count of either table; counts that were measured keep their measurement.

    A measured count without law takes the law of the nearest count, perfectly scaled, for its factor.
    """
    if not measured_s:
        return dict(law_s)
    factor = factors(law_s, measured_s, sorted(law_s))
    return dict(sorted({**{gpus: law_s[gpus] * factor[gpus] for gpus in law_s}, **measured_s}.items()))


def factors(law_s: Mapping[int, float], measured_s: Mapping[int, float], counts: Sequence[int]) -> dict[int, float]:
    """Return measured / law at each count; 1 where nothing was measured at all or there is no law."""
    if not measured_s or not law_s:
        return dict.fromkeys(counts, 1.0)
    known = sorted(measured_s)
    logs = [log(measured_s[gpus] / _law_at(law_s, gpus)) for gpus in known]
    return {gpus: exp(float(np.interp(log(gpus), [log(count) for count in known], logs))) for gpus in counts}


def _law_at(law_s: Mapping[int, float], gpus: int) -> float:
    if gpus in law_s:
        return law_s[gpus]
    near = min(law_s, key=lambda count: (abs(log(count / gpus)), count))
    return law_s[near] * near / gpus
