"""The memory bill: what users reported, and what the bill says about it.

Numbers of the cases are GB (10^9 bytes) and arithmetic bounds: 16 bytes per trained parameter, 2 or 4 per logit.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.memory.explain import explain
from rollplan.models.memory.fitting import smallest_change
from rollplan.models.memory.minimum import minimum_gpus
from rollplan.models.memory.setup import MicroBatch, ModelSetup, Node, Role, RolloutSetup, Setup, TrainSetup, time_shared

GB = 1e9 / 2**30
"""One GB in GiB."""


def gpu(name: str, memory_gb: float) -> Gpu:
    """Return a GPU of so many GB; only its memory counts here."""
    return Gpu(name=name, memory_gib=memory_gb * GB, peak_tflops=989.0, memory_tb_s=3.35, link_gb_s=450.0)


H100 = gpu("H100", 80)
QWEN_30B_A3B = Architecture(
    name="Qwen3-30B-A3B",
    layers=48,
    hidden=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    intermediate=8 * 768,
    vocab=151936,
    params_b=30.5,
    active_params_b=3.3,
    experts=128,
    experts_per_token=8,
    expert_params_b=28.99,
)


def dense(
    name: str, params_b: float, layers: int, hidden: int, heads: int, kv_heads: int, inner: int, vocab: int, tied: bool
) -> Architecture:
    """Return a dense model whose heads are 128 wide."""
    return Architecture(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        intermediate=inner,
        vocab=vocab,
        params_b=params_b,
        active_params_b=params_b,
        tied_embeddings=tied,
    )


QWEN3_8B = dense("Qwen3-8B", 8.19, 36, 4096, 32, 8, 12288, 151936, tied=False)
QWEN25_7B = dense("Qwen2.5-7B", 7.62, 28, 3584, 28, 4, 18944, 152064, tied=False)
QWEN25_1_5B = dense("Qwen2.5-1.5B", 1.544, 28, 1536, 12, 2, 8960, 151936, tied=True)


def gb(found: MemoryBill, role: Role, phase: str, *terms: str, where: str = "gpu") -> float:
    """Return the GB of some terms."""
    return sum(line.gib / GB for line in found.lines if (line.role, line.phase, line.where) == (role, phase, where) and line.term in terms)


def state_gb(found: MemoryBill, role: Role = "train") -> float:
    """Return weights, gradients and optimizer in the update."""
    return gb(found, role, "update", "weights", "gradients", "optimizer")


# Case 21, prime-rl 1016: Qwen3-Coder-30B-A3B, 4 training GPUs of 80 GB, 16,000 tokens, micro batch 1.

CODER = Setup(
    train=TrainSetup(architecture=QWEN_30B_A3B, layout=Layout(dp=4), update=MicroBatch(1, 16_000)), node=Node(memory_gib=1000 * GB)
)


@pytest.mark.parametrize("layout", [Layout(dp=4), Layout(cp=2, dp=2), Layout(cp=4), Layout(tp=2, ep=4, dp=2)])
@pytest.mark.parametrize("tokens", [1, 16_000])
def test_30b_on_four_gpus_is_too_large_whatever_the_batch_and_the_layout(layout: Layout, tokens: int) -> None:
    """prime-rl 1016 asked for context parallelism; 30.5e9 x 16 / 4 = 122 GB are too much before any activation."""
    found = bill(CODER.change("train", layout=layout, update=MicroBatch(1, tokens)), H100)
    assert state_gb(found) == pytest.approx(122.0, abs=0.01)
    assert not found.fits


def test_30b_has_61_gb_of_state_on_eight_gpus_but_needs_nine_with_its_logits() -> None:
    """prime-rl 1016: the case calls 8 GPUs a way out by state alone. Logits (9.7 GB), activations, gathered layers and our
    reserve bring the bill to 79.8 GiB of 74.5; in chunks, the logits leave 8 GPUs enough."""
    on_eight = CODER.change("train", layout=Layout(dp=8))
    assert state_gb(bill(on_eight, H100)) == pytest.approx(61.0, abs=0.01)
    assert not bill(on_eight, H100).fits
    assert bill(on_eight.change("train", chunk_tokens=1024), H100).fits
    assert bill(CODER.change("train", layout=Layout(dp=9)), H100).fits


def test_30b_with_its_optimizer_on_the_host_fits_on_four_gpus() -> None:
    """prime-rl 1016: 30.5 GB of weights and gradients stay on the GPU, 366 GB of optimizer go to the host."""
    found = bill(CODER.change("train", optimizer_on_host=True), H100)
    assert state_gb(found) == pytest.approx(30.5, abs=0.01)
    assert gb(found, "train", "update", "optimizer", where="host") == pytest.approx(366.0, abs=0.01)
    assert found.fits


def test_the_ways_out_of_30b_on_four_gpus_are_host_more_gpus_and_lora() -> None:
    """prime-rl 1016, in the order of cost; without more GPUs, the host and LoRA are left."""
    words = [option.words for option in smallest_change(CODER, H100)]
    assert words[0] == ("train: optimizer on the host",)
    assert ("train: 9 GPUs instead of 4",) in words
    assert words[-1] == ("train: LoRA of rank 32",)
    assert [option.words[0] for option in smallest_change(CODER, H100, max_gpus=4)] == [
        "train: optimizer on the host",
        "train: weights and optimizer on the host",
        "train: LoRA of rank 32",
    ]


def test_a_host_that_is_too_small_for_the_optimizer_is_no_way_out() -> None:
    """366 GB do not go into 300."""
    small = replace(CODER, node=Node(memory_gib=300 * GB))
    assert [option.words[0] for option in smallest_change(small, H100, max_gpus=4)] == ["train: LoRA of rank 32"]


def test_state_that_is_too_large_is_named_as_what_no_batch_changes() -> None:
    """prime-rl 1016: the first demo of explain."""
    text = explain(CODER, H100)
    assert "weights, gradients, optimizer alone take 113.6 GiB, so that no micro batch and no context parallelism fits" in text


# Case 24, NeMo-RL 903: Qwen 1.5B, 64 nodes, 32,768 tokens, micro batch 1, tp 1. cp 4 works, cp 2 does not.

LONG = Setup(
    train=TrainSetup(
        architecture=QWEN25_1_5B, layout=Layout(cp=4, dp=128), update=MicroBatch(1, 32_768), checkpointing="none", logit_copies=4
    )
)


@pytest.mark.parametrize("sharding", ["ddp", "zero1", "zero2", "zero3"])
def test_without_checkpointing_and_with_four_copies_of_the_logits_cp_2_fails_and_cp_4_works(sharding: str) -> None:
    """NeMo-RL 903 says no more than that. Our reading: no checkpointing, and logits, softmax and gradients of a loss in
    plain PyTorch (4 copies); then it holds whatever is sharded."""
    fits = {cp: bill(LONG.change("train", layout=Layout(cp=cp, dp=512 // cp), sharding=sharding), H100).fits for cp in (1, 2, 4)}
    assert fits == {1: False, 2: False, 4: True}


def test_with_our_defaults_cp_2_would_have_been_enough() -> None:
    """NeMo-RL 903 is not reproduced with full checkpointing, one copy of the logits and ZeRO-3: 16 of 80 GB. The default is
    the least that a loss needs, and the bill a bound from below."""
    usual = LONG.change("train", layout=Layout(cp=2, dp=256), checkpointing="full", logit_copies=1)
    assert bill(usual, H100).peak("train").gib / GB == pytest.approx(16.4, abs=0.1)


def test_for_long_sequences_more_nodes_do_not_help() -> None:
    """NeMo-RL 903: 64 nodes did not make cp 2 fit; what does not fit is one sequence, not the state."""
    few, many = (bill(LONG.change("train", layout=Layout(cp=2, dp=4 * nodes), sharding="ddp"), H100) for nodes in (1, 64))
    assert few.peak("train") == many.peak("train")
    assert not many.fits


# Case 26, OpenRLHF 887: a 7B model, 24 GPUs: 18 reference, 3 actor, 3 rollout; 1024 + 36864 tokens, ZeRO-3.

IDLE_REFERENCE = Setup(
    train=TrainSetup(architecture=QWEN25_7B, layout=Layout(dp=3), update=MicroBatch(1, 37_888)),
    reference=ModelSetup(architecture=QWEN25_7B, layout=Layout(dp=18), log_prob=MicroBatch(1, 37_888)),
    rollout=RolloutSetup(architecture=QWEN25_7B, layout=Layout(dp=3), context_tokens=37_888),
)


def test_three_actor_gpus_overflow_while_eighteen_hold_a_sliver_of_the_reference() -> None:
    """OpenRLHF 887: 40.6 GB of state and 23 GB of logits on each actor GPU, 0.8 GB of weights on each reference GPU."""
    found = bill(IDLE_REFERENCE, H100)
    assert state_gb(found) == pytest.approx(40.6, abs=0.05)
    assert gb(found, "train", "update", "logits") == pytest.approx(23.0, abs=0.05)
    assert gb(found, "reference", "reference log-prob", "weights") == pytest.approx(0.8, abs=0.05)
    assert found.reasons == ("train GPU: 81.0 GiB in update, has 74.5 GiB",)


def test_gpus_moved_from_the_reference_to_the_actor_make_it_fit() -> None:
    """OpenRLHF 887: the reference is one forward pass; 24 GPUs are plenty with 9 of them there."""
    moved = IDLE_REFERENCE.change("train", layout=Layout(cp=2, dp=6)).change("reference", layout=Layout(dp=9))
    assert moved.gpus == IDLE_REFERENCE.gpus
    assert bill(moved, H100).fits


# Case 27, OpenRLHF 1066: Qwen3-8B, micro_rollout_batch 32 at up to 12,288 tokens, Adam on the host.

WIDE_LOG_PROB = Setup(
    train=TrainSetup(
        architecture=QWEN3_8B,
        layout=Layout(dp=4),
        update=MicroBatch(1, 12_288),
        log_prob=MicroBatch(32, 12_288),
        log_prob_logit_bytes=2,
        optimizer_on_host=True,
    ),
    reference=ModelSetup(architecture=QWEN3_8B, layout=Layout(), log_prob=MicroBatch(32, 12_288), log_prob_logit_bytes=2),
    rollout=RolloutSetup(architecture=QWEN3_8B, layout=Layout(tp=2), context_tokens=12_288),
)


@pytest.mark.parametrize(("sequences", "logits_gb"), [(32, 119.5), (1, 3.73)])
def test_bf16_logits_of_the_log_prob_pass_are_119_gb_at_32_sequences(sequences: int, logits_gb: float) -> None:
    """OpenRLHF 1066: 32 x 12288 x 151936 x 2 bytes, and 3.7 GB for one sequence."""
    found = bill(WIDE_LOG_PROB.change("train", log_prob=MicroBatch(sequences, 12_288)), H100)
    assert gb(found, "train", "log-prob", "logits") == pytest.approx(logits_gb, abs=0.05)


def test_the_sentence_points_at_the_one_field_that_is_out_of_scale() -> None:
    """OpenRLHF 1066: the message must name it, with what 1 would need."""
    text = explain(WIDE_LOG_PROB, H100)
    assert "logits, 111.3 GiB = 32 sequences x 12288 tokens x 151936 vocabulary x 2 bytes" in text
    assert text.endswith("log_prob.sequences 1 instead of 32 needs 3.5 GiB")


def test_fewer_sequences_for_actor_and_reference_are_the_smallest_change() -> None:
    """OpenRLHF 1066: one field in the user's script, two roles in the bill; 8 sequences fit by arithmetic."""
    smallest = smallest_change(WIDE_LOG_PROB, H100)[0]
    assert smallest.words == ("train: log_prob.sequences 8 instead of 32", "reference: log_prob.sequences 8 instead of 32")


