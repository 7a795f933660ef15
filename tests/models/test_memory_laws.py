"""The memory bill: what must hold for every setup."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout
from rollplan.models.memory import terms
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.memory.setup import SHARDINGS, MicroBatch, ModelSetup, Node, RolloutSetup, Setup, TrainSetup, time_shared

GPU = Gpu(name="H100", memory_gib=80.0, peak_tflops=989.0, memory_tb_s=3.35, link_gb_s=450.0)
ROUNDING = 1e-9


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """Small models whose parameters agree with their shapes, dense or with experts."""
    layers, heads = draw(st.integers(1, 12)), draw(st.sampled_from([2, 4, 8]))
    hidden, vocab = 64 * heads, draw(st.sampled_from([1000, 32000, 150000]))
    tied, experts = draw(st.booleans()), draw(st.sampled_from([0, 0, 8]))
    tables = vocab * hidden * (1 if tied else 2)
    expert_params = experts * 3 * hidden * 256 * layers
    params = tables + layers * 12 * hidden**2 + expert_params
    return Architecture(
        name="small",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=2,
        head_dim=64,
        intermediate=512,
        vocab=vocab,
        params_b=params / 1e9,
        active_params_b=params / 1e9,
        experts=experts,
        experts_per_token=min(2, experts),
        expert_params_b=expert_params / 1e9,
        tied_embeddings=tied,
    )


powers = st.sampled_from([1, 2, 4])
batches = st.builds(MicroBatch, sequences=st.integers(1, 8), tokens=st.integers(1, 20_000))


@st.composite
def trainers(draw: st.DrawFn) -> TrainSetup:
    """Any actor."""
    model = draw(architectures())
    layout = Layout(tp=draw(st.sampled_from([1, 2])), pp=draw(st.integers(1, min(3, model.layers))), cp=draw(powers), dp=draw(powers))
    if model.moe:
        layout = replace(layout, ep=draw(st.sampled_from([ep for ep in (1, 2, 4, 8) if layout.tp * layout.cp * layout.dp % ep == 0])))
    return TrainSetup(
        architecture=model,
        layout=layout,
        update=draw(batches),
        log_prob=draw(st.none() | batches),
        sharding=draw(st.sampled_from(SHARDINGS)),
        checkpointing=draw(st.sampled_from(["full", "selective", "none"])),
        flash_attention=draw(st.booleans()),
        sequence_parallel=draw(st.booleans()),
        vocab_parallel=draw(st.booleans()),
        head=draw(st.sampled_from(["vocab", "value"])),
        logit_copies=draw(st.sampled_from([1.0, 3.0])),
        chunk_tokens=draw(st.sampled_from([None, 1024])),
        optimizer_on_host=draw(st.booleans()),
        weights_on_host=draw(st.booleans()),
        lora_rank=draw(st.sampled_from([None, 16])),
        at_rest=draw(st.sampled_from(["resident", "host"])),
    )


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """An actor, its reference and engines, with GPUs of their own or shared."""
    train = draw(trainers())
    engines = Layout(dp=train.layout.gpus)
    rollout = RolloutSetup(architecture=train.architecture, layout=engines, context_tokens=draw(st.integers(1, 20_000)))
    reference = ModelSetup(architecture=train.architecture, layout=train.layout, log_prob=draw(batches))
    node = Node(worker_gib=draw(st.sampled_from([0.0, 30.0])))
    setup = Setup(train=train, rollout=rollout, reference=reference, node=node, pinned_gib=draw(st.sampled_from([0.0, 2.0])))
    return time_shared(setup) if draw(st.booleans()) else setup


def total_gib(train: TrainSetup) -> float:
    """Return GPU and host of the update together; the host is one GPU's part."""
    return sum(line.gib for line in update(train).lines if line.phase == "update")


def update(train: TrainSetup) -> MemoryBill:
    """Return the bill of an actor alone, one GPU to a node, so that GPU and host compare."""
    return bill(Setup(train=train, node=Node(gpus=1)), GPU)


def no_more(one: float, other: float) -> bool:
    """Whether one <= other, rounding aside."""
    return one <= other * (1 + ROUNDING)


def value(formula: str) -> float:
    """Compute a formula as a reader would: words aside, `x` multiplies, GiB are 2^30 bytes."""
    tokens = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?|[()+\-/]|[A-Za-z]+", formula)
    text = "".join({"x": "*", "GiB": "*2**30"}.get(token, "" if token.isalpha() else token) for token in tokens)
    return float(eval(text))


