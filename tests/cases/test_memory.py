"""Users' questions about memory: does it fit, why not, and what is the smallest change?

Cases: PrimeIntellect-ai/prime-rl 1016 (21), NVIDIA-NeMo/RL 903 (24), OpenRLHF/OpenRLHF 887 (26) and 1066 (27), verl-project/verl
2820 and 5206 (29), verl-project/verl 3364 and areal-project/AReaL 409 (31). The arithmetic of single bills is in
tests/models/test_memory_cases.py; here a user's file goes in and the plan, or the refusal, comes out.

GPUs are those of our table (80 GiB for an H100), a little more than the 80 GB of the arithmetic in the threads.

Left out: 29, because a scenario cannot say what host memory a worker process needs (the bill can: `Node.worker_gib`); of 31 NVIDIA-NeMo/RL
2319, 604 and 848 and verl 2031, whose models or GPUs are not in our tables or not stated, and the string that AReaL wants,
because nothing is emitted yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollplan import InfeasibleError, Plan
from rollplan.models.layout import Layout
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.stages.compile import Compiled
from rollplan.planner.fit import Fit


def refusal(ready: Callable[..., Compiled], name: str, changes: dict[str, Any] | None = None) -> str:
    """Return the reasons for which nothing fits, in one text."""
    with pytest.raises(InfeasibleError) as refused:
        ready(name, changes)
    return "\n".join(refused.value.reasons)


# Case 21, prime-rl 1016: Qwen3-Coder-30B-A3B, 6 H100.

CODER = "21_coder_30b"


@pytest.mark.parametrize("degrees", [{}, {"trainer.cp": [1]}, {"trainer.cp": [2, 4]}, {"trainer.micro_batch": 1}])
@pytest.mark.parametrize("prompts", [2, 12])
def test_a_30b_model_does_not_train_on_six_gpus_with_or_without_context_parallelism(
    ready: Callable[..., Compiled], degrees: dict[str, Any], prompts: int
) -> None:
    """The asker wanted context parallelism. The refusal is about training, and names GPUs, need and limit."""
    text = refusal(ready, CODER, {**degrees, "workload.prompts": prompts})
    assert text.startswith("training fit on no number of GPUs within the budget")
    assert "in update, has 80.0 GiB" in text


def test_the_refusal_offers_the_host_first_and_more_gpus_after_it(ready: Callable[..., Compiled]) -> None:
    """In the order of what they cost the user."""
    text = refusal(ready, CODER)
    assert 0 < text.index("optimizer on the host") < text.index("9 GPUs instead of 6")


def test_the_four_gpus_of_the_asker_have_too_much_state_for_any_batch(memory: Callable[..., Fit]) -> None:
    """122 GB per GPU before a single activation. `rollplan fit --train dp4` says that nothing about batches helps."""
    for train in (Layout(dp=4), Layout(cp=4)):
        found = memory(CODER, train=train, rollout=Layout(dp=2))
        assert "alone take 113.7 GiB, so that no micro batch and no context parallelism fits" in found.sentence
        words = [option.words[0] for option in found.options]
        assert words[0] == "train: optimizer on the host"
        assert "train: LoRA of rank 32" in words


def test_the_refusal_says_that_no_batch_helps(ready: Callable[..., Compiled]) -> None:
    """Else the asker tries micro batches for a day."""
    assert "no micro batch and no context parallelism fits" in refusal(ready, CODER, {"budget.h100": 4})


@pytest.mark.parametrize(
    "changes",
    [
        {"trainer.optimizer_on_host": True},
        {"trainer.lora_rank": 32},
        {"pools.h100.gpus_per_node": 10, "workload.prompts": 8},
    ],
    ids=["optimizer on the host", "LoRA", "8 + 2 GPUs"],
)
def test_the_three_ways_out_are_ways_out(split: Callable[..., PlannedSplit], changes: dict[str, Any]) -> None:
    """Each gives a plan with both stages on GPUs; 8 training GPUs hold the state (61 GB each) if the batch divides by 8."""
    found = split(CODER, changes)
    assert found.memory
    if "trainer.optimizer_on_host" in changes:
        host = next(use for use in found.memory if use.where == "host" and "train" in use.roles)
        assert host.gib == pytest.approx(30.5e9 * 12 / 2**30, rel=0.02)
    if "pools.h100.gpus_per_node" in changes:
        assert found.choice.train_gpus == 8


def test_a_host_of_300_gb_is_no_way_out_and_the_refusal_says_host(ready: Callable[..., Compiled]) -> None:
    """366 GB of optimizer do not go into it."""
    text = refusal(ready, CODER, {"trainer.optimizer_on_host": True, "pools.h100.memory": "300 GB"})
    assert "train node's host: 3" in text
    assert "has 279.4 GiB" in text


# Case 24, NeMo-RL 903: sequences of 32,768 tokens on 64 nodes.

LONG = "24_long_sequences"


@pytest.mark.parametrize("nodes", [2, 64])
def test_for_one_long_sequence_the_number_of_nodes_is_irrelevant(ready: Callable[..., Compiled], nodes: int) -> None:
    """What does not fit on 2 nodes does not fit on 64: activations of one sequence. The refusal offers cp, tp and checkpoints."""
    text = refusal(ready, LONG, {"pools.h100.nodes": nodes})
    assert "cp 2 instead of 1" in text
    assert "activation checkpointing" in text
    assert "GPUs instead of" not in text


def test_context_parallelism_of_four_works(ready: Callable[..., Compiled]) -> None:
    """As the source says."""
    assert ready(LONG, {"trainer.cp": [4]}).problem.train["h100"]


def test_context_parallelism_of_two_does_not(ready: Callable[..., Compiled]) -> None:
    """As the source says, without the loss and the checkpoints it ran with."""
    refusal(ready, LONG, {"trainer.cp": [2], "trainer.logit_copies": 4, "trainer.checkpointing": "none"})


# Case 26, OpenRLHF 887: 18 of 24 GPUs for the reference.

REFERENCE = "26_idle_reference"


@pytest.mark.parametrize("mean", [4000, 12000])
def test_the_reference_gets_no_gpus_of_its_own_and_the_actor_gets_enough(ready: Callable[..., Compiled], mean: int) -> None:
    """One forward pass: it takes turns with the actor. Three GPUs, what the asker gave the actor, are no candidate without cp."""
    found = ready(REFERENCE, {"workload.lengths.mean": mean, "trainer.cp": [1], "trainer.pp": [1], "trainer.tp": [1]})
    counts = found.problem.train["h100"]
    assert min(counts) > 3
    setup = found.trainers["h100"].setup(found.train["h100"][min(counts)].layout)
    assert ("train", "reference") in setup.pools


def test_the_planned_actor_has_room_for_the_longest_sequence(split: Callable[..., PlannedSplit]) -> None:
    """24 GPUs are plenty: more than twice the three of the asker, and no margin below a tenth."""
    found = split(REFERENCE)
    assert found.choice.train_gpus >= 6
    assert not any(use.tight for use in found.memory if "train" in use.roles)


def test_three_actor_gpus_are_told_what_to_change(memory: Callable[..., Fit]) -> None:
    """The asker's layout with the reference moved in: logits in chunks suffice, and one GPU more would."""
    found = memory(REFERENCE, rollout=Layout(dp=3), train=Layout(dp=3))
    assert not found.bill.fits
    words = [option.words[0] for option in found.options]
    assert words[0] == "train: logits in chunks of 1024 tokens"
    assert "train + reference: 4 GPUs instead of 3" in words


