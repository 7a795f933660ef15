"""P2 dispatch solved by name: every heuristic, the best of them, and the exact solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from time import monotonic
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from rollplan.models.certified import Certified, Limits, Stopped, gap
from rollplan.models.dispatch.bounds import lower_bound
from rollplan.models.dispatch.exact import exact
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import with_recall
from rollplan.models.dispatch.solution import DispatchSolution, scored
from rollplan.models.errors import InfeasibleError
from rollplan.models.latency import IntArray
from rollplan.planner.dispatch.balanced import balanced
from rollplan.planner.dispatch.contiguous import contiguous
from rollplan.planner.dispatch.deal import even, in_turn, longest_first, ranked, snake
from rollplan.planner.dispatch.improve import improve
from rollplan.planner.dispatch.skewness import skewness_aware

Method = Literal["best", "exact", "even", "even+lpt", "round-robin", "snake", "skew-sum", "skew-max", "contiguous", "balanced"]
METHODS: tuple[Method, ...] = get_args(Method)

HEURISTICS: Mapping[str, Callable[[DispatchProblem, int], list[IntArray]]] = MappingProxyType(
    {
        "even": even,
        "even+lpt": lambda problem, seed: longest_first(problem, even(problem, seed)),
        "round-robin": lambda problem, _: in_turn(ranked(problem), problem.instances),
        "snake": lambda problem, _: snake(ranked(problem), problem.instances),
        "skew-sum": lambda problem, _: skewness_aware(problem, "sum"),
        "skew-max": lambda problem, _: skewness_aware(problem, "max", "equalised"),
        "contiguous": lambda problem, _: contiguous(problem),
        "balanced": lambda problem, _: balanced(problem),
    }
)
"""Orders by name, given a problem and a seed. All but `even` run the longest first in every instance."""


DRAWS = 8
"""Samples of what the true lengths may be, where the ranker errs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one method makes of the estimates, or the reason why nothing.

    planned: its makespan if the estimates are true. expected_s: seconds to expect of a ranker with the given recall.
    """

    name: str
    planned: DispatchSolution | None
    expected_s: float | None
    reason: str = ""


def candidates(
    problem: DispatchProblem, seed: int = 0, recall: float | None = 1.0, stop: Callable[[], object] = lambda: None
) -> list[Candidate]:
    """Return what each heuristic makes, then `improved`; all look at estimates only.

    `improved` starts from the best of them, and where this is `balanced` from the next one, too: more work need not be a
    worse start, since requests slow each other down.

    recall: of the ranker. Below 1, the expected makespan is the mean of `DRAWS` simulations in which requests of the tail
    and others have exchanged their lengths (`with_recall`). None: no ranker, so only `even`, which asks for no lengths.
    """
    seen = problem.as_estimated()
    if recall is None:
        return [_candidate(seen, [seen], "even", seed)]
    rng = np.random.default_rng(seed)
    truths = [seen] if recall == 1 else [with_recall(seen, recall, rng).as_estimated() for _ in range(DRAWS)]
    found = [_candidate(seen, truths, name, seed) for name in HEURISTICS]
    starts = dict.fromkeys([_best(found), _best([each for each in found if each.name != "balanced"])])
    improved = [improve(seen, _arrays(start), stop) for start in starts]
    expected_s, orders = min(((_expected_s(truths, orders), orders) for orders in improved), key=lambda each: each[0])
    return [*found, Candidate("improved", scored(seen, orders), expected_s)]


def solve(
    problem: DispatchProblem,
    method: Method = "best",
    limits: Limits | None = None,
    seed: int = 0,
    recall: float | None = 1.0,
    tried: list[Candidate] | None = None,
) -> Certified[DispatchSolution]:
    """Return a dispatch with its makespan at the true lengths, and a bound that no dispatch can undercut.

    Every method decides by the estimated lengths. `best` takes the candidate of least expected makespan at this recall of
    the ranker; so where estimates are true and recall is 1, it is never worse than any of them. `exact` starts from it.
    tried: the candidates, if they are known already.
    Raises `InfeasibleError` if the named heuristic does not apply, `ValueError` where `exact` does not.
    """
    begun = monotonic()
    limits = limits or Limits()
    seen = problem.as_estimated()
    bound = lower_bound(problem)
    stopped: Stopped = "heuristic"
    if method in HEURISTICS:
        orders = HEURISTICS[method](seen, seed)
    else:
        planned = _best(candidates(problem, seed, recall, limits.stop) if tried is None else tried)
        stopped = limits.stop() or "heuristic"
        if method == "exact":
            proven = exact(seen, limits, planned, seed)
            planned = proven.solution
            if np.array_equal(problem.output_tokens, seen.output_tokens):
                bound, stopped = max(bound, proven.bound, key=lambda argument: argument.value), proven.stopped
        orders = _arrays(planned)
    found = scored(problem, orders)
    if gap(found.makespan_s, bound.value) <= 1e-9:
        stopped = "optimal"
    return Certified(found, found.makespan_s, bound, stopped, monotonic() - begun, seed)


def _candidate(seen: DispatchProblem, truths: list[DispatchProblem], name: str, seed: int) -> Candidate:
    try:
        orders = HEURISTICS[name](seen, seed)
    except InfeasibleError as error:
        return Candidate(name, None, None, "; ".join(error.reasons))
    return Candidate(name, scored(seen, orders), _expected_s(truths, orders))


def _expected_s(truths: list[DispatchProblem], orders: list[IntArray]) -> float:
    return fmean(scored(truth, orders).makespan_s for truth in truths)


def _best(found: list[Candidate]) -> DispatchSolution:
    """Return the dispatch to expect the least makespan of, of equals the first; `even` always makes one."""
    made = [(candidate.expected_s, candidate.planned) for candidate in found if candidate.expected_s is not None and candidate.planned]
    return min(made, key=lambda each: each[0])[1]


def _arrays(solution: DispatchSolution) -> list[IntArray]:
    return [np.array(order, dtype=np.int64) for order in solution.orders]
