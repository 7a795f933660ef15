"""Users' questions about splits and colocation: which split, how it compares, what would be next.

Cases: verl-project/verl PR 2231 (1), verl docs/advance/fully_async.md (2, 3, 4), verl-project/verl-omni PR 575 (9),
huggingface/trl PR 3162 (10), OpenRLHF/OpenRLHF 562, 566, 930, 961 and hkust-nlp/simpleRL-reason 9 (38).

Left out, because the sources do not say enough: speeds of 10 (figures only), so what is tested is how totals are compared;
the model of 930, and the GPUs that the roles of 562 need. Case 2's second pair of rows, 16 colocated against 8 + 8, has a wrong label
very likely and is no comparison. The critic has no GPUs of its own in a split: it takes turns with the actor.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rollplan import Plan
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.split.problem import SplitSolution
from rollplan.models.stages.compile import Compiled
from rollplan.planner.fit import Fit

# Case 1, verl PR 2231: a 3B model on one node of 8 A100.

SMALL = "01_small_model_one_node"


@pytest.mark.parametrize("prompts", [256, 512])
@pytest.mark.parametrize("samples", [5, 8])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_a_small_model_on_one_node_is_colocated(decided: Callable[..., SplitSolution], prompts: int, samples: int, sigma: float) -> None:
    """With batches of 1,280 and more short answers, for any spread of their lengths; sync of 0.3 s as stated."""
    changes = {"workload.prompts": prompts, "workload.samples_per_prompt": samples, "workload.lengths.sigma": sigma}
    found = decided(SMALL, changes)
    assert (found.mode, found.gpus) == ("colocated", 8)


def test_each_half_of_the_node_is_slower_than_the_whole(split: Callable[..., PlannedSplit], screen: Callable[[str], str]) -> None:
    """Why: 4 training GPUs take twice as long as 8, and overlap hides the rollout only, which was the shorter part."""
    found = split(SMALL)
    even, shared = found.even, found.choice
    assert found.binds == "both stages in turn"
    assert even is not None
    assert even.rollout_s > shared.rollout_s
    assert even.train_s == pytest.approx(2 * shared.train_s, rel=0.01)
    assert max(even.rollout_s, even.train_s) > shared.rollout_s + shared.train_s
    assert "why in turn" in screen(SMALL)


def test_the_same_job_with_long_answers_is_split(split: Callable[..., PlannedSplit]) -> None:
    """So the recommendation is computed: few long answers scale badly, and 4 + 4 wins back more than it costs."""
    found = split(SMALL, {"workload.prompts": 64, "workload.lengths": {"mean": 2000, "sigma": 1.0, "limit": 8192}})
    assert found.choice.mode == "separate"
    assert found.even is not None
    assert found.colocated is not None
    assert found.even.iteration_s < found.colocated.iteration_s


# Case 2, verl fully_async: a long tail, 32 to 128 H20.

DAPO = "02_dapo_7b_h20"


@pytest.mark.parametrize("mean", [2000, 4000])
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("bound", ["lo", "hi"])
def test_twice_the_gpus_hardly_shorten_a_generation_with_a_long_tail(
    ready: Callable[..., Compiled], mean: int, tp: int, bound: str
) -> None:
    """Measured 150.7 s on 64 and 177.9 s on 128 GPUs. Without a tail it would be 75 s; we say 114 to 145 s, whatever the mean."""
    rollout = ready(DAPO, {"workload.lengths.mean": mean, "engine.tp": [tp], "engine.bound": bound}).problem.rollout["h20"]
    assert rollout[64] == pytest.approx(150.7)
    assert 0.75 * 150.7 < rollout[128] < 177.9


@pytest.mark.xfail(
    strict=True,
    reason="training halves with the GPUs (102 s; measured 167.7 s): the law goes from tp2-dp32 to tp4-dp32, whose ranks stay balanced "
    "and whose communication it does not count. With 128 ranks of 4 samples each the longest sequence would say 150 to 165 s",
)
def test_colocated_on_128_gpus_is_no_faster_than_on_64(ready: Callable[..., Compiled]) -> None:
    """Measured 365.3 s on 64 and 356.3 s on 128 GPUs. Equal within what reruns differ by, at most 21 % (NVIDIA-NeMo/RL 959)."""
    turns = ready(DAPO).problem.turns()["h20"]
    assert sum(turns[64]) < 1.21 * sum(turns[128])


# Case 3, verl fully_async: 30B-A3B on 128 H20 as 96 + 32, bound by training.

MOE = "03_moe_96_to_32"


@pytest.mark.parametrize("rollout_s", [100.0, 180.0, 256.7])
@pytest.mark.parametrize("mean", [1500, 5000])
def test_fewer_rollout_gpus_than_96_are_proposed_and_faster(decided: Callable[..., SplitSolution], rollout_s: float, mean: int) -> None:
    """The source calls 96 + 32 (282.8 s) not optimal: training binds, so rollout on 96 takes 256.7 s or less."""
    found = decided(MOE, {"rollout.h20": {96: f"{rollout_s} s"}, "workload.lengths.mean": mean})
    assert found.mode == "separate"
    assert found.rollout_gpus < 96
    assert found.iteration_s < 282.8


def test_training_counts_that_do_not_divide_the_batch_are_no_candidates(ready: Callable[..., Compiled]) -> None:
    """An update of 2,048 samples: 32 and 64 GPUs work, 40 (tp 8 x dp 5 at best) does not."""
    train = ready(MOE).problem.train["h20"]
    assert {32, 64, 128} <= train.keys()
    assert not train.keys() & {36, 40, 44, 56, 72, 80}


def test_the_plan_names_the_rule_that_limits_its_candidates(split: Callable[..., PlannedSplit]) -> None:
    """The source says it, so the tool should."""
    assert any("does not divide" in limit for limit in split(MOE).limits)


# Case 4, verl fully_async: tool use, 16 + 16 H20, training takes 179.6 of 221.4 s.

TOOLS = "04_tool_use_16_to_16"


@pytest.mark.parametrize("rollout_s", [90.0, 120.0, 150.0])
@pytest.mark.parametrize("elasticity", [0.3, 0.7, 1.0])
def test_training_gets_more_gpus_until_rollout_binds(split: Callable[..., PlannedSplit], rollout_s: float, elasticity: float) -> None:
    """How long rollout takes on 16 GPUs, and how it scales, is not stated: whatever they are, one GPU more would be too many."""
    rollout = {x: f"{rollout_s * (16 / x) ** elasticity:.4f} s" for x in range(1, 32)}
    train = {y: f"{179.6 * 16 / y:.4f} s" for y in range(1, 32)}
    found = split(TOOLS, {"rollout.h20": rollout, "train.h20": train})
    x, y = found.choice.rollout_gpus, found.choice.train_gpus
    assert found.even is not None
    assert (found.even.rollout_gpus, found.even.train_gpus, found.even.train_busy) == (16, 16, 1.0)
    assert found.choice.iteration_s < found.even.iteration_s
    assert y > 16
    assert rollout_s * (16 / (32 - y - 1)) ** elasticity > found.choice.iteration_s
    assert x + y == 32 or found.binds == "rollout"


def test_the_scenario_as_it_stands_moves_two_gpus_at_least(split: Callable[..., PlannedSplit], screen: Callable[[str], str]) -> None:
    """14 + 18: 160 s in place of 179.6 s, and the even split is shown beside it."""
    found = split(TOOLS)
    assert (found.choice.rollout_gpus, found.choice.train_gpus, found.binds) == (14, 18, "rollout")
    assert "even split 16 h20 16 h20 async-streamed" in screen(TOOLS)


# Case 9, verl-omni PR 575: 3 or 4 GPUs, and lending.

LENDING = "09_lending"


def test_a_plan_prices_runs_of_different_size_in_gpu_seconds(split: Callable[..., PlannedSplit]) -> None:
    """377.9 s on 3 GPUs are 1,134 GPU seconds, 250.4 s on 4 are 1,002: the fourth GPU is faster and cheaper."""
    gpu_s = {
        plan.rollout_gpus + plan.train_gpus: 3600 * plan.cost_per_iteration for plan in split(LENDING).shown if plan.mode == "separate"
    }
    assert gpu_s == {3: pytest.approx(1134, abs=1), 4: pytest.approx(1002, abs=1)}


@pytest.mark.xfail(
    strict=True,
    reason="training GPUs that roll out while they wait are no candidate. T + x (R - T) / (x + y) + switches, with R on x = 1, T on "
    "y = 2, says 303.4 s and 910 GPU seconds; measured 307.8 s and 923",
)
def test_lending_on_three_gpus_is_the_cheap_end_of_the_front(split: Callable[..., PlannedSplit]) -> None:
    """Lending is cheapest (923 GPU seconds), the fourth GPU fastest (250.4 s): both must be shown."""
    front = split(LENDING).front
    assert min(3600 * plan.cost_per_iteration for plan in front) == pytest.approx(923, rel=0.05)
    assert min(plan.iteration_s for plan in front) == pytest.approx(250.4, rel=0.05)


# Case 10, TRL PR 3162: 7 + 1 against 7 colocated, 32 + 8 against 32.

UNEQUAL = "10_unequal_totals"


@pytest.mark.parametrize(("server", "colocated", "train"), [(1, 7, 7), (8, 32, 32)])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 7.0])
def test_taking_turns_beats_a_server_whatever_its_speed(
    split: Callable[..., PlannedSplit], server: int, colocated: int, train: int, ratio: float
) -> None:
    """Without overlap a server adds GPUs that wait; it loses per run and per GPU, however much slower fewer GPUs are."""
    changes = {
        "rollout.gpu": {server: f"{20 * ratio} s", colocated: "20 s"},
        "train.gpu": {train: "60 s"},
        "pools.gpu.nodes": server + train,
    }
    found = split(UNEQUAL, changes)
    assert (found.choice.mode, found.choice.train_gpus) == ("colocated", train)
    apart = next(plan for plan in found.shown if plan.mode == "separate")
    assert apart.cost_per_iteration / found.choice.cost_per_iteration == pytest.approx(
        (20 * ratio + 60) / 80 * (server + train) / train, rel=1e-6
    )


def test_the_winner_per_run_need_not_be_the_winner_per_gpu(split: Callable[..., PlannedSplit]) -> None:
    """With overlap and a short rollout 7 + 1 is faster (60 s against 65 s), 7 are cheaper (480 against 455 GPU seconds)."""
    changes = {"rollout.gpu": {1: "35 s", 7: "5 s"}, "pipelining": ["one-step"]}
    fast, cheap = (split(UNEQUAL, {**changes, "objective": objective}) for objective in ("time", "cost"))
    assert (fast.choice.mode, fast.choice.iteration_s) == ("separate", 60.0)
    assert cheap.choice.mode == "colocated"
    assert 3600 * cheap.choice.cost_per_iteration == pytest.approx(455.0)
    assert {plan.mode for plan in fast.front} == {"separate", "colocated"}


# Case 38: how many GPUs at all?

ROLES = "38_five_roles_70b"


def test_70b_actor_and_critic_leave_16_gpus_to_rollout_only_with_adam_on_the_host(ready: Callable[..., Compiled]) -> None:
    """OpenRLHF 566: 16 + 8 + 8 A100 were confirmed. Actor and critic in turn need 8 GPUs with offload; without, more than 16."""
    assert min(ready(ROLES).problem.train["a100"]) == 8
    assert min(ready(ROLES, {"trainer.optimizer_on_host": False}).problem.train["a100"]) > 16


@pytest.mark.parametrize("prompts", [64, 256])
def test_256_gpus_hold_a_72b_critic_and_actor_with_50_000_tokens(split: Callable[..., PlannedSplit], prompts: int) -> None:
    """OpenRLHF 961: the answer is nodes for each role and the ring, cp in the layout; the batch is not stated."""
    found = split("38_long_prompts_72b", {"workload.prompts": prompts})
    assert "cp" in found.choice.train_layout
    assert {role for use in found.memory for role in use.roles} == {"rollout", "train", "reference", "critic"}


def test_the_fewest_gpus_stand_beside_the_best_plan(split: Callable[..., PlannedSplit], memory: Callable[..., Fit]) -> None:
    """simpleRL-reason 9: 32 GPUs were used, 6 were called the minimum. By memory ours is less, and it is told apart with and
    without sharing; for a target time it is more."""
    planned, fitted = split("38_one_to_one"), memory("38_one_to_one")
    assert planned.fewest is not None
    assert fitted.minimum.separate is not None
    assert fitted.minimum.shared is not None
    assert fitted.minimum.shared.gpus <= fitted.minimum.separate.gpus <= 6
    assert planned.fewest.iteration_s <= 120.0
    assert planned.fewest.train_gpus < planned.choice.train_gpus


def test_a_rule_of_thumb_comes_with_the_idle_share_it_costs(made: Callable[..., Plan]) -> None:
    """OpenRLHF 562 made 16 + 8 + 8 of 1 : 1 : 1 on 32 GPUs and asked about the idle 16. Roles of training share GPUs here, so
    the nearest rule is the even split: its rollout side idles, and the plan has the share."""
    even = made("38_one_to_one").splits[0].even
    assert even is not None
    assert (even.rollout_gpus, even.train_gpus) == (16, 16)
    assert even.rollout_busy < 0.9
    assert even.train_busy > even.rollout_busy


def test_the_screen_shows_what_idles_under_a_rule_of_thumb(screen: Callable[[str], str]) -> None:
    """The number is in the plan file; the asker of 562 would not look there."""
    row = screen("38_one_to_one").partition("even split")[2].partition("7+1")[0]
    assert re.search(r"\d+ \+ \d+ %", row)
