"""How long weight sync takes in a running RL framework, as published by verl.

`rollplan.models.overheads.sync_time` is a law for a layout that a planner chooses: so many streams over a slow link. This
is what a framework needs with everything around it (gathering shards, loading into the engine), inside one cluster. The
two are not the same quantity, and published values of one size lie up to a factor of six apart: use it for orders of
magnitude and as a default where the transport is known, and measure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from statistics import median
from typing import Literal

from rollplan.models.reference.tables import Sourced, rows

Transport = Literal["nccl", "delta", "checkpoint-engine"]
_SAME_SIZE = 0.1


def weight_sync_seconds(params_b: float, transport: Transport = "nccl") -> Sourced:
    """Return the seconds to bring weights of `params_b` * 10^9 parameters from trainer to engines.

    The median of the published values of that size (within 10 %; H100 if there are any) is `reference`; between two sizes
    it is interpolated on logarithms, beyond them proportional to size, and `estimated`. Raise `ValueError` if `params_b` is
    not positive.
    """
    if not (params_b > 0 and math.isfinite(params_b)):
        raise ValueError(f"params_b must be positive, got {params_b}")
    found = [row for row in rows("weight_sync.csv") if row["transport"] == transport]
    if any(row["gpu"] == "H100" for row in found):
        found = [row for row in found if row["gpu"] == "H100"]
    by_size: dict[float, list[float]] = defaultdict(list)
    for row in found:
        by_size[float(row["params_b"])].append(float(row["seconds"]))
    near = min(by_size, key=lambda size: abs(size - params_b))
    where = f"verl, {transport}, {' and '.join(sorted({row['gpu'] for row in found}))}"
    if abs(near - params_b) <= _SAME_SIZE * near:
        values = by_size[near]
        spread = f"{min(values):g} to {max(values):g} s" if len(values) > 1 else f"{values[0]:g} s"
        return Sourced(median(values), "reference", f"{where}: {spread} at {near:g}B")
    seconds, how = _between(sorted((size, median(values)) for size, values in by_size.items()), params_b)
    return Sourced(seconds, "estimated", f"{where}: {how}")


def _between(points: list[tuple[float, float]], size: float) -> tuple[float, str]:
    """Return the seconds at a size that was not measured, and how they were found."""
    for (low, first), (high, second) in pairwise(points):
        if low <= size <= high:
            share = math.log(size / low) / math.log(high / low)
            how = f"between {first:g} s at {low:g}B and {second:g} s at {high:g}B"
            return float(first * (second / first) ** share), how
    known, seconds = points[0] if size < points[0][0] else points[-1]
    return seconds * size / known, f"in proportion to {seconds:g} s at {known:g}B"
