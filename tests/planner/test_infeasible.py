"""Why jobs do not fit: minimal conflicts against brute force, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from random import Random

import pytest

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.colocation.requirements import Footprint, GroupSize, PoolLimit, Requirement, Runs, Slo, changes, relaxed
from rollplan.models.colocation.second_proof import excluded
from rollplan.models.colocation.verify import round_robin_period
from rollplan.planner.colocation import best_heuristic
from rollplan.planner.infeasible.colocation import conflict_of, explain

LIMITS_S = 60.0


def random_problem(seed: int) -> ColocationProblem:
    """Up to four jobs on few nodes: about half of them do not fit, for all kinds of reasons."""
    random = Random(seed)
    jobs = tuple(
        JobData(
            f"j{k}",
            round(random.uniform(1, 2), 2),
            random.randint(20, 200),
            random.randint(20, 200),
            rollout_nodes=random.randint(1, 2),
            train_nodes=random.randint(1, 2),
            rollout_memory_gib=random.choice([0, 70, 100]),
            train_memory_gib=random.choice([0, 70, 100]),
        )
        for k in range(random.randint(2, 4))
    )
    pools = (NodePool("r", 14.8, 160, random.choice([None, 2, 3, 5])), NodePool("t", 42.24, 160, random.choice([None, 2, 3, 4])))
    return ColocationProblem(pools, jobs, random.randint(1, 4))


def has_plan(problem: ColocationProblem) -> bool:
    """Every set partition, every assignment to nodes, the period by the precedence graph: slow and plain."""

    def place(left: tuple[int, ...], free: tuple[float, ...]) -> bool:
        if not left:
            return True
        for size in range(min(problem.max_group_size, len(left))):
            for others in combinations(left[1:], size):
                rest = tuple(k for k in left[1:] if k not in others)
                for nodes in _nodes(problem, (left[0], *others)):
                    after = (free[0] - nodes[0], free[1] - nodes[1])
                    if min(after) >= 0 and place(rest, after):
                        return True
        return False

    return place(tuple(range(len(problem.jobs))), tuple(float("inf") if pool.nodes is None else pool.nodes for pool in problem.pools))


@cache
def _nodes(problem: ColocationProblem, members: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (rollout, training) nodes on which these jobs can be one group: the fewest, if any."""
    jobs = [problem.jobs[k] for k in members]
    train_nodes = max(job.train_nodes for job in jobs)
    least_s = max(*(job.solo_s for job in jobs), sum(job.train_s for job in jobs))
    if sum(job.train_memory_gib for job in jobs) > problem.pools[1].memory_gib or any(
        least_s > job.tolerable_s * (1 + 1e-9) for job in jobs
    ):
        return []
    for count in range(max(job.rollout_nodes for job in jobs), sum(job.rollout_nodes for job in jobs) + 1):
        pinnings: list[tuple[tuple[int, ...], ...]] = [(tuple(range(jobs[0].rollout_nodes)),)]
        for job in jobs[1:]:
            pinnings = [(*pins, own) for pins in pinnings for own in combinations(range(count), job.rollout_nodes)]
        for pins in pinnings:
            kept = [sum(job.rollout_memory_gib for job, own in zip(jobs, pins, strict=True) if node in own) for node in range(count)]
            seconds = round_robin_period([job.rollout_s for job in jobs], [job.train_s for job in jobs], pins)
            if max(kept) <= problem.pools[0].memory_gib and all(seconds <= job.tolerable_s * (1 + 1e-9) for job in jobs):
                return [(count, train_nodes)]
    return []


SEEDS = range(50)
INFEASIBLE = [seed for seed in SEEDS if not has_plan(random_problem(seed))]


def test_the_seeds_hold_conflicts_of_every_kind() -> None:
    """Otherwise the laws below would say little."""
    kinds = {type(each) for seed in INFEASIBLE for each in found(seed)}
    assert kinds >= {PoolLimit, Runs, Slo, GroupSize, Footprint}
    assert len(INFEASIBLE) >= 15


@cache
def found(seed: int) -> frozenset[Requirement]:
    """Return the conflict of a problem; all are small enough to be proven minimal."""
    conflict = conflict_of(random_problem(seed), best_heuristic, Limits(LIMITS_S))
    assert conflict.minimal
    return frozenset(conflict.requirements)


@pytest.mark.parametrize("seed", INFEASIBLE)
def test_a_conflict_has_no_plan_and_without_any_requirement_it_has_one(seed: int) -> None:
    """By brute force; fewer requirements never make a plan impossible, so that this holds of every proper part."""
    problem, kept = random_problem(seed), found(seed)
    assert not has_plan(relaxed(problem, kept))
    assert all(has_plan(relaxed(problem, kept - {each})) for each in kept)


