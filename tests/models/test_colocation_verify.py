"""The verifier of co-location plans: it accepts a right plan and names each kind of fault."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, JobData, NodePool
from rollplan.models.colocation.verify import verify

POOLS = (NodePool("H20", 10.0, 1000.0, nodes=4), NodePool("H800", 40.0, 1000.0), NodePool("L20", 5.0, 1000.0))
PROBLEM = ColocationProblem(
    POOLS,
    (
        JobData("a", 2.0, 100.0, 50.0, rollout_memory_gib=400.0, train_memory_gib=300.0),
        JobData("b", 2.0, 100.0, 50.0, rollout_nodes=2, rollout_memory_gib=600.0, train_memory_gib=700.0),
        JobData("c", 1.0, 80.0, 120.0, rollout_pool=2, train_nodes=2),
    ),
    max_group_size=2,
)
SHARED = Group((0, 1), ((0,), (0, 1)), rollout_nodes=2, train_nodes=1)
ALONE = Group((2,), ((0,),), rollout_nodes=1, train_nodes=2)
COST = 20.0 + 40.0 + 5.0 + 80.0
PLAN = ColocationSolution((SHARED, ALONE), COST)


def test_a_right_plan_has_no_fault() -> None:
    """a and b share node 0 and a trainer exactly to the brim: 200 s of 300 s, 1000 GiB of 1000 GiB; c is alone."""
    assert verify(PROBLEM, PLAN) == ()


def test_the_order_of_groups_and_jobs_is_free() -> None:
    """Any cyclic order has the same period."""
    turned = Group((1, 0), ((0, 1), (0,)), rollout_nodes=2, train_nodes=1)
    assert verify(PROBLEM, ColocationSolution((ALONE, turned), COST)) == ()


SHARED_FAULTS: dict[str, tuple[Group, float, str]] = {
    "too few nodes for a job": (replace(SHARED, pinning=((0,), (1,))), COST, "job b is pinned to 1 different rollout nodes, needs 2"),
    "too many nodes for a job": (replace(SHARED, pinning=((0, 1), (0, 1))), COST, "job a is pinned to 2 different rollout nodes, needs 1"),
    "one node twice": (replace(SHARED, pinning=((1,), (0, 0))), COST, "job b is pinned to 1 different rollout nodes, needs 2"),
    "node out of range": (replace(SHARED, pinning=((2,), (0, 1))), COST, "job a is pinned to a node outside 0..1"),
    "negative node": (replace(SHARED, pinning=((-1,), (0, 1))), COST, "job a is pinned to a node outside 0..1"),
    "pinning of one job only": (replace(SHARED, pinning=((0,),)), COST, "pins 1 jobs, has 2"),
    "idle rollout node": (replace(SHARED, rollout_nodes=3), COST + 10, "1 rollout nodes hold no job"),
    "idle training node": (replace(SHARED, train_nodes=2), COST + 40, "has 2 training nodes, no job needs more than 1"),
    "no training node": (replace(SHARED, train_nodes=0), COST - 40, "job a needs 1 training nodes, the group has 0"),
    "nodes not counted": (replace(SHARED, rollout_nodes=1), COST - 10, "job b is pinned to a node outside 0..0"),
}


@pytest.mark.parametrize(("group", "cost", "fault"), SHARED_FAULTS.values(), ids=SHARED_FAULTS)
def test_a_faulty_group_is_named_with_its_fault(group: Group, cost: float, fault: str) -> None:
    """Each fault alone, in a plan whose cost is right for the nodes it claims."""
    assert f"group 1: {fault}" in verify(PROBLEM, ColocationSolution((group, ALONE), cost))


def test_a_missing_job_is_named() -> None:
    """A plan that leaves a job out is cheaper, and wrong."""
    assert verify(PROBLEM, ColocationSolution((SHARED,), 60.0)) == ("job c is in 0 groups, must be in exactly one",)


def test_a_job_in_two_groups_is_named() -> None:
    """Two groups that both run c would each count its nodes."""
    assert verify(PROBLEM, ColocationSolution((SHARED, ALONE, ALONE), COST + 85)) == ("job c is in 2 groups, must be in exactly one",)


def test_a_job_twice_in_one_group_is_named() -> None:
    """It would run two iterations a period."""
    twice = Group((2, 2), ((0,), (1,)), rollout_nodes=2, train_nodes=2)
    assert "job c is in 2 groups, must be in exactly one" in verify(PROBLEM, ColocationSolution((SHARED, twice), COST + 5))


@pytest.mark.parametrize("index", [3, -1])
def test_a_job_that_does_not_exist_is_named(index: int) -> None:
    """Python would read -1 as the last job."""
    stranger = Group((index,), ((0,),), rollout_nodes=1, train_nodes=2)
    assert verify(PROBLEM, ColocationSolution((SHARED, stranger), COST)) == (f"job index {index} does not exist",)


def test_a_group_without_jobs_is_named() -> None:
    """It holds nodes for nobody."""
    assert "group 3: has no job" in verify(PROBLEM, ColocationSolution((SHARED, ALONE, Group((), (), 0, 0)), COST))


@pytest.mark.parametrize("cost", [COST - 0.01, COST + 0.01, 0.0, -COST, inf, nan])
def test_a_cost_that_is_not_price_times_nodes_is_named(cost: float) -> None:
    """Also when it is not a number: every comparison with NaN is false."""
    assert verify(PROBLEM, ColocationSolution((SHARED, ALONE), cost)) == (f"cost is {COST:.6f} $/h, the plan says {cost:.6f}",)


def test_a_broken_slo_is_named_with_slowdown_and_limit() -> None:
    """b tolerates 1.2 times its 150 s; node 0 is busy for 200 s."""
    problem = replace(PROBLEM, jobs=(PROBLEM.jobs[0], replace(PROBLEM.jobs[1], slo=1.2), PROBLEM.jobs[2]))
    assert verify(problem, PLAN) == ("group 1: job b runs 1.333 times slower than alone, its SLO allows 1.2",)


def test_an_slo_met_exactly_is_no_fault() -> None:
    """1.3333333333 * 150 s against 200 s: rounding is forgiven, 200.0001 s would not be."""
    problem = replace(PROBLEM, jobs=(PROBLEM.jobs[0], replace(PROBLEM.jobs[1], slo=4 / 3), PROBLEM.jobs[2]))
    assert verify(problem, PLAN) == ()


def test_an_slo_missed_by_a_hair_is_a_fault() -> None:
    """The tolerance is 1e-9, not a thousandth."""
    problem = replace(PROBLEM, jobs=(PROBLEM.jobs[0], replace(PROBLEM.jobs[1], slo=4 / 3 - 1e-6), PROBLEM.jobs[2]))
    assert len(verify(problem, PLAN)) == 1


def test_too_much_memory_on_a_rollout_node_is_named() -> None:
    """a and b meet on node 0, node 1 holds b alone."""
    problem = replace(PROBLEM, jobs=(replace(PROBLEM.jobs[0], rollout_memory_gib=401.0), *PROBLEM.jobs[1:]))
    assert verify(problem, PLAN) == ("group 1: rollout node 0 keeps 1001.0 GiB, it has 1000.0",)


def test_too_much_memory_on_a_training_node_is_named() -> None:
    """Every job of a group is resident on every training node."""
    problem = replace(PROBLEM, jobs=(replace(PROBLEM.jobs[0], train_memory_gib=301.0), *PROBLEM.jobs[1:]))
    assert verify(problem, PLAN) == ("group 1: a training node keeps 1001.0 GiB, it has 1000.0",)


def test_a_group_that_is_too_large_is_named() -> None:
    """max_group_size bounds residency and blast radius."""
    assert verify(replace(PROBLEM, max_group_size=1), PLAN) == ("group 1: has 2 jobs, at most 1 may share nodes",)


def test_a_group_of_jobs_from_different_pools_is_named() -> None:
    """c rolls out on L20 and cannot share H20 nodes."""
    mixed = Group((0, 1, 2), ((0,), (0, 1), (1,)), rollout_nodes=2, train_nodes=2)
    found = verify(replace(PROBLEM, max_group_size=3), ColocationSolution((mixed,), 100.0))
    assert "group 1: holds jobs of different pools" in found


def test_more_nodes_than_a_pool_has_are_named() -> None:
    """Each group fits, all together do not."""
    pools = (replace(POOLS[0], nodes=1), *POOLS[1:])
    assert verify(replace(PROBLEM, pools=pools), PLAN) == ("pool H20: 2 nodes are used, it has 1",)


def test_a_pool_used_for_both_phases_counts_both() -> None:
    """One pool of three nodes: two rollout nodes and two training nodes are four."""
    job = JobData("d", 1.0, 10.0, 10.0, rollout_pool=0, train_pool=0, rollout_nodes=2, train_nodes=2)
    plan = ColocationSolution((Group((0,), ((0, 1),), 2, 2),), 40.0)
    assert verify(ColocationProblem((NodePool("H20", 10.0, 0.0, nodes=3),), (job,)), plan) == ("pool H20: 4 nodes are used, it has 3",)


def test_all_faults_are_reported_at_once() -> None:
    """One run of `check` shows everything there is to mend."""
    jobs = (PROBLEM.jobs[0], replace(PROBLEM.jobs[1], slo=1.0, train_memory_gib=800.0), PROBLEM.jobs[2])
    assert len(verify(replace(PROBLEM, jobs=jobs, max_group_size=1), replace(PLAN, cost_per_h=1.0))) == 4
