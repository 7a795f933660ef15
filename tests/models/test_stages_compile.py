"""From a scenario's split to its problem: budgets, links, roles, what was measured, and why nothing fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rollplan import Scenario, check, plan
from rollplan.models.errors import InfeasibleError
from rollplan.models.split.exact import exact, ranking
from rollplan.models.split.problem import SplitSolution
from rollplan.models.split.verify import least_value, verify
from rollplan.models.stages.compile import Compiled, compiled
from rollplan.models.stages.range import stage_ranges

LENGTHS = {"mean": 3000, "sigma": 0.8, "limit": 16384}
WORKLOAD: dict[str, Any] = {"prompts": 32, "samples_per_prompt": 8, "prompt_tokens": 512, "lengths": LENGTHS}


def pool(gpu: str = "H100", **changes: Any) -> dict[str, Any]:
    """One node of eight GPUs."""
    return {"gpu": gpu, "nodes": 1, "price": "3.2 $/h", "memory": "2 TB", **changes}


def scenario(pools: dict[str, Any] | None = None, links: list[dict[str, str]] | None = None, **split: Any) -> Scenario:
    """One job in depth; without `pools` on one node of H100."""
    asked = {"model": "Qwen3-8B", "workload": WORKLOAD, **split}
    jobs = [{"name": "grpo", "split": asked}]
    return Scenario.from_dict({"name": "deep", "pools": pools or {"a": pool()}, "links": links or [], "jobs": jobs})


def derived(asked: Scenario) -> Compiled:
    """The problem of its only job."""
    split = asked.jobs[0].split
    assert split is not None
    return compiled(split, asked.pools, asked.links)


def reasons(asked: Scenario) -> tuple[str, ...]:
    """Why it cannot be planned."""
    with pytest.raises(InfeasibleError) as refused:
        derived(asked)
    return tuple(refused.value.reasons)


# Budgets, prices, links.


def test_without_budget_a_split_may_use_all_of_every_limited_pool() -> None:
    """A pool that does not say how many nodes it has needs a budget."""
    pools = {"a": pool(nodes=2), "b": pool("H20", nodes=1, gpus_per_node=4), "endless": {**pool("B200"), "nodes": None}}
    problem = derived(scenario(pools)).problem
    assert problem.budgets == {"a": 16, "b": 4}
    assert max(problem.rollout["a"]) == 17
    assert max(problem.rollout["b"]) == 5 or max(problem.rollout["b"]) == 4
    problem = derived(scenario(pools, budget={"endless": 8})).problem
    assert problem.budgets == {"endless": 8}
    assert problem.rollout.keys() == problem.train.keys() == {"endless"}


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_a_budget_smaller_than_a_node_is_kept(budget: int) -> None:
    """But a whole node is paid."""
    asked = scenario(model="Qwen3-0.6B", budget={"a": budget})
    (split,) = plan(asked).splits
    assert max(split.choice.rollout_gpus, split.choice.train_gpus) <= budget
    assert split.choice.cost_per_h == pytest.approx(8 * 3.2)


def test_weights_cross_a_link_as_one_copy_in_parallel_streams() -> None:
    """16.4 GB of Qwen3-8B over 8 streams of 2.5 GB/s, and 5 % (RollMux 5.2); the other direction and one pool keep the reference."""
    pools = {"fast": pool(), "slow": pool("H20")}
    links = [{"from": "fast", "to": "slow", "bandwidth": "20 Gbps"}]
    problem = derived(scenario(pools, links)).problem
    weights_gb = 2 * 8.19
    assert problem.sync("slow", "fast") == pytest.approx(weights_gb / (8 * 2.5) * 1.05, rel=1e-3)
    assert problem.sync("fast", "slow") == problem.sync("fast", "fast") == problem.sync_s > 0
    stated = derived(scenario(pools, links, sync="7 s")).problem
    assert {stated.sync(p, q) for p in pools for q in pools} == {7.0}


def test_what_the_scenario_states_is_passed_on() -> None:
    """Objective, ways, overheads, interference, price and nodes."""
    asked = scenario(
        {"a": pool(price="2 $/h", gpus_per_node=4)},
        objective="cost",
        pipelining=["serial", "mini-batch"],
        chunks=4,
        chunk_overhead="500 ms",
        interference={"rollout": 1.1, "train": 1.2},
        switch="3 s",
        sync="1 s",
    )
    problem = derived(asked).problem
    assert (problem.objective, problem.pipelining, problem.chunks, problem.chunk_s) == ("cost", ("serial", "mini-batch"), 4, 0.5)
    assert (problem.interference, problem.switch_s, problem.sync_s) == ((1.1, 1.2), 3.0, 1.0)
    assert (problem.price_per_gpu_h, problem.gpus_per_node) == ({"a": 2.0}, {"a": 4})


def test_roles_of_pools_decide_which_stage_may_run_there() -> None:
    """A pool for training holds no engine, and nothing is shared between pools."""
    pools = {"fast": pool(role="train"), "slow": pool("H20", role="rollout")}
    ready = derived(scenario(pools))
    assert (set(ready.problem.rollout), set(ready.problem.train), ready.problem.turns()) == ({"slow"}, {"fast"}, {})
    assert reasons(scenario({"fast": pool(role="train")})) == (
        "rollout fit on no number of GPUs within the budget",
        "pool fast: has the role train",
    )


def test_three_kinds_of_gpus_at_once_give_a_plan_that_check_proves() -> None:
    """Every pool may hold either stage; the verifier's own loop over all pairs finds nothing better."""
    pools = {"h100": pool(nodes=2), "h20": pool("H20", price="1.85 $/h"), "b200": pool("B200", price="6 $/h")}
    asked = scenario(pools, objective="cost", pipelining=["serial", "mini-batch", "dynamic-batch", "one-step", "async-batch"])
    problem = derived(asked).problem
    assert problem.rollout.keys() == problem.train.keys() == problem.turns().keys() == pools.keys()
    best = least_value(problem)
    assert best is not None
    assert exact(problem).value == pytest.approx(best, rel=1e-9)
    assert all(verify(problem, found) == () for found in ranking(problem, 8))
    assert check(asked, plan(asked)).valid


