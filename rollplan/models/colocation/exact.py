"""P3 solved exactly: branch and price over feasible groups, with a large-neighbourhood search for good plans beside it.

docs/colocation_exact.md says what is proven by which argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np

from rollplan.models.certified import Bound, Certified, Limits, Report, Stopped, Witness, gap, silent
from rollplan.models.colocation.closed_form import fluid_bound, impossible
from rollplan.models.colocation.plans.incumbent import Incumbent, Members, Timetables
from rollplan.models.colocation.pricing.block import Block, Floats, blocks_of, cost_unit
from rollplan.models.colocation.pricing.columns import Columns, enumerate_groups
from rollplan.models.colocation.pricing.kernel import Kernel, never
from rollplan.models.colocation.pricing.listing import SCANNED_BY_NUMPY, Listing, list_all
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool
from rollplan.models.colocation.tree.relax import Pricer, Relaxation
from rollplan.models.colocation.tree.search import Search
from rollplan.models.colocation.tree.windows import begin
from rollplan.models.compiled import HAVE_COMPILER
from rollplan.models.errors import InfeasibleError, NoSolutionError
from rollplan.models.native import run

if TYPE_CHECKING:
    from rollplan.models.colocation.plans.improve import Improver

_LISTED = 2_000_000
"""Most groups of a block that are listed, instead of searched for in every pricing."""
_SEARCHED_AT_ONCE = 1_500
"""With fewer groups the tree needs no plan to start from."""
_WORK_BEFORE, _WORK_AFTER, _WORK_BETWEEN, _MOST_WORK = 20_000, 40_000, 20_000, 320_000
"""Work for each job of the search for better plans: before the first LP, after it, and between so many nodes of the tree (times
jobs), where it doubles up to the last number as long as the bound stands still."""
_NEAR = 0.1
"""Groups with reduced cost below this share of the dearest node's price link jobs to neighbourhoods."""
_NODES_TIMES_JOBS = 3_000
_LIMITED, _LIMITED_ROUNDS = 3_000, 2
"""Work of the first searches for each leader and pair of node counts, and their rounds: most groups are found early."""
_CUT, _HEAVY = 600, 2_000_000_000
"""Most jobs for which the LP is tightened by cuts, and work of a first LP beyond which there is no tree for more of them."""
_PATIENCE = 0.3
"""Share of the time left for which the tree waits until the search for plans is compiled."""
_SCALED = 0.98
"""Share of the prices that prove the first bound of a large fleet."""
_SLOWER = 100
"""How many times less work is done without a compiler."""
_THREADS = 2


def exact(
    problem: ColocationProblem,
    limits: Limits | None = None,
    start: ColocationSolution | None = None,
    seed: int = 0,
    report: Report = silent,
    timetables: Timetables | None = None,
    columns: Columns | None = None,
) -> Certified[ColocationSolution]:
    """Return the best plan found within `limits`, never worse than `start`, with a proven bound and its witness.

    timetables: the law of groups for which the closed form is only a lower bound; without one, the closed form is the law.
    columns: all groups there may be, with lower bounds on their nodes, where they are more than the closed form allows.
    Raises `InfeasibleError` if the pools cannot hold the jobs, `NoSolutionError` if the limit came first.
    """
    limits = limits or Limits()
    if reasons := list(impossible(problem)):
        raise InfeasibleError(reasons)
    if not problem.jobs:
        return Certified(ColocationSolution((), 0.0), 0.0, Bound(0.0, "fluid"), "optimal", seed=seed)
    solver = _Solver(problem, limits, start, seed, report, timetables, columns)
    ended = run(solver.solve, solver.watched) or limits.stop() or "time limit"
    return solver.answer(ended)


