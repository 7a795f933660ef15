"""P1 split: published values, ties, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import log
from typing import Any

import pytest

from rollplan.models.errors import InfeasibleError
from rollplan.models.hardware import Pool
from rollplan.models.split.exact import exact, ranking
from rollplan.models.split.given import Split
from rollplan.models.split.problem import SplitProblem, SplitSolution, colocated_evaluated, cost_per_h
from rollplan.models.split.verify import least_value
from rollplan.models.stages.compile import compiled


def power_law(first: tuple[int, float], second: tuple[int, float]) -> Callable[[int], float]:
    """Return seconds by GPUs through two published points (GPUs, seconds)."""
    (gpus, seconds), (other_gpus, other_seconds) = first, second
    elasticity = log(seconds / other_seconds) / log(other_gpus / gpus)
    return lambda count: float(seconds * (count / gpus) ** -elasticity)


def one_site(budget: int, rollout: Mapping[int, float], train: Mapping[int, float], **rest: Any) -> SplitProblem:
    """Return a problem with one pool for both stages."""
    return SplitProblem({"site": budget}, {"site": rollout}, {"site": train}, {"site": 1.0}, **rest)


def perfect_scaling(rollout_work: float, train_work: float, budget: int) -> SplitProblem:
    """Return a problem of one site whose stages take work / GPUs seconds."""
    counts = range(1, budget + 1)
    return one_site(budget, {k: rollout_work / k for k in counts}, {k: train_work / k for k in counts})


def two_sites(**changes: Any) -> SplitProblem:
    """The counter-example to argmin|.| of StreamRL's Algorithm 1: 10.4 s is nearer to 10 s than 7.8 s is."""
    rollout = {1: 31.0, 2: 15.6, 3: 10.4, 4: 7.8, 5: 6.3}
    return replace(SplitProblem({"near": 5, "far": 8}, {"near": rollout}, {"far": {8: 10.0}}, {"near": 1.85, "far": 5.28}), **changes)


def shape(plan: SplitSolution) -> tuple[str, int, int]:
    """Return mode, rollout GPUs, training GPUs."""
    return plan.mode, plan.rollout_gpus, plan.train_gpus


# Published values.


def test_72b_on_128_gpus_gets_80_to_48_as_published() -> None:
    """StreamRL Fig. 10: gen 1.00 and .807 on 64 and 80 GPUs, train .581 and .834 on 64 and 48; 1.20x over the even 64:64."""
    rollout, train = power_law((64, 1.0), (80, 0.807)), power_law((64, 0.581), (48, 0.834))
    problem = one_site(128, {k: rollout(k) for k in range(64, 129, 8)}, {k: train(k) for k in range(8, 65, 8)})

    best, runner_up = ranking(problem, limit=2)

    assert shape(best) == ("separate", 80, 48)
    assert 1.0 / best.iteration_s == pytest.approx(1.199, abs=5e-4)
    assert shape(runner_up) == ("separate", 72, 48)
    assert runner_up.iteration_s == pytest.approx(0.893, abs=5e-4)


def test_32b_on_64_gpus_gets_40_to_24_as_published() -> None:
    """StreamRL Fig. 10: gen 1.00 and .80 on 32 and 40 GPUs; 1.25x over the even 32:32.

    Training takes .728 on 24 and on 32 GPUs, so that no law through these points scales: they are the whole table.
    """
    rollout = power_law((32, 1.0), (40, 0.80))
    best = exact(one_site(64, {k: rollout(k) for k in range(8, 65, 8)}, {24: 0.728, 32: 0.728})).solution

    assert shape(best) == ("separate", 40, 24)
    assert 1.0 / best.iteration_s == pytest.approx(1.25, abs=5e-3)


def test_laws_of_fig_10_used_far_outside_their_points_prefer_time_sharing() -> None:
    """Training of 72B scales with elasticity 1.26 between its two points; on 128 GPUs the law undercuts every split."""
    rollout, train = power_law((64, 1.0), (80, 0.807)), power_law((64, 0.581), (48, 0.834))
    counts = range(8, 129, 8)
    best = exact(one_site(128, {k: rollout(k) for k in counts}, {k: train(k) for k in counts})).solution

    assert shape(best) == ("colocated", 128, 128)
    assert best.iteration_s == pytest.approx(0.757, abs=5e-4)


