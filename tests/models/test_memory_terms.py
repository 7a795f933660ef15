"""The terms of the memory bill on small numbers, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout
from rollplan.models.memory import terms
from rollplan.models.memory.bill import bill
from rollplan.models.memory.kv import engine_weights, kv_room
from rollplan.models.memory.parameters import Parameters, adapter_parameters, stage_parameters
from rollplan.models.memory.setup import MicroBatch, ModelSetup, Node, RolloutSetup, Setup, TrainSetup

GPU = Gpu(name="H100", memory_gib=80.0, peak_tflops=989.0, memory_tb_s=3.35, link_gb_s=450.0)
# 5 layers of 16,000 parameters and two tables of 1,000 x 20.
DENSE = Architecture(
    name="dense",
    layers=5,
    hidden=20,
    heads=4,
    kv_heads=2,
    head_dim=5,
    intermediate=50,
    vocab=1000,
    params_b=1.2e-4,
    active_params_b=1.2e-4,
)
# The same with 8 experts of 10,000 parameters in each layer.
EXPERTS = DENSE.model_copy(
    update={"experts": 8, "experts_per_token": 2, "expert_params_b": 4e-4, "params_b": 5.2e-4, "active_params_b": 2e-4}
)
BATCH = MicroBatch(sequences=3, tokens=70)


def actor(**rest: Any) -> TrainSetup:
    """Return an actor of which nothing is sharded."""
    return TrainSetup(**{"architecture": DENSE, "layout": Layout(), "update": BATCH, "sharding": "ddp", **rest})


def test_the_first_and_the_last_stage_hold_a_table_each_and_one_layer_more_if_they_are_uneven() -> None:
    """5 layers on 2 stages: 3 x 16,000 + 20,000; tied tables exist on both stages."""
    for stage in ("first", "last"):
        assert stage_parameters(DENSE, Layout(pp=2), stage) == Parameters(68_000.0)
    assert stage_parameters(DENSE, Layout(), "whole") == Parameters(120_000.0)
    tied = DENSE.model_copy(update={"tied_embeddings": True, "params_b": 1e-4})
    assert stage_parameters(tied, Layout(pp=2), "last") == Parameters(68_000.0)


@pytest.mark.parametrize(
    ("layout", "weights"),
    [
        (Layout(tp=2, dp=4), 2 * (120_000 + 400_000) / 2),
        (Layout(tp=2, ep=4, dp=4), 2 * (120_000 / 2 + 400_000 / 4)),
        (Layout(tp=4, ep=2), 2 * (120_000 + 400_000) / 4),
    ],
)
def test_expert_parallelism_divides_experts_and_nothing_else(layout: Layout, weights: float) -> None:
    """Experts are whole on their rank if there are as many expert as tensor ranks; fewer slice them further."""
    assert terms.weights(actor(architecture=EXPERTS, layout=layout), "whole").bytes == pytest.approx(weights)
    engines = RolloutSetup(architecture=EXPERTS, layout=layout, context_tokens=1)
    assert engine_weights(engines).bytes == pytest.approx(weights)


def test_zero_divides_state_by_the_ranks_that_hold_the_same() -> None:
    """8 GPUs, tp 2: 4 ranks hold the same dense slice, 2 the same expert with ep 4; ZeRO-3 leaves an eighth of each."""
    layout = Layout(tp=2, ep=4, cp=2, dp=2)
    sharded = actor(architecture=EXPERTS, layout=layout, sharding="zero3")
    assert terms.optimizer(sharded, "whole").bytes == pytest.approx(12 * 520_000 / 8)
    assert terms.weights(sharded, "whole").bytes == pytest.approx(2 * 520_000 / 8)


@pytest.mark.parametrize(("sharding", "state"), [("ddp", 16.0), ("zero1", 4 + 12 / 4), ("zero2", 2 + 14 / 4), ("zero3", 16 / 4)])
def test_bytes_per_parameter_of_zero(sharding: str, state: float) -> None:
    """Rajbhandari et al. 2020, Figure 1, on 4 ranks: 16, 4 + 12/4, 2 + 14/4, 16/4."""
    setup = actor(layout=Layout(dp=4), sharding=sharding)
    held = terms.weights(setup, "whole").bytes + terms.gradients(setup, "whole").bytes + terms.optimizer(setup, "whole").bytes
    assert held / 120_000 == pytest.approx(state)


def test_zero_3_gathers_two_layers_and_the_tables_that_are_elsewhere() -> None:
    """(2 x 16,000 + 40,000) x 2 bytes, of which 3/4 come from the other 3 ranks; from the host, all of it."""
    setup = actor(layout=Layout(dp=4), sharding="zero3")
    assert terms.gathered(setup, "whole").bytes == pytest.approx(72_000 * 2 * 3 / 4)
    assert terms.gathered(replace(setup, weights_on_host=True), "whole").bytes == pytest.approx(72_000 * 2)
    assert terms.gathered(replace(setup, sharding="zero2"), "whole").bytes == 0


def test_activations_by_hand() -> None:
    """210 tokens, tp 2, in bytes per token: 8 h = 160, 4 q + 4 k + 8 f = 80 + 40 + 400; scores 5 x 4 heads x 70 tokens."""
    tokens, scores = 210, 5 * 4 * 70 / 2
    setup = actor(layout=Layout(tp=2), checkpointing="none", sequence_parallel=False)
    assert terms.kept_activations(setup, "whole").bytes == tokens * 5 * (160 + 520 / 2)
    assert terms.kept_activations(replace(setup, sequence_parallel=True), "whole").bytes == tokens * 5 * 680 / 2
    eager = replace(setup, flash_attention=False)
    assert terms.kept_activations(eager, "whole").bytes == tokens * 5 * (160 + 520 / 2 + scores)
    assert terms.kept_activations(replace(eager, checkpointing="selective"), "whole").bytes == tokens * (5 * 420 + scores)
    assert terms.kept_activations(replace(eager, checkpointing="full"), "whole").bytes == tokens * (5 * 40 + 420 + scores)


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages_and_the_last_has_the_logits() -> None:
    """1F1B (Narayanan et al. 2021): 3 layers x 2 micro batches at the start, 3 x 1 at the end."""
    setup = actor(layout=Layout(pp=2), checkpointing="none")
    first, last = (terms.kept_activations(setup, stage).bytes for stage in ("first", "last"))
    assert (first, last) == (210 * 3 * 680 * 2, 210 * 3 * 680)
    assert terms.update_logits(setup, "first").bytes == 0
    assert terms.update_logits(setup, "last").bytes == 210 * 1000 * 4


def test_logits_by_hand() -> None:
    """Copies multiply, the vocabulary is divided over tensor ranks or not, chunks bound the tokens, a critic has values."""
    setup = actor(layout=Layout(tp=2, cp=3), logit_copies=4)
    assert terms.update_logits(setup, "whole").bytes == 70 * 1000 * 4 / 2 * 4
    assert terms.update_logits(replace(setup, vocab_parallel=False), "whole").bytes == 70 * 1000 * 4 * 4
    assert terms.update_logits(replace(setup, chunk_tokens=7), "whole").bytes == 7 * 1000 * 4 / 2 * 4
    assert terms.update_logits(replace(setup, chunk_tokens=71), "whole").bytes == 70 * 1000 * 4 / 2 * 4
    assert terms.update_logits(replace(setup, head="value"), "whole").bytes == 70 * 4
    assert terms.log_prob_logits(replace(setup, log_prob_logit_bytes=2), MicroBatch(1, 9), "whole").bytes == 3 * 1000 * 2 / 2


def test_lora_trains_rank_times_inputs_plus_outputs() -> None:
    """Four attention matrices, q = 20 and k = 10 wide, three of the network; experts get none. The base is only read."""
    attention, network = (20 + 20) + (20 + 10) + (20 + 10) + (20 + 20), 3 * (20 + 50)
    assert adapter_parameters(DENSE, Layout(), 4) == Parameters(5.0 * 4 * (attention + network))
    assert adapter_parameters(EXPERTS, Layout(), 4) == Parameters(5.0 * 4 * attention)
    setup, adapters = actor(lora_rank=4), 5 * 4 * (attention + network)
    assert terms.weights(setup, "whole").bytes == 2 * (120_000 + adapters)
    assert terms.gradients(setup, "whole").bytes + terms.optimizer(setup, "whole").bytes == 14 * adapters


def test_uneven_stages_of_an_engine_count_as_the_longest() -> None:
    """5 layers on 2 stages: one GPU keeps 3 of them, so a token costs 6/5 of its bytes."""
    even, uneven = (kv_room(RolloutSetup(architecture=DENSE, layout=Layout(pp=pp), context_tokens=1), GPU) for pp in (1, 2))
    assert uneven.token_bytes == pytest.approx(even.token_bytes * 6 / 5)


def test_pools_that_share_a_small_node_add_up_on_its_host() -> None:
    """4 + 4 GPUs on a node of 8 are one host; on nodes of 4 they are two."""
    train = actor(layout=Layout(dp=4))
    setup = Setup(train=train, reference=ModelSetup(architecture=DENSE, layout=Layout(dp=4)), node=Node(gpus=8, worker_gib=30.0))
    assert [peak.gib for peak in bill(setup, GPU).host_peaks] == [pytest.approx(240.0)]
    apart = replace(setup, node=Node(gpus=4, worker_gib=30.0))
    assert [peak.gib for peak in bill(apart, GPU).host_peaks] == [pytest.approx(120.0)] * 2
