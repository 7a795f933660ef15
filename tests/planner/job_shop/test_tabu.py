"""Tabu search: its graph against plain loops, its walks against the verifier, and the whole beside brute force."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollplan.models.certified import Bound, Limits
from rollplan.models.job_shop.board import Board
from rollplan.models.job_shop.bounds import lower_bound
from rollplan.models.job_shop.problem import Alternative, JobShopProblem, hybrid_flow_shop, job_shop
from rollplan.models.job_shop.timing import timed
from rollplan.models.job_shop.verify import verify
from rollplan.planner.job_shop.population import Population, improve
from rollplan.planner.job_shop.rules import best_dispatched, dispatched
from rollplan.planner.job_shop.solve import METHODS, Method, solve
from rollplan.planner.job_shop.tabu import estimate, longest_paths, move

# ft06 of Fisher and Thompson 1963; least makespan 55.
FT06 = job_shop(
    [
        [(2, 1), (0, 3), (1, 6), (3, 7), (5, 3), (4, 6)],
        [(1, 8), (2, 5), (4, 10), (5, 10), (0, 10), (3, 4)],
        [(2, 5), (3, 4), (5, 8), (0, 9), (1, 1), (4, 7)],
        [(1, 5), (0, 5), (2, 5), (3, 3), (4, 8), (5, 9)],
        [(2, 9), (1, 3), (4, 5), (5, 4), (0, 3), (3, 1)],
        [(1, 3), (3, 3), (5, 9), (0, 10), (4, 4), (2, 1)],
    ]
)
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=4)
shops = st.lists(rows, min_size=1, max_size=4).map(lambda jobs: job_shop(jobs, 3))


class Graph:
    """The arrays of a schedule's graph, and the same longest paths by relaxing all arcs until nothing changes."""

    def __init__(self, problem: JobShopProblem) -> None:
        shop = Population(problem, dispatched(problem, "shortest"), 0)
        self.work, self.chain, self.size = shop.work, shop.chain, shop.work.size
        assert shop.first is not None
        self.before, self.after = shop._neighbours(shop.first)
        self.heads, self.tails, self.order, self.degree = (np.zeros(self.size, np.int64) for _ in range(4))

    def paths(self) -> int:
        arrays = (self.work, self.chain, self.before, self.after, self.heads, self.tails, self.order, self.degree)
        return longest_paths(*arrays)

    def relaxed(self) -> int | None:
        """Return the longest path, None if there is a cycle."""
        heads = [0] * self.size
        for _ in range(self.size + 1):
            changed = False
            for i in range(self.size):
                for j in ([i - 1] if self.chain[i] else []) + ([int(self.before[i])] if self.before[i] >= 0 else []):
                    if heads[j] + int(self.work[j]) > heads[i]:
                        heads[i] = heads[j] + int(self.work[j])
                        changed = True
            if not changed:
                return max(heads[i] + int(self.work[i]) for i in range(self.size))
        return None

    def on_machines(self) -> list[list[int]]:
        firsts = [i for i in range(self.size) if self.before[i] < 0 and self.work[i] > 0]
        found = []
        for i in firsts:
            found.append([i])
            while self.after[found[-1][-1]] >= 0:
                found[-1].append(int(self.after[found[-1][-1]]))
        return found


@given(shops, st.data())
def test_a_move_changes_the_order_as_it_says_and_the_estimate_is_never_above_a_path(problem: JobShopProblem, data: st.DataObject) -> None:
    """The estimate is exact for the path through what was moved wherever heads before and tails behind are unchanged."""
    graph = Graph(problem)
    assert graph.paths() == graph.relaxed()
    machines = [row for row in graph.on_machines() if len(row) > 1]
    assume(machines)
    row = data.draw(st.sampled_from(machines))
    a, b = sorted(data.draw(st.lists(st.integers(0, len(row) - 1), min_size=2, max_size=2, unique=True)))
    forward = data.draw(st.booleans())
    scratch = [np.zeros(graph.size + 1, np.int64) for _ in range(2)]
    args = (row[a], row[b], forward, graph.work, graph.chain, graph.before, graph.after, graph.heads, graph.tails)
    value = estimate(*args, *scratch)
    move(row[a], row[b], forward, graph.before, graph.after)
    moved = row[:a] + ([*row[a + 1 : b + 1], row[a]] if forward else [row[b], *row[a:b]]) + row[b + 1 :]
    assert moved in graph.on_machines()
    if b == a + 1 and (makespan := graph.paths()) >= 0:
        assert value <= makespan
    move(row[b] if not forward else row[a + 1], row[a] if forward else row[b - 1], not forward, graph.before, graph.after)
    assert row in graph.on_machines()