@pytest.mark.parametrize(("trim", "gpus", "seconds"), [("paper", 3, 10.4), ("safe", 4, 10.0)])
def test_trim_as_printed_may_be_slower_than_the_bottleneck(trim: str, gpus: int, seconds: float) -> None:
    """argmin|P_gen(k) - T_train| takes 10.4 s although 10.0 s is possible; the bound shows the loss."""
    found = exact(two_sites(trim=trim))

    assert shape(found.solution) == ("separate", gpus, 8)
    assert found.value == found.solution.iteration_s == seconds
    assert found.bound.value == 10.0
    assert found.optimal is (trim == "safe")
    assert found.stopped == ("optimal" if trim == "safe" else "heuristic")


def test_trim_as_printed_shrinks_training_when_both_sides_are_equal() -> None:
    """Algorithm 1 tests T_gen < T_train strictly; among equally near counts the smallest frees most."""
    problem = two_sites(rollout={"near": {2: 10.0, 5: 10.0}}, train={"far": {4: 10.0, 6: 10.0, 8: 10.0}}, trim="paper")
    assert shape(exact(problem).solution) == ("separate", 5, 4)
    assert shape(exact(replace(problem, trim="safe")).solution) == ("separate", 2, 4)


def test_perfect_scaling_makes_a_split_equal_to_time_sharing() -> None:
    """T_gen = A/x, T_train = B/(n-x): the best split has (A+B)/n, the colocated serial time; equal times go to the split."""
    plan = exact(perfect_scaling(300, 100, 64)).solution
    assert shape(plan) == ("separate", 48, 16)
    assert plan.iteration_s == 6.25 == (300 + 100) / 64

    plan = exact(perfect_scaling(100, 100, 64)).solution
    assert shape(plan) == ("separate", 32, 32)
    assert plan.iteration_s == 3.125


def test_whole_gpus_cost_the_split_its_tie_with_time_sharing() -> None:
    """A, B, n = 50, 400, 128: 3.5156 s colocated against 3.5398 s for the best whole split."""
    shared, split = ranking(perfect_scaling(50, 400, 128), limit=2)
    assert shape(shared) == ("colocated", 128, 128)
    assert shared.iteration_s == pytest.approx(3.5156, abs=5e-5)
    assert shape(split) == ("separate", 15, 113)
    assert split.iteration_s == pytest.approx(3.5398, abs=5e-5)


@pytest.mark.parametrize(("elasticity", "gain"), [(1.0, 1.0), (0.9, 1.036), (0.75, 1.095), (0.5, 1.207), (0.26, 1.335)])
def test_gain_of_a_balanced_split_comes_from_sublinear_rollout(elasticity: float, gain: float) -> None:
    """Both stages balanced at n/2, training linear: colocated / split = 2^-p + 1/2 (p = .26 is StreamRL Fig. 2)."""
    problem = one_site(64, {k: (k / 32) ** -elasticity for k in (32, 64)}, {k: 32 / k for k in (32, 64)})
    split = next(plan for plan in ranking(problem) if plan.mode == "separate")
    shared = next(plan for plan in ranking(problem) if plan.mode == "colocated")
    assert shared.iteration_s / split.iteration_s == pytest.approx(gain, abs=5e-4)


def test_verl_one_step_off_policy_gets_4_to_12() -> None:
    """16 H20, FSDP2 (verl docs): generate_sequences 247 s on 16, 458 s on 4; old_log_prob + update_actor 374 s on 16, 445 s on 12."""
    rollout, train = power_law((16, 247), (4, 458)), power_law((16, 374), (12, 445))
    best = exact(one_site(16, {k: rollout(k) for k in range(1, 17)}, {k: train(k) for k in range(1, 17)})).solution
    assert shape(best) == ("separate", 4, 12)
    assert best.iteration_s == pytest.approx(458)


# Ties, words, and what a user sees.


def test_equal_times_use_fewer_gpus() -> None:
    """Idle GPUs are given back; a difference of 1e-13 is rounding."""
    assert shape(exact(one_site(16, {4: 10.0, 8: 10.0 - 1e-12}, {4: 7.0, 6: 5.0})).solution) == ("separate", 4, 4)


def test_equal_times_and_gpus_prefer_balanced_stages() -> None:
    """10 s beside 10 s rather than 9 s beside 10 s."""
    prices = dict.fromkeys("abc", 1.0)
    plan = exact(SplitProblem({"a": 4, "b": 4, "c": 4}, {"a": {4: 9.0}, "b": {4: 10.0}}, {"c": {4: 10.0}}, prices)).solution
    assert (plan.rollout_pool, plan.rollout_s, plan.train_s) == ("b", 10.0, 10.0)


