"""P||Cmax solved by name, with a proven bound."""

from __future__ import annotations

from time import monotonic
from typing import Literal, get_args

from rollplan.models.certified import Certified, Limits, Stopped
from rollplan.models.pcmax.bounds import lower_bound
from rollplan.models.pcmax.exact import exact
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, lpt
from rollplan.planner.pcmax.improve import improve
from rollplan.planner.pcmax.multifit import multifit

Method = Literal["exact", "lpt", "multifit", "improved"]
METHODS: tuple[Method, ...] = get_args(Method)


def solve(problem: PcmaxProblem, method: Method = "exact", limits: Limits | None = None, seed: int = 0) -> Certified[PcmaxSolution]:
    """Return an assignment with its makespan, and a bound that none can undercut, both in the problem's units.

    lpt, multifit: the rules. improved: local search from MULTIFIT. exact: from there to a proof, or until limits say stop.
    The seed chooses among equals in the local search and in CP-SAT; a run that meets no time limit repeats itself.
    """
    begun, limits = monotonic(), limits or Limits()
    start = lpt(problem) if method == "lpt" else multifit(problem)

    def improved(found: PcmaxSolution, target: int) -> PcmaxSolution:
        return improve(problem, found, target, seed=seed, stop=limits.stop)

    if method == "exact":
        columns = [[problem.times[job] for job in jobs] for jobs in (*start.machines, *lpt(problem).machines)]
        found = exact(problem, limits, start, seed, improved, columns)
        return Certified(found.solution, found.value, found.bound, found.stopped, monotonic() - begun, seed)
    bound = lower_bound(problem)
    best = improved(start, int(bound.value)) if method == "improved" else start
    stopped: Stopped = "optimal" if best.makespan <= bound.value else limits.stop() or "heuristic"
    return Certified(best, best.makespan, bound, stopped, monotonic() - begun, seed)
