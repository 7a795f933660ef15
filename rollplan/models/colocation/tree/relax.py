"""Column generation in a box of the tree: the LP, and pricing until no group improves it or the box is out of the running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor, fsum, inf, log10
from typing import Protocol

import numpy as np

from rollplan.models.certified import Leaf, Limits, TwoOfThree
from rollplan.models.colocation.pricing.block import Block, Floats, cost_unit
from rollplan.models.colocation.pricing.kernel import UNLIMITED, Priced, Rules, Stop
from rollplan.models.colocation.pricing.measures import Box, added_by, triples_of
from rollplan.models.colocation.pricing.measures import Priced as PricedMeasure
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.colocation.tree.master import Master, Prices

_PER_LEADER = 6
"""Columns of each leader added per pricing round, so that rounds are few and the LP stays small."""
_LEAST = 1e-9
"""Reduced costs nearer to 0, in units, are looked past; the bound pays for it."""
_DIGITS = 8
"""Digits of the witness's prices, counted from the dearest node's: the bound is that of the rounded prices."""


class Pricer(Protocol):
    """What finds groups of least reduced cost in a block: `Kernel` or `Listing`."""

    def price(
        self, prices: Floats, base: Floats, threshold: float, most: int, rules: Rules, stop: Stop | None, budget: int = ...
    ) -> Priced:
        """Return the best groups of each leader."""

    def correct(self, members: tuple[int, ...], nodes: int | None) -> None:
        """Note that a group needs other nodes than the closed form says."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What the LP of a box proves: a bound, in units, by prices in $/h; the columns' values; whether no group improves it.

    plain: whether all groups were counted with the nodes of the closed form, as a witness is.
    """

    bound: float
    prices: Leaf
    taken: Floats
    converged: bool
    plain: bool


class Relaxation:
    """The LP with its pricers. halt: set from outside, it ends all searches."""

    def __init__(self, problem: ColocationProblem, blocks: Sequence[Block], pricers: Sequence[Pricer], halt: Stop) -> None:
        self.problem, self.blocks, self.pricers, self.halt = problem, blocks, pricers, halt
        self.unit = cost_unit(problem)
        self.master = Master(problem, blocks)
        dearest = max(max(block.rollout_price, block.train_price) for block in blocks) * self.unit
        self._decimals = _DIGITS - 1 - floor(log10(dearest)) if dearest > 0 else _DIGITS
        self.work = 0
        self._plain = True

    def solve(
        self, box: Box, limits: Limits, enough: float = inf, tell: Callable[[Relaxed], None] = lambda relaxed: None
    ) -> Relaxed | None:
        """Solve the LP in a box, until a bound of `enough` is proven at the latest; None if it was stopped before any bound.

        tell: called with every better bound.
        """
        self.master.enter(box)
        best: Relaxed | None = None
        primal = False
        while not limits.stop():
            found = self.master.solve(box, limits.left_s, primal)
            if found is None:
                return best
            jobs, measures = self._rounded(found)
            bound, added, complete = self._priced(jobs, measures, box)
            if not complete:
                return best
            if best is None or bound > best.bound or not added:
                best = Relaxed(bound, self._leaf(jobs, measures), found.taken, not added, self._plain)
                tell(best)
            if not added or bound >= enough:
                return best
            primal = True
        return best

    def collect(self, box: Box, limits: Limits, budget: int, few: int, rounds: int) -> tuple[float, ...] | None:
        """Add groups to the LP by searches of limited work, which prove nothing, until a round finds no more than `few`.

        Return the last prices of jobs, $/h.
        """
        self.master.enter(box)
        prices: tuple[float, ...] | None = None
        for number in range(rounds):
            found = None if limits.stop() else self.master.solve(box, limits.left_s, number > 0)
            if found is None:
                break
            jobs, measures = self._rounded(found)
            prices = self._leaf(jobs, measures).jobs
            if self._priced(jobs, measures, box, budget)[1] <= few:
                break
        return prices

    def scaled(self, box: Box, limits: Limits, factor: float) -> Relaxed | None:
        """Return what the LP's prices times a factor prove: less than the LP's value, but sooner; None if it was stopped.

        A group violates lower prices less, or not at all, so that the search is shorter.
        """
        self.master.enter(box)
        found = self.master.solve(box, limits.left_s)
        if found is None:
            return None
        jobs, measures = self._rounded(replace(found, jobs=found.jobs * factor))
        bound, _, complete = self._priced(jobs, measures, box)
        return Relaxed(bound, self._leaf(jobs, measures), found.taken, False, self._plain) if complete else None

    def correct(self, column: int, nodes: int | None) -> bool:
        """Count a column's group with its true nodes (None: it cannot exist) from now on; return whether that was news."""
        master = self.master
        number = int(master.block_of[column])
        members = tuple(int(k) for k in master.members[column] if k >= 0)
        self._plain = False
        self.pricers[number].correct(members, nodes)
        return master.drop(column)

    def base(self, block: Block, measures: dict[PricedMeasure, float]) -> Floats:
        """Return the cost of a block's groups less what measures pay, by class of training nodes and rollout nodes."""
        base = block.base()
        for measure, price in measures.items():
            grid = None if isinstance(measure, TwoOfThree) else added_by(measure, block)
            if grid is not None:
                base = base - price * grid
        return base

    def _rounded(self, found: Prices) -> tuple[Floats, dict[PricedMeasure, float]]:
        """Return the LP's prices, in units, as the witness can write them."""
        jobs = np.round(found.jobs * self.unit, self._decimals) / self.unit
        measures = {measure: round(price * self.unit, self._decimals) / self.unit for measure, price in found.measures.items()}
        return jobs, {measure: price for measure, price in measures.items() if price}

    def _leaf(self, jobs: Floats, measures: dict[PricedMeasure, float]) -> Leaf:
        return Leaf(
            tuple(round(float(price) * self.unit, self._decimals) for price in jobs),
            tuple((measure, round(price * self.unit, self._decimals)) for measure, price in measures.items()),
        )

    def _priced(self, jobs: Floats, measures: dict[PricedMeasure, float], box: Box, budget: int = UNLIMITED) -> tuple[float, int, bool]:
        """Return the bound that prices prove in a box, how many groups were added to the LP, and whether none was left out."""
        parts = [float(jobs.sum())]
        for measure, price in measures.items():
            low, high = box.of(measure)
            parts.append(price * (low if price >= 0 else high))
        added, complete = 0, True
        for number, (block, pricer) in enumerate(zip(self.blocks, self.pricers, strict=True)):
            rules = box.rules(block)
            rules = Rules(rules.apart, rules.together, *triples_of(measures, block))
            priced = pricer.price(jobs[block.index], self.base(block, measures), -_LEAST, _PER_LEADER, rules, self.halt, budget)
            self.work += priced.work
            parts.append(float(priced.least.sum()) - _LEAST * len(block))
            complete &= priced.complete
            added += self.master.add(number, priced.found)
        return fsum(parts), added, complete