@given(shops)
def test_a_closed_cycle_is_noticed(problem: JobShopProblem) -> None:
    """-1 instead of a makespan, exactly where relaxation never ends."""
    graph = Graph(problem)
    for row in graph.on_machines():
        if len(row) > 1:
            move(row[0], row[-1], True, graph.before, graph.after)
    makespan = graph.relaxed()
    if makespan is None or graph.paths() < 0:  # a cycle of no duration is one, too, though no path gets longer
        assert graph.paths() == -1
    else:
        assert graph.paths() == makespan


@settings(max_examples=30)
@given(shops, st.integers(0, 3))
def test_what_the_search_offers_is_feasible_and_never_worse(problem: JobShopProblem, seed: int) -> None:
    """The board verifies; it would remember a wrong schedule."""
    start = dispatched(problem, "longest")
    board = Board(problem, Limits(60), start, lower_bound(problem))
    improve(board, seed, walks=12, steps=20)
    assert board.refused == ()
    assert lower_bound(problem).value <= board.best.makespan <= start.makespan


@settings(max_examples=30)
@given(st.permutations(range(3)), st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=3))
def test_small_job_shops_are_solved_to_the_optimum(order: list[int], durations: list[list[int]]) -> None:
    """All orders of all machines, played in plain Python."""
    problem = job_shop([[(order[(k + job) % 3], d) for k, d in enumerate(row)] for job, row in enumerate(durations)])
    best = float("inf")
    for turns in set(permutations([job for job in range(len(durations)) for _ in range(3)])):
        ready, free, at = [0.0] * len(durations), [0.0] * 3, [0] * len(durations)
        for job in turns:
            (way,) = problem.jobs[job][at[job]]
            at[job] += 1
            ready[job] = free[way.machine] = max(ready[job], free[way.machine]) + way.duration
        best = min(best, max(ready))
    board = Board(problem, Limits(60), best_dispatched(problem), Bound(0.0, "closed form"))
    improve(board, 0, walks=15, steps=50)
    assert board.best.makespan == best


def test_the_same_seed_walks_the_same_way() -> None:
    """With and without numba: the dice are its own."""
    walks = [[Population(FT06, dispatched(FT06, "first"), seed).walk(100, 0.0) for _ in range(2)] for seed in (1, 1, 2)]
    assert walks[0] == walks[1]


WITHOUT = """
import sys
sys.modules["numba"] = None
from rollplan.models.job_shop.problem import job_shop
from rollplan.planner.job_shop.population import Population
from rollplan.planner.job_shop.rules import dispatched
problem = job_shop(ROWS)
shop = Population(problem, dispatched(problem, "first"), 3)
print([shop.walk(60, 0.0).starts for _ in range(12)])
"""


def test_without_numba_the_walks_are_the_same() -> None:
    """The same functions in plain Python; only slower."""
    shop = Population(FT06, dispatched(FT06, "first"), 3)
    compiled = [shop.walk(60, 0.0).starts for _ in range(12)]
    rows = [[(operation[0].machine, operation[0].duration) for operation in chain] for chain in FT06.jobs]
    program = WITHOUT.replace("ROWS", repr(rows))
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == repr(compiled)


def test_without_numba_the_exact_method_does_without_tabu_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT's neighbourhoods look for schedules then."""
    monkeypatch.setattr("rollplan.models.compiled.HAVE_COMPILER", False)
    found = solve(FT06, "exact", Limits(60))
    assert (found.value, found.bound.value) == (55, 55)


def test_ft06_is_solved_in_a_few_walks() -> None:
    """55, proven elsewhere."""
    board = Board(FT06, Limits(60), dispatched(FT06, "longest"), Bound(0.0, "closed form"))
    improve(board, 0, walks=10, steps=200)
    assert board.best.makespan == 55


def test_a_choice_of_machines_is_made_before_the_walks() -> None:
    """By the best schedule and by the LP, which loads both machines equally: 4 * 3 on the first, 2 * 6 on the second."""
    problem = JobShopProblem(2, (((Alternative(0, 3.0), Alternative(1, 6.0)),),) * 6)
    start = timed(problem, [(job, 0, problem.jobs[job][0][:1]) for job in range(6)])
    board = Board(problem, Limits(60), start, lower_bound(problem))
    assert start.makespan == 18
    improve(board, 0, walks=4, steps=20)
    assert (board.best.makespan, board.refused) == (12, ())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_feasible_schedule_with_a_bound_below_it(method: Method) -> None:
    """The heuristics have the bound in closed form; exact and repeatable prove 55."""
    found = solve(FT06, method, Limits(60, node_limit=200))
    assert verify(FT06, found.solution) == ()
    assert found.bound.value <= 55 <= found.value
    if method in ("exact", "repeatable"):
        assert (found.value, found.bound.value, found.stopped) == (55, 55, "optimal")


def test_a_hybrid_flow_shop_is_solved() -> None:
    """Six jobs of 2 on three machines, then one of 3 each on one: 2 + 6 * 3."""
    found = solve(hybrid_flow_shop([3, 1], [[2, 3]] * 6))
    assert (found.value, found.bound.value) == (20, 20)
