"""Why jobs do not fit into the pools: a smallest set of requirements that exclude each other, and what would do.

Every answer rests on a solve without the dropped requirements: yes is a plan that `verify` accepts, no is a proof. The
conflict is proven a second time by other code (`second_proof`), else by a solve of the jobs in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rollplan.models.certified import Limits
from rollplan.models.colocation.closed_form import impossible, impossible_jobs
from rollplan.models.colocation.exact import exact
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.colocation.requirements import (
    Changes,
    GroupSize,
    PoolLimit,
    Requirement,
    Runs,
    changes,
    relaxed,
    requirements,
)
from rollplan.models.colocation.second_proof import excluded
from rollplan.models.colocation.solution import pool_totals
from rollplan.models.colocation.verify import verify
from rollplan.models.conflict import Conflict, minimal_conflict, weakest_change
from rollplan.models.errors import InfeasibleError, NoSolutionError
from rollplan.planner.infeasible.words import FEW, Found, sentences

Heuristic = Callable[[ColocationProblem, int, Callable[[], object]], ColocationSolution | None]
"""A plan that keeps all limits, or None, given a seed and when to stop."""
Solver = Callable[[ColocationProblem, Limits, int], ColocationSolution]
"""Any plan, given limits and a seed; raises `InfeasibleError` if there is none, `NoSolutionError` if none was found."""

MOST_S = 5.0
"""Seconds that an explanation takes at most, and its share of the time that is left."""
_SHARE = 0.5
_ANY_GAP = 1e9


def any_plan(problem: ColocationProblem, limits: Limits, seed: int) -> ColocationSolution:
    """Return a plan by the closed form of a group's period; `Solver` for problems in which no job runs more than once."""
    if problem.max_rate > 1:
        raise NoSolutionError("the closed form says nothing of jobs that run several times per period")
    return exact(problem, limits, seed=seed).solution


def explain(
    problem: ColocationProblem,
    heuristic: Heuristic,
    limits: Limits | None = None,
    seed: int = 0,
    set_aside: Mapping[str, int] | None = None,
    solver: Solver = any_plan,
) -> list[str]:
    """Return the reasons why a problem that was proven infeasible has no plan.

    limits: it takes at most half of the time left, at most `MOST_S`; when that ends, or on Ctrl-C, what is known is said,
    and what is not. set_aside: nodes of each pool that other jobs have, which the problem does not count.
    solver: of problems with fewer requirements.
    """
    if alone := list(impossible_jobs(problem)):
        return alone
    limits = limits or Limits()
    explanation = _Explanation(
        problem, heuristic, solver, Limits(min(MOST_S, limits.left_s * _SHARE), limits.node_limit, 0.0, limits.interrupted), seed
    )
    return sentences(problem, explanation.found(), set_aside or {})


def conflict_of(problem: ColocationProblem, heuristic: Heuristic, limits: Limits | None = None, seed: int = 0) -> Conflict[Requirement]:
    """Return requirements of an infeasible problem that exclude each other, minimal unless the limit came first."""
    return _Explanation(problem, heuristic, any_plan, limits or Limits(), seed).conflict()


