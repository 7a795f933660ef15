"""The certificate of a co-location bound: any witness is safe, a wrong one is refused, and none is believed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from inspect import getsource
from math import inf, nan
from random import Random
from types import ModuleType

import pytest

from rollplan.models.certified import Branch, Leaf, Limits, Witness
from rollplan.models.colocation import certificate, verify
from rollplan.models.colocation.certificate import CheckedBound, checked_bound, fluid_bound
from rollplan.models.colocation.exact import exact, lower_bound
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.errors import InfeasibleError

LP_PROOF = "LP prices, every feasible group searched"
H20, H800 = NodePool("H20", 14.8, 1000.0), NodePool("H800", 42.24, 1000.0)


def random_problem(seed: int, jobs: int = 7) -> ColocationProblem:
    """Jobs of several nodes and footprints on one pair of pools."""
    random = Random(seed)
    members = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.0, 1.5, 2.0, 3.0]),
            rollout_s=random.choice([50.0, 100.0, 150.0, 200.0]),
            train_s=random.choice([20.0, 50.0, 100.0]),
            rollout_nodes=random.choice([1, 1, 2, 3]),
            train_nodes=random.choice([1, 1, 2, 3]),
            rollout_memory_gib=random.choice([0.0, 300.0, 500.0]),
            train_memory_gib=random.choice([0.0, 250.0, 400.0]),
        )
        for k in range(jobs)
    )
    return ColocationProblem((H20, H800), members, random.choice([2, 3, 4, 5]))


def jobs_only(prices: Sequence[float]) -> Leaf:
    """Return prices of jobs without prices of totals, for two pools."""
    return Leaf(tuple(prices), (0.0, 0.0))


def fluid(problem: ColocationProblem) -> CheckedBound:
    """Return what stands without a usable witness."""
    return CheckedBound(problem.next_cost(fluid_bound(problem)), "fluid")


def wild_prices(random: Random, count: int, top: float) -> list[float]:
    """Non-negative prices of very different sizes; a third of them are zero."""
    return [random.choice([0.0, random.uniform(0, 1), random.uniform(0, top)]) for _ in range(count)]


def bent(random: Random, problem: ColocationProblem, witness: Witness | None) -> Witness:
    """Return the true witness, bent a little: it would prove too much if the check missed a group or a total."""
    if isinstance(witness, Branch):
        at = witness.at + random.choice([-1, 0, 0, 1])
        return Branch(witness.pool, at, bent(random, problem, witness.below), bent(random, problem, witness.above))
    jobs = witness.jobs if witness else (50.0,) * len(problem.jobs)
    pools = witness.pools if witness else (0.0, 0.0)
    caps = [pool.price_per_node_h for pool in problem.pools]
    return Leaf(
        tuple(price * random.uniform(0.9, 1.3) for price in jobs),
        tuple(min(cap, price * random.uniform(0.7, 1.3)) for price, cap in zip(pools, caps, strict=True)),
    )


def wild_tree(random: Random, problem: ColocationProblem, depth: int, limited: frozenset[int] = frozenset()) -> Witness:
    """Return a random tree: branches at random totals, wild prices, negative ones where a total is limited."""
    if depth and random.random() < 0.8:
        pool, at = random.randrange(2), random.randint(0, 16)
        below = wild_tree(random, problem, depth - 1, limited | {pool})
        return Branch(pool, at, below, wild_tree(random, problem, depth - 1, limited))
    pools = tuple(random.uniform(-50 if p in limited else 0, problem.pools[p].price_per_node_h) for p in range(2))
    return Leaf(tuple(wild_prices(random, len(problem.jobs), random.choice([30, 80, 200]))), pools)


@cache
def scarce_problems() -> list[ColocationProblem]:
    """Problems whose optimum without limits does not fit, by one rollout node, but another plan does."""
    found = []
    for free in map(random_problem, range(60)):
        taken = sum(group.rollout_nodes for group in exact(free, Limits(60)).solution.groups)
        problem = replace(free, pools=(replace(H20, nodes=taken - 1), H800))
        with suppress(InfeasibleError):
            exact(problem, Limits(60))
            found.append(problem)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_any_non_negative_prices_give_a_bound_at_most_the_optimum(seed: int) -> None:
    """A plan file may be forged: whatever its witness says, the bound must hold."""
    random, problem = Random(seed), random_problem(seed)
    optimum, true = exact(problem, Limits(60)).value, lower_bound(problem, Limits(60))[1]
    witnesses = [jobs_only(wild_prices(random, len(problem.jobs), top)) for top in (1, 30, 100, 1e3, 1e6)]
    bounds = [checked_bound(problem, witness) for witness in [*witnesses, *(bent(random, problem, true) for _ in range(5))]]
    assert [bound for bound in bounds if bound.value > optimum * (1 + 1e-9) or bound.note] == []


@pytest.mark.parametrize("seed", range(60))
def test_any_tree_of_totals_gives_a_bound_at_most_the_optimum(seed: int) -> None:
    """Every plan lies on one side of each branch, so a tree proves what its weakest leaf proves."""
    random, problem = Random(seed), random_problem(seed, jobs=6)
    optimum = exact(problem, Limits(60)).value
    bounds = [checked_bound(problem, wild_tree(random, problem, depth)) for depth in (1, 1, 2, 2, 3, 3)]
    assert [bound for bound in bounds if bound.value > optimum * (1 + 1e-9) or bound.note] == []


def test_any_prices_of_scarce_nodes_give_a_bound_at_most_the_optimum() -> None:
    """A limited pool may have a negative price: it is paid for as many nodes as there are."""
    wrong = []
    for number, problem in enumerate(scarce_problems()):
        random, optimum = Random(number), exact(problem, Limits(60)).value
        witnesses = [bent(random, problem, lower_bound(problem, Limits(60))[1]) for _ in range(4)]
        for top in (1, 30, 100, 1000):
            witnesses.append(Leaf(tuple(wild_prices(random, len(problem.jobs), top)), (-random.uniform(0, top), 0.0)))
        bounds = [checked_bound(problem, witness) for witness in witnesses]
        wrong += [(problem, bound, optimum) for bound in bounds if bound.value > optimum * (1 + 1e-9) or bound.note]
    assert wrong == []


def test_there_are_scarce_problems_to_test_with() -> None:
    """Otherwise the test above would be empty."""
    assert len(scarce_problems()) >= 10


def test_prices_that_are_too_high_are_lowered_to_a_bound() -> None:
    """One job alone costs 57.04 $/h; a price of 100 is violated by 42.96, which the check finds and takes off."""
    problem = ColocationProblem((H20, H800), (JobData("a", 1.0, 100.0, 100.0),))
    assert checked_bound(problem, jobs_only([100.0])) == CheckedBound(57.04, LP_PROOF)


def test_a_group_that_takes_all_nodes_of_its_pools_is_searched() -> None:
    """Groups that no pool can hold are left out of the search; this one just fits, and it is the optimum."""
    jobs = tuple(JobData(name, 1.0, 50.0, 50.0) for name in "ab")
    problem = ColocationProblem((replace(H20, nodes=1), replace(H800, nodes=1)), jobs)
    assert checked_bound(problem, jobs_only([100.0, 100.0])).value == 57.04


def test_a_witness_proves_what_the_closed_form_cannot() -> None:
    """Two of three equal jobs share a trainer but no rollout node: 71.84 $/h a pair, so 35.92 $/h a job."""
    problem = ColocationProblem((H20, H800), tuple(JobData(name, 1.0, 70.0, 50.0) for name in "abc"))
    assert checked_bound(problem, jobs_only([35.92] * 3)) == CheckedBound(107.76, LP_PROOF)
    assert fluid_bound(problem) < 79


def test_branches_on_totals_prove_what_prices_alone_cannot() -> None:
    """Three equal jobs pair up: 1.5 node pairs by the LP, two in truth. One trainer is too few, one rollout node as well."""
    problem = ColocationProblem((H20, H800), tuple(JobData(name, 1.0, 50.0, 50.0) for name in "abc"))
    few_rollout, few_train = Leaf((100.0,) * 3, (-142.96, 0.0)), Leaf((100.0,) * 3, (0.0, -142.96))
    two_pairs = Leaf((0.0,) * 3, (14.8, 42.24))
    tree = Branch(pool=1, at=1, below=few_train, above=Branch(pool=0, at=1, below=few_rollout, above=two_pairs))
    assert (checked_bound(problem, jobs_only([28.52] * 3)).value, checked_bound(problem, tree).value) == (85.6, 114.08)


def test_plans_with_just_the_total_of_a_branch_lie_below_it() -> None:
    """One job needs one trainer: the below side proves its 57.04 $/h, and a count off by one would prove 84.48."""
    problem = ColocationProblem((H20, H800), (JobData("a", 1.0, 100.0, 100.0),))
    tree = Branch(pool=1, at=1, below=Leaf((157.04,), (0.0, -100.0)), above=Leaf((0.0,), (0.0, 42.24)))
    assert checked_bound(problem, tree) == CheckedBound(57.04, LP_PROOF)


def test_the_below_side_of_a_branch_must_be_proven_too() -> None:
    """A tree whose above side alone promises a million dollars proves only what its below side does."""
    problem = random_problem(1)
    forged = Branch(pool=0, at=10**6, below=jobs_only([0.0] * 7), above=Leaf((0.0,) * 7, (14.8, 0.0)))
    assert checked_bound(problem, forged) == fluid(problem)


def test_a_price_for_scarce_nodes_raises_the_bound() -> None:
    """Without it, the bound of a problem that is one node short stays that of the problem with enough nodes."""
    gains = []
    for problem in scarce_problems():
        enough = lower_bound(replace(problem, pools=(H20, H800)), Limits(60))[0].value
        gains.append(checked_bound(problem, lower_bound(problem, Limits(60))[1]).value - enough)
    assert sum(gain > 1.0 for gain in gains) >= 10


def test_no_witness_means_the_fluid_bound_without_a_complaint() -> None:
    """Large problems carry none; that is no fault."""
    assert checked_bound(random_problem(1), None) == fluid(random_problem(1))


def test_prices_of_zero_mean_the_fluid_bound() -> None:
    """They prove only that costs are not negative."""
    assert checked_bound(random_problem(1), jobs_only([0.0] * 7)) == fluid(random_problem(1))


def deep(levels: int) -> Witness:
    """Return a tree of so many levels."""
    tree: Witness = jobs_only([1.0] * 7)
    for at in range(levels):
        tree = Branch(0, at, tree, jobs_only([1.0] * 7))
    return tree


BAD: list[tuple[Witness, str]] = [
    (Leaf((10.0,) * 6, (0.0, 0.0)), "the witness has the wrong number of prices"),
    (Leaf((10.0,) * 8, (0.0, 0.0)), "the witness has the wrong number of prices"),
    (Leaf((10.0,) * 7, ()), "the witness has the wrong number of prices"),
    (Leaf((10.0,) * 7, (0.0, 0.0, 0.0)), "the witness has the wrong number of prices"),
    (Leaf((*(10.0,) * 6, -1e-9), (0.0, 0.0)), "the witness has a price that is negative or not finite"),
    (Leaf((*(10.0,) * 6, nan), (0.0, 0.0)), "the witness has a price that is negative or not finite"),
    (Leaf((*(10.0,) * 6, inf), (0.0, 0.0)), "the witness has a price that is negative or not finite"),
    (Leaf((10.0,) * 7, (nan, 0.0)), "the witness has a price that is negative or not finite"),
    (Leaf((10.0,) * 7, (-inf, 0.0)), "the witness has a price that is negative or not finite"),
    (Leaf((10.0,) * 7, (-1.0, 0.0)), "the witness prices a total that has no limit"),
    (Branch(2, 5, jobs_only([1.0] * 7), jobs_only([1.0] * 7)), "the witness parts plans by a pool that does not exist"),
    (Branch(-1, 5, jobs_only([1.0] * 7), jobs_only([1.0] * 7)), "the witness parts plans by a pool that does not exist"),
    (Branch(0, 5, jobs_only([1.0] * 7), Leaf((1.0,) * 7, (-1.0, 0.0))), "the witness prices a total that has no limit"),
    (deep(1000), "the witness has too many branches"),
]


@pytest.mark.parametrize(("witness", "note"), BAD, ids=[f"{number} {note}" for number, (_, note) in enumerate(BAD)])
def test_an_unusable_witness_falls_back_to_the_fluid_bound_and_says_why(witness: Witness, note: str) -> None:
    """`check` must still print a bound that holds, and what is wrong with the plan file."""
    assert checked_bound(random_problem(1), witness) == replace(fluid(random_problem(1)), note=note)


@pytest.mark.parametrize("at", [-5, 10**400, -(10**400)], ids=["negative", "huge", "hugely negative"])
def test_absurd_totals_in_a_branch_prove_nothing_and_crash_nothing(at: int) -> None:
    """JSON knows integers of any length."""
    problem = random_problem(1)
    forged = Branch(0, at, jobs_only([0.0] * 7), jobs_only([0.0] * 7))
    assert checked_bound(problem, forged).value == fluid(problem).value


def test_a_stopped_search_falls_back_to_the_fluid_bound_and_says_so() -> None:
    """A search that saw only some groups proves nothing."""
    expected = replace(fluid(random_problem(1)), note="the search for violated groups was stopped")
    assert checked_bound(random_problem(1), jobs_only([30.0] * 7), stop=lambda: True) == expected


@pytest.mark.parametrize(
    ("job", "max_group_size", "dollars"),
    [
        (JobData("work", 1.0, 150.0, 50.0), 5, 0.75 * 14.8 + 0.25 * 42.24),
        (JobData("slack", 2.0, 150.0, 50.0), 5, 0.375 * 14.8 + 0.2 * 42.24),
        (JobData("nodes", 1.0, 150.0, 50.0, rollout_nodes=2, train_nodes=3), 5, 1.5 * 14.8 + 0.75 * 42.24),
        (JobData("memory", 1.0, 150.0, 50.0, rollout_memory_gib=900.0, train_memory_gib=400.0), 5, 0.9 * 14.8 + 0.4 * 42.24),
        (JobData("places", 1.0, 150.0, 50.0), 1, 14.8 + 42.24),
    ],
)
def test_fluid_bound_is_the_largest_of_work_memory_and_places(job: JobData, max_group_size: int, dollars: float) -> None:
    """By hand, for one job and each of the three needs; SLO and node counts scale the work."""
    assert fluid_bound(ColocationProblem((H20, H800), (job,), max_group_size)) == pytest.approx(dollars, rel=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_fluid_bound_is_at_most_the_optimum(seed: int) -> None:
    """Work and memory poured into nodes without regard to pieces."""
    problem = random_problem(seed)
    assert fluid_bound(problem) <= exact(problem, Limits(60)).value


@pytest.mark.parametrize("module", [certificate, verify])
def test_checkers_import_nothing_of_a_solver(module: ModuleType) -> None:
    """Trust needs independence: of this package they know the problem's data and the witness's form only."""
    imported = {node.module or "" for node in ast.walk(ast.parse(getsource(module))) if isinstance(node, ast.ImportFrom)}
    data = {"rollplan.models.colocation.problem", "rollplan.models.certified"}
    assert {name for name in imported if name.startswith("rollplan")} <= data