@given(setups())
def test_every_line_is_what_its_formula_says(setup: Setup) -> None:
    """A user can check each line by hand: bytes, divided by 2^30; numbers are printed with six digits."""
    lines = bill(setup, GPU).lines
    assert lines
    for line in lines:
        assert value(line.formula) / 2**30 == pytest.approx(line.gib, rel=1e-4, abs=1e-3), line


@given(setups())
def test_a_peak_is_the_largest_sum_of_a_phase(setup: Setup) -> None:
    """Nothing is added that is not a line, and every role of the GPUs counts in every phase."""
    found = bill(setup, GPU)
    assert {role for peak in found.peaks for role in peak.roles} == setup.roles.keys()
    for peak in found.peaks:
        own = [line for line in found.lines if line.role in peak.roles and line.where == "gpu"]
        totals = {phase: sum(line.gib for line in own if line.phase == phase) for phase in {line.phase for line in own}}
        assert peak.gib == pytest.approx(max(totals.values()))
        assert sum(line.gib for line in found.at(peak)) == pytest.approx(peak.gib)
        assert {line.role for line in own if line.phase == peak.phase} == set(peak.roles)


@given(trainers(), st.integers(1, 4), st.integers(0, 5000))
def test_more_sequences_or_tokens_never_need_less(train: TrainSetup, factor: int, more: int) -> None:
    """Monotone in the micro batch and in the length."""
    longer = MicroBatch(factor * train.update.sequences, train.update.tokens + more)
    assert no_more(total_gib(train), total_gib(replace(train, update=longer)))


@given(trainers(), st.integers(0, 100_000))
def test_a_larger_vocabulary_never_needs_less(train: TrainSetup, more: int) -> None:
    """Tables grow by vocab x hidden parameters each, logits by the vocabulary."""
    model = train.architecture
    extra_b = more * model.hidden * (1 if model.tied_embeddings else 2) / 1e9
    sizes = {"vocab": model.vocab + more, "params_b": model.params_b + extra_b, "active_params_b": model.active_params_b + extra_b}
    assert no_more(total_gib(train), total_gib(replace(train, architecture=model.model_copy(update=sizes))))


@given(trainers())
def test_more_sharding_never_needs_more(train: TrainSetup) -> None:
    """zero3 <= zero2 <= zero1 <= ddp, the layers that ZeRO-3 gathers included."""
    totals = [total_gib(replace(train, sharding=sharding, weights_on_host=False)) for sharding in SHARDINGS]
    assert all(no_more(more, less) for less, more in pairwise(totals))


@given(trainers(), st.sampled_from([2, 3, 8]))
def test_more_data_parallel_ranks_never_need_more_under_zero_3(train: TrainSetup, factor: int) -> None:
    """The state is divided by more, and a rank gathers at most what it lacks."""
    train = replace(train, sharding="zero3")
    wider = replace(train, layout=replace(train.layout, dp=factor * train.layout.dp))
    assert no_more(total_gib(wider), total_gib(train))


@given(trainers(), st.sampled_from([2, 4]))
def test_context_parallelism_divides_activations_and_logits(train: TrainSetup, factor: int) -> None:
    """Every rank has its part of each sequence."""
    train = replace(train, chunk_tokens=None)
    wider = replace(train, layout=replace(train.layout, cp=factor * train.layout.cp))
    stage = "last" if train.layout.pp > 1 else "whole"
    assert terms.kept_activations(wider, stage).bytes == pytest.approx(terms.kept_activations(train, stage).bytes / factor)
    assert terms.update_logits(wider, stage).bytes == pytest.approx(terms.update_logits(train, stage).bytes / factor)


