"""What would fit: the smallest change, pairs of changes, and the fewest GPUs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.errors import InfeasibleError
from rollplan.models.layout import Layout, layouts
from rollplan.models.memory.bill import bill
from rollplan.models.memory.fitting import smallest_change
from rollplan.models.memory.minimum import minimum_gpus
from rollplan.models.memory.setup import MicroBatch, ModelSetup, Node, RolloutSetup, Setup, TrainSetup, time_shared

GPU = Gpu(name="L40S", memory_gib=44.7, peak_tflops=362.0, memory_tb_s=0.864, link_gb_s=32.0)
MODEL = Architecture(
    name="Qwen3-8B",
    layers=36,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=12288,
    vocab=151936,
    params_b=8.19,
    active_params_b=8.19,
)


def actor(gpus: int = 8, sequences: int = 1, tokens: int = 4096, **rest: Any) -> TrainSetup:
    """Return an actor under ZeRO-3."""
    return TrainSetup(architecture=MODEL, layout=Layout(dp=gpus), update=MicroBatch(sequences, tokens), **rest)


def engines(gpus: int = 8, **rest: Any) -> RolloutSetup:
    """Return engines of one GPU each."""
    return RolloutSetup(**{"architecture": MODEL, "layout": Layout(dp=gpus), "context_tokens": 4096, **rest})


def test_what_fits_needs_no_change() -> None:
    """Nothing to say is an empty answer."""
    assert smallest_change(Setup(train=actor()), GPU) == ()


def test_the_largest_micro_batch_that_divides_and_fits_is_taken() -> None:
    """16 sequences do not fit; of 8, 4, 2 and 1 the largest that does."""
    setup = Setup(train=actor(sequences=16))
    fitting = [n for n in (8, 4, 2, 1) if bill(setup.change("train", update=MicroBatch(n, 4096)), GPU).fits]
    smallest = smallest_change(setup, GPU)[0]
    assert smallest.words == (f"train: update.sequences {fitting[0]} instead of 16",)
    assert smallest.gib == bill(smallest.setup, GPU).peak("train").gib


def test_options_come_in_the_order_of_their_cost() -> None:
    """Settings before layout, layout before host, host before GPUs, GPUs before another training."""
    found = smallest_change(
        Setup(train=actor(tokens=65_536, checkpointing="none", sharding="zero1")), GPU.model_copy(update={"memory_gib": 300.0})
    )
    order = ["checkpointing", "cp", "tp", "GPUs instead", "sequences of at most"]
    positions = [next((i for i, option in enumerate(found) if word in str(option)), None) for word in order]
    assert [at for at in positions if at is not None] == sorted(at for at in positions if at is not None)
    assert positions[0] is not None


def test_gpus_that_are_not_there_are_not_proposed() -> None:
    """prime-rl 1016 has 6 GPUs."""
    setup = Setup(train=actor(gpus=2))
    assert any("GPUs instead of 2" in str(option) for option in smallest_change(setup, GPU))
    assert all(option.setup.gpus <= 2 for option in smallest_change(setup, GPU, max_gpus=2))


def test_an_engine_that_stays_awake_on_shared_gpus_is_sent_to_sleep() -> None:
    """0.9 of the GPU for an engine leaves nothing for the update."""
    shared = Setup(train=actor(at_rest="host"), rollout=engines(gpu_memory_utilization=0.8), shared=(("train", "rollout"),))
    assert not bill(shared, GPU).fits
    assert any(option.words == ("rollout: the engine sleeps while others work",) for option in smallest_change(shared, GPU))


def test_two_reasons_need_a_pair() -> None:
    """An update that is too large and an engine whose weights do not fit: one kind of change cannot do it."""
    setup = Setup(train=actor(sequences=16), rollout=engines(gpu_memory_utilization=0.3))
    found = smallest_change(setup, GPU)
    assert found
    assert all(len(option.words) >= 2 for option in found)
    assert all(any(word.startswith("train") for word in option.words) for option in found if "sequences of" not in str(option))


def test_a_part_that_is_not_needed_is_left_out() -> None:
    """The actor's update and the reference's log-prob are too large; the actor's log-prob, of the same kind, is not."""
    reference = ModelSetup(architecture=MODEL, layout=Layout(dp=8), log_prob=MicroBatch(16, 4096))
    setup = Setup(train=actor(sequences=16, log_prob=MicroBatch(2, 4096)), reference=reference)
    words = [option.words for option in smallest_change(setup, GPU)]
    assert words[0] == ("train: update.sequences 4 instead of 16", "reference: log_prob.sequences 8 instead of 16")


