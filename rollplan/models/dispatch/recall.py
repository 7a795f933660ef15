"""Rankers that err: StreamRL's measured recall, and estimates with a given recall.

A ranker predicts output lengths; only the order is used. Its recall is the share of the truly longest requests that it
puts among the longest.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from rollplan.models.dispatch.problem import DispatchProblem

RANKER_RECALL = MappingProxyType(
    {
        "7B": MappingProxyType({0.20: 0.87, 0.10: 0.82, 0.05: 0.76}),
        "3B": MappingProxyType({0.20: 0.85, 0.10: 0.79, 0.05: 0.72}),
        "1.5B": MappingProxyType({0.20: 0.81, 0.10: 0.75, 0.05: 0.68}),
    }
)
"""Recall by size of the ranker and share of the longest requests. StreamRL (arXiv 2504.15930) Table 4."""


def tail_size(problem: DispatchProblem) -> int:
    """Return floor(alpha * n), the number of requests in the long tail (rounding is ours, the paper has none)."""
    # The share 0.29 of 100 requests is 28.999999999999996 in floats.
    return int(problem.tail_share * len(problem) + 1e-9)


def with_recall(problem: DispatchProblem, recall: float, rng: np.random.Generator) -> DispatchProblem:
    """Return the problem with estimates of the given recall; true lengths stay.

    Of the `tail_size` longest requests, a share 1 - recall, drawn by `rng`, exchanges its true length with as many
    other requests. Raises `ValueError` if recall is outside of 0 to 1, or so low that there are too few others.
    """
    if not 0 <= recall <= 1:
        raise ValueError(f"recall must be in 0 to 1, got {recall}")
    ranked = np.argsort(-problem.output_tokens, kind="stable")
    tail, regular = np.split(ranked, [tail_size(problem)])
    missed = round((1 - recall) * tail.size)
    if missed > regular.size:
        raise ValueError(f"recall {recall} exchanges {missed} requests of the tail, only {regular.size} others are there; raise recall")
    estimates = problem.output_tokens.copy()
    out, into = rng.choice(tail, missed, replace=False), rng.choice(regular, missed, replace=False)
    estimates[out], estimates[into] = problem.output_tokens[into], problem.output_tokens[out]
    return replace(problem, estimated_tokens=estimates)
