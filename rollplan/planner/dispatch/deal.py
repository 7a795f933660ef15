"""Dispatch without a model of time: deal requests to instances in turn.

Orders are arrays of request indices, one per instance. Whatever deals, looks at estimated lengths only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.latency import IntArray


def ranked(problem: DispatchProblem) -> IntArray:
    """Return the requests by estimated length, longest first; of equal ones the lower index first."""
    return np.argsort(-problem.estimates, kind="stable")


def longest_first(problem: DispatchProblem, orders: Sequence[IntArray]) -> list[IntArray]:
    """Return the same assignment with every instance in LPT order (Graham 1969)."""
    rank = np.argsort(ranked(problem))
    return [order[np.argsort(rank[order])] for order in orders]


def even(problem: DispatchProblem, seed: int) -> list[IntArray]:
    """Return equal shares in random order, as engines without a dispatcher have them: first in, first out."""
    shuffled = np.random.default_rng(seed).permutation(len(problem))
    return in_turn(shuffled, problem.instances)


def in_turn(requests: IntArray, instances: int) -> list[IntArray]:
    """Return the requests dealt to 0, 1, ..., N - 1, 0, 1, ..."""
    return [requests[i::instances] for i in range(instances)]


def snake(requests: IntArray, instances: int) -> list[IntArray]:
    """Return the requests dealt to 0, 1, ..., N - 1, N - 1, ..., 1, 0, 0, 1, ..."""
    turn, place = np.divmod(np.arange(requests.size), instances)
    owner = np.where(turn % 2, instances - 1 - place, place)
    return [requests[owner == i] for i in range(instances)]
