"""Baselines: greedy and random groups respect every limit unless blind, and do what their names say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool
from rollplan.models.colocation.verify import verify
from rollplan.planner.baselines import greedy, random_groups, solo

PAIR = (NodePool("H20", 14.8, 1000.0), NodePool("H800", 42.24, 1000.0))


def random_problem(seed: int, limited: bool = False) -> ColocationProblem:
    """Twelve jobs of one to four nodes with many ties, on limited nodes if wanted."""
    random = Random(seed)
    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.0, 1.2, 1.5, 2.0, 3.0]),
            rollout_s=random.choice([50.0, 75.0, 100.0, 150.0, random.uniform(20, 200)]),
            train_s=random.choice([25.0, 50.0, 100.0, random.uniform(20, 200)]),
            rollout_nodes=random.choice([1, 1, 2, 4]),
            train_nodes=random.choice([1, 1, 2]),
            rollout_memory_gib=random.choice([1.0, 250.0, 500.0, 700.0, 1000.0]),
            train_memory_gib=random.choice([1.0, 200.0, 250.0, 500.0]),
        )
        for k in range(12)
    )
    pools = PAIR
    if limited:
        pools = (replace(PAIR[0], nodes=random.randint(8, 30)), replace(PAIR[1], nodes=random.randint(4, 16)))
    return ColocationProblem(pools, jobs, random.randint(1, 5))


def test_random_groups_repeat_for_one_seed_and_differ_between_seeds() -> None:
    """A baseline without its seed cannot be compared with."""
    problem = random_problem(7)
    assert random_groups(problem, 1) == random_groups(problem, 1)
    assert len({random_groups(problem, seed) for seed in range(10)}) > 1


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
def test_plans_of_the_baselines_verify(limited: bool) -> None:
    """Unless told to be blind, Random and Greedy keep every SLO, so their plans are plans."""
    problems = [random_problem(seed, limited=limited) for seed in range(60)]
    plans = [(p, plan) for p in problems for plan in (greedy(p), random_groups(p, 1), random_groups(p, 2)) if plan is not None]
    assert [faults for problem, plan in plans if (faults := verify(problem, plan))] == []


def test_greedy_takes_the_group_with_the_largest_idle_share() -> None:
    """RollMux 6: a full group of two, and a group of one that idles half of its time; both can take the guest."""
    pair = [JobData(name, 3.0, 100.0, 100.0, train_memory_gib=300.0) for name in "ab"]
    jobs = (*pair, replace(pair[0], name="c", train_memory_gib=600.0), JobData("guest", 30.0, 10.0, 10.0))
    plan = greedy(ColocationProblem(PAIR, jobs))
    assert plan is not None
    assert [group.jobs for group in plan.groups] == [(0, 1), (2, 3)]


def test_greedy_takes_the_idlest_node() -> None:
    """Node 0 is busy for 50 s, node 1 for 90 s: the opposite of what lossless admission does."""
    jobs = (
        JobData("a", 3.0, 50.0, 10.0, rollout_memory_gib=600.0),
        JobData("b", 3.0, 90.0, 10.0, rollout_memory_gib=600.0),
        JobData("c", 10.0, 20.0, 10.0),
    )
    plan = greedy(ColocationProblem(PAIR, jobs))
    assert plan is not None
    assert [group.pinning for group in plan.groups] == [((0,), (1,), (0,))]


@pytest.mark.parametrize("blind", [greedy, random_groups])
def test_blind_baselines_break_slos_as_in_the_paper(blind: Callable[..., ColocationSolution]) -> None:
    """RollMux 6: neither baseline checks SLOs (attainment 0.4 to 0.7 in Fig. 14)."""
    problem = ColocationProblem(PAIR, tuple(JobData(f"job{k}", 1.0, 100.0 / (k + 1), 100.0) for k in range(6)))
    faults = verify(problem, blind(problem, blind=True))
    assert any("times slower than alone" in fault for fault in faults)


def test_blind_baselines_still_keep_memory_and_group_size() -> None:
    """What cannot run at all is no baseline."""
    plans = [(p, plan) for p in map(random_problem, range(40)) for plan in (greedy(p, blind=True), random_groups(p, 1, blind=True)) if plan]
    assert [fault for p, plan in plans for fault in verify(p, plan) if "times slower than alone" not in fault] == []


def test_solo_gives_every_job_its_own_nodes() -> None:
    """The yardstick of every saving."""
    problem = random_problem(3)
    plan = solo(problem)
    assert (plan.cost_per_h, [group.jobs for group in plan.groups]) == (problem.solo_cost_per_h(), [(k,) for k in range(12)])


@pytest.mark.parametrize("method", [greedy, random_groups])
def test_a_plan_beyond_the_pools_is_no_plan(method: Callable[..., ColocationSolution | None]) -> None:
    """They never move a job, so they may fail where another plan fits; they must say so."""
    jobs = tuple(JobData(f"job{k}", 1.0, 100.0, 100.0) for k in range(3))
    assert method(ColocationProblem((replace(PAIR[0], nodes=1), PAIR[1]), jobs)) is None
