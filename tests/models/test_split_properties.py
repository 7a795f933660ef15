"""P1 split: brute force, and what must hold for every problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rollplan.models.errors import InfeasibleError
from rollplan.models.split.exact import exact, ranking
from rollplan.models.split.problem import SplitProblem, SplitSolution, colocated_evaluated
from rollplan.models.split.verify import least_value, verify

Row = tuple[str, str, int, str, int, float, float, float]


def one_site(budget: int, rollout: Mapping[int, float], train: Mapping[int, float], **rest: Any) -> SplitProblem:
    """Return a problem with one pool for both stages."""
    return SplitProblem({"site": budget}, {"site": rollout}, {"site": train}, {"site": 1.0}, **rest)


def brute_force(problem: SplitProblem) -> list[Row]:
    """Every candidate, straight from the definition: mode, p, x, q, y, rollout, train, iteration."""
    rows: list[Row] = []
    for p in problem.rollout:
        for q in problem.train:
            for x, rollout_s in problem.rollout[p].items():
                for y, train_s in problem.train[q].items():
                    need = {p: x + y} if p == q else {p: x, q: y}
                    if all(gpus <= problem.budgets[pool] for pool, gpus in need.items()):
                        rows.append(("separate", p, x, q, y, rollout_s, train_s, max(rollout_s, train_s) + problem.sync_s))
                    if p == q and x == y and x <= problem.budgets[p]:
                        rows.append(("colocated", p, x, q, y, rollout_s, train_s, rollout_s + train_s + problem.sync_s))
    return rows


def objective(row: Row) -> tuple[Any, ...]:
    """The order of plans; the times of the generated problems are multiples of 1/4, so equal means equal."""
    mode, p, x, q, y, rollout_s, train_s, iteration_s = row
    return iteration_s, x if mode == "colocated" else x + y, abs(rollout_s - train_s), x, mode == "colocated", p, q


def as_printed(problem: SplitProblem) -> list[Row]:
    """Candidates of the trim `paper`: Algorithm 1 line by line for two sites, everything on one site."""
    rows = brute_force(problem)
    kept = [row for row in rows if row[1] == row[3]]
    for p, q in {(row[1], row[3]) for row in rows if row[1] != row[3]}:
        here = [row for row in rows if (row[1], row[3]) == (p, q)]
        m, n = max(row[2] for row in here), max(row[4] for row in here)
        rollout_s, train_s = problem.rollout[p][m], problem.train[q][n]
        if rollout_s < train_s:
            kept.append(min((row for row in here if row[4] == n), key=lambda row: (abs(row[5] - train_s), row[2])))
        else:
            kept.append(min((row for row in here if row[2] == m), key=lambda row: (abs(row[6] - rollout_s), row[4])))
    return kept


quarters = st.integers(1, 40).map(lambda quarter: quarter / 4)
tables = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.dictionaries(st.integers(1, 9), quarters, min_size=1, max_size=5), min_size=1)
problems = st.builds(
    SplitProblem,
    budgets=st.fixed_dictionaries({pool: st.integers(1, 12) for pool in "abc"}),
    rollout=tables,
    train=tables,
    price_per_gpu_h=st.just({"a": 1.0, "b": 2.0, "c": 3.0}),
    sync_s=st.sampled_from([0.0, 0.25, 3.0]),
    trim=st.sampled_from(["paper", "safe"]),
)
feasible = problems.filter(brute_force)


@given(problems)
def test_exact_is_what_brute_force_finds(problem: SplitProblem) -> None:
    """The plan with all its ties, the bound, its second proof, and the refusal exactly when nothing fits."""
    rows = brute_force(problem)
    if not rows:
        with pytest.raises(InfeasibleError, match="budget"):
            exact(problem)
        assert least_value(problem) is None
        return
    found = exact(problem)
    assert astuple(found.solution)[:8] == min(as_printed(problem) if problem.trim == "paper" else rows, key=objective)
    assert found.value == found.solution.iteration_s
    assert found.bound.proof == "exhaustive"
    assert found.bound.value == min(row[-1] for row in rows) == least_value(problem)


@given(feasible, st.integers(1, 12))
def test_ranking_is_the_sorted_list_without_idle_gpus(problem: SplitProblem, limit: int) -> None:
    """The asked plan first; then every candidate in order that does not merely add GPUs to one before it."""
    first = astuple(exact(problem).solution)[:8]
    expected = [first]
    for row in sorted(brute_force(problem), key=objective):
        same = [other for other in expected if (other[0], other[1], other[3]) == (row[0], row[1], row[3])]
        if not any(other[2] <= row[2] and other[4] <= row[4] and other[-1] <= row[-1] for other in same):
            expected.append(row)
    assert [astuple(plan)[:8] for plan in ranking(problem, limit)] == expected[:limit]


@given(feasible)
def test_colocated_is_evaluated_exactly_when_it_is_a_candidate(problem: SplitProblem) -> None:
    """What the caller's warning rests on."""
    assert colocated_evaluated(problem) is any(row[0] == "colocated" for row in brute_force(problem))


