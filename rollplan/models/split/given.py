"""From a scenario's `split` to the problem."""

from __future__ import annotations

from collections.abc import Mapping

from rollplan.models.split.problem import SplitProblem
from rollplan.models.workload import Split


def split_problem(split: Split, price_per_gpu_h: Mapping[str, float]) -> SplitProblem:
    """Return the problem of a scenario's `split`, with dollars per GPU and hour for each of its pools."""
    return SplitProblem(split.budget, split.rollout, split.train, price_per_gpu_h, split.sync_s, split.trim)
