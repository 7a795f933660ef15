"""How many sequences fit into the KV cache of one inference instance.

    cap = floor((utilization * memory * GPUs - weights) / (context * kv_bytes_per_token))

GPUs of the instance, weights of all of them, StreamRL's batch limit (Zhong et al. 2025, not printed there). A GPU holds
at least one KV head: tensor parallelism beyond the KV heads repeats them. Uneven pipeline stages count as the longest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from rollplan.models.accelerator import Gpu
from rollplan.models.errors import InfeasibleError
from rollplan.models.memory.amount import GIB, Amount, gib, number, product
from rollplan.models.memory.parameters import slices, stage_layers, stage_parameters, stages
from rollplan.models.memory.setup import RolloutSetup


@dataclass(frozen=True, slots=True)
class KvRoom:
    """One instance: engine weights and KV cache of its fullest GPU, and the sequences that the instance holds.

    token_bytes: keys and values of one token on all its GPUs together, repeated heads counted.
    """

    weights: Amount
    cache: Amount
    token_bytes: float
    tokens: int
    sequences: int


def kv_room(setup: RolloutSetup, gpu: Gpu) -> KvRoom:
    """Return the room for KV cache; no cache and 0 sequences if the weights take all that the engine claims."""
    model, layout = setup.architecture, setup.layout
    weights = engine_weights(setup)
    claimed = gib(gpu.memory_gib, "").times(setup.gpu_memory_utilization, "claimed")
    free = max(0.0, claimed.bytes - weights.bytes)
    repeats = max(1.0, layout.tp / model.kv_heads)
    padding = stage_layers(model, layout) * layout.pp / model.layers
    token_bytes = model.kv_bytes_per_token * setup.kv_bytes / 2 * repeats * padding
    room = free * layout.gpus_per_copy / token_bytes
    cache = Amount(free, f"{claimed.formula} - {number(weights.gib)} GiB engine weights" if free else "0")
    return KvRoom(weights, cache, token_bytes, floor(room), floor(room / setup.context_tokens))


def kv_cap(setup: RolloutSetup, gpu: Gpu) -> int:
    """Return how many sequences of full context one instance holds, at least 1.

    Raises `InfeasibleError` if it holds none; the reason says what would make one fit.
    """
    if problem := kv_obstacle(setup, gpu):
        raise InfeasibleError([problem])
    return kv_room(setup, gpu).sequences


def kv_obstacle(setup: RolloutSetup, gpu: Gpu) -> str | None:
    """Return why not one sequence fits and what would make it fit; None if one does."""
    room = kv_room(setup, gpu)
    if room.sequences:
        return None
    why = (
        f"rollout: {setup.gpu_memory_utilization:g} x {gpu.memory_gib:.4g} GiB of {gpu.name} do not hold"
        f" {room.weights.gib:.1f} GiB of weights and {setup.context_tokens * room.token_bytes / setup.layout.gpus_per_copy / GIB:.1f} GiB"
        f" for one sequence of {setup.context_tokens} tokens"
    )
    ways = [f"a context of at most {room.tokens} tokens"] if room.tokens else []
    for tp in (setup.layout.tp * 2**power for power in range(1, 11)):
        wider = replace(setup, layout=replace(setup.layout, tp=tp))
        if setup.architecture.heads % tp == 0 and (sequences := kv_room(wider, gpu).sequences):
            ways.append(f"tp {tp} ({sequences} sequences)")
            break
    return f"{why}; {' or '.join(ways)} would fit" if ways else why


def engine_weights(setup: RolloutSetup) -> Amount:
    """Return the weights on the fullest GPU of an instance; inference repeats them over context and data ranks."""
    dense_ways, expert_ways = slices(setup.layout)
    held = [stage_parameters(setup.architecture, setup.layout, stage) for stage in stages(setup.layout)]
    fullest = max(held, key=lambda parameters: parameters.dense)
    dense = product((fullest.dense, "parameters"), (setup.weight_bytes, "bytes"), over=[(dense_ways, "slices")])
    experts = product((fullest.experts, "expert parameters"), (setup.weight_bytes, "bytes"), over=[(expert_ways, "slices")])
    return dense + experts
