"""Bounds where jobs may run several times per period: every group that has a timetable is among those that are listed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from rollplan.models.certified import Leaf
from rollplan.models.colocation.certificate import checked_bound, partition_bound
from rollplan.models.colocation.certificate.groups import fewest_nodes
from rollplan.models.colocation.certificate.rates import ListedProver
from rollplan.models.colocation.certificate.tree import tree_bound
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool

from .exhaustive import all_groups, optimum, proven, random_problem, scarce, wild_tree

H20, H800 = NodePool("H20", 14.8, 0.0), NodePool("H800", 42.24, 0.0)


def jobs(*times: tuple[float, float, float]) -> tuple[JobData, ...]:
    """Return jobs of (rollout, train, tolerable) seconds."""
    return tuple(JobData(f"j{k}", limit / (roll + train), roll, train) for k, (roll, train, limit) in enumerate(times))


@pytest.mark.parametrize("seed", range(20))
def test_a_witness_proves_what_an_exhaustive_search_proves(seed: int) -> None:
    """As with one run per period, but over more groups, and a job leads those in which it comes first."""
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


def test_a_large_fleet_has_the_fluid_bound() -> None:
    """Too many groups to list: nothing is said of the witness, and the fluid bound stands."""
    many = jobs(*((1.0, 0.1, 100.0),) * 80)
    problem = ColocationProblem((H20, H800), many, max_group_size=5, max_rate=4)
    bound = checked_bound(problem, Leaf((1.0,) * 80), stop=lambda: True)
    assert (bound.proof, bound.rough, bound.stopped) == ("fluid", True, True)
