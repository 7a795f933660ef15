"""P||Cmax solved by its decision form: the least capacity with which m machines hold all jobs.

Only sums of jobs can be the optimum. Those between the closed bound and the best makespan are settled by the LP over
patterns: first the lowest, then the one just below the best makespan, since one of the two is mostly the optimum, then
bisection. From the least capacity that the LP does not refute, diving looks for a packing, then `complete`, which ends
with one or with a proof that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic

from rollplan.models.certified import Bound, Certified, Limits, Proof, Stopped
from rollplan.models.pcmax.bounds import lower_bound
from rollplan.models.pcmax.complete import complete
from rollplan.models.pcmax.patterns import MOST_CELLS, Patterns
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, lpt, of_times
from rollplan.models.pcmax.subset_sums import between, subset_sums

Improve = Callable[[PcmaxSolution, int], PcmaxSolution]
"""Returns a solution that is not worse, given one and a makespan that is good enough."""
_TRIES = 8


def exact(
    problem: PcmaxProblem,
    limits: Limits | None = None,
    start: PcmaxSolution | None = None,
    seed: int = 0,
    improve: Improve = lambda found, target: found,
    columns: Iterable[Sequence[int]] = (),
) -> Certified[PcmaxSolution]:
    """Return the best assignment found within `limits`, never worse than `start` (absent: LPT), with a proven bound.

    improve: is asked again with every better bound. columns: machines, as processing times, that the LP starts with.
    Problems of more than `MOST_CELLS` jobs times makespan keep the bound in closed form (stopped: `search limit`).
    """
    begun, limits = monotonic(), limits or Limits()
    search = _Search(problem, limits, start or lpt(problem), seed, improve)
    search.run(columns)
    found = Certified(search.best, search.best.makespan, Bound(search.low, search.proof), "optimal", monotonic() - begun, seed)
    stopped: Stopped = limits.stop() or "search limit"
    if search.met():
        stopped = "optimal" if found.optimal else "target gap"
    return replace(found, stopped=stopped)


class _Search:
    """The best assignment so far, and the least makespan that is not refuted."""

    def __init__(self, problem: PcmaxProblem, limits: Limits, start: PcmaxSolution, seed: int, improve: Improve) -> None:
        self.problem, self.limits, self.seed, self.improve = problem, limits, seed, improve
        closed = lower_bound(problem)
        self.low, self.proof = int(closed.value), closed.proof
        self.best = improve(start, self.low)

    def run(self, columns: Iterable[Sequence[int]]) -> None:
        """Search until the two meet, if the table of the knapsack is not too large."""
        if self.met() or len(self.problem) * self.best.makespan > MOST_CELLS:
            return
        patterns = Patterns(self.problem)
        patterns.add([self.problem.times[job] for job in jobs] for jobs in self.best.machines)
        patterns.add(columns)
        sums = subset_sums(self.problem.times, self.best.makespan)
        while not self.met():
            left = between(sums, self.low, self.best.makespan)
            if not self._refute(patterns, left):
                break
            if not self.met():
                self.best = self.improve(self.best, self.low)
            if not self.met() and not self._settle(patterns):
                break

    def met(self) -> bool:
        """Whether the two are near enough to each other."""
        return self.best.makespan <= self.low * (1 + self.limits.target_gap)

    def _refute(self, patterns: Patterns, capacities: list[int]) -> bool:
        """Raise the bound to the first of these capacities, rising, that the LP does not refute; return whether it was found."""
        ends = [*capacities, self.best.makespan]
        self._raise(ends[0], self.proof)  # nothing between is a sum of jobs
        first = probe = 0
        last = len(capacities)
        while first < last:
            fits = patterns.fits(capacities[probe], self.limits)
            if fits is None:
                return False
            if fits:
                last = probe
            else:
                first = probe + 1
                self._raise(ends[first], "LP relaxation")
            probe = len(capacities) - 1 if probe == 0 else (first + last) // 2
        return True

    def _raise(self, low: int, proof: Proof) -> None:
        if low > self.low:
            self.low, self.proof = low, proof

    def _settle(self, patterns: Patterns) -> bool:
        """Find a packing at the bound, or refute it, and return whether this was done."""
        packed = patterns.dive(self.low, self.limits, _TRIES, self.seed)
        if packed is None and self.limits.stop() is None:
            settled = complete(patterns, self.limits, self.seed)
            if settled is False:
                self._raise(self.low + 1, "CP-SAT")
                return True
            packed = settled
        if packed is not None:
            self.best = min(self.best, of_times(self.problem, patterns.machines_of(packed)), key=lambda found: found.makespan)
        return packed is not None