@given(trainers())
def test_less_is_kept_when_more_is_recomputed(train: TrainSetup) -> None:
    """full <= selective <= none but for one layer, which recomputation holds."""
    assume(train.architecture.layers // train.layout.pp > 3)
    kept = [
        terms.kept_activations(replace(train, checkpointing=what), "first" if train.layout.pp > 1 else "whole").bytes
        for what in ("full", "selective", "none")
    ]
    assert kept == sorted(kept)


@given(trainers())
def test_what_goes_to_the_host_leaves_the_gpu(train: TrainSetup) -> None:
    """The optimizer is the same wherever it lies, and no other line changes but the reserve."""

    def lines(on_host: bool) -> dict[tuple[str, str], float]:
        found = update(replace(train, optimizer_on_host=on_host))
        return {(line.term, line.where): line.gib for line in found.lines if line.phase == "update" and line.term != "reserve"}

    here, there = lines(on_host=False), lines(on_host=True)
    assert there.pop(("optimizer", "host")) == pytest.approx(here.pop(("optimizer", "gpu")))
    assert here == there


@given(trainers())
def test_pipeline_stages_hold_the_whole_model(train: TrainSetup) -> None:
    """With every stage alike and the tables counted once each, the parts are the whole."""
    model, pp = train.architecture, 2
    assume(model.layers % pp == 0 and not model.tied_embeddings)
    plain = replace(train, layout=Layout(), sharding="ddp", lora_rank=None)
    parts = [terms.weights(replace(plain, layout=Layout(pp=pp)), stage).bytes for stage in ("first", "last")]
    assert sum(parts) == pytest.approx(terms.weights(plain, "whole").bytes)


def test_activations_of_one_layer_are_near_34_h() -> None:
    """Korthikanti et al. 2022: 34 s b h for a 4 h network with dropout. The same weights in a gated network, 8/3 h wide,
    keep 37 h without dropout; Qwen2.5-7B with its 5.3 h and 4 of 28 KV heads 55 h."""
    shape: dict[str, Any] = {"layers": 8, "vocab": 1000, "params_b": 8.0, "active_params_b": 8.0}
    classic = Architecture(name="classic", hidden=3072, heads=24, kv_heads=24, head_dim=128, intermediate=8192, **shape)
    qwen = Architecture(name="qwen", hidden=3584, heads=28, kv_heads=4, head_dim=128, intermediate=18944, **shape)
    per_h = [
        terms.layer_activations(ModelSetup(architecture=model, layout=Layout()), MicroBatch(1, 1)).bytes / model.hidden
        for model in (classic, qwen)
    ]
    assert per_h == pytest.approx([37.3, 54.9], abs=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": Layout(pp=99)}, r"layout pp must be at most the 28 layers, got 99: use fewer stages"),
        ({"layout": Layout(ep=2, dp=2)}, r"layout ep must be 1, got 2: dense has no experts"),
        ({"sharding": "zero4"}, r"sharding must be one of ddp, zero1, zero2, zero3, got zero4"),
        ({"weight_bytes": 0.0}, r"weight_bytes must be finite and above 0, got 0.0"),
        ({"logit_copies": float("nan")}, r"logit_copies must be finite and at least 0, got nan"),
        ({"at_rest": "discard"}, r"at_rest must be resident or host, got discard"),
    ],
)
def test_a_setup_out_of_range_is_refused_with_field_value_and_limit(change: dict[str, Any], message: str) -> None:
    """A wrong setup cannot exist."""
    model = Architecture(
        name="dense",
        layers=28,
        hidden=3584,
        heads=28,
        kv_heads=4,
        head_dim=128,
        intermediate=18944,
        vocab=152064,
        params_b=7.6,
        active_params_b=7.6,
    )
    with pytest.raises(ValueError, match=message):
        TrainSetup(**{"architecture": model, "layout": Layout(), "update": MicroBatch(1, 1), **change})


def test_parameters_that_contradict_the_tables_are_refused() -> None:
    """Two tables of 152064 x 3584 have 1.09e9 parameters; a model of one billion cannot have them."""
    model = Architecture(
        name="odd",
        layers=1,
        hidden=3584,
        heads=28,
        kv_heads=4,
        head_dim=128,
        intermediate=1,
        vocab=152064,
        params_b=1.0,
        active_params_b=1.0,
    )
    with pytest.raises(ValueError, match=r"params_b must exceed the 1\.09 of vocab x hidden embeddings, got 1\.0"):
        ModelSetup(architecture=model, layout=Layout())


@given(setups())
def test_sharing_needs_equal_sizes_known_roles_and_one_kind_of_gpu(setup: Setup) -> None:
    """Roles on the same GPUs are on equally many, of one kind."""
    with pytest.raises(ValueError, match="shared must name roles of the setup, got critic"):
        replace(setup, shared=(("train", "critic"),))
    with pytest.raises(ValueError, match="shared must name a role once"):
        replace(setup, shared=(("train", "rollout"), ("train",)))
    larger = replace(setup.roles["rollout"].layout, dp=setup.roles["rollout"].layout.dp + 1)
    with pytest.raises(ValueError, match="must have layouts of the same size"):
        replace(setup, shared=(("train", "rollout"),)).change("rollout", layout=larger)
    other = GPU.model_copy(update={"name": "H20"})
    with pytest.raises(ValueError, match="roles that share GPUs must be given the same"):
        bill(replace(setup, shared=(("train", "rollout"),)), {"train": GPU, "reference": GPU, "rollout": other})
