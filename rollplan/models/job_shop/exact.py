"""P4 b solved exactly: searches of different character side by side, which share schedules and bounds.

On few cores CP-SAT's own portfolio has no room for the searches that prove most job shops, those without an LP. So:

- shops without a choice of machines: one core proves with strong propagation of the disjunctive constraints; the other runs
  an improver (the planner's tabu search) while it pays, and then proves with other conflict analysis;
- without an improver, and shops with a choice: one CP-SAT of two workers, a search without an LP and neighbourhoods. The
  improver gives it schedules to begin again from.

A search cannot take in a schedule that another one has found. In the first third of the time it is begun again from that
schedule whenever its age has doubled: what it has learned is lost a few times, early, and heads, tails and objective are cut to
the new upper limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from threading import Thread
from time import monotonic, sleep

from rollplan.models import native
from rollplan.models.certified import Bound, Certified, Limits, Report, Stopped, gap, silent
from rollplan.models.job_shop.board import Board
from rollplan.models.job_shop.bounds import lower_bound
from rollplan.models.job_shop.cpsat import Search, Settings
from rollplan.models.job_shop.fluid import fluid
from rollplan.models.job_shop.problem import JobShopProblem
from rollplan.models.job_shop.second_proof import MOST_OPERATIONS, shorter
from rollplan.models.job_shop.solution import Schedule
from rollplan.models.job_shop.whole import WholeShop, whole

Improver = Callable[[Board], None]
"""Offers better schedules to a board until it is closed, or until more seem out of reach."""

PROPAGATING = Settings("propagating", 1, (("linearization_level", 0), ("use_strong_propagation_in_disjunctive", True)))
RESOLVING = Settings(
    "resolving",
    1,
    (("linearization_level", 0), ("use_new_integer_conflict_resolution", True), ("create_1uip_boolean_during_icr", True)),
)
NEIGHBOURHOODS = Settings("neighbourhoods", 2, RESOLVING.parameters[1:], ("no_lp",))

DETERMINISTIC_PER_NODE = 1e-3
"""Units of CP-SAT's deterministic time for each node of `Limits.node_limit`; a unit is about 25 s of one core."""
_GLANCE_S = 0.02
_FIRST_RENEWAL_S = 0.4
_RENEWAL_SHARE = 1 / 3


def exact(
    problem: JobShopProblem,
    limits: Limits,
    start: Schedule,
    seed: int = 0,
    report: Report = silent,
    improver: Improver | None = None,
    repeatable: bool = False,
) -> Certified[Schedule]:
    """Return the best schedule found within `limits`, never worse than `start`, with a proven bound.

    It keeps two cores busy. repeatable: one core, and `limits.node_limit` instead of the clock (1,000 nodes are a unit of
    CP-SAT's deterministic time): the same seed and version of OR-Tools give the same answer, if `limits.time_s` suffices.
    """
    board = Board(problem, limits, start, lower_bound(problem), report)
    if problem.flexible and not board.closed and (relaxed := fluid(problem, limits.part(0.2))):
        board.prove(relaxed.bound)
    if not board.closed:
        shop = whole(problem, start.makespan)
        lanes = _lanes(board, shop, seed, improver, repeatable)
        native.run(lambda: _race(board, shop, lanes), limits)
    best, bound, refused = board.best, board.bound, board.refused
    if refused:
        raise RuntimeError(f"a search made a wrong schedule: {refused[0]}")
    if bound.proof == "CP-SAT" and problem.size <= MOST_OPERATIONS and board.gap <= 1e-9:
        answer = shorter(whole(problem, best.makespan), best.makespan, limits)
        if isinstance(answer, Schedule):  # the proof was wrong: only what needs no search is left
            best, bound = answer, lower_bound(problem)
    return Certified(
        best, best.makespan, bound, _stopped(gap(best.makespan, bound.value), board, repeatable), monotonic() - limits.started, seed
    )


def _stopped(distance: float, board: Board, repeatable: bool) -> Stopped:
    if distance <= 1e-9:
        return "optimal"
    if distance <= board.limits.target_gap:
        return "target gap"
    return board.limits.stop() or ("node limit" if repeatable and not board.exhausted else "search limit")


class _Prover:
    """A search by CP-SAT that begins again from a better schedule when it is told to."""

    def __init__(self, board: Board, shop: WholeShop, settings: Settings, seed: int, deterministic: float | None = None) -> None:
        self.board = board
        self.shop = shop
        self.search = Search(shop, settings, seed, self._found, self._raised)
        self.deterministic = deterministic
        self.upper: int | None = None
        self.renewed = False

    def run(self) -> None:
        """Search until the board is closed or the search has ended by itself."""
        board = self.board
        while not board.closed:
            self.renewed = False
            best = board.best
            self.upper = self.shop.units(best.makespan)
            if self.search.run(best, self._lower(), board.limits.left_s, self.deterministic):
                board.exhausted = True
            elif not self.renewed:
                return

    def watch(self, renew: bool) -> None:
        """Stop the search if the board is closed, or if it is time to begin again and another one knows better."""
        if self.board.closed:
            self.search.stop()
        elif renew and self.upper is not None and self.shop.units(self.board.best.makespan) < self.upper:
            self.renewed = True
        if self.renewed:
            self.search.stop()

    def _lower(self) -> int:
        """Return the least makespan in whole numbers that the bound leaves."""
        return self.shop.least_units(self.board.bound.value)

    def _found(self, schedule: Schedule) -> None:
        self.upper = min(self.shop.units(schedule.makespan), self.upper or self.shop.units(schedule.makespan))
        self.board.offer(schedule)

    def _raised(self, units: int) -> None:
        self.board.prove(Bound(self.shop.time(units), "CP-SAT"))


Lane = Sequence[_Prover | Callable[[], None]]
"""What one core does, one after another."""


def _lanes(board: Board, shop: WholeShop, seed: int, improver: Improver | None, repeatable: bool) -> list[Lane]:
    if repeatable:
        return [[_Prover(board, shop, PROPAGATING, seed, board.limits.node_limit * DETERMINISTIC_PER_NODE)]]
    if improver is None:
        return [[_Prover(board, shop, NEIGHBOURHOODS, seed)]]
    if board.problem.flexible:
        return [[_Prover(board, shop, NEIGHBOURHOODS, seed)], [lambda: improver(board)]]
    return [
        [_Prover(board, shop, PROPAGATING, seed)],
        [lambda: improver(board), _Prover(board, shop, RESOLVING, seed + 1)],
    ]


def _race(board: Board, shop: WholeShop, lanes: list[Lane]) -> None:
    """Run the lanes until all are through, and tell their provers when to stop or to begin again."""
    faults: list[BaseException] = []

    def run(lane: Lane) -> None:
        try:
            for step in lane:
                if not board.closed:
                    step.run() if isinstance(step, _Prover) else step()
        except BaseException as fault:
            faults.append(fault)

    threads = [Thread(target=run, args=(lane,), name="rollplan-job-shop", daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    began = monotonic()
    due, last = _FIRST_RENEWAL_S, board.limits.left_s * _RENEWAL_SHARE
    while any(thread.is_alive() for thread in threads):
        sleep(_GLANCE_S)
        renew = monotonic() - began >= due
        if renew:
            due = 2 * due if 2 * due <= last else inf
        for prover in (step for lane in lanes for step in lane if isinstance(step, _Prover)):
            prover.watch(renew)
    if faults:
        raise faults[0]