class _Solver:
    """One run. It is watched from outside: `answer` may be asked while `solve` is still busy, and hears no more of it."""

    def __init__(
        self,
        problem: ColocationProblem,
        limits: Limits,
        start: ColocationSolution | None,
        seed: int,
        report: Report,
        timetables: Timetables | None,
        columns: Columns | None,
    ) -> None:
        self._problem, self._limits, self._seed, self._columns = problem, limits, seed, columns
        self._floor = problem.next_cost(fluid_bound(problem))
        self._halt = never()
        self._answered = False
        self._patience = 1.0 if len(problem.jobs) > _CUT else _PATIENCE
        # Several runs per period allow groups that the closed form does not know: without a list of them no LP is a bound.
        self._unlisted = problem.max_rate > 1 and columns is None
        self._incumbent = Incumbent(problem, start, timetables, lambda value, bound: None if self._answered else report(value, bound))
        self._timetables = timetables
        self._search: Search | None = None
        self._improvers: list[Improver] = []
        self._watched = Limits(limits.left_s, limits.node_limit, limits.target_gap, self._struck)

    @property
    def watched(self) -> Limits:
        """The limits; asking them stops the compiled searches, too, once they have struck."""
        return self._watched

    def _struck(self) -> bool:
        if self._limits.stop():
            self._halt[0] = 1
        return self._limits.interrupted()

    def solve(self) -> Stopped:
        """Search until the plan is proven or a limit strikes; return why it ended."""
        self._incumbent.tell(self._floor)
        if self._limits.stop():
            return self._limits.stop() or "time limit"
        blocks = blocks_of(self._problem)
        pricers = self._pricers(blocks)
        if pricers is None:
            return self._limits.stop() or "time limit"
        relaxation = Relaxation(self._problem, blocks, pricers, self._halt)
        search = Search(self._problem, relaxation, self._incumbent, self._limits, self._floor)
        self._search = search
        if self._unlisted:
            return self._only_improve(search)
        listed = [pricer for pricer in pricers if isinstance(pricer, Listing)]
        if len(listed) == len(pricers) and sum(map(len, listed)) < _SEARCHED_AT_ONCE:
            return search.grow(self._limits.node_limit) or "node limit" if search.open_root() else self._limits.stop() or "search limit"
        large = len(self._problem.jobs) > _CUT
        self._improve(_WORK_BEFORE // 2 if large else _WORK_BEFORE)
        if len(listed) < len(pricers):
            begin(relaxation, self._guess(blocks), self._limits, _THREADS)
            search.collect(_LIMITED, _LIMITED_ROUNDS)
        if large and not search.good_enough():
            search.first_bound(_SCALED)
            self._improve(_WORK_BETWEEN, search.dive())
            search.collect(_LIMITED, _LIMITED_ROUNDS)
        before = relaxation.work
        if search.open_root(cuts=not large) is None:
            return self._limits.stop() or "search limit"
        if not search.good_enough():
            self._improve(_WORK_AFTER, search.dive())
        if large and relaxation.work - before > _HEAVY:
            return self._only_improve(search)
        return self._grow(search)

    def _grow(self, search: Search) -> Stopped:
        """Let tree and plan improve by turns; where the bound stands still, the search for plans gets more and more of the work."""
        at_once = max(4, _NODES_TIMES_JOBS // len(self._problem.jobs))
        work, dives = _WORK_BETWEEN, 0
        before = search.lowest()
        while (ended := search.grow(at_once)) is None:
            stuck = search.lowest() <= before
            before = search.lowest()
            work = min(2 * work, _MOST_WORK) if stuck else _WORK_BETWEEN
            # From the best plan, and from the LPs of open parts, which lead elsewhere.
            self._improve(work // 2)
            for _ in range(work // (2 * _WORK_BETWEEN)):
                self._improve(_WORK_BETWEEN, search.dive(dives))
                dives += 1
        return ended

    def _only_improve(self, search: Search) -> Stopped:
        """Improve the plan alone, where one node of the tree takes too long; each run counts as a node."""
        for _ in range(self._limits.node_limit):
            if search.good_enough():
                return "optimal"
            if struck := self._limits.stop():
                return struck
            self._patience = 1.0
            self._improve(_WORK_AFTER)
        return "node limit"

    def _guess(self, blocks: Sequence[Block]) -> list[Floats]:
        """Return the prices that the search for plans has learnt, in units, for each block."""
        improver = self._made_improvers()[0]
        prices = np.zeros(len(self._problem.jobs))
        prices[improver.fleet.index] = improver.prices * improver.fleet.unit / cost_unit(self._problem)
        return [prices[block.index] for block in blocks]

    def _improve(self, work: int, start: list[Members] | None = None) -> bool:
        """Search for a better plan in neighbourhoods of the best one, or of `start`, `work` for each job; return whether there is one."""
        search, plan = self._search, self._incumbent.plan
        if search is None or search.good_enough() or not self._compiled():
            return False
        groups = start if start is not None or plan is None else [group.jobs for group in plan.groups]
        amount = work * len(self._problem.jobs) // (1 if HAVE_COMPILER else _SLOWER)
        duals, columns = search.prices, search.near_groups(_NEAR)
        improvers = self._made_improvers()
        with ThreadPoolExecutor(len(improvers)) as pool:
            runs = [pool.submit(improver.run, groups, amount, self._limits.stop, duals, columns) for improver in improvers]
        better = [self._incumbent.offer(each.result()) for each in runs]
        return any(better)

    def _compiled(self) -> bool:
        """Whether the search for plans is compiled; the first time this is waited for, later the tree goes on meanwhile.

        Only the very first run of a machine compiles; others load the code from disk.
        """
        share, self._patience = self._patience, 0.0
        ready = _compilation()
        end = self._limits.left_s * (1.0 - share)
        while not ready.wait(0.02) and self._limits.left_s > end and not self._limits.stop():
            pass
        return ready.is_set()

    def _made_improvers(self) -> list[Improver]:
        """Return searches for better plans: two that go different ways in a small fleet, one on two threads in a large one."""
        if not self._improvers:
            from rollplan.models.colocation.plans.improve import Improver

            fewest = None if self._timetables is None else self._nodes_or_too_many
            small = len(self._problem.jobs) <= _CUT and fewest is None
            seeds, threads = ((self._seed, self._seed + 1), 1) if small else ((self._seed,), _THREADS)
            self._improvers = [Improver(self._problem, seed, fewest=fewest, threads=threads) for seed in seeds]
        return self._improvers

    def _nodes_or_too_many(self, members: tuple[int, ...]) -> int:
        """Return the fewest nodes of a group, or more than any plan would give it if it cannot exist."""
        nodes = self._incumbent.nodes(members)
        return nodes if nodes is not None else 1000 + sum(self._problem.jobs[k].rollout_nodes for k in members)

    def answer(self, ended: Stopped) -> Certified[ColocationSolution]:
        """Return what is known now."""
        self._answered = True
        # A part of the search that the clock cut short ends like one that reached a limit of its own.
        ended = (self._limits.stop() or ended) if ended == "search limit" else ended
        plan, search = self._incumbent.plan, self._search
        if plan is None:
            if ended == "optimal":
                raise InfeasibleError(_capacity_reasons(self._problem))
            raise NoSolutionError(f"the {ended} was reached before any plan was found{_ADVICE.get(ended, '')}")
        lowest = self._floor if search is None else min(search.bound(), plan.cost_per_h)
        witness, proven = (None, self._floor) if search is None else search.witness()
        proven = min(proven, lowest)
        if lowest <= self._floor:
            bound = Bound(self._floor, "fluid")
        else:
            bound = Bound(lowest, "LP relaxation" if proven >= lowest else "branch and bound")
        optimal = gap(plan.cost_per_h, bound.value) <= 1e-9
        # A search that came to its end without a proof was content with the gap.
        stopped: Stopped = "optimal" if optimal else "target gap" if ended == "optimal" else ended
        return Certified(plan, plan.cost_per_h, bound, stopped, seed=self._seed, witness=witness, witness_bound=proven)

    def first_bound(self) -> None:
        """Solve the LP of all plans."""
        blocks = blocks_of(self._problem)
        pricers = None if self._unlisted else self._pricers(blocks)
        if pricers is not None:
            relaxation = Relaxation(self._problem, blocks, pricers, self._halt)
            self._search = Search(self._problem, relaxation, self._incumbent, self._limits, self._floor)
            self._search.open_root()

    def proven(self) -> tuple[Bound, Witness | None]:
        """Return the bound that a witness proves, and the witness; the fluid bound without one."""
        witness, value = (None, self._floor) if self._search is None else self._search.witness()
        return Bound(value, "fluid" if witness is None else "LP relaxation"), witness

    def _pricers(self, blocks: Sequence[Block]) -> list[Pricer] | None:
        """Return what prices each block: a list of its groups where they are few, else the compiled search; None if stopped."""
        columns = self._columns
        if columns is None:
            stop = self._limits.stop
            few = enumerate_groups(self._problem, stop, SCANNED_BY_NUMPY, or_neighbours=False)
            columns = few if few.complete else None if HAVE_COMPILER else enumerate_groups(self._problem, stop)
        if columns is not None:
            return [Listing.of_columns(block, columns) for block in blocks]
        pricers: list[Pricer] = []
        for block in blocks:
            kernel = Kernel(block, _THREADS)
            pricers.append(list_all(kernel, _LISTED, self._halt) or kernel)
        return None if self._limits.stop() else pricers


@cache
def _compilation() -> Event:
    """Begin to compile the search for plans beside everything else, once; return the event of its end."""
    from rollplan.models.colocation.plans.improve import Improver

    ready = Event()
    jobs = tuple(JobData(f"job{k}", 2.0, 100.0, 50.0 + k) for k in range(6))
    small = ColocationProblem((NodePool("rollout", 1.0, 0.0), NodePool("train", 2.0, 0.0)), jobs)

    def work() -> None:
        try:
            if HAVE_COMPILER:
                Improver(small).run(None, 100)
                Improver(small).run(None, 100, duals=[1.0] * len(jobs))
        finally:
            ready.set()

    Thread(target=work, name="rollplan-compiler", daemon=True).start()
    return ready


_ADVICE = {"node limit": "; raise --node-limit", "time limit": "; raise --time-limit"}
"""What helps against a limit that came too early."""


def lower_bound(problem: ColocationProblem, limits: Limits, columns: Columns | None = None) -> tuple[Bound, Witness | None]:
    """Return the LP bound and its witness if it is known within the limits, else the fluid bound; columns: as in `exact`."""
    solver = _Solver(problem, limits, None, 0, silent, None, columns)
    run(solver.first_bound, solver.watched)
    return solver.proven()


def _capacity_reasons(problem: ColocationProblem) -> list[str]:
    limited = [pool for pool in problem.pools if pool.nodes is not None]
    return [
        f"{len(problem.jobs)} jobs do not fit into {' and '.join(f'{pool.nodes} nodes of {pool.name}' for pool in limited)} "
        "without breaking an SLO, memory or group-size limit (raise `nodes`, loosen `slo`, or remove jobs)"
    ]
