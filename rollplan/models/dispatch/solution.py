"""Orders of requests, and the makespan that the event simulation gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollplan.models.decode import Requests, simulate
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.latency import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class DispatchSolution:
    """For each instance the indices of its requests in the order of admission; seconds until the last one is finished."""

    orders: tuple[tuple[int, ...], ...]
    makespan_s: float


def instance_seconds(problem: DispatchProblem, orders: Sequence[IntArray]) -> FloatArray:
    """Return the seconds of instances with these requests in these orders; any number of instances."""
    parts = [Requests(problem.prompt_tokens[order], problem.output_tokens[order]) for order in orders]
    return simulate(parts, problem.admission, problem.latency).instance_s


def scored(problem: DispatchProblem, orders: Sequence[IntArray]) -> DispatchSolution:
    """Return the solution with these orders, one per instance, and its makespan at the true lengths."""
    return DispatchSolution(tuple(tuple(order.tolist()) for order in orders), float(instance_seconds(problem, orders).max()))
