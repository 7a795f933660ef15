"""Fewest rollout nodes of a group: the cover against brute force, by dynamic program and by MILP."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from random import Random

import numpy as np
import pytest

from rollplan.models.colocation.certificate import checked_bound, nodes, plain
from rollplan.models.colocation.exact import exact
from rollplan.models.colocation.nodes import _DP_STATES, cover, fitting_sets, pin
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.colocation.solution import group_of


def fewest(sets: tuple[int, ...], demand: tuple[int, ...]) -> int:
    """Return the fewest nodes by trying every multiset of sets, smallest first."""

    def covers(left: tuple[int, ...], nodes: int, start: int) -> bool:
        if not any(left):
            return True
        if nodes == 0 or max(left) > nodes:
            return False
        return any(covers(tuple(max(0, d - (sets[i] >> k & 1)) for k, d in enumerate(left)), nodes - 1, i) for i in range(start, len(sets)))

    return next(nodes for nodes in range(sum(demand) + 1) if covers(demand, nodes, 0))


def random_cases(seeds: range, jobs: int, most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield fitting sets and demands of random groups."""
    for seed in seeds:
        random = Random(seed)
        seconds = [random.choice([30, 50, 80, 100]) for _ in range(jobs)]
        memory = [random.choice([0, 200, 400]) for _ in range(jobs)]
        yield fitting_sets(seconds, memory, random.choice([100, 150, 200]), 800), tuple(random.randint(1, most) for _ in range(jobs))


@pytest.mark.parametrize("jobs", [1, 2, 3, 4])
def test_cover_uses_the_fewest_nodes(jobs: int) -> None:
    """The dynamic program against every multiset of fitting sets."""
    cases = list(random_cases(range(50), jobs, most=3))
    assert [(case, nodes) for case in cases if (nodes := len(cover(*case))) != fewest(*case)] == []


def test_cover_by_milp_uses_the_fewest_nodes() -> None:
    """Demands whose states are too many for the dynamic program go to HiGHS."""
    cases = [
        ((1, 2, 4, 8, 16, 3, 12), (5, 5, 5, 5, 5)),
        ((1, 2, 3), (100, 60)),
        ((1, 2, 4, 3, 5, 6), (20, 20, 20)),
        ((1, 2, 4), (40, 30, 20)),
    ]
    assert min(prod(d + 1 for d in demand) for _, demand in cases) > _DP_STATES
    assert [len(cover(*case)) for case in cases] == [15, 100, 30, 90]


def test_cover_by_milp_equals_the_dynamic_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both branches on the same random groups."""
    cases = list(random_cases(range(200, 260), 4, most=3))
    by_program = [len(cover.__wrapped__(*case)) for case in cases]
    monkeypatch.setattr("rollplan.models.colocation.nodes._DP_STATES", 0)
    assert [len(cover.__wrapped__(*case)) for case in cases] == by_program


@pytest.mark.parametrize("limit", [_DP_STATES, 0], ids=["dynamic program", "MILP"])
def test_cover_gives_every_job_exactly_its_nodes_and_only_fitting_company(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job pinned to more nodes than it asked for would be refused by the verifier."""
    monkeypatch.setattr("rollplan.models.colocation.nodes._DP_STATES", limit)
    wrong = []
    for sets, demand in random_cases(range(300, 360), 4, most=3):
        nodes = cover.__wrapped__(sets, demand)
        held = tuple(sum(mask >> k & 1 for mask in nodes) for k in range(len(demand)))
        if held != demand or not set(nodes) <= set(sets):
            wrong.append((sets, demand, nodes))
    assert wrong == []


@pytest.mark.parametrize("jobs", [1, 2, 3, 4, 5])
def test_the_certificate_counts_the_same_fewest_nodes(jobs: int) -> None:
    """It counts with code of its own, twice; one node too many would make a bound too high."""
    wrong = []
    for seed in range(100):
        random = Random(seed)
        copies = tuple(
            (random.randint(1, 4), random.choice([30.0, 50.0, 80.0, 100.0]), random.choice([0.0, 200.0, 400.0])) for _ in range(jobs)
        )
        period_s = random.choice([100.0, 150.0, 200.0, 300.0])
        sets = fitting_sets([seconds for _, seconds, _ in copies], [memory for _, _, memory in copies], period_s, 800.0)
        fewest_nodes = len(cover(sets, tuple(count for count, _, _ in copies)))
        columns = [np.array(column) for column in zip(*copies, strict=True)]
        searched = nodes.fewest_nodes(columns[1], columns[0], columns[2], jobs, period_s, 800.0)
        if plain.nodes_between(copies, period_s, 800.0) != (fewest_nodes, fewest_nodes) or searched != (fewest_nodes, fewest_nodes):
            wrong.append((copies, period_s, fewest_nodes))
    assert wrong == []


def test_the_bound_of_a_group_of_wide_jobs_is_proven_again() -> None:
    """Five jobs on 10 to 14 nodes, two of them on a node at most: 30 nodes; wide jobs must not make `check` endless."""
    jobs = tuple(JobData(f"job{k}", 2.0, 100.0, 20.0, rollout_nodes=10 + k) for k in range(5))
    problem = ColocationProblem((NodePool("H20", 14.8, 0.0), NodePool("H800", 42.24, 0.0)), jobs)
    answer = exact(problem)
    assert (answer.value, checked_bound(problem, answer.witness).value) == (30 * 14.8 + 42.24, 30 * 14.8 + 42.24)


def test_a_job_on_a_thousand_nodes_is_covered() -> None:
    """Its demand is small enough for the dynamic program, which must not recurse once per node."""
    assert len(cover((1,), (1500,))) == 1500


def test_fitting_sets_are_all_sets_within_seconds_and_memory() -> None:
    """60 + 40 s fit into 100 s, 700 + 400 GiB do not fit into 1000 GiB."""
    seconds, memory = [60.0, 40.0, 40.0], [700.0, 300.0, 400.0]
    expected = {0b001, 0b010, 0b100, 0b011, 0b110}
    assert set(fitting_sets(seconds, memory, 100.0, 1000.0)) == expected


def test_fitting_sets_are_closed_under_taking_parts() -> None:
    """The cover rests on it: a set inside one that was tried is never better."""
    sets = set(fitting_sets([30.0, 50.0, 20.0, 60.0], [300.0, 0.0, 500.0, 400.0], 120.0, 1000.0))
    parts = {sum(part) for mask in sets for size in range(1, 4) for part in combinations([1 << k for k in range(4) if mask >> k & 1], size)}
    assert parts <= sets


def test_pin_turns_sets_on_nodes_into_nodes_of_jobs() -> None:
    """Node 0 holds jobs 0 and 2, node 1 job 2 only."""
    assert pin([0b101, 0b100], 3) == ((0,), (), (0, 1))


def test_a_group_of_tp_jobs_shares_what_it_can() -> None:
    """Jobs on 3, 2 and 1 nodes, two to a node: three nodes are enough."""
    jobs = tuple(JobData(name, 2.0, 100.0, 20.0, rollout_nodes=nodes) for name, nodes in (("a", 3), ("b", 2), ("c", 1)))
    problem = ColocationProblem((NodePool("H20", 14.8, 0.0), NodePool("H800", 42.24, 0.0)), jobs)
    assert group_of(problem, [0, 1, 2]).rollout_nodes == 3
