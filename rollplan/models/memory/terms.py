"""The laws of a trained or scored model: bytes per GPU of state, activations and logits, each with its formula.

Activations follow Korthikanti et al. 2022 (Reducing Activation Recomputation in Large Transformer Models, section 4),
counted again for gated feed-forward networks, grouped KV heads and no dropout. Of one layer the backward pass keeps, in
bytes per token in bf16:

    8 h                   inputs of both norms, of the attention and of the feed-forward network; every tensor rank has
                          them, unless sequence parallelism divides them
    4 q + 4 k + 8 f       queries and attention output, keys and values; gate, up, activation, product
    4 e h                 copies of a token for the e experts that it visits, out and back
    5 a s                 scores, softmax and mask of a heads over s tokens; flash attention has none

h hidden, q = heads x head_dim, k = kv_heads x head_dim, f intermediate. The paper's 34 h is the same count for a 4 h
network with dropout. ZeRO: Rajbhandari et al. 2020, section 5.
"""

from __future__ import annotations

from rollplan.models.memory.amount import NOTHING, Amount, Factor, product
from rollplan.models.memory.parameters import (
    Parameters,
    Stage,
    adapter_parameters,
    layer_parameters,
    shards,
    slices,
    stage_layers,
    stage_parameters,
    table_parameters,
)
from rollplan.models.memory.setup import SHARDINGS, MicroBatch, ModelSetup, Sharding, TrainSetup

_STREAMED_LAYERS = 2
"""Layers whose gathered weights exist at once: the one that computes and the one that is fetched ahead."""


def weights(setup: ModelSetup, stage: Stage) -> Amount:
    """Return the weights of one GPU; with LoRA the adapters, too."""
    held = _state(setup, stage_parameters(setup.architecture, setup.layout, stage), setup.weight_bytes, "zero3")
    return held + _adapters(setup, setup.weight_bytes, "zero3")


def gathered(setup: ModelSetup, stage: Stage) -> Amount:
    """Return the weights of other GPUs, or of the host, that are here while a layer computes.

    Two layers (computing and fetched ahead) and the embedding tables, which FSDP holds for the whole pass.
    """
    model, layout = setup.architecture, setup.layout
    if setup.sharding != "zero3" and not setup.weights_on_host:
        return NOTHING
    layers = min(_STREAMED_LAYERS, stage_layers(model, layout))
    layer, tables = layer_parameters(model), table_parameters(model, stage)
    total = NOTHING
    parts = ((layers * layer.dense + tables, "streamed parameters"), (layers * layer.experts, "streamed expert parameters"))
    for (count, words), ways, ranks in zip(parts, slices(layout), shards(layout), strict=True):
        absent = 1.0 if setup.weights_on_host else 1 - 1 / ranks
        part = product((count, words), (setup.weight_bytes, "bytes"), (absent, "from elsewhere"), over=[(ways, "slices")])
        total += part
    return total


def gradients(setup: TrainSetup, stage: Stage) -> Amount:
    """Return the gradients of one GPU: of all parameters, or of the adapters."""
    return _trained(setup, stage, setup.gradient_bytes, "zero2")


def optimizer(setup: TrainSetup, stage: Stage) -> Amount:
    """Return the optimizer state that belongs to one GPU, wherever it lies."""
    return _trained(setup, stage, setup.optimizer_bytes, "zero1")


def kept_activations(setup: TrainSetup, stage: Stage) -> Amount:
    """Return what the forward pass keeps for the backward pass, and what one layer needs while it is recomputed.

    Full checkpointing keeps each layer's input; selective recomputes the attention scores. One forward, one backward
    (1F1B): the first of p stages holds p micro batches, the last one.
    """
    batch, layers = setup.update, stage_layers(setup.architecture, setup.layout)
    in_flight: Factor = (setup.layout.pp if stage == "first" else 1, "micro batches in flight")
    if setup.checkpointing == "full":
        kept = product(*_tokens(batch), (2 * setup.architecture.hidden, "bytes"), over=[_cp(setup), _sequence_parallel(setup)])
        return kept.times(layers, "layers").times(*in_flight) + layer_activations(setup, batch)
    kept = _layer(setup, batch)
    if setup.checkpointing == "none":
        return (kept + _scores(setup, batch)).times(layers, "layers").times(*in_flight)
    return kept.times(layers, "layers").times(*in_flight) + _scores(setup, batch)


