"""Large-neighbourhood search: never worse, always a partition, repeatable, and the optimum where it can look at everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollplan
from rollplan.models.colocation.plans.exact_cover import ascend, choose, reduced_costs
from rollplan.models.colocation.plans.few_jobs import enumerate_groups
from rollplan.models.colocation.plans.fleet_arrays import FleetArrays
from rollplan.models.colocation.plans.improve import Improver
from rollplan.models.colocation.plans.placed import closed_form_nodes
from rollplan.models.colocation.plans.start import inserted
from rollplan.models.colocation.pricing.node_count import memo_of_counts
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.colocation.solution import group_of, solution_of
from rollplan.models.colocation.verify import group_faults, verify

POOLS = (NodePool("H20", 14.8, 2048), NodePool("H800", 42.24, 2048), NodePool("L20", 9.6, 1500))
LAYOUTS = ("one pair", "two rollout pools", "one pool")


def fleet(seed: int, size: int, layout: str = "one pair", max_group_size: int = 5) -> ColocationProblem:
    """Jobs like those of a real cluster: phases of minutes, SLOs of 1.05 to 2, one to four nodes."""
    random = Random(f"{seed} {size} {layout}")
    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=round(random.uniform(1.05, 2.0), 2),
            rollout_s=float(random.randint(60, 500)),
            train_s=float(random.randint(20, 300)),
            rollout_pool=random.choice([0, 2]) if layout == "two rollout pools" else 0,
            train_pool=0 if layout == "one pool" else 1,
            rollout_nodes=random.randint(1, 4),
            train_nodes=random.choice([1, 2, 4]),
            rollout_memory_gib=float(random.randint(120, 500)),
            train_memory_gib=float(random.randint(150, 600)),
        )
        for k in range(size)
    )
    return ColocationProblem(POOLS, jobs, max_group_size)


def partitions(jobs: list[int]) -> Iterator[list[list[int]]]:
    """Yield every partition of some jobs."""
    if not jobs:
        yield []
        return
    for size in range(len(jobs)):
        for others in combinations(jobs[1:], size):
            rest = [k for k in jobs[1:] if k not in others]
            for more in partitions(rest):
                yield [[jobs[0], *others], *more]


def feasible(problem: ColocationProblem, members: list[int]) -> bool:
    """Return whether a group keeps every limit, by the verifier, which knows no solver."""
    alike = len({(problem.jobs[k].rollout_pool, problem.jobs[k].train_pool) for k in members}) == 1
    return len(members) <= problem.max_group_size and alike and not group_faults(problem, group_of(problem, members))


def least_cost(problem: ColocationProblem) -> float | None:
    """Return the cost of the best plan, by looking at every partition; None if none fits into the pools."""
    known: dict[tuple[int, ...], bool] = {}
    best = None
    for groups in partitions(list(range(len(problem.jobs)))):
        for members in groups:
            if tuple(members) not in known:
                known[tuple(members)] = feasible(problem, members)
        if all(known[tuple(members)] for members in groups):
            plan = solution_of(problem, groups)
            if not verify(problem, plan) and (best is None or plan.cost_per_h < best):
                best = plan.cost_per_h
    return best


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(8))
def test_few_jobs_get_the_best_of_all_partitions(seed: int, layout: str) -> None:
    """Up to 60 jobs the search looks at everything in the end, so that it finds the optimum, and stops by itself."""
    problem = fleet(seed, 7, layout)
    found = solution_of(problem, map(list, Improver(problem, seed).run(None, 10**9)))
    assert verify(problem, found) == ()
    assert found.cost_per_h == pytest.approx(least_cost(problem), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_pools_that_are_too_small_for_the_cheapest_plan_are_kept_to(seed: int) -> None:
    """The limits of pools couple groups: fewer training nodes are paid for with rollout nodes, or the other way."""
    problem = fleet(seed, 7)
    used = solution_of(problem, map(list, Improver(problem, seed).run(None, 10**9)))
    for pool in range(2):
        nodes = sum(group.rollout_nodes if pool == 0 else group.train_nodes for group in used.groups)
        few = replace(problem, pools=tuple(replace(p, nodes=nodes - 1) if i == pool else p for i, p in enumerate(problem.pools)))
        wanted = least_cost(few)
        if wanted is not None:
            found = solution_of(few, map(list, Improver(few, seed).run(None, 10**8)))
            assert verify(few, found) == ()
            assert found.cost_per_h == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 90), layout=st.sampled_from(LAYOUTS), work=st.integers(0, 300_000))
def test_a_partition_gets_never_worse_and_stays_a_partition(seed: int, size: int, layout: str, work: int) -> None:
    """However soon the budget ends."""
    problem = fleet(seed, size, layout)
    start = inserted(problem)
    before = solution_of(problem, map(list, start))
    assert verify(problem, before) == ()
    costs: list[float] = []
    after = solution_of(problem, map(list, Improver(problem, seed).run(start, work, report=costs.append)))
    assert verify(problem, after) == ()
    assert after.cost_per_h <= before.cost_per_h + 1e-9
    assert costs == sorted(costs, reverse=True)
    assert (costs[-1] if costs else before.cost_per_h) == pytest.approx(after.cost_per_h)


def test_a_fleet_becomes_much_cheaper_than_by_insertion() -> None:
    """At 150 jobs by more than a tenth with a small budget; every job alone is no worse a start."""
    problem = fleet(1, 150)
    start = solution_of(problem, map(list, inserted(problem))).cost_per_h
    for begin in (None, inserted(problem)):
        found = solution_of(problem, map(list, Improver(problem, 0).run(begin, 6_000_000)))
        assert verify(problem, found) == ()
        assert found.cost_per_h < 0.9 * start < problem.solo_cost_per_h()


def test_prices_of_an_lp_and_columns_that_link_jobs_change_only_where_the_search_looks() -> None:
    """Any prices and any columns are allowed: they guide, and prove nothing."""
    problem = fleet(2, 80)
    random = Random(0)
    duals = [random.uniform(0, 100) for _ in problem.jobs]
    columns = [random.sample(range(80), 3) for _ in range(200)]
    found = solution_of(problem, map(list, Improver(problem, 0).run(inserted(problem), 500_000, duals=duals, columns=columns)))
    assert verify(problem, found) == ()


def test_groups_that_need_more_nodes_than_the_closed_form_says_are_charged_for_them() -> None:
    """A group of three needs one node more here, as with a gang: the search finds the best plan of these costs."""
    problem = fleet(5, 7)

    def nodes(members: tuple[int, ...]) -> int:
        return closed_form_nodes(problem, members) + (len(members) >= 3)

    def cost(groups: list[list[int]]) -> float:
        trainers = [max(problem.jobs[k].train_nodes for k in members) for members in groups]
        return sum(14.8 * nodes(tuple(members)) + 42.24 * count for members, count in zip(groups, trainers, strict=True))

    best = min(cost(groups) for groups in partitions(list(range(7))) if all(feasible(problem, members) for members in groups))
    found = Improver(problem, 0, fewest=nodes).run(None, 10**8)
    assert cost([list(members) for members in found]) == pytest.approx(best)


def test_threads_and_hash_seeds_change_nothing() -> None:
    """The neighbourhoods of a round have no job in common and their answers are merged in their order."""
    problem = fleet(3, 120)
    found = [Improver(problem, 7, threads=threads).run(None, 1_500_000) for threads in (1, 2, 2)]
    assert found[0] == found[1] == found[2]
    assert Improver(problem, 8).run(None, 1_500_000) != found[0]


PROGRAM = """
import sys
if {without}:
    sys.modules["numba"] = None