@given(st.dictionaries(st.integers(1, 9), quarters, min_size=1), st.dictionaries(st.integers(4, 9), quarters, min_size=1), quarters)
def test_colocated_wins_whenever_it_is_strictly_faster(rollout: dict[int, float], train: dict[int, float], shared_s: float) -> None:
    """Disaggregation must win, not be assumed; 12 shared GPUs leave none for a split of that size."""
    problem = one_site(12, {**rollout, 12: shared_s}, {**train, 12: 0.25})
    rows = brute_force(problem)
    shared = min(row[-1] for row in rows if row[0] == "colocated")
    split = min((row[-1] for row in rows if row[0] == "separate"), default=float("inf"))
    mode = exact(problem).solution.mode
    assert mode == ("colocated" if shared < split else "separate") or shared == split


@given(feasible)
def test_verify_accepts_every_solution(problem: SplitProblem) -> None:
    """Nothing is wrong with what the solver returns."""
    for plan in [exact(problem).solution, *ranking(problem, limit=9)]:
        assert verify(problem, plan) == ()


@given(feasible)
def test_verify_rejects_a_solution_with_any_field_changed(problem: SplitProblem) -> None:
    """Every field is looked at."""
    plan = exact(problem).solution
    mutants: list[dict[str, Any]] = [
        {"mode": "colocated" if plan.mode == "separate" else "separate"},
        {"mode": "hybrid"},
        {"rollout_pool": "nowhere"},
        {"train_pool": "nowhere"},
        {"rollout_gpus": 10},
        {"train_gpus": 10},
        {"rollout_s": plan.rollout_s * 1.001},
        {"train_s": plan.train_s * 0.999},
        {"iteration_s": plan.iteration_s * 0.999},
        {"iteration_s": float("nan")},
        {"pipelining": "async-streamed"},
    ]
    assert {name for mutant in mutants for name in mutant} == set(SplitSolution.__slots__)
    for mutant in mutants:
        assert verify(problem, replace(plan, **mutant)), mutant


@given(feasible)
def test_verify_rejects_a_solution_that_exceeds_a_budget(problem: SplitProblem) -> None:
    """One GPU less than the plan uses in any of its pools."""
    plan = exact(problem).solution
    for pool in {plan.rollout_pool, plan.train_pool}:
        used = (plan.rollout_gpus if pool == plan.rollout_pool else 0) + (plan.train_gpus if pool == plan.train_pool else 0)
        used = plan.rollout_gpus if plan.mode == "colocated" else used
        if used > 1:
            tight = replace(problem, budgets={**problem.budgets, pool: used - 1})
            assert verify(tight, plan) == (f"pool {pool}: {used} GPUs are used, the budget is {used - 1}",)