def test_equal_times_gpus_and_balance_prefer_fewer_rollout_gpus() -> None:
    """2:2 rather than 4 GPUs in turns, both 10 s."""
    assert shape(exact(one_site(4, {2: 10.0, 4: 5.0}, {2: 10.0, 4: 5.0})).solution) == ("separate", 2, 2)


def test_equal_plans_on_twin_pools_take_the_first_by_name() -> None:
    """Only the name is left to decide."""
    table = {"b": {1: 5.0}, "a": {1: 5.0}}
    plan = exact(SplitProblem({"b": 2, "a": 2}, table, table, {"a": 1.0, "b": 1.0})).solution
    assert (plan.rollout_pool, plan.train_pool) == ("a", "a")


def test_transfer_that_nothing_hides_is_added_once() -> None:
    """Separate and colocated alike."""
    assert exact(perfect_scaling(300, 100, 64)).value + 1.5 == exact(replace(perfect_scaling(300, 100, 64), sync_s=1.5)).value


def test_ranking_leaves_out_plans_that_only_add_idle_gpus() -> None:
    """5 and 6 training GPUs are as fast as 4, which hides nothing from the user."""
    problem = one_site(12, {4: 10.0, 6: 7.0}, {4: 6.0, 5: 6.0, 6: 6.0})
    assert [shape(plan) for plan in ranking(problem, limit=9)] == [
        ("separate", 6, 4),
        ("separate", 4, 4),
        ("colocated", 6, 6),
        ("colocated", 4, 4),
    ]


def test_ranking_of_the_paper_trim_shows_the_faster_plan_second() -> None:
    """What was asked for comes first, what it misses comes next."""
    assert [shape(plan) for plan in ranking(two_sites(trim="paper"), limit=2)] == [("separate", 3, 8), ("separate", 4, 8)]


def test_colocated_cannot_be_evaluated_when_no_pool_has_both_tables() -> None:
    """The caller warns; a pool with both tables needs a common count within its budget as well."""
    assert not colocated_evaluated(two_sites())
    assert colocated_evaluated(one_site(8, {4: 1.0}, {4: 1.0}))
    assert not colocated_evaluated(one_site(8, {4: 1.0, 16: 1.0}, {3: 1.0, 16: 1.0}))


def test_shared_gpus_are_paid_once() -> None:
    """$1.85/h for each H20 and $5.28/h for each H800 (RollMux)."""
    problem = two_sites()
    assert cost_per_h(problem, exact(problem).solution) == pytest.approx(4 * 1.85 + 8 * 5.28)
    problem = one_site(8, {8: 1.0}, {8: 1.0})
    assert cost_per_h(problem, exact(problem).solution) == 8.0


def test_scenario_words_become_a_problem() -> None:
    """Budgets, tables, transfer and trim of `split`."""
    raw = {"budget": {"site": 8}, "rollout": {"site": {4: "10 s"}}, "train": {"site": {4: "2 min"}}, "sync": "500 ms", "trim": "paper"}
    site = Pool.build({"gpu": "H20", "price": "1.85 $/h", "memory": "2 TB"}, "site")
    problem = compiled(Split.build(raw, "split"), {"site": site}).problem
    tables = {"site": {4: 10.0}}, {"site": {4: 120.0}}
    assert problem == SplitProblem({"site": 8}, *tables, {"site": 1.85}, 0.5, "paper", gpus_per_node={"site": 8})


def fewest(stage: str, pool: str, least: int, budget: int) -> str:
    """Return the reason for a stage whose smallest count exceeds the budget."""
    return (
        f"{stage} on pool {pool} needs at least {least} GPUs, the fewest in its table, and the budget is {budget} "
        f"(raise `budget.{pool}`, or add fewer GPUs to `{stage}.{pool}`)"
    )


def together(need: str, budget: int) -> str:
    """Return the reason for two stages that do not fit on one site."""
    return f"rollout and train on pool site need at least {need}; raise `budget.site`, now {budget}"