def test_the_sentence_names_layout_or_sharding_where_the_state_is_the_largest_term() -> None:
    """OpenRLHF 887: more GPUs for the actor; unsharded state is told to be sharded first."""
    assert explain(IDLE_REFERENCE, H100).endswith("6 GPUs instead of 3 needs 14.2 GiB")
    unsharded = IDLE_REFERENCE.change("train", sharding="ddp", update=MicroBatch(1, 64), gradient_bytes=1, optimizer_bytes=6)
    assert explain(unsharded, H100).endswith("sharding zero3 instead of ddp needs 14.2 GiB")


# Cases 29, 31, 38.


@pytest.mark.parametrize(("gpus", "fits"), [(4, True), (8, False)])
def test_more_gpus_on_a_node_need_more_host_memory(gpus: int, fits: bool) -> None:
    """verl 5206: 30 GB per worker, fixed by 4 GPUs instead of 8: 120 and 240 GB."""
    small = TrainSetup(architecture=QWEN25_1_5B, layout=Layout(dp=gpus), update=MicroBatch(1, 1024))
    found = bill(Setup(train=small, node=Node(memory_gib=200 * GB, worker_gib=30 * GB)), H100)
    assert found.host_peaks[0].gib / GB == pytest.approx(30.0 * gpus)
    assert found.fits is fits