def layer_activations(setup: ModelSetup, batch: MicroBatch) -> Amount:
    """Return what one layer holds: the peak of a pass without gradients, and of recomputation."""
    return _layer(setup, batch) + _scores(setup, batch)


def update_logits(setup: TrainSetup, stage: Stage) -> Amount:
    """Return the logits of the loss."""
    logits = _logits(setup, setup.update, stage, setup.logit_bytes)
    return logits if setup.head == "value" else logits.times(setup.logit_copies, "copies")


def log_prob_logits(setup: ModelSetup, batch: MicroBatch, stage: Stage) -> Amount:
    """Return the logits of a pass without gradients, one copy."""
    return _logits(setup, batch, stage, setup.log_prob_logit_bytes)


def _state(setup: ModelSetup, parameters: Parameters, bytes_each: float, sharded_from: Sharding) -> Amount:
    """Return bytes per GPU of a state that ZeRO shards from the given level on."""
    sharded = SHARDINGS.index(setup.sharding) >= SHARDINGS.index(sharded_from)
    total = NOTHING
    parts = ((parameters.dense, "parameters"), (parameters.experts, "expert parameters"))
    for (count, words), ways, ranks in zip(parts, slices(setup.layout), shards(setup.layout), strict=True):
        over = [(ways, "slices"), (ranks if sharded else 1, "shards")]
        total += product((count, words), (bytes_each, "bytes"), over=over)
    return total


def _adapters(setup: ModelSetup, bytes_each: float, sharded_from: Sharding) -> Amount:
    if not isinstance(setup, TrainSetup) or setup.lora_rank is None:
        return NOTHING
    return _state(setup, adapter_parameters(setup.architecture, setup.layout, setup.lora_rank), bytes_each, sharded_from)


def _trained(setup: TrainSetup, stage: Stage, bytes_each: float, sharded_from: Sharding) -> Amount:
    if setup.lora_rank is not None:
        return _adapters(setup, bytes_each, sharded_from)
    return _state(setup, stage_parameters(setup.architecture, setup.layout, stage), bytes_each, sharded_from)


def _layer(setup: ModelSetup, batch: MicroBatch) -> Amount:
    """Return what the backward pass keeps of one layer, attention scores apart."""
    model = setup.architecture
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    inner = 4 * query + 4 * key + 8 * model.intermediate + 4 * model.experts_per_token * model.hidden
    inputs = product(*_tokens(batch), (8 * model.hidden, "bytes"), over=[_cp(setup), _sequence_parallel(setup)])
    return inputs + product(*_tokens(batch), (inner, "bytes"), over=[_cp(setup), _tp(setup)])


def _scores(setup: ModelSetup, batch: MicroBatch) -> Amount:
    if setup.flash_attention:
        return NOTHING
    scores = (*_tokens(batch), (batch.tokens, "tokens"), (setup.architecture.heads, "heads"), (5, "bytes"))
    return product(*scores, over=[_cp(setup), _tp(setup)])


def _logits(setup: ModelSetup, batch: MicroBatch, stage: Stage, bytes_each: float) -> Amount:
    if stage == "first":
        return NOTHING
    if setup.head == "value":
        return product(*_tokens(batch), (bytes_each, "bytes per value"), over=[_cp(setup)])
    vocabulary = ((setup.architecture.vocab, "vocabulary"), (bytes_each, "bytes"))
    over = [_tp(setup)] if setup.vocab_parallel else []
    if setup.chunk_tokens is not None and setup.chunk_tokens < batch.sequences * batch.tokens / setup.layout.cp:
        return product((setup.chunk_tokens, "tokens of a chunk"), *vocabulary, over=over)
    return product(*_tokens(batch), *vocabulary, over=[_cp(setup), *over])


def _tokens(batch: MicroBatch) -> tuple[Factor, Factor]:
    return (batch.sequences, "sequences"), (batch.tokens, "tokens")


def _cp(setup: ModelSetup) -> Factor:
    return setup.layout.cp, "context ranks"


def _tp(setup: ModelSetup) -> Factor:
    return setup.layout.tp, "tensor ranks"


def _sequence_parallel(setup: ModelSetup) -> Factor:
    return setup.layout.tp if setup.sequence_parallel else 1, "tensor ranks"
