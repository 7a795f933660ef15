"""The certificate of a co-location bound: it proves what an exhaustive search proves, and never more than the optimum."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from inspect import getsource
from math import inf, nan
from pathlib import Path
from random import Random

import pytest

from rollplan.models.certified import Branch, GroupCount, Leaf, PoolNodes, Together, TwoOfThree, Witness
from rollplan.models.colocation import certificate, verify
from rollplan.models.colocation.certificate import CheckedBound, checked_bound, fluid_bound
from rollplan.models.colocation.certificate.leaf import Prover
from rollplan.models.colocation.certificate.tree import tree_bound
from rollplan.models.colocation.problem import ColocationProblem, JobData

from .exhaustive import H20, H800, optimum, proven, random_problem, scarce, wild_tree

LP_PROOF = "LP prices, every feasible group searched"


@pytest.mark.parametrize("make", [random_problem, scarce])
@pytest.mark.parametrize("seed", range(25))
def test_a_witness_proves_what_an_exhaustive_search_proves(seed: int, make: Callable[[int], ColocationProblem]) -> None:
    """Random trees over all kinds of measures: no violated group is overlooked, no side forgotten, nothing given away."""
    random, problem, wrong = Random(seed), make(seed), []
    for depth in (0, 0, 0, 1, 1, 2, 2, 3, 4, 5):
        witness = wild_tree(random, problem, depth)
        right, answer = proven(problem, witness, {}), tree_bound(problem, witness, Prover(problem, lambda: None))
        if answer != pytest.approx(right, abs=1e-5):
            wrong.append((witness, right, answer))
    assert wrong == []


@pytest.mark.parametrize("make", [random_problem, scarce])
@pytest.mark.parametrize("seed", range(25))
def test_no_witness_proves_more_than_the_optimum(seed: int, make: Callable[[int], ColocationProblem]) -> None:
    """A plan file may be forged: whatever its witness says, the bound must hold. Optima by all partitions."""
    random, problem = Random(seed + 1000), make(seed)
    witnesses = [wild_tree(random, problem, depth) for depth in (0, 1, 2, 3, 3, 4, 5, 6)]
    witnesses += [Leaf(tuple(random.uniform(0, top) for _ in problem.jobs)) for top in (1, 30, 60, 1e3, 1e6, 1e12)]
    bounds = [checked_bound(problem, witness) for witness in witnesses]
    assert [bound for bound in bounds if bound.value > optimum(problem) * (1 + 1e-9) or bound.note] == []


def test_the_random_problems_are_worth_testing_with() -> None:
    """Half of the short pools make the optimum dearer, and some trees prove more than the fluid bound."""
    optima = [(optimum(random_problem(seed)), optimum(scarce(seed))) for seed in range(25)]
    assert sum(free < short < inf for free, short in optima) >= 8
    trees = [(problem := random_problem(seed), wild_tree(Random(seed), problem, 2)) for seed in range(60)]
    assert sum(checked_bound(*pair).proof == LP_PROOF for pair in trees) >= 3


def jobs_only(*prices: float) -> Leaf:
    """Return prices of jobs alone."""
    return Leaf(prices)


def equal_jobs(count_: int, rollout_s: float, train_s: float, **pools: int | None) -> ColocationProblem:
    """Return a problem of equal jobs that tolerate no waiting."""
    given = (replace(H20, nodes=pools.get("rollout")), replace(H800, nodes=pools.get("train")))
    return ColocationProblem(given, tuple(JobData(f"job{k}", 1.0, rollout_s, train_s) for k in range(count_)))


def test_prices_that_are_too_high_are_lowered_to_a_bound() -> None:
    """One job alone costs 57.04 $/h; a price of 100 is violated by 42.96, which the check finds and takes off."""
    assert checked_bound(equal_jobs(1, 100.0, 100.0), jobs_only(100.0)) == CheckedBound(57.04, LP_PROOF)


def test_a_group_that_takes_all_nodes_of_its_pools_is_searched() -> None:
    """Groups that no pool can hold are left out of the search; this one just fits, and it is the optimum."""
    assert checked_bound(equal_jobs(2, 50.0, 50.0, rollout=1, train=1), jobs_only(100.0, 100.0)).value == 57.04


def test_a_witness_proves_what_the_closed_form_cannot() -> None:
    """Two of three equal jobs share a trainer but no rollout node: 71.84 $/h a pair, so 35.92 $/h a job."""
    problem = equal_jobs(3, 70.0, 50.0)
    assert checked_bound(problem, jobs_only(35.92, 35.92, 35.92)) == CheckedBound(107.76, LP_PROOF)
    assert fluid_bound(problem) < 79


def test_branches_on_totals_prove_what_prices_alone_cannot() -> None:
    """Three equal jobs pair up: 1.5 node pairs by the LP, two in truth. One trainer is too few, one rollout node as well."""
    few_rollout, few_train = (Leaf((100.0,) * 3, ((PoolNodes(p), -142.96),)) for p in (0, 1))
    two_pairs = Leaf((0.0,) * 3, ((PoolNodes(0), 14.8), (PoolNodes(1), 42.24)))
    tree = Branch(PoolNodes(1), 1, few_train, Branch(PoolNodes(0), 1, few_rollout, two_pairs))
    assert checked_bound(equal_jobs(3, 50.0, 50.0), tree).value == 114.08


def test_branches_on_group_counts_prove_it_too() -> None:
    """One group does not hold three jobs of which two fill it; two groups cost 114.08 $/h."""
    groups = GroupCount(0, 1, None, None)
    tree = Branch(groups, 1, Leaf((100.0,) * 3, ((groups, -142.96),)), Leaf((0.0,) * 3, ((groups, 57.04),)))
    assert checked_bound(equal_jobs(3, 50.0, 50.0), tree).value == 114.08


def test_branches_on_pairs_prove_it_too() -> None:
    """Whether the first two share a group or not: the third, or the second, needs another one."""
    together, apart = jobs_only(57.04, 0.0, 57.04), jobs_only(57.04, 57.04, 0.0)
    assert checked_bound(equal_jobs(3, 50.0, 50.0), Branch(Together(0, 1), 0, apart, together)).value == 114.08


def test_a_cut_over_three_jobs_proves_it_without_branches() -> None:
    """Of three jobs only one pair shares a group: a price of 57.04 $/h for every second pair makes three jobs cost two groups."""
    cut = Leaf((57.04,) * 3, ((TwoOfThree(0, 1, 2), -57.04),))
    assert checked_bound(equal_jobs(3, 50.0, 50.0), cut).value == 114.08


def test_plans_with_just_the_number_of_a_branch_lie_below_it() -> None:
    """One job needs one trainer: the below side proves its 57.04 $/h, and a count off by one would prove 84.48."""
    tree = Branch(PoolNodes(1), 1, Leaf((157.04,), ((PoolNodes(1), -100.0),)), Leaf((0.0,), ((PoolNodes(1), 42.24),)))
    assert checked_bound(equal_jobs(1, 100.0, 100.0), tree) == CheckedBound(57.04, LP_PROOF)


def test_the_below_side_of_a_branch_must_be_proven_too() -> None:
    """A tree whose above side alone promises a million dollars proves only what its below side does."""
    problem = random_problem(1)
    forged = Branch(PoolNodes(0), 10**6, jobs_only(*(0.0,) * 6), Leaf((0.0,) * 6, ((PoolNodes(0), 14.8),)))
    assert checked_bound(problem, forged) == CheckedBound(problem.next_cost(fluid_bound(problem)), "fluid")


def test_a_proof_cut_short_is_worth_what_the_root_proves() -> None:
    """If `stop` answers after the root was searched, 107.76 $/h, the LP bound, stands; before, only the fluid bound."""
    problem = equal_jobs(3, 70.0, 50.0)
    together, apart = jobs_only(71.84, 0.0, 57.04), jobs_only(57.04, 57.04, 14.8)
    tree = Branch(Together(0, 1), 0, apart, together, prices=jobs_only(35.92, 35.92, 35.92))
    asked: list[int] = []

    def stop_after(calls: int) -> Callable[[], bool]:
        asked.clear()
        return lambda: asked.append(1) or len(asked) > calls

    values = [checked_bound(problem, tree, stop_after(calls)) for calls in range(50)]
    assert {problem.next_cost(fluid_bound(problem)), 107.76, 128.88} <= {bound.value for bound in values}
    assert [bound.value for bound in values] == sorted(bound.value for bound in values)
    assert all(bound.stopped == (bound.value < 128.88) == ("stopped" in bound.note) for bound in values)


def deep(levels: int) -> Witness:
    """Return a tree of so many levels."""
    tree: Witness = jobs_only(*(1.0,) * 6)
    for at in range(levels):
        tree = Branch(PoolNodes(0), at, tree, jobs_only(*(1.0,) * 6))
    return tree


def test_a_tree_may_be_deep() -> None:
    """Nothing recurses once per level."""
    assert checked_bound(random_problem(1), deep(1500)).note == ""


ONES = (1.0,) * 6
BAD: list[tuple[Witness, str]] = [
    (Leaf((10.0,) * 5), "has the wrong number of prices"),
    (Leaf((10.0,) * 7), "has the wrong number of prices"),
    (Leaf((*(10.0,) * 5, -1e-9)), "has a price that is negative or not finite"),
    (Leaf((*(10.0,) * 5, nan)), "has a price that is negative or not finite"),
    (Leaf((*(10.0,) * 5, inf)), "has a price that is negative or not finite"),
    (Leaf(ONES, ((PoolNodes(0), nan),)), "has a price that is negative or not finite"),
    (Leaf(ONES, ((PoolNodes(0), -inf),)), "has a price that is negative or not finite"),
    (Leaf((*(10.0,) * 5, 1e13)), "has a price beyond all measure"),
    (Leaf(ONES, ((PoolNodes(0), -1.0),)), "prices a number that has no limit"),
    (Leaf(ONES, ((GroupCount(0, 1, 1, None), -1.0),)), "prices a number that has no limit"),
    (Leaf(ONES, ((Together(0, 1), 1.0),)), "prices a pair of jobs, which has no price"),
    (Leaf(ONES, ((PoolNodes(3), 1.0),)), "speaks of a pool that does not exist"),
    (Branch(PoolNodes(3), 5, Leaf(ONES), Leaf(ONES)), "speaks of a pool that does not exist"),
    (Branch(PoolNodes(-1), 5, Leaf(ONES), Leaf(ONES)), "speaks of a pool that does not exist"),
    (Branch(GroupCount(0, 9, None, None), 5, Leaf(ONES), Leaf(ONES)), "speaks of a pool that does not exist"),
    (Branch(Together(0, 6), 0, Leaf(ONES), Leaf(ONES)), "speaks of jobs that do not exist"),
    (Branch(Together(2, 2), 0, Leaf(ONES), Leaf(ONES)), "speaks of jobs that do not exist"),
    (Leaf(ONES, ((TwoOfThree(0, 1, 6), -1.0),)), "speaks of jobs that do not exist"),
    (Leaf(ONES, ((TwoOfThree(0, 1, 0), -1.0),)), "speaks of jobs that do not exist"),
    (Leaf(ONES, ((TwoOfThree(0, 1, 2), 1.0),)), "pays for two of three jobs in a group, which no limit asks for"),
    (Branch(PoolNodes(0), 5, Leaf(ONES), Leaf(ONES, ((PoolNodes(0), -1.0),))), "prices a number that has no limit"),
    (Branch(PoolNodes(0), 10**400, Leaf(ONES), Leaf(ONES)), "parts plans by an absurd number"),
    (Branch(PoolNodes(0), 5, Leaf(ONES), Leaf(ONES), prices=Leaf((10.0,) * 5)), "has the wrong number of prices"),
]


@pytest.mark.parametrize(("witness", "note"), BAD, ids=[f"{number} {note}" for number, (_, note) in enumerate(BAD)])
def test_an_unusable_witness_falls_back_to_the_fluid_bound_and_says_why(witness: Witness, note: str) -> None:
    """`check` must still print a bound that holds, and what is wrong with the plan file."""
    problem = random_problem(1)
    fluid = CheckedBound(problem.next_cost(fluid_bound(problem)), "fluid")
    assert checked_bound(problem, witness) == replace(fluid, note=f"the witness {note}")
    assert checked_bound(problem, None) == checked_bound(problem, jobs_only(*(0.0,) * 6)) == fluid


def test_a_negative_number_in_a_branch_leaves_nothing_below() -> None:
    """No plan has fewer than no nodes, so the side above proves alone."""
    tree = Branch(PoolNodes(0), -5, Leaf((0.0,)), Leaf((57.04,)))
    assert checked_bound(equal_jobs(1, 100.0, 100.0), tree).value == 57.04


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


@pytest.mark.parametrize("seed", range(25))
def test_fluid_bound_is_at_most_the_optimum(seed: int) -> None:
    """Work and memory poured into nodes without regard to pieces."""
    assert fluid_bound(random_problem(seed)) <= optimum(random_problem(seed))


def test_checkers_import_nothing_of_a_solver() -> None:
    """Trust needs independence: of this package they know the problem's data and the witness's form, and how to compile and to stop."""
    modules = [Path(str(certificate.__file__)).parent.glob("*.py"), [Path(str(verify.__file__))]]
    sources = [path.read_text() for paths in modules for path in paths]
    imported = {node.module or "" for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    data = {"rollplan.models", "rollplan.models.colocation.problem", "rollplan.models.certified", "rollplan.models.native"}
    own = "rollplan.models.colocation.certificate"
    assert {name for name in imported if name.startswith("rollplan") and not name.startswith(own)} <= data
    assert "from rollplan.models import compiled" in getsource(certificate.search)