@pytest.mark.parametrize(
    ("problem", "reasons"),
    [
        (two_sites(budgets={"near": 5, "far": 7}), [fewest("train", "far", 8, 7)]),
        (
            two_sites(
                budgets={"near": 5, "far": 8, "spare": 1},
                rollout={"near": {6: 1.0}},
                train={"far": {8: 1.0}, "spare": {2: 1.0}},
                price_per_gpu_h={"near": 1.0, "far": 1.0, "spare": 1.0},
            ),
            [fewest("rollout", "near", 6, 5)],
        ),
        (one_site(12, {8: 1.0}, {6: 1.0, 16: 1.0}), [together("8 + 6 = 14 GPUs, no count is in both tables to share in time", 12)]),
        (
            one_site(4, {8: 1.0}, {2: 1.0, 8: 1.0}),
            [fewest("rollout", "site", 8, 4), together("8 + 2 = 10 GPUs, sharing in time at least 8", 4)],
        ),
    ],
)
def test_infeasible_budgets_name_what_binds(problem: SplitProblem, reasons: list[str]) -> None:
    """Smallest counts against budgets, by stage and summed on one site; nothing of a stage that fits while the other does not."""
    for refuse in (exact, ranking):
        with pytest.raises(InfeasibleError) as refused:
            refuse(problem)
        assert list(refused.value.reasons) == reasons
    assert least_value(problem) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": {}}, "rollout must hold the table of at least one pool, got none"),
        ({"train": {"far": {}}}, "train of far must hold at least one GPU count, got none"),
        ({"train": {"far": {0: 1.0}}}, "GPU counts in train of far must be finite and at least 1, got 0"),
        ({"rollout": {"near": {2: float("nan")}}}, "rollout of near on 2 GPUs must be finite and at least 0, got nan"),
        ({"budgets": {"near": 5}}, "budgets must hold every pool that has a table, got none for far"),
        ({"budgets": {"near": 5, "far": 0}}, "budgets of far must be finite and at least 1, got 0"),
        ({"price_per_gpu_h": {"far": 5.28}}, "price_per_gpu_h must hold every pool that has a table, got none for near"),
        ({"price_per_gpu_h": {"near": -1.0, "far": 5.28}}, "price_per_gpu_h of near must be finite and at least 0, got -1.0"),
        ({"sync_s": float("inf")}, "sync_s must be finite and at least 0, got inf"),
        ({"trim": "best"}, "trim must be one of paper, safe, got best"),
    ],
)
def test_data_cannot_be_built_wrong(changes: dict[str, Any], message: str) -> None:
    """Field, rule, value."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        two_sites(**changes)
    assert str(refused.value) == message


def test_later_changes_of_the_callers_tables_do_not_reach_the_problem() -> None:
    """Frozen means frozen."""
    table = {4: 10.0}
    problem = one_site(8, table, {4: 5.0})
    table[4] = 1.0
    assert problem.rollout["site"][4] == 10.0


@pytest.mark.parametrize(("cross_site", "one_site_bar", "published"), [(22.92, 18.14, 1.264), (11.88, 9.06, 1.311), (5.90, 4.82, 1.224)])
def test_two_sites_earn_more_per_cost_as_published(cross_site: float, one_site_bar: float, published: float) -> None:
    """StreamRL Fig. 12 (5K, 10K, 20K): 32 H20 + 16 H800 against 32 H800, a machine of H800 costs 2.85 times one of H20 (Table 1).

    The bars are samples/s in units of the cost across sites, 4 x 1.00 + 2 x 2.85 = 9.7; one site costs 4 x 2.85 = 11.4.
    """
    prices, nodes = {"h20": 1.00 / 8, "h800": 2.85 / 8}, {"h20": 8, "h800": 8}
    problem = SplitProblem({"h20": 32, "h800": 32}, {"h20": {32: 1.0}, "h800": {16: 1.0}}, {"h800": {16: 1.0}}, prices, gpus_per_node=nodes)
    across = SplitSolution("separate", "h20", 32, "h800", 16, 1.0, 1.0, 1.0)
    single = SplitSolution("separate", "h800", 16, "h800", 16, 1.0, 1.0, 1.0)
    assert (cost_per_h(problem, across), cost_per_h(problem, single)) == (pytest.approx(9.7), pytest.approx(11.4))
    samples_s = {"across": cross_site, "single": one_site_bar * cost_per_h(problem, single) / cost_per_h(problem, across)}
    per_cost = {
        "across": samples_s["across"] / cost_per_h(problem, across),
        "single": samples_s["single"] / cost_per_h(problem, single),
    }
    assert per_cost["across"] / per_cost["single"] == pytest.approx(published, abs=2e-3)
