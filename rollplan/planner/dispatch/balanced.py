"""Balanced dispatch: the same work for every instance, as if requests did not slow each other down (P||Cmax).

The work of a request is its share of the steps that it is in, at the batch of an instance that has as many requests as
the others. With few slots this is all there is: requests that run one by one are P||Cmax. MULTIFIT spreads them.
"""

from __future__ import annotations

import numpy as np

from rollplan.models.dispatch.bounds import most_at_once
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.latency import FloatArray, IntArray
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.planner.dispatch.deal import longest_first
from rollplan.planner.pcmax.multifit import multifit

_UNITS = 2**20
"""Whole numbers of work that all requests have together, and one more for each, so that none has no work."""


def balanced(problem: DispatchProblem) -> list[IntArray]:
    """Return orders, longest first, whose work is as equal as MULTIFIT makes it."""
    work = work_s(problem)
    whole = 1 + np.floor(work / work.sum() * _UNITS).astype(np.int64)
    found = multifit(PcmaxProblem(tuple(whole.tolist()), problem.instances))
    return longest_first(problem, [np.array(jobs, dtype=np.int64) for jobs in found.machines])


def work_s(problem: DispatchProblem) -> FloatArray:
    """Return each request's share (n) of the seconds of its steps, by its estimated length."""
    batch = min(most_at_once(problem), -(-len(problem) // problem.instances))
    context = problem.prompt_tokens + (problem.estimates + 1) / 2
    share: FloatArray = problem.latency.seconds(np.full(len(problem), batch), batch * context, problem.estimates) / batch
    return share