# Case 27, OpenRLHF 1066: one field out of scale.

WIDE = "27_one_field_out_of_scale"


def test_32_sequences_at_once_fit_nowhere_and_one_does(ready: Callable[..., Compiled]) -> None:
    """119 GB of logits at the worst length; the refusal proposes fewer sequences, in the first place."""
    text = refusal(ready, WIDE)
    assert text.index("trainer.log_prob_batch 4 instead of 32") < text.index("chunks")
    assert ready(WIDE, {"trainer.micro_batch": 1}).problem.train["h800"]


def test_the_refusal_points_at_the_field_of_the_scenario(ready: Callable[..., Compiled]) -> None:
    """One field, by the name under which the user wrote it."""
    assert "micro_batch" in refusal(ready, WIDE)


# Case 31, verl 3364 and AReaL 409.

ARITHMETIC = "31_fits_by_arithmetic"


def test_a_plan_shows_what_is_left_of_each_gpu(split: Callable[..., PlannedSplit]) -> None:
    """verl 3364 ran out of memory with 15 GB of state: the plan shows peak and limit, so that a thin margin can be seen."""
    found = split(ARITHMETIC, {"workload.prompts": 64})
    gpus = [use for use in found.memory if use.where == "gpu"]
    assert {role for use in gpus for role in use.roles} == {"rollout", "train", "reference"}
    assert all(use.memory_gib == 141 and 0 < use.gib < 141 for use in gpus)


def test_a_margin_below_a_tenth_is_marked_and_warned_about(made: Callable[..., Plan]) -> None:
    """With Megatron's distributed optimizer (not stated) the trainer has 8 % left: fits by arithmetic, may fail in reality."""
    found = made(ARITHMETIC, {"workload.prompts": 64, "trainer.sharding": "zero1"})
    tight = [use for use in found.splits[0].memory if use.tight]
    assert tight
    assert all(use.memory_gib is not None and use.gib > 0.9 * use.memory_gib for use in tight)
    assert any("leave less than 10 %" in warning for warning in found.warnings)


TOO_MANY = "31_more_gpus_than_there_are"


def test_four_and_four_gpus_are_not_proposed_on_four(split: Callable[..., PlannedSplit]) -> None:
    """AReaL 409: the allocation asks for 8. Whatever is shown stays within the 4; here that leaves taking turns."""
    found = split(TOO_MANY)
    assert found.even is None
    assert {(plan.mode, plan.rollout_gpus) for plan in found.shown} == {("colocated", 4)}


def test_where_turns_are_impossible_too_the_refusal_does_the_sum(made: Callable[..., Plan]) -> None:
    """Count check before launch: 4 + 2 on 4 GPUs."""
    with pytest.raises(InfeasibleError) as refused:
        made(TOO_MANY, {"train.a100": {2: "100 s"}})
    assert refused.value.reasons[:2] == (
        "rollout and train on pool a100 need at least 4 + 2 = 6 GPUs, no count is in both tables to share in time; "
        "raise `budget.a100`, now 4",
        "one requirement of split lora excludes every plan (proven twice)",
    )


def test_two_and_two_are_what_was_wanted(split: Callable[..., PlannedSplit]) -> None:
    """AReaL 409: 2 rollout and 2 training GPUs fit the 4."""
    found = split(TOO_MANY, {"rollout.a100": {2: "100 s"}, "train.a100": {2: "100 s"}})
    assert (found.choice.mode, found.choice.rollout_gpus, found.choice.train_gpus) == ("separate", 2, 2)
