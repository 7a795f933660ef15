"""Branch and price: the optimum of an independent dynamic program, bounds that are bounds, progress, repeatability, limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random
from time import monotonic

import numpy as np
import pytest

from rollplan.models.certified import Branch, Limits, PoolNodes, Together, Witness
from rollplan.models.colocation.certificate import checked_bound
from rollplan.models.colocation.exact import exact
from rollplan.models.colocation.pricing.block import blocks_of
from rollplan.models.colocation.pricing.columns import enumerate_groups
from rollplan.models.colocation.pricing.kernel import Kernel, never
from rollplan.models.colocation.pricing.measures import Box
from rollplan.models.colocation.problem import ColocationProblem, Group, JobData, NodePool
from rollplan.models.colocation.solution import group_of, solution_of
from rollplan.models.colocation.tree import search as search_module
from rollplan.models.colocation.tree.relax import Relaxation
from rollplan.models.colocation.verify import verify
from rollplan.models.errors import InfeasibleError

POOLS = (NodePool("h20", 14.80, 1863.0), NodePool("h800", 42.24, 1863.0), NodePool("l20", 9.6, 1500.0))


def fleet(seed: int, size: int, pairs: int = 1) -> ColocationProblem:
    """Jobs like those of a real cluster, many of which may share; on one or two pairs of pools with a common training pool."""
    random = Random(f"branch {seed} {size} {pairs}")
    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=round(random.uniform(1.05, 2.2 if size < 20 else 1.9), 2),
            rollout_s=float(random.randint(60, 400)),
            train_s=float(random.randint(20, 200)),
            rollout_pool=random.choice([0, 2]) if pairs == 2 else 0,
            rollout_nodes=random.randint(1, 4),
            train_nodes=random.choice([1, 2, 4]),
            rollout_memory_gib=float(random.randint(120, 500)),
            train_memory_gib=float(random.randint(120, 400)),
        )
        for k in range(size)
    )
    return ColocationProblem(POOLS, jobs)


class Dearer:
    """A law under which a group of s jobs needs s // 3 rollout nodes more than the closed form says, and there are none of five."""

    def __init__(self, problem: ColocationProblem) -> None:
        self.problem, self.asked = problem, 0

    def fewest(self, members: tuple[int, ...]) -> tuple[Group | None, bool]:
        """Return the group, and that fewer nodes are refuted."""
        self.asked += 1
        group = group_of(self.problem, list(members))
        return (None if len(members) == 5 else replace(group, rollout_nodes=group.rollout_nodes + len(members) // 3)), True


def groups_of(problem: ColocationProblem, law: Dearer | None) -> Iterator[tuple[int, float]]:
    """Yield every feasible group as a bit mask, with its cost."""
    columns = enumerate_groups(problem, lambda: None)
    for row in columns.members.tolist():
        members = tuple(sorted(k for k in row if k >= 0))
        group = group_of(problem, list(members)) if law is None else law.fewest(members)[0]
        if group is not None:
            job = problem.jobs[members[0]]
            prices = problem.pools[job.rollout_pool].price_per_node_h, problem.pools[job.train_pool].price_per_node_h
            yield sum(1 << k for k in members), group.rollout_nodes * prices[0] + group.train_nodes * prices[1]


def least_cost(problem: ColocationProblem, law: Dearer | None = None) -> float:
    """Return the least cost over all partitions, by a dynamic program over sets of jobs; pools have no limits."""
    leading: list[list[tuple[int, float]]] = [[] for _ in problem.jobs]
    for mask, cost in groups_of(problem, law):
        leading[(mask & -mask).bit_length() - 1].append((mask, cost))
    least = [0.0] + [inf] * ((1 << len(problem.jobs)) - 1)
    for rest in range(1, len(least)):
        first = (rest & -rest).bit_length() - 1
        least[rest] = min((least[rest ^ mask] + cost for mask, cost in leading[first] if mask & rest == mask), default=inf)
    return least[-1]


def measures_of(witness: Witness | None) -> Iterator[object]:
    """Yield the measures that a witness branches on."""
    if isinstance(witness, Branch):
        yield witness.measure
        yield from measures_of(witness.below)
        yield from measures_of(witness.above)


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_exact_equals_a_dynamic_program_over_sets_of_jobs(seed: int, pairs: int) -> None:
    """Eleven jobs are too many for all partitions; the program shares no code with LP, tree and pricing."""
    problem = fleet(seed, 11, pairs)
    found = exact(problem)
    assert found.optimal
    assert verify(problem, found.solution) == ()
    assert found.value == pytest.approx(least_cost(problem), rel=1e-9)


@pytest.mark.parametrize("part", range(10))
def test_exact_equals_a_dynamic_program_over_sets_of_jobs_on_a_hundred_fleets(part: int) -> None:
    """Ten times ten fleets of up to twelve jobs, with the closed form and with a law that makes groups dearer."""
    wrong = []
    for seed in range(100 + 10 * part, 110 + 10 * part):
        problem = fleet(seed, 9 + seed % 4, 1 + seed % 2)
        law = Dearer(problem) if seed % 3 == 0 else None
        value, expected = exact(problem, timetables=law).value, least_cost(problem, law)
        if abs(value - expected) > 1e-6:
            wrong.append((seed, value, expected))
    assert wrong == []


@pytest.mark.parametrize("seed", range(10))
def test_groups_that_need_more_nodes_than_the_closed_form_are_corrected_lazily(seed: int) -> None:
    """Only what a plan would take is asked for, and the optimum is that of the law all the same."""
    problem = fleet(seed, 10)
    law = Dearer(problem)
    found = exact(problem, timetables=law)
    assert found.optimal
    assert found.value == pytest.approx(least_cost(problem, Dearer(problem)), rel=1e-9)
    assert law.asked < len(enumerate_groups(problem, lambda: None))
    assert found.witness_bound <= found.bound.value
    assert checked_bound(problem, found.witness).value <= found.value + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_groups_given_as_columns_replace_those_of_the_closed_form(seed: int) -> None:
    """Several runs per period allow more groups than the closed form knows; here some are taken away, which shows as well."""
    problem = fleet(seed, 10)
    columns = enumerate_groups(problem, lambda: None)
    few = (columns.members >= 0).sum(axis=1) <= 2
    pairs = replace(
        columns,
        members=columns.members[few],
        rollout_nodes=columns.rollout_nodes[few],
        train_nodes=columns.train_nodes[few],
        cost_per_h=columns.cost_per_h[few],
    )
    assert exact(problem, columns=pairs).value == pytest.approx(least_cost(replace(problem, max_group_size=2)), rel=1e-9)


def test_pairs_of_jobs_are_branched_on_when_no_count_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forced here from the start, so that the rules on pairs are in every search of groups; the optimum stays."""
    monkeypatch.setattr(search_module, "total_to_part", lambda *_: None)
    monkeypatch.setattr(search_module, "fractional_counts", lambda *_: [])
    monkeypatch.setattr(search_module, "violated", lambda *_: [])
    branched = 0
    for seed in range(30):
        problem = fleet(seed, 11)
        found = exact(problem)
        assert found.optimal
        assert found.value == pytest.approx(least_cost(problem), rel=1e-9)
        assert checked_bound(problem, found.witness).value == pytest.approx(found.bound.value, rel=1e-9)
        branched += any(isinstance(measure, Together) for measure in measures_of(found.witness))
    assert branched >= 2


@pytest.mark.parametrize("seed", range(6))
def test_two_pairs_of_pools_share_the_nodes_of_a_limited_pool(seed: int) -> None:
    """Both take training nodes of one pool, which is one node short of what the cheapest plan takes, where that can be."""
    problem = fleet(seed, 12, pairs=2)
    free = exact(problem)
    used = sum(group.train_nodes for group in free.solution.groups)
    short = replace(problem, pools=(POOLS[0], replace(POOLS[1], nodes=used - 1), POOLS[2]))
    try:
        found = exact(short)
    except InfeasibleError:
        assert used <= max(job.train_nodes for job in problem.jobs) * 2 + 12
        return
    assert found.optimal
    assert verify(short, found.solution) == ()
    assert found.value >= free.value
    assert sum(group.train_nodes for group in found.solution.groups) < used
    assert checked_bound(short, found.witness).value == pytest.approx(found.bound.value, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_any_prices_is_at_most_the_optimum(seed: int) -> None:
    """Sum of prices plus the least reduced cost that each job leads: a bound for all prices, not only for the LP's."""
    problem = fleet(seed, 11)
    block, optimum = blocks_of(problem)[0], least_cost(problem)
    relaxation = Relaxation(problem, [block], [Kernel(block)], never())
    random = np.random.default_rng(seed)
    for _ in range(50):
        prices = random.uniform(0, 900, len(block))
        priced = Kernel(block).price(prices, block.base(), -1e-9, 1)
        assert (prices.sum() + priced.least.sum()) * relaxation.unit <= optimum + 1e-6
    relaxed = relaxation.solve(Box(problem), Limits())
    assert relaxed is not None
    assert relaxed.converged
    assert relaxed.bound * relaxation.unit <= optimum + 1e-6


@pytest.mark.parametrize("size", [20, 45])
def test_value_and_bound_only_improve(size: int) -> None:
    """What the progress line shows may never be taken back."""
    seen: list[tuple[float, float]] = []
    found = exact(fleet(1, size), Limits(60.0, 30), report=lambda value, bound: seen.append((value, bound or 0.0)))
    assert all(later[0] <= earlier[0] and later[1] >= earlier[1] for earlier, later in pairwise(seen))
    assert all(bound <= value + 1e-9 for value, bound in seen)
    assert seen[-1] == (found.value, found.bound.value)


@pytest.mark.parametrize("size", [25, 45])
def test_the_same_seed_and_node_limit_give_the_same_answer(size: int) -> None:
    """No clock decides anything while no time limit strikes."""
    answers = [exact(fleet(2, size), Limits(300.0, 12), seed=5) for _ in range(2)]
    assert replace(answers[0], seconds=0.0) == replace(answers[1], seconds=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_witness_proves_the_bound_that_is_claimed(seed: int) -> None:
    """Thirty jobs, branches on totals and counts, cuts on triples: the certificate's own search agrees."""
    problem = fleet(seed, 30)
    found = exact(problem, Limits(120.0, 10_000))
    assert found.optimal
    assert found.witness_bound == found.bound.value
    assert checked_bound(problem, found.witness).value == pytest.approx(found.bound.value, rel=1e-9)


def test_a_node_limit_leaves_an_open_tree_with_a_witness_of_its_bound() -> None:
    """Stopped early, the bound is lower than the optimum and proven all the same."""
    problem = fleet(3, 36)
    found = exact(problem, Limits(120.0, 4))
    assert checked_bound(problem, found.witness).value == pytest.approx(found.bound.value, rel=1e-9)
    assert found.bound.value <= exact(problem, Limits(120.0, 10_000)).value


def test_a_time_limit_holds_while_a_large_fleet_is_solved() -> None:
    """Eight hundred jobs take far longer; whatever is busy when the limit strikes, the start is returned with a bound."""
    problem = fleet(0, 800)
    start = solution_of(problem, ([k] for k in range(800)))
    begun = monotonic()
    found = exact(problem, Limits(3.0), start=start)
    assert monotonic() - begun < 3.0 * 1.02 + 1.0 + 2.0  # other processes may be busy
    assert found.stopped == "time limit"
    assert found.bound.value <= found.value <= start.cost_per_h


def test_totals_are_branched_on_first() -> None:
    """Plans of equal totals cost the same, so that they decide most."""
    for seed in range(20):
        found = exact(fleet(seed, 30))
        measures = list(measures_of(found.witness))
        if measures:
            assert isinstance(measures[0], PoolNodes)
            return
    raise AssertionError("no fleet needed a branch")