# Settings.


def test_degrees_that_the_user_names_are_the_only_ones() -> None:
    """For engines and trainer alike."""
    ready = derived(scenario(engine={"tp": [2, 4]}, trainer={"tp": [2], "pp": [1, 2]}))
    assert {option.layout.tp for option in ready.rollout["a"].values()} <= {2, 4}
    assert {option.layout.tp for option in ready.train["a"].values()} == {2}
    assert {option.layout.pp for option in ready.train["a"].values()} <= {1, 2}
    assert all(gpus % 2 == 0 for gpus in (*ready.problem.rollout["a"], *ready.problem.train["a"]))


def test_a_measured_latency_wins_over_the_reference() -> None:
    """20 ms per step whatever the batch: the longest of 256 responses, 3 prompts' worth of prefill beside it."""
    ready = derived(scenario(engine={"tp": [1], "ptl": {1: "20 ms", 256: "20 ms"}}))
    longest = max(ready.rollout["a"][8].time.finish)
    stratified_longest = round(ready.rollout["a"][8].time.seconds / 0.020)
    assert longest == ready.problem.rollout["a"][8]
    assert 11_000 < stratified_longest <= 16_384 + 200
    assert ready.provenance["measured"] == 1
    assert "reference" not in {option.instance.provenance for option in ready.rollout["a"].values()}


def test_a_gpu_without_reference_needs_a_latency_and_says_so() -> None:
    """One reason for each degree; training is not mentioned, because it works."""
    said = reasons(scenario({"a": pool("MI300X")}))
    assert said[0] == "rollout fit on no number of GPUs within the budget"
    assert [line.split(";")[0] for line in said[1:]] == [f"pool a: rollout: no latency of tp {tp} on MI300X" for tp in (1, 2, 4, 8)]
    assert derived(scenario({"a": pool("MI300X")}, engine={"tp": [1], "ptl": {1: "9 ms", 256: "30 ms"}})).problem.rollout


# Measured stage times.


def test_measured_times_shift_the_law_and_stand_where_they_were_measured() -> None:
    """Also the shares that finish, overlapping batches, and both stages in turn."""
    law = derived(scenario())
    asked = scenario(rollout={"a": {4: "400 s"}}, train={"a": {4: "90 s"}})
    found = derived(asked)
    up, down = 400 / law.problem.rollout["a"][4], 90 / law.problem.train["a"][4]
    assert (found.problem.rollout["a"][4], found.problem.train["a"][4]) == (400.0, 90.0)
    assert found.problem.rollout["a"][8] == pytest.approx(law.problem.rollout["a"][8] * up)
    assert found.problem.train["a"][8] == pytest.approx(law.problem.train["a"][8] * down)
    assert found.problem.steady["a"][8] == pytest.approx(law.problem.steady["a"][8] * up)
    assert found.problem.finish["a"][8] == pytest.approx([share * up for share in law.problem.finish["a"][8]])
    rollout, train = law.problem.turns()["a"][8]
    assert found.problem.turns()["a"][8] == pytest.approx((rollout * up, train * down))
    assert found.provenance["imported"] == law.provenance.get("imported", 0) + 2
    assert check(asked, plan(asked)).valid