class _Explanation:
    def __init__(self, problem: ColocationProblem, heuristic: Heuristic, solver: Solver, limits: Limits, seed: int) -> None:
        self.problem, self.heuristic, self.solver, self.limits, self.seed = problem, heuristic, solver, limits, seed
        self.groups = requirements(problem)
        self.known: dict[ColocationProblem, bool] = {}

    def found(self) -> Found:
        """Return the conflict, whether it was proven twice, and what would end it."""
        conflict = self.conflict()
        twice = self._proven_again(relaxed(self.problem, frozenset(conflict.requirements)))
        remedies: dict[tuple[Requirement, ...], str | None] = {}
        for part in reversed(conflict.parts):  # pools first: they are what can be bought
            for loosened in [(each,) for each in part] if len(part) <= FEW else [part]:
                remedies[loosened] = self._remedy(self._useful(loosened[0], changes(self.problem, list(loosened))))
        bought = [remedy for loosened, remedy in remedies.items() if isinstance(loosened[0], PoolLimit)]
        return Found(conflict, twice, remedies, None if any(bought) else self._enough_nodes(), self.limits.stop())

    def conflict(self) -> Conflict[Requirement]:
        """Return the conflict found in half of the time: what bounds and heuristics can drop, then what solves can."""
        part = self.limits.part(0.5)
        first, question = part.part(0.5), part.time_s / 8
        coarse = minimal_conflict(self.groups, lambda kept: self._fits(relaxed(self.problem, kept), first, 0.0), first.stop)
        coarse = _of_jobs_that_run(coarse)
        fine = minimal_conflict(coarse.parts, lambda kept: self._fits(relaxed(self.problem, kept), part, question), part.stop)
        return _of_jobs_that_run(fine)

    def _remedy(self, stronger: Changes) -> str | None:
        """Return the words of the weakest change known to make the whole problem fit; "" if none does, None if unknown."""
        part = self.limits.part(0.3)
        answers: dict[int, bool | None] = {}

        def suffices(k: int) -> bool | None:
            answers[k] = self._fits(stronger.at(k)[1], part, part.time_s / 4)
            return answers[k]

        step = weakest_change(stronger.count, suffices)
        if step is not None:
            return stronger.at(step)[0]
        return "" if stronger.count == 0 or answers[stronger.count - 1] is False else None

    def _useful(self, loosened: Requirement, stronger: Changes) -> Changes:
        """Return the changes up to one that a heuristic knows to suffice: a pool need not be larger than in its plan."""
        used = self._used_without([loosened.pool]) if isinstance(loosened, PoolLimit) else None
        if used is None or not isinstance(loosened, PoolLimit):
            return stronger
        return Changes(min(stronger.count, used[loosened.pool] - (self.problem.pools[loosened.pool].nodes or 0)), stronger.at)

    def _enough_nodes(self) -> dict[int, int] | None:
        """Return nodes of the limited pools that would do together: those of a cheap plan without limits."""
        limited = [p for p, pool in enumerate(self.problem.pools) if pool.nodes is not None]
        used = self._used_without(limited)
        return None if used is None else {p: max(used[p], self.problem.pools[p].nodes or 0) for p in limited}

    def _used_without(self, unlimited: list[int]) -> list[int] | None:
        """Return the nodes of each pool in a heuristic's plan without the limits of some pools, None if it has none."""
        pools = tuple(replace(pool, nodes=None) if p in unlimited else pool for p, pool in enumerate(self.problem.pools))
        free = replace(self.problem, pools=pools)
        plan = None if self.limits.stop() else self.heuristic(free, self.seed, self.limits.stop)
        return None if plan is None or verify(free, plan) else pool_totals(free, plan.groups)

    def _fits(self, problem: ColocationProblem, limits: Limits, most_s: float) -> bool | None:
        """Return whether the problem has a plan, None if that was not found out; most_s: of a solve, 0 for none."""
        if not problem.jobs:
            return True
        if problem in self.known:
            return self.known[problem]
        if limits.stop():
            return None
        answer = self._search(problem, limits, most_s)
        if answer is not None:
            self.known[problem] = answer
        return answer

    def _search(self, problem: ColocationProblem, limits: Limits, most_s: float) -> bool | None:
        if any(True for _ in impossible(problem)):
            return False
        for variant in _variants(problem):
            plan = self.heuristic(variant, self.seed, limits.stop)
            if plan is not None and not verify(variant, plan):
                return True
        if most_s <= 0 or limits.stop():
            return None
        return self._solved(problem, Limits(min(most_s, limits.left_s), limits.node_limit, _ANY_GAP, limits.interrupted), self.seed)

    def _solved(self, problem: ColocationProblem, limits: Limits, seed: int) -> bool | None:
        try:
            found = self.solver(problem, limits, seed)
        except InfeasibleError:
            return False
        except NoSolutionError:
            return None
        return True if not verify(problem, found) else None

    def _proven_again(self, problem: ColocationProblem) -> bool:
        if excluded(problem, self.limits.stop):
            return True
        if self.limits.stop():
            return False
        reverse = replace(problem, jobs=problem.jobs[::-1])
        return self._solved(reverse, self.limits.part(0.5), self.seed + 1) is False


def _of_jobs_that_run(conflict: Conflict[Requirement]) -> Conflict[Requirement]:
    """Leave out what is required of jobs that need not run: it says nothing."""
    running = {each.job for each in conflict.requirements if isinstance(each, Runs)}

    def says_something(each: Requirement) -> bool:
        return isinstance(each, PoolLimit | GroupSize) or each.job in running

    cut = {part: tuple(filter(says_something, part)) for part in conflict.parts}
    return Conflict(
        tuple(filter(says_something, conflict.requirements)),
        frozenset(filter(says_something, conflict.unproven)),
        tuple(part for part in cut.values() if part),
        frozenset(cut[part] for part in conflict.unproven_parts if cut[part]),
    )


def _variants(problem: ColocationProblem) -> list[ColocationProblem]:
    """Return the problem as heuristics may like it better: only a limited pool costs, or the most patient jobs come last."""
    variants = [problem]
    orders: list[Sequence[int]] = [range(len(problem.jobs)), sorted(range(len(problem.jobs)), key=lambda k: problem.jobs[k].tolerable_s)]
    for p, limited in enumerate(problem.pools):
        if limited.nodes is not None:
            pools = tuple(replace(pool, price_per_node_h=1.0 if index == p else 0.001) for index, pool in enumerate(problem.pools))
            variants += [replace(problem, pools=pools, jobs=tuple(problem.jobs[k] for k in order)) for order in orders]
    return variants
