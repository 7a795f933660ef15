"""The search for groups of least reduced cost: compiled and plain alike, against a list of all groups, and cut short."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from rollplan.models.certified import Leaf, Witness
from rollplan.models.colocation.certificate import leaf, search
from rollplan.models.colocation.certificate.leaf import Prover
from rollplan.models.colocation.certificate.limits import Box
from rollplan.models.colocation.certificate.tree import tree_bound
from rollplan.models.colocation.problem import ColocationProblem

from .exhaustive import all_groups, cost, proven, random_problem, wild_tree

needs_compiler = pytest.mark.skipif(search.compiled() is None, reason="needs numba")


@pytest.fixture
def always_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small fleets are searched in plain Python otherwise."""
    monkeypatch.setattr(leaf, "_PLAIN_WORK", 0)


def tight_prices(random: Random, problem: ColocationProblem) -> Leaf:
    """Return prices at which hardly any group is violated: those of single jobs, lowered group by group."""
    price = [0.0] * len(problem.jobs)
    for group in all_groups(problem):
        if len(group[0]) == 1:
            price[group[0][0]] = cost(problem, group)
    groups = sorted(all_groups(problem), key=lambda group: random.random())
    for group in groups * 2:
        over = sum(price[k] for k in group[0]) - cost(problem, group) * random.uniform(1.0, 1.02)
        if over > 0:
            for k in group[0]:
                price[k] -= over * price[k] / sum(price[j] for j in group[0])
    return Leaf(tuple(max(0.0, round(one, 6)) for one in price))


def small(seed: int, jobs: int) -> ColocationProblem:
    """Return a problem that is searched with multipliers, and whose groups can still be listed."""
    return replace(random_problem(seed, jobs), max_group_size=3)


@pytest.mark.parametrize("seed", range(6))
def test_more_candidates_than_are_searched_without_multipliers(seed: int) -> None:
    """Multipliers may cut only what cannot be violated: 18 jobs, tight and loose prices, against all groups."""
    random, problem = Random(seed), small(seed, 18)
    loose = wild_tree(random, replace(problem, jobs=problem.jobs[:4]), 0)
    assert isinstance(loose, Leaf)
    for prices in (tight_prices(random, problem), Leaf((*(random.uniform(0, 60) for _ in problem.jobs),), loose.measures)):
        answer = tree_bound(problem, prices, Prover(problem, lambda: None))
        assert answer == pytest.approx(proven(problem, prices, {}), abs=1e-5)


@needs_compiler
@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("seed", range(30))
def test_compiled_the_answers_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: the code is the same. Two threads do not change it either."""
    random, problem = Random(seed), random_problem(seed, 5 + seed % 9)
    trees: list[Witness] = [wild_tree(random, problem, depth) for depth in (0, 1, 3)] if len(problem.jobs) < 9 else []
    trees.append(Leaf(tuple(random.uniform(0, 50) for _ in problem.jobs)))
    for tree in trees:
        compiled = tree_bound(problem, tree, Prover(problem, lambda: None))
        monkeypatch.setattr(leaf, "_MANY_JOBS", 0)
        beside = tree_bound(problem, tree, Prover(problem, lambda: None))
        monkeypatch.setattr(search, "compiled", lambda: None)
        assert (compiled, beside) == (plain := tree_bound(problem, tree, Prover(problem, lambda: None)), plain)
        monkeypatch.undo()
        monkeypatch.setattr(leaf, "_PLAIN_WORK", 0)


@needs_compiler
@pytest.mark.usefixtures("always_compiled")
def test_a_search_that_is_asked_to_end_still_gives_a_bound() -> None:
    """Multipliers bound what was not searched, so less is proven, but nothing wrong; `stopped` says so."""
    problem = small(3, 18)
    prices = tight_prices(Random(3), problem)
    whole = Prover(problem, lambda: None)(Box(problem), prices)
    asked: list[int] = []
    for calls in (0, 1, 2, 5):
        asked.clear()
        prover = Prover(problem, lambda: asked.append(1) or len(asked) > calls)  # noqa: B023
        value = prover(Box(problem), prices)
        assert value == whole or (prover.stopped and value < whole)


def test_multipliers_alone_give_a_bound() -> None:
    """What they say of a leader is never more than the truth."""
    for seed in range(10):
        problem = small(seed, 14)
        blocks = leaf._blocks(problem, frozenset(), frozenset())
        assert blocks is not None
        for block in blocks:
            arguments = block.arguments(Box(problem), tight_prices(Random(seed), problem))
            for leader in range(len(block.members)):
                quick, _ = search.least_reduced_cost(*arguments, leader, False, [0])
                searched, sure = search.least_reduced_cost(*arguments, leader, True, [0])
                assert sure
                assert quick <= searched + 1e-9