def test_a_measured_count_that_no_law_knows_is_a_candidate() -> None:
    """6 copies do not divide 256 samples, but somebody did it."""
    asked = scenario(train={"a": {4: "300 s", 6: "1 s", 8: "300 s"}}, pipelining=["serial"], sync="0 s")
    assert 6 not in derived(scenario()).problem.train["a"]
    (split,) = plan(asked).splits
    assert (split.choice.mode, split.choice.train_gpus, split.choice.train_s) == ("separate", 6, 1.0)
    assert (split.choice.train_layout, split.memory) == ("", ())
    assert check(asked, plan(asked)).valid


def test_measured_times_stand_alone_in_a_pool_without_law() -> None:
    """Nobody published the decode latency of an MI300X, but the user measured the rollout there."""
    asked = scenario({"a": pool("MI300X")}, rollout={"a": {4: "100 s", 2: "190 s"}})
    ready = derived(asked)
    assert ready.problem.rollout == {"a": {2: 190.0, 4: 100.0}}
    assert set(ready.rollout) == set(ready.colocated) == set()
    assert check(asked, plan(asked)).valid


def test_stages_that_fit_in_turn_only_are_planned_in_turn() -> None:
    """Two GPUs hold actor or reference of Qwen3-8B, not both at rest; in turn each leaves for the host."""
    asked = scenario(budget={"a": 2}, trainer={"pp": [1], "tp": [2]})
    ready = derived(asked)
    assert ready.problem.train.get("a", {}).get(2) is None
    (split,) = plan(asked).splits
    assert (split.choice.mode, split.choice.rollout_gpus, split.choice.train_layout) == ("colocated", 2, "tp2-dp1")
    assert check(asked, plan(asked)).valid
    measured = derived(scenario(budget={"a": 2}, trainer={"pp": [1], "tp": [2]}, train={"a": {2: "1000 s"}}))
    assert measured.problem.turns()["a"][2][1] == pytest.approx(1000.0)


# Reasons.


def test_70b_on_one_l40s_is_explained_for_both_stages() -> None:
    """What is held, what there is, and the smallest change; the first line says which stage it is about."""
    said = reasons(scenario({"a": pool("L40S")}, model="Llama-3.1-70B", budget={"a": 1}))
    assert said[0] == "rollout and training fit on no number of GPUs within the budget"
    assert any("pool a: rollout: 0.9 x 44.99 GiB of L40S do not hold 131.4 GiB of weights" in line for line in said)
    assert any(line.startswith("pool a: training as ") and line.endswith("has 45.0 GiB") for line in said)
    assert any(line.startswith("pool a: training as ") and "would fit with" in line for line in said)


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ({"engine": {"tp": [3]}}, "pool a: tp 3 does not divide the 32 attention heads"),
        ({"trainer": {"tp": [3]}}, "pool a: training: tp 3 does not divide the 32 attention heads"),
        ({"trainer": {"pp": [5]}}, "pool a: training: pp 5 does not divide the 36 layers"),
        ({"trainer": {"micro_batch": 3}}, "pool a: training: dp 1 x micro batch 3 does not divide the 256 samples of an update"),
    ],
)
def test_settings_that_leave_nothing_are_explained(split: dict[str, Any], says: str) -> None:
    """The reason stands right after the stage it belongs to, and no reason speaks of the other one."""
    said = reasons(scenario(**split))
    stage = "rollout" if "engine" in split else "training"
    assert said[:2] == (f"{stage} fit on no number of GPUs within the budget", says)
    assert len(said) == 2


def test_a_context_that_no_gpu_holds_is_explained() -> None:
    """A limit of 4 million tokens: what one sequence needs, and what would be short enough."""
    lengths = {**LENGTHS, "limit": 4_000_000}
    said = reasons(scenario({"a": pool(role="rollout")}, workload={**WORKLOAD, "lengths": lengths}, engine={"tp": [4]}))
    assert said[1].startswith(
        "pool a: rollout: 0.9 x 80 GiB of H100 do not hold 3.8 GiB of weights and 137.3 GiB for one sequence of 4000512"
    )
    assert "a context of at most 1986058 tokens" in said[1]
    assert said[-1] == "pool a: has the role rollout"


def test_one_gpu_more_than_the_budget_is_what_is_asked_for() -> None:
    """Nothing fits on two H100 but would on three: the refusal names the budget to raise."""
    with pytest.raises(InfeasibleError) as refused:
        plan(scenario(budget={"a": 2}, trainer={"pp": [3]}))
    assert refused.value.reasons[0].startswith("train on pool a needs at least 3 GPUs, the fewest in its table, and the budget is 2")


# Small and odd workloads.