def test_the_second_proof_agrees_with_brute_force() -> None:
    """In both directions, on problems of which half have a plan."""
    answers = {seed: (excluded(random_problem(seed)), not has_plan(random_problem(seed))) for seed in SEEDS}
    assert {seed: pair for seed, pair in answers.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("seed", INFEASIBLE[:8])
def test_changes_are_ordered_from_weak_to_strong(seed: int) -> None:
    """Otherwise bisection would miss the weakest: once a change suffices, every stronger one does."""
    problem = random_problem(seed)
    for each in found(seed):
        steps = changes(problem, [each])
        sample = sorted({round(k * (steps.count - 1) / 6) for k in range(7)}) if steps.count else []
        answers = [has_plan(steps.at(k)[1]) for k in sample]
        assert answers == sorted(answers)


def two_jobs(**changed: object) -> ColocationProblem:
    """Two jobs that would share one training node if their SLOs were looser."""
    first, second = JobData("a", 1.1, 100, 100), JobData("b", 1.5, 100, 150)
    problem = ColocationProblem((NodePool("h20", 10, 800), NodePool("h800", 40, 800, 1)), (first, second))
    return replace(problem, **changed)  # type: ignore[arg-type]


def test_what_is_said_names_the_values_and_what_would_do() -> None:
    """a and b train for 250 s in turn: a, alone 200 s, accepts 220 s; b accepts 375 s and is not to blame."""
    assert explain(two_jobs(), best_heuristic) == [
        "these 3 requirements exclude each other, and without any one of them the others have a plan (proven twice)",
        "pool h800 has nodes: 1 (nodes: 2 would do)",
        "job a: needs 1 node of h20 and 1 of h800, slo 1.1 (at most 220 s per iteration, 200 s alone) "
        "(slo 1.25, or leaving it out would do)",
        "job b: needs 1 node of h20 and 1 of h800 (leaving it out would do)",
    ]


def test_memory_and_group_size_are_named_where_they_exclude() -> None:
    """Both jobs would fit one after the other."""
    patient = tuple(JobData(name, 3, 100, 100, train_memory_gib=gib) for name, gib in (("a", 500.0), ("b", 400.0)))
    by_memory = explain(two_jobs(jobs=patient), best_heuristic)
    assert by_memory[2] == (
        "job a: needs 1 node of h20 and 1 of h800, training keeps 500.0 of the 800.0 GiB of a node of h800 "
        "(at most 400.0 GiB, or leaving it out would do)"
    )
    light = tuple(replace(job, train_memory_gib=0.0) for job in patient)
    assert explain(two_jobs(jobs=light, max_group_size=1), best_heuristic)[2] == "max_group_size: 1 (max_group_size: 2 would do)"


def test_nodes_set_aside_for_splits_are_counted_in_what_the_scenario_says() -> None:
    """The problem knows what is left for co-located jobs, the scenario says `nodes` of the whole pool."""
    lines = explain(two_jobs(), best_heuristic, set_aside={"h800": 4})
    assert lines[1].startswith("pool h800 has nodes: 5, 4 of them set aside for splits")
    assert lines[1].endswith("(nodes: 6 would do)")


def test_a_job_that_fits_nowhere_is_the_whole_reason() -> None:
    """The closed form names the exact cause."""
    jobs = (JobData("a", 2, 10, 10, train_memory_gib=900.0), JobData("b", 1, 10, 10))
    assert explain(two_jobs(jobs=jobs), best_heuristic) == [
        "job a: training keeps 900.0 GiB resident on each node, a node of pool h800 has 800.0 GiB "
        "(more memory per node, or a smaller footprint)"
    ]


def test_two_pools_that_are_short_need_more_nodes_both() -> None:
    """No change of one pool is enough, and that is said together with what is."""
    problem = two_jobs(pools=(NodePool("h20", 10, 800, 1), NodePool("h800", 40, 800, 1)), max_group_size=1)
    lines = explain(problem, best_heuristic)
    assert sum("no change of it alone is enough" in line for line in lines) >= 1
    assert lines[0].endswith("; pool h20 with nodes: 2 and pool h800 with nodes: 2 would do together")


def fleet(jobs: int, nodes: int) -> ColocationProblem:
    """A fleet of endless patience that does not fit because no more than five jobs may share a node."""
    random = Random(7)
    made = tuple(JobData(f"j{k:03}", 900, random.randint(100, 300), random.randint(60, 300)) for k in range(jobs))
    return ColocationProblem((NodePool("h20", 14.8, 2000), NodePool("h800", 42.24, 2000, nodes)), made)


def test_three_hundred_jobs_are_explained_by_those_that_are_too_many() -> None:
    """Four nodes hold 32 jobs in the largest groups there are, so any 33 show it, and that is found by halves."""
    problem = fleet(300, 4)
    found = conflict_of(problem, best_heuristic, Limits(LIMITS_S))
    assert found.minimal
    assert PoolLimit(1) in found.requirements
    assert [type(each) for each in found.requirements].count(Runs) == len(found.requirements) - 1 == 33
    assert excluded(relaxed(problem, frozenset(found.requirements)))


def test_many_jobs_share_a_line() -> None:
    """A screen holds it."""
    lines = explain(fleet(40, 6), best_heuristic, Limits(LIMITS_S))
    assert len(lines) == 4
    assert lines[0].startswith("these 3 requirements exclude each other")
    assert lines[1].startswith("pool h800 has nodes: 6, all jobs together need at least ")
    assert lines[2].startswith("max_group_size: 5 (")
    assert lines[3].startswith("31 jobs, j0")
    assert " more: on nodes of their own they take 31 for rollout and 31 for training (" in lines[3]


def test_without_time_everything_is_said_to_be_unproven() -> None:
    """A limit that is spent, or Ctrl-C: the answer comes at once, and claims nothing that was not found out."""
    for limits in (Limits(0.0), Limits(60.0, interrupted=lambda: True)):
        lines = explain(fleet(30, 3), best_heuristic, limits)
        assert "not proven minimal" in lines[0]
        assert not any("would do" in line for line in lines)