def test_15_gb_of_state_on_32_h200_fit_by_arithmetic() -> None:
    """verl 3364: 30.5e9 x 16 / 32 = 15.25 GB per GPU, and yet out of memory: the bill is a bound, not a promise."""
    step = TrainSetup(architecture=QWEN_30B_A3B, layout=Layout(dp=32), update=MicroBatch(1, 10_240))
    found = bill(Setup(train=step), gpu("H200", 141))
    assert state_gb(found) == pytest.approx(15.25, abs=0.01)
    assert found.fits


def test_a_margin_below_a_tenth_is_tight() -> None:
    """NeMo-RL 2319 and verl 3364 failed on plans that fit: the report must mark thin margins."""
    found = bill(CODER.change("train", layout=Layout(dp=9)), H100)
    assert found.fits
    assert 0 < found.margin_gib < 0.1 * H100.memory_gib
    assert found.tight
    assert not bill(CODER.change("train", layout=Layout(dp=16)), H100).tight


def ppo(model: Architecture, reward: bool = True) -> Setup:
    """Return PPO with five roles of one size, 4096 tokens; the layouts are to be found."""
    batch = MicroBatch(1, 4096)
    return Setup(
        train=TrainSetup(architecture=model, layout=Layout(), update=batch, log_prob=batch),
        critic=TrainSetup(architecture=model, layout=Layout(), update=batch, log_prob=batch, head="value"),
        reference=ModelSetup(architecture=model, layout=Layout(), log_prob=batch),
        reward=ModelSetup(architecture=model, layout=Layout(), log_prob=batch, head="value") if reward else None,
        rollout=RolloutSetup(architecture=model, layout=Layout(), context_tokens=4096),
    )