def test_verify_says_what_is_wrong_in_words() -> None:
    """Stage, GPUs, pool, both numbers."""
    problem = one_site(8, {2: 10.0, 4: 5.0}, {4: 5.0})
    plan = exact(problem).solution
    found = verify(problem, replace(plan, rollout_gpus=2))
    assert found == ("rollout on 2 GPUs of site takes 10 s, the plan says 5", "an iteration takes 10 s, the plan says 5")
    assert verify(problem, replace(plan, train_gpus=3)) == ("training: 3 GPUs are not in the table of pool site",)
    assert verify(problem, replace(plan, train_pool="x")) == (
        "training: pool x has no table for it",
        "pool x: 4 GPUs are used, the budget is 0",
    )
    assert verify(problem, replace(plan, mode="colocated", pipelining="serial", rollout_gpus=2, rollout_s=10.0, iteration_s=15.0)) == (
        "colocated stages must share the same GPUs of one pool",
    )


@given(feasible, st.floats(1e-3, 1e4))
def test_scaling_all_times_scales_the_answer_and_leaves_the_split(problem: SplitProblem, factor: float) -> None:
    """Seconds or minutes, the split is the same."""

    def scaled(tables: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
        return {pool: {gpus: seconds * factor for gpus, seconds in table.items()} for pool, table in tables.items()}

    before = exact(problem)
    after = exact(replace(problem, rollout=scaled(problem.rollout), train=scaled(problem.train), sync_s=problem.sync_s * factor))
    assert astuple(after.solution)[:5] == astuple(before.solution)[:5]
    assert after.value == pytest.approx(before.value * factor, rel=1e-12)
    assert after.bound.value == pytest.approx(before.bound.value * factor, rel=1e-12)


@given(feasible)
def test_the_order_of_the_input_says_nothing(problem: SplitProblem) -> None:
    """Same meaning, same plan and same ranking."""

    def reversed_tables(tables: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
        return {pool: dict(list(tables[pool].items())[::-1]) for pool in list(tables)[::-1]}

    budgets = dict(list(problem.budgets.items())[::-1])
    other = replace(problem, budgets=budgets, rollout=reversed_tables(problem.rollout), train=reversed_tables(problem.train))
    assert list(other.rollout) == list(problem.rollout)
    assert exact(other) == exact(problem)
    assert ranking(other, 9) == ranking(problem, 9)


@given(feasible)
def test_safe_is_never_slower_than_paper(problem: SplitProblem) -> None:
    """And the bound of both is the same."""
    safe, paper = exact(replace(problem, trim="safe")), exact(replace(problem, trim="paper"))
    assert safe.optimal
    assert safe.value <= paper.value
    assert safe.bound == paper.bound


@given(feasible, st.sampled_from("abc"), st.integers(1, 6))
def test_more_budget_never_makes_safe_slower(problem: SplitProblem, pool: str, more: int) -> None:
    """Every plan of the smaller budget is still a candidate."""
    problem = replace(problem, trim="safe")
    richer = replace(problem, budgets={**problem.budgets, pool: problem.budgets[pool] + more})
    assert exact(richer).value <= exact(problem).value


@given(feasible)
def test_safe_on_two_sites_is_the_fewest_gpus_that_keep_the_bottleneck(problem: SplitProblem) -> None:
    """min{k : P(k) <= T} on each side, T the least time of the two sites together."""
    a, b = problem.budgets["a"], problem.budgets["b"]
    rollout = {x: seconds for x, seconds in problem.rollout.get("a", {}).items() if x <= a}
    train = {y: seconds for y, seconds in problem.train.get("b", {}).items() if y <= b}
    assume(rollout and train)
    apart = replace(problem, rollout={"a": rollout}, train={"b": train}, trim="safe")
    bottleneck_s = max(min(rollout.values()), min(train.values()))
    plan = exact(apart).solution
    assert plan.rollout_gpus == min(x for x, seconds in rollout.items() if seconds <= bottleneck_s)
    assert plan.train_gpus == min(y for y, seconds in train.items() if seconds <= bottleneck_s)