from tests.models.test_colocation_improve import fleet
from rollplan.models.colocation.plans.improve import Improver
from rollplan.models.colocation.plans.start import inserted
from rollplan.models.compiled import HAVE_COMPILER
assert HAVE_COMPILER != {without}
problem = fleet(4, 40)
print(inserted(problem), Improver(problem, 5).run(None, 60_000))
"""


def test_the_answers_are_the_same_without_a_compiler_and_for_other_hash_seeds() -> None:
    """The core install has no numba: slower, but nobody gets another plan."""
    pytest.importorskip("numba")
    answers = set()
    for without, hash_seed in ((False, "1"), (False, "2"), (True, "3")):
        program = PROGRAM.format(without=without)
        answer = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(rollplan.__file__).parent.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        answers.add(answer.stdout)
    assert len(answers) == 1


# The kernels.


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(6))
def test_the_enumeration_finds_exactly_the_feasible_groups_below_a_threshold(seed: int, layout: str) -> None:
    """Against all subsets and the verifier; prices and threshold at random."""
    problem = fleet(seed, 11, layout, max_group_size=random_size(seed))
    arrays = FleetArrays.of(problem)
    generator = np.random.default_rng(seed)
    prices = generator.uniform(0, 1200, len(arrays))
    threshold = float(generator.uniform(-300, 800))
    members = np.empty((5000, problem.max_group_size), dtype=np.int64)
    nodes = np.empty((5000, 2), dtype=np.int64)
    count, _ = enumerate_groups(
        np.arange(len(arrays)),
        arrays.numbers,
        arrays.whole,
        arrays.pairs,
        prices,
        problem.max_group_size,
        threshold,
        *memo_of_counts(),
        members,
        nodes,
    )
    found = {
        tuple(sorted(int(arrays.index[row]) for row in group if row >= 0)): tuple(map(int, n))
        for group, n in zip(members[:count], nodes[:count], strict=True)
    }
    assert len(found) == count
    price_of = {int(k): price for k, price in zip(arrays.index, prices, strict=True)}
    wanted = {}
    for size in range(1, problem.max_group_size + 1):
        for group in combinations(range(11), size):
            if feasible(problem, list(group)):
                made = group_of(problem, list(group))
                reduced = solution_of(problem, [list(group)]).cost_per_h / arrays.unit - sum(price_of[k] for k in group)
                if reduced < threshold:
                    wanted[group] = (made.rollout_nodes, made.train_nodes)
    assert found == wanted


def random_size(seed: int) -> int:
    """Largest groups of one to five jobs."""
    return 1 + seed % 5


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 9), resources=st.integers(0, 2))
def test_the_choice_is_the_cheapest_exact_cover_within_its_resources(seed: int, jobs: int, resources: int) -> None:
    """Against a walk through all covers; marks may be used once, resources not beyond their caps."""
    random = Random(seed)
    masks = sorted({*(1 << k for k in range(jobs)), *(random.randrange(1, 1 << jobs) for _ in range(25))})
    masks += random.choices(masks, k=5)
    marks = [random.choice([0, 0, 1, 2, 4]) for _ in masks]
    cost = [float(random.randint(0, 40)) for _ in masks]
    use = [[random.randint(0, 2) for _ in range(resources)] for _ in masks]
    caps = [random.randint(1, 2 + jobs) for _ in range(resources)]

    def best(covered: int, marked: int, spent: list[int]) -> float:
        if covered == (1 << jobs) - 1:
            return 0.0
        first = ~covered & (covered + 1)
        values = [float("inf")]
        for i, mask in enumerate(masks):
            after = [a + b for a, b in zip(spent, use[i], strict=True)]
            if mask & first and not mask & covered and not marks[i] & marked and all(a <= c for a, c in zip(after, caps, strict=True)):
                values.append(cost[i] + best(covered | mask, marked | marks[i], after))
        return min(values)

    wanted = best(0, 0, [0] * resources)
    size, chosen, value, _ = choose(
        np.array(masks),
        np.array(marks),
        np.array(cost),
        np.array(use, dtype=np.int64).reshape(len(masks), resources),
        np.array(caps, dtype=np.int64),
        jobs,
        1e9,
        10**7,
    )
    assert (size >= 0) == (wanted < float("inf"))
    if size >= 0:
        assert value == pytest.approx(wanted) == pytest.approx(sum(cost[c] for c in chosen[:size]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), rounds=st.integers(1, 80))
def test_prices_after_the_ascent_are_a_bound_that_no_group_undercuts(seed: int, rounds: int) -> None:
    """No group costs less than its members' prices, so no partition costs less than all prices together."""
    problem = fleet(seed, 6)
    arrays = FleetArrays.of(problem)
    groups = [list(group) for size in range(1, 6) for group in combinations(range(6), size) if feasible(problem, list(group))]
    row_of = {int(k): row for row, k in enumerate(arrays.index)}
    rows = [sorted(row_of[k] for k in group) for group in groups]
    members = np.array([group + [-1] * (5 - len(group)) for group in rows])
    cost = np.array([solution_of(problem, [group]).cost_per_h / arrays.unit for group in groups])
    prices = arrays.fluid_prices()
    bound = ascend(members, cost, prices, problem.solo_cost_per_h() / arrays.unit, rounds)
    reduced = np.empty(len(cost))
    reduced_costs(members, cost, prices, reduced)
    best = least_cost(problem)
    assert best is not None
    assert reduced.min() >= -1e-6
    assert bound == pytest.approx(prices.sum())
    assert bound <= best / arrays.unit + 1e-6
