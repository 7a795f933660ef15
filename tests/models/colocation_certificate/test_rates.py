"""Bounds where jobs may run several times per period: every group that has a timetable is among those that are listed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from rollplan.models.certified import Leaf, Limits
from rollplan.models.colocation.certificate import checked_bound, counts_less, fluid_bound, partition_bound
from rollplan.models.colocation.certificate.groups import all_groups as all_rated
from rollplan.models.colocation.certificate.groups import fewest_nodes
from rollplan.models.colocation.certificate.rates import ListedProver
from rollplan.models.colocation.certificate.tree import tree_bound
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.colocation.rates.groups import candidates
from rollplan.models.colocation.rates.timetables import RateTimetables
from rollplan.planner.colocation import solve

from .exhaustive import all_groups, optimum, proven, random_problem, scarce, wild_tree

H20, H800 = NodePool("H20", 14.8, 0.0), NodePool("H800", 42.24, 0.0)


def jobs(*times: tuple[float, float, float]) -> tuple[JobData, ...]:
    """Return jobs of (rollout, train, tolerable) seconds."""
    return tuple(JobData(f"j{k}", limit / (roll + train), roll, train) for k, (roll, train, limit) in enumerate(times))


@pytest.mark.parametrize("seed", range(20))
def test_a_witness_proves_what_an_exhaustive_search_proves(seed: int) -> None:
    """As with one run per period, but over more groups."""
    random = Random(seed)
    problem = replace(random.choice([random_problem, scarce])(seed), max_rate=random.choice([2, 3, 4]))
    for depth in (0, 1, 2, 3):
        witness = wild_tree(random, problem, depth)
        right, answer = proven(problem, witness, {}), tree_bound(problem, witness, ListedProver(problem, lambda: None))
        assert answer == pytest.approx(right, abs=1e-5) or right == float("inf")
        assert checked_bound(problem, witness).value <= optimum(problem) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_more_runs_allow_more_groups_and_no_dearer_plans(seed: int) -> None:
    """Round robin is a timetable, too; and a part of a group is a group."""
    once, thrice = (replace(random_problem(seed), max_rate=rate) for rate in (1, 3))
    groups = {members: nodes for members, _, nodes in all_groups(thrice)}
    assert all(groups[members] <= nodes for members, _, nodes in all_groups(once))
    assert all(groups[members[1:]] <= nodes for members, nodes in groups.items() if len(members) > 1)
    least = partition_bound(thrice)
    assert least is not None
    assert least.value == pytest.approx(optimum(replace(thrice, pools=tuple(replace(pool, nodes=None) for pool in thrice.pools))))
    assert least.value <= optimum(once) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("times", "rollout_nodes"),
    [
        (((746.0, 124.0, 957.0), (314.0, 118.0, 475.0), (314.0, 118.0, 475.0)), 3),
        (((40.0, 50.0, 180.0), (40.0, 40.0, 96.0), (50.0, 50.0, 200.0)), 1),
        (((30.0, 10.0, 60.0), (10.0, 10.0, 30.0)), 1),
    ],
)
def test_groups_that_have_a_timetable_are_not_left_out(times: tuple[tuple[float, float, float], ...], rollout_nodes: int) -> None:
    """One long job beside short ones that run twice: groups A and B of the multi-rate fixtures, which round robin cannot host.

    Timetables for so many rollout nodes are known for all three: periods 870, 180 and 60 s.
    """
    problem = ColocationProblem((H20, H800), jobs(*times), max_rate=4)
    nodes = fewest_nodes(problem, problem.jobs)
    assert nodes is not None
    assert nodes <= (rollout_nodes, 1)
    assert fewest_nodes(replace(problem, max_rate=1), problem.jobs) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_timetable_is_excluded_and_the_groups_are_those_of_the_solver(seed: int) -> None:
    """Gangs, delays and jobs on several nodes: check leaves every group as many nodes as the solver, and never more than it takes."""
    random = Random(seed)
    members = tuple(
        JobData(
            f"j{k}",
            random.choice([1.0, 1.1, 1.3, 1.5, 2.0]),
            round(random.uniform(20, 200), 1),
            round(random.uniform(10, 120), 1),
            rollout_nodes=random.choice([1, 1, 2, 3]),
            rollout_memory_gib=random.choice([0.0, 400.0, 600.0]),
            gang=random.random() < 0.3,
            delay_s=random.choice([0.0, 0.0, 5.0]),
        )
        for k in range(9)
    )
    problem = ColocationProblem((replace(H20, memory_gib=1000.0), H800), members, max_rate=random.choice([2, 3, 4]))
    here, there = dict(all_rated(problem)), candidates(problem)
    names = (tuple(sorted(int(k) for k in row if k >= 0)) for row in there.members)
    assert here == dict(zip(names, zip(there.rollout_nodes.tolist(), there.train_nodes.tolist(), strict=True), strict=True))
    law = RateTimetables(problem, Limits(600), decided=False)
    found = {group: law.fewest(group)[0] for size in (2, 3) for group in combinations(range(9), size)}
    timed = {name: group for name, group in found.items() if group is not None and group.timetable is not None}
    assert timed
    assert all(here[name][0] <= group.rollout_nodes for name, group in timed.items())


def test_a_job_that_fills_the_period_shares_a_node_with_nobody_who_interrupts_it() -> None:
    """Loads alone would let both on one node in 100 s: 50 + 20 s of rollouts, but no 20 s fit into what the longer job leaves."""
    problem = ColocationProblem((H20, H800), jobs((50.0, 40.0, 100.0), (20.0, 30.0, 100.0)), max_rate=2)
    assert fewest_nodes(problem, problem.jobs) == (1, 1)
    problem = ColocationProblem((H20, H800), jobs((50.0, 40.0, 100.0), (55.0, 20.0, 150.0)), max_rate=2)
    assert fewest_nodes(problem, problem.jobs) == (2, 1)


def test_phases_of_no_length_keep_nothing_apart() -> None:
    """A replayed timetable may have them anywhere, so that no test rests on them; and the plan announces only what is proven so."""
    problem = ColocationProblem((H20, H800), jobs((50.0, 0.0, 100.0), (20.0, 60.0, 100.0)), max_rate=2)
    assert fewest_nodes(problem, problem.jobs) == (1, 1)
    assert counts_less(problem)
    assert not counts_less(ColocationProblem((H20, H800), jobs((50.0, 40.0, 100.0)), max_rate=2))


@pytest.mark.parametrize(("seed", "few"), [(seed, few) for seed in range(4) for few in (True, False)])
def test_check_proves_what_the_plan_says_its_witness_proves(seed: int, few: bool) -> None:
    """With 15 jobs, and with 9, of which all partitions are searched, too: with the nodes that groups need at least, as it says."""
    problem = drawn(seed, 9 if few else 15)
    found = solve(problem, limits=Limits(60, node_limit=30))
    assert checked_bound(problem, found.witness).value == pytest.approx(found.witness_bound)
    assert found.witness_bound > problem.next_cost(fluid_bound(problem))
    searched = partition_bound(problem)
    assert (searched is not None) == few
    if searched is not None:
        assert found.witness_bound - 1e-6 <= searched.value <= found.value + 1e-6
        assert (searched.rough, searched.proof) == (True, "every partition searched, with the nodes that groups need at least")


def drawn(seed: int, count: int) -> ColocationProblem:
    """Jobs of one or two nodes, most with some slack, some of which may run twice or thrice beside others."""
    random = Random(seed)
    data = (
        JobData(
            f"j{k}",
            random.choice([1.1, 1.3, 1.5, 1.8]),
            round(random.uniform(60, 400), 1),
            round(random.uniform(30, 200), 1),
            rollout_nodes=random.choice([1, 1, 2]),
        )
        for k in range(count)
    )
    return ColocationProblem((H20, H800), tuple(data), max_rate=3)


def test_a_large_fleet_has_the_fluid_bound() -> None:
    """Too many groups to list: nothing is said of the witness, and the fluid bound stands."""
    many = jobs(*((1.0, 0.1, 100.0),) * 80)
    problem = ColocationProblem((H20, H800), many, max_group_size=5, max_rate=4)
    bound = checked_bound(problem, Leaf((1.0,) * 80), stop=lambda: True)
    assert (bound.proof, bound.rough, bound.stopped) == ("fluid", True, True)