def test_7b_ppo_with_actor_and_reference_sharing_needs_five_gpus_by_memory() -> None:
    """simpleRL-reason 9 runs it on 32 H100 and says that 6 are the minimum; ours is 2 + 2 + 1, and 2 when all take turns."""
    found = minimum_gpus(replace(ppo(QWEN25_7B, reward=False), shared=(("train", "reference"),)), H100)
    assert found.separate is not None
    assert found.shared is not None
    assert {role: model.layout.gpus for role, model in found.separate.roles.items()} == {
        "rollout": 1,
        "train": 2,
        "reference": 2,
        "critic": 2,
    }
    assert (found.separate.gpus, found.shared.gpus) == (5, 2)


def test_70b_ppo_needs_38_gpus_of_80_gb_where_the_asker_had_40() -> None:
    """OpenRLHF 930 asked whether 5 x 8 GPUs are the minimum, without the model. For 70B the actor and the critic need 16
    each, the others 2: 38; 20 when all take turns."""
    llama = dense("Llama-3.1-70B", 70.55, 80, 8192, 64, 8, 28672, 128256, tied=False)
    found = minimum_gpus(ppo(llama), H100)
    assert found.separate is not None
    assert found.shared is not None
    assert found.separate.gpus == 38
    assert found.shared.gpus == 20
    assert bill(found.separate, H100).fits
    assert bill(found.shared, H100).fits


def test_time_sharing_leaves_only_what_rests() -> None:
    """An engine that sleeps gives back its claim; a trainer that waits leaves its state on the host."""
    setup = time_shared(
        Setup(
            train=TrainSetup(architecture=QWEN25_7B, layout=Layout(dp=4), update=MicroBatch(1, 4096)),
            rollout=RolloutSetup(architecture=QWEN25_7B, layout=Layout(tp=2, dp=2), context_tokens=4096, gpu_memory_utilization=0.8),
        )
    )
    found = bill(setup, H100)
    assert found.fits
    assert gb(found, "rollout", "update", "KV cache", "engine weights") == 0.0
    assert gb(found, "train", "decode", "weights", "optimizer") == 0.0
    assert gb(found, "train", "decode", "weights", "optimizer", where="host") == pytest.approx(7.62 * 14, abs=0.01)