def test_a_gpu_that_is_hopeless_is_said_to_be() -> None:
    """The reasons are those of the bill."""
    tiny = GPU.model_copy(update={"memory_gib": 1.0})
    with pytest.raises(InfeasibleError, match=r"train GPU: .* has 1\.0 GiB[\s\S]*no pair of kinds makes it fit"):
        smallest_change(Setup(train=actor()), tiny)


@st.composite
def overfull(draw: st.DrawFn) -> Setup:
    """Setups of which most do not fit."""
    gpus = draw(st.sampled_from([2, 4, 8]))
    train = actor(
        gpus,
        sequences=draw(st.sampled_from([1, 2, 12])),
        tokens=draw(st.sampled_from([4096, 30_000])),
        log_prob=draw(st.none() | st.builds(MicroBatch, sequences=st.sampled_from([1, 16]), tokens=st.just(8192))),
        sharding=draw(st.sampled_from(["zero1", "zero3"])),
        checkpointing=draw(st.sampled_from(["full", "none"])),
    )
    rollout = engines(gpus, gpu_memory_utilization=draw(st.sampled_from([0.3, 0.6, 0.9])))
    reference = ModelSetup(architecture=MODEL, layout=Layout(dp=gpus), log_prob=MicroBatch(draw(st.sampled_from([1, 16])), 4096))
    setup = Setup(train=train, rollout=rollout, reference=reference, node=Node(memory_gib=draw(st.sampled_from([None, 100.0]))))
    return time_shared(setup) if draw(st.booleans()) else setup


@settings(max_examples=15)
@given(overfull())
def test_an_option_fits_and_every_part_of_it_is_needed(setup: Setup) -> None:
    """Undoing any changed field alone makes it too large again; `state on host` has two fields and counts as one."""
    try:
        options = smallest_change(setup, GPU)
    except InfeasibleError:
        return
    assert bool(options) is not bill(setup, GPU).fits
    for option in options:
        assert option.bill == bill(option.setup, GPU)
        assert option.bill.fits
        if any("weights" in word or "sequences of at most" in word for word in option.words):
            continue
        for role, model in setup.roles.items():
            changed = option.setup.roles[role]
            for name in (field.name for field in fields(model) if getattr(model, field.name) != getattr(changed, field.name)):
                if name == "layout" and len(option.words) > 1:
                    continue
                undone = option.setup.change(role, **{name: getattr(model, name)}) if name != "layout" else setup
                assert not bill(undone, GPU).fits, (option.words, role, name)


# The fewest GPUs.


@pytest.mark.parametrize("tokens", [2048, 32_768])
def test_the_fewest_gpus_are_those_of_a_search_over_all_layouts(tokens: int) -> None:
    """Brute force over every layout of every count."""
    setup = Setup(train=actor(tokens=tokens), rollout=engines())

    def least(role: Any) -> int:
        return next(
            count
            for count in range(1, 65)
            if any(bill(setup.change(role, layout=layout), GPU).peak(role).fits for layout in layouts(MODEL, count, 8))
        )

    found = minimum_gpus(setup, GPU).separate
    assert found is not None
    assert found.roles["train"].layout.gpus == least("train")
    assert found.roles["rollout"].layout.gpus == least("rollout") == 1


@settings(max_examples=8)
@given(st.integers(1, 32_768), st.sampled_from([30.0, 44.7, 80.0]))
def test_the_fewest_gpus_fit_and_sharing_needs_no_more_than_separation(tokens: int, memory_gib: float) -> None:
    """Who takes turns needs at least the largest of the parts, and hardly more: a resting process keeps its reserve."""
    gpu = GPU.model_copy(update={"memory_gib": memory_gib})
    reference = ModelSetup(architecture=MODEL, layout=Layout(), log_prob=MicroBatch(1, tokens))
    setup = Setup(train=actor(1, tokens=tokens), rollout=engines(1, context_tokens=tokens), reference=reference)
    found = minimum_gpus(setup, gpu)
    assert found.separate is not None
    assert found.shared is not None
    assert bill(found.separate, gpu).fits
    assert bill(found.shared, gpu).fits
    largest = max(model.layout.gpus for model in found.separate.roles.values())
    assert largest <= found.shared.gpus <= found.separate.gpus


def test_roles_on_different_gpus_do_not_share() -> None:
    """H20 and H800 are two pools."""
    setup = Setup(train=actor(), rollout=engines())
    other = replace(setup, shared=())
    found = minimum_gpus(other, {"train": GPU, "rollout": GPU.model_copy(update={"name": "H20", "memory_gib": 89.4})})
    assert found.separate is not None
    assert found.shared is None


def test_what_fits_nowhere_has_no_minimum() -> None:
    """Absent, not a number."""
    tiny = GPU.model_copy(update={"memory_gib": 1.0})
    found = minimum_gpus(Setup(train=actor()), tiny, limit=16)
    assert (found.separate, found.shared) == (None, None)