@pytest.mark.parametrize(
    "workload",
    [
        {"prompts": 1, "prompt_tokens": 0, "lengths": {"trace": [1]}},
        {"prompts": 1, "prompt_tokens": 512, "lengths": LENGTHS},
        {"prompts": 7, "samples_per_prompt": 1, "prompt_tokens": 1, "lengths": {"trace": [5, 9], "limit": 1}},
        {"prompts": 3, "samples_per_prompt": 5, "prompt_tokens": 100, "lengths": LENGTHS, "updates": 5},
    ],
)
@pytest.mark.parametrize("per_node", [1, 4, 7])
def test_the_smallest_workloads_and_odd_nodes_are_planned(workload: dict[str, Any], per_node: int) -> None:
    """One sample, one token, no prompt, seven GPUs in a node; `check` accepts every plan."""
    asked = scenario({"a": pool(nodes=8, gpus_per_node=per_node)}, model="Qwen3-1.7B", workload=workload)
    found = plan(asked)
    assert check(asked, found).valid
    (split,) = found.splits
    assert split.range_s[0] <= split.choice.iteration_s <= split.range_s[1]
    assert all(use.memory_gib is None or use.gib <= use.memory_gib * (1 + 1e-9) for use in split.memory)


def test_free_gpus_are_planned_at_no_cost() -> None:
    """A price of zero is allowed; then all plans cost the same and the fewest GPUs win."""
    asked = scenario({"a": pool(price="0 $/h")}, objective="cost")
    found = plan(asked)
    assert found.splits[0].bound == found.splits[0].gap == found.splits[0].choice.cost_per_iteration == 0.0
    assert check(asked, found).valid


# How far it may be off.


def chosen_of(asked: Scenario) -> tuple[SplitSolution, Compiled]:
    """The exact plan of a scenario."""
    ready = derived(asked)
    return exact(ready.problem).solution, ready


@pytest.mark.parametrize("way", ["serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed"])
@pytest.mark.parametrize("gpu", ["H100", "H20"])
def test_the_range_holds_the_iteration(way: str, gpu: str) -> None:
    """Optimistic, chosen, pessimistic, in this order, for kernels that were measured and for estimates."""
    found = plan(scenario({"a": pool(gpu)}, pipelining=[way])).splits[0]
    low, high = found.range_s
    assert low < found.choice.iteration_s < high


def test_the_range_of_overlapping_batches_is_that_of_their_own_engine() -> None:
    """Steady times have another best layout than one batch to its end; the factors belong to it."""
    asked = scenario(pipelining=["async-streamed"], engine={"dispatch": "lpt"})
    split = asked.jobs[0].split
    assert split is not None
    ready = derived(asked)
    for gpus in (1, 2, 4):
        chosen = SplitSolution("separate", "a", gpus, "a", 4, 1.0, 1.0, 1.0, "async-streamed")
        (fast, _), (slow, _) = stage_ranges(split, ready, chosen)
        assert fast < 1 < slow
        tp = ready.steady["a"][gpus].layout.tp
        alone = scenario(pipelining=["async-streamed"], engine={"dispatch": "lpt", "tp": [tp], "scale": 1.0, "overhead": "0 s"})
        assert ready.problem.steady["a"][gpus] * fast == pytest.approx(derived(alone).problem.steady["a"][gpus], rel=1e-9)


@pytest.mark.parametrize(
    "split",
    [
        {"engine": {"scale": 1.1, "overhead": "2 ms", "bound": "hi"}, "trainer": {"mfu": 0.3}},
        {"engine": {"tp": [1], "ptl": {1: "9 ms", 256: "30 ms"}}, "trainer": {"mfu": 0.3}},
        {"rollout": {"a": {4: "100 s"}}, "train": {"a": {4: "90 s"}}},
        {"rollout": {"a": {4: "100 s"}}, "trainer": {"mfu": 0.3}},
    ],
)
@pytest.mark.parametrize("gpu", ["H100", "H20"])
def test_the_range_collapses_when_everything_was_measured(split: dict[str, Any], gpu: str) -> None:
    """What the user calibrated or measured stands as it is; what is left is the noise of reruns."""
    for noise in (0.0, 0.1):
        found = plan(scenario({"a": pool(gpu)}, noise=noise, **split)).splits[0]
        assert found.range_s == pytest.approx([found.choice.iteration_s * (1 + sign * noise) for sign in (-1, 1)], rel=1e-9)


def test_half_of_the_measurements_leave_half_of_the_range() -> None:
    """With measured training, only rollout is uncertain, and the reverse."""
    asked = scenario(pipelining=["serial"], trainer={"mfu": 0.35})
    chosen, ready = chosen_of(asked)
    split = asked.jobs[0].split
    assert split is not None
    chosen = replace(chosen, mode="separate", rollout_gpus=4, train_gpus=4)
    low, high = stage_ranges(split, ready, chosen)
    assert low[0] < 1 < high[0]
    assert (low[1], high[1]) == (1.0, 1.0)
