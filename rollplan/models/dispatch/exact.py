"""P2 solved exactly: CP-SAT for affine laws, an enumeration of subsets for any law and few requests."""

from __future__ import annotations

from rollplan.models.certified import Certified, Limits
from rollplan.models.dispatch import cpsat, subsets
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import DispatchSolution


def exact(
    problem: DispatchProblem, limits: Limits | None = None, start: DispatchSolution | None = None, seed: int = 0
) -> Certified[DispatchSolution]:
    """Return the best dispatch by the true lengths found within `limits`, never worse than `start`, with a proven bound.

    Raises `ValueError` where neither method applies.
    """
    limits = limits or Limits()
    if cpsat.applies(problem):
        return cpsat.solve(problem, limits, start, seed)
    if not subsets.applies(problem):
        raise ValueError(
            f"exact dispatch of {len(problem)} requests to {problem.instances} instances needs an affine latency, policy reserve (or a KV "
            f"budget that never binds), and at most {cpsat.MOST_PLACES} requests times instances; else it enumerates at most "
            f"{subsets.MOST} requests, fewer if they have to wait; take method best, which has a bound, too"
        )
    return subsets.solve(problem, seed)
