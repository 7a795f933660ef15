"""Why a split has no plan, or none within its target: the budgets, ways and target that exclude each other, and what would do.

Every answer derives the candidates again without the dropped requirements, which is exhaustive. A conflict is confirmed by
`verify.least_value`, which goes through all pairs of counts with code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from rollplan.models.certified import Limits
from rollplan.models.conflict import Conflict, minimal_conflict, weakest_change
from rollplan.models.errors import InfeasibleError
from rollplan.models.split.candidates import undominated
from rollplan.models.split.given import Pools, Split, budgets
from rollplan.models.split.problem import REL_TOL, STALENESS, SplitProblem, Way
from rollplan.models.split.verify import least_value
from rollplan.models.stages.compile import Links, compiled
from rollplan.models.stages.options import MOST_GPUS

MOST_S = 5.0
"""Seconds that an explanation takes at most."""
_TIMES = 8
"""By how much budgets are raised at most where stage times are derived; tables say by themselves what they need."""
_MOST_PAIRS = 50_000


@dataclass(frozen=True, slots=True)
class Budget:
    """GPUs of a pool that may be used."""

    pool: str


@dataclass(frozen=True, slots=True)
class Pipelining:
    """The ways in which separate stages may overlap."""


@dataclass(frozen=True, slots=True)
class Target:
    """Most seconds per iteration."""


Requirement: TypeAlias = Budget | Pipelining | Target


def explain(
    name: str,
    asked: Split,
    pools: Pools,
    links: Links = (),
    limits: Limits | None = None,
    elsewhere: Mapping[str, int] | None = None,
) -> list[str]:
    """Return which requirements of a split exclude each other and what would do for each; empty if it has a plan.

    Without a target: why no candidate fits the budgets. With one: also why none keeps it. elsewhere: nodes of each pool that the
    budgets of other splits take.
    """
    explanation = _Explanation(name, asked, pools, links, limits or Limits(MOST_S), elsewhere or {})
    return explanation.sentences() if explanation.fits(frozenset(explanation.requirements())) is False else []


def conflict_of(asked: Split, pools: Pools, links: Links = (), limits: Limits | None = None) -> Conflict[Requirement]:
    """Return requirements of a split without a plan that exclude each other; empty if no budget, way or target helps."""
    return _Explanation("", asked, pools, links, limits or Limits(MOST_S), {}).conflict()


class _Explanation:
    def __init__(self, name: str, asked: Split, pools: Pools, links: Links, limits: Limits, elsewhere: Mapping[str, int]) -> None:
        self.name, self.asked, self.pools, self.links, self.limits, self.elsewhere = name, asked, pools, links, limits, elsewhere
        self.budgets = budgets(asked, pools)
        self.known: dict[tuple[object, ...], SplitProblem | None] = {}

    def requirements(self) -> list[Requirement]:
        """Return what can be loosened; ways that were not named are our choice and no requirement."""
        ways: list[Requirement] = [Pipelining()] if self.asked.pipelining is not None else []
        target: list[Requirement] = [Target()] if self.asked.target_s is not None else []
        return [*ways, *(Budget(pool) for pool in self.budgets), *target]

    def conflict(self) -> Conflict[Requirement]:
        """Return the minimal conflict."""
        return minimal_conflict([[each] for each in self.requirements()], self.fits, self.limits.stop)

    def sentences(self) -> list[str]:
        """Return one line for what the lines are, and one for each requirement."""
        found = self.conflict()
        if not found.requirements:
            tried = " and ".join(f"{gpus} GPUs of {pool}" for pool, gpus in self._more_gpus().items())
            return [f"split {self.name}: more GPUs alone do not help, up to {tried} were tried"]
        lines = [self._line(each) for each in found.requirements]
        proof = "proven twice" if self._proven_again(found) else "proven once"
        sure = "" if found.minimal else f", perhaps with fewer: not proven minimal, the {self.limits.stop()} came first"
        if len(lines) > 1:
            return [f"these {len(lines)} requirements of split {self.name} exclude each other ({proof}){sure}", *lines]
        if found.requirements == (Target(),):
            return [f"no GPUs and no way keep the target of split {self.name} ({proof}){sure}", *lines]
        return [f"one requirement of split {self.name} excludes every plan ({proof}){sure}", *lines]

    def fits(self, kept: frozenset[Requirement]) -> bool | None:
        """Return whether a candidate keeps these requirements."""
        return self._keeps_target(self._relaxed(kept)) if Target() in kept else self._least_s(self._relaxed(kept)) is not None

    def _line(self, each: Requirement) -> str:
        if isinstance(each, Target):
            assert self.asked.target_s is not None, "else it is no requirement"
            least_s = self._least_s(self.asked)
            more = "no value alone is enough" if least_s is None else f"target: {ceil(least_s * 10 - 1e-9) / 10:.12g} s would do"
            return f"target: {self.asked.target_s:.12g} s per iteration ({more})"
        if isinstance(each, Pipelining):
            enough = [way for way in self._all_ways() if self._keeps_target(self.asked.model_copy(update={"pipelining": (way,)}))]
            more = f"{' or '.join(enough)} would do" if enough else "no other way alone is enough"
            return f"pipelining: {', '.join(self.asked.ways)} ({more})"
        more_gpus = self._counts(each.pool)
        step = weakest_change(len(more_gpus), lambda k: self._keeps_target(self._with_budget(each.pool, more_gpus[k])))
        more = (
            "no value alone is known to be enough"
            if step is None
            else f"budget.{each.pool}: {more_gpus[step]} would do{self._nodes(each.pool, more_gpus[step])}"
        )
        return f"budget.{each.pool}: {self.budgets[each.pool]} GPUs ({more})"

    def _nodes(self, pool: str, gpus: int) -> str:
        """Return the nodes that such a budget asks for, if the pool has fewer."""
        size, have = self.pools[pool].gpus_per_node, self.pools[pool].nodes
        needed = -(-gpus // size) + self.elsewhere.get(pool, 0)
        return "" if have is None or needed <= have else f", with nodes: {needed} of pool {pool}"

    def _relaxed(self, kept: frozenset[Requirement]) -> Split:
        more = self._more_gpus()
        changed: dict[str, object] = {"budget": {pool: gpus if Budget(pool) in kept else more[pool] for pool, gpus in self.budgets.items()}}
        if self.asked.pipelining is not None and Pipelining() not in kept:
            changed["pipelining"] = self._all_ways()
        return self.asked.model_copy(update=changed)

    def _with_budget(self, pool: str, gpus: int) -> Split:
        return self.asked.model_copy(update={"budget": {**self.budgets, pool: gpus}})

    def _counts(self, pool: str) -> range:
        """Return the budgets beyond the present one: single GPUs where tables are given, else whole nodes."""
        size = 1 if self.asked.model is None else self.pools[pool].gpus_per_node
        have = self.budgets[pool]
        return range(-(-(have + 1) // size) * size, self._more_gpus()[pool] + 1, size)

    def _more_gpus(self) -> dict[str, int]:
        """Return budgets that are as good as unlimited."""
        most = {}
        for pool, gpus in self.budgets.items():
            tables = max(self.asked.rollout.get(pool, {0: 0.0})) + max(self.asked.train.get(pool, {0: 0.0}))
            derived = 0 if self.asked.model is None else min(MOST_GPUS, _TIMES * gpus)
            most[pool] = max(gpus, tables, derived)
        return most

    def _all_ways(self) -> tuple[Way, ...]:
        """Return every way that the split could name, the least stale first."""
        known = [way for way in STALENESS if self.asked.model is not None or way not in ("mini-batch", "dynamic-batch")]
        return tuple(known)

    def _keeps_target(self, split: Split) -> bool | None:
        if self.limits.stop():
            return None
        least_s = self._least_s(split)
        return least_s is not None and (split.target_s is None or least_s <= split.target_s * (1 + REL_TOL))

    def _least_s(self, split: Split) -> float | None:
        """Return the seconds of the fastest candidate, None if there is none."""
        problem = self._problem(split)
        return None if problem is None else min((plan.iteration_s for plan in undominated(problem)), default=None)

    def _proven_again(self, found: Conflict[Requirement]) -> bool:
        """Return whether the other code finds no candidate either."""
        split = self._relaxed(frozenset(found.requirements))
        problem = self._problem(split)
        if problem is None:
            return False
        pairs = sum(map(len, problem.rollout.values())) * sum(map(len, problem.train.values()))
        if pairs * len(problem.pipelining) > _MOST_PAIRS:
            return False
        least_s = least_value(replace(problem, objective="time"))
        return least_s is None or (Target() in found.requirements and split.target_s is not None and least_s > split.target_s)

    def _problem(self, split: Split) -> SplitProblem | None:
        """Return the problem, None if no number of GPUs within the budgets has a layout."""
        key = (*split.budget.items(), split.ways)
        if key not in self.known:
            try:
                self.known[key] = compiled(split, self.pools, self.links).problem
            except InfeasibleError:
                self.known[key] = None
        return self.known[key]
