"""Single changes of a setup that save memory, from the one that costs the user least to the one that costs most.

Within a kind the weakest comes first and each later one saves at least as much. Only an engine that claims less of the
GPU may claim too little for one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rollplan.models.layout import Layout, divisors, obstacle
from rollplan.models.memory.setup import SHARDINGS, MicroBatch, ModelSetup, Role, RolloutSetup, Setup, TrainSetup

CHUNK_TOKENS = 1024
LORA_RANK = 32
_CONTEXT_STEP, _MOST_STEPS = 256, 512
_UTILIZATION_MAX, _UTILIZATION_MIN, _UTILIZATION_STEP = 0.95, 0.2, 0.05
_POWERS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Change:
    """What to do, in words, and the setup afterwards."""

    words: str
    setup: Setup


Kind = Callable[[Setup, Role], Iterator[Change]]
"""All changes of one kind to one role. What concerns a whole pool comes with its first role, what concerns all with any."""


def smaller_update(setup: Setup, role: Role) -> Iterator[Change]:
    """Fewer sequences per micro batch of the update: more steps of gradient accumulation."""
    model = setup.roles[role]
    if isinstance(model, TrainSetup):
        for fewer in _fewer(model.update):
            words = f"{role}: update.sequences {fewer.sequences} instead of {model.update.sequences}"
            yield Change(words, setup.change(role, update=fewer))


def smaller_log_prob(setup: Setup, role: Role) -> Iterator[Change]:
    """Fewer sequences per micro batch of the log-prob pass."""
    model = setup.roles[role]
    if isinstance(model, ModelSetup) and model.log_prob:
        for fewer in _fewer(model.log_prob):
            words = f"{role}: log_prob.sequences {fewer.sequences} instead of {model.log_prob.sequences}"
            yield Change(words, setup.change(role, log_prob=fewer))


def chunked_logits(setup: Setup, role: Role) -> Iterator[Change]:
    """A fused or chunked loss: needs support of the framework."""
    model = setup.roles[role]
    if isinstance(model, ModelSetup) and model.head == "vocab" and model.chunk_tokens is None:
        yield Change(f"{role}: logits in chunks of {CHUNK_TOKENS} tokens", setup.change(role, chunk_tokens=CHUNK_TOKENS))


def checkpointing(setup: Setup, role: Role) -> Iterator[Change]:
    """Recompute activations: up to one more forward pass per update."""
    model = setup.roles[role]
    if isinstance(model, TrainSetup):
        if model.checkpointing == "none" and not model.flash_attention:
            yield Change(f"{role}: selective activation checkpointing", setup.change(role, checkpointing="selective"))
        if model.checkpointing != "full":
            yield Change(f"{role}: full activation checkpointing", setup.change(role, checkpointing="full"))


def more_utilization(setup: Setup, role: Role) -> Iterator[Change]:
    """Let the engine claim more of the GPU: a thinner margin."""
    yield from _utilizations(setup, role, +1)


def less_utilization(setup: Setup, role: Role) -> Iterator[Change]:
    """Let the engine claim less of the GPU: fewer sequences at once."""
    yield from _utilizations(setup, role, -1)


def leave_at_rest(setup: Setup, role: Role) -> Iterator[Change]:
    """Leave shared GPUs in the phases of others: a switch costs time and host memory."""
    pool = next(pool for pool in setup.pools if role in pool)
    model = setup.roles[role]
    if len(pool) > 1 and model.at_rest == "resident":
        if isinstance(model, RolloutSetup):
            yield Change("rollout: the engine sleeps while others work", setup.change(role, at_rest="discard"))
        else:
            yield Change(f"{role}: state moves to the host while others work", setup.change(role, at_rest="host"))


def more_sharding(setup: Setup, role: Role) -> Iterator[Change]:
    """Shard more of the state: more communication."""
    model = setup.roles[role]
    if isinstance(model, ModelSetup):
        levels = SHARDINGS[1:] if isinstance(model, TrainSetup) else SHARDINGS[-1:]
        for level in levels:
            if SHARDINGS.index(level) > SHARDINGS.index(model.sharding):
                yield Change(f"{role}: sharding {level} instead of {model.sharding}", setup.change(role, sharding=level))


def context_parallel(setup: Setup, role: Role) -> Iterator[Change]:
    """Divide sequences over GPUs that data parallelism had before."""
    if isinstance(setup.roles[role], ModelSetup):
        yield from _wider(setup, role, "cp", added=False)


def tensor_parallel(setup: Setup, role: Role) -> Iterator[Change]:
    """Divide layers over GPUs of a node that data parallelism had before."""
    yield from _wider(setup, role, "tp", added=False)


def optimizer_on_host(setup: Setup, role: Role) -> Iterator[Change]:
    """Keep and update the optimizer on the host: a slower update."""
    model = setup.roles[role]
    if isinstance(model, TrainSetup) and not model.optimizer_on_host:
        yield Change(f"{role}: optimizer on the host", setup.change(role, optimizer_on_host=True))


def state_on_host(setup: Setup, role: Role) -> Iterator[Change]:
    """Stream weights from the host, too: every pass waits for the link."""
    model = setup.roles[role]
    if isinstance(model, ModelSetup) and not model.weights_on_host:
        values: dict[str, Any] = {"weights_on_host": True}
        if isinstance(model, TrainSetup):
            values["optimizer_on_host"] = True
        yield Change(f"{role}: weights{' and optimizer' if len(values) > 1 else ''} on the host", setup.change(role, **values))


def more_gpus(setup: Setup, role: Role) -> Iterator[Change]:
    """More data parallel ranks, for all roles of a pool alike: up to 8 times as many GPUs, or 64."""
    pool = next(pool for pool in setup.pools if role in pool)
    if role != pool[0]:
        return
    layouts = {member: setup.roles[member].layout for member in pool}
    now = layouts[role].gpus
    for gpus in range(now + 1, max(8 * now, 64) + 1):
        if any(gpus % layout.gpus_per_copy for layout in layouts.values()):
            continue
        changed: dict[str, Any] = {}
        for member, layout in layouts.items():
            dp = gpus // layout.gpus_per_copy
            if (layout.tp * layout.cp * dp) % layout.ep:
                break
            changed[member] = replace(setup.roles[member], layout=replace(layout, dp=dp))
        else:
            yield Change(f"{' + '.join(pool)}: {gpus} GPUs instead of {now}", replace(setup, **changed))


def context_parallel_on_more(setup: Setup, role: Role) -> Iterator[Change]:
    """Divide sequences over added GPUs."""
    if isinstance(setup.roles[role], ModelSetup):
        yield from _wider(setup, role, "cp", added=True)


def tensor_parallel_on_more(setup: Setup, role: Role) -> Iterator[Change]:
    """Divide layers over added GPUs of a node."""
    yield from _wider(setup, role, "tp", added=True)


def shorter_sequences(setup: Setup, role: Role) -> Iterator[Change]:
    """Cut prompt plus response, in rollout and training alike: changes what is learnt."""
    longest = max(_longest(model) for model in setup.roles.values())
    step = -(-longest // (_CONTEXT_STEP * _MOST_STEPS)) * _CONTEXT_STEP
    for tokens in range((longest - 1) // step * step, 0, -step):
        changed: dict[str, Any] = {name: _cut(model, tokens) for name, model in setup.roles.items()}
        yield Change(f"sequences of at most {tokens} instead of {longest} tokens", replace(setup, **changed))


def lora(setup: Setup, role: Role) -> Iterator[Change]:
    """Train adapters only: changes what is learnt."""
    model = setup.roles[role]
    if isinstance(model, TrainSetup) and model.lora_rank is None:
        yield Change(f"{role}: LoRA of rank {LORA_RANK}", setup.change(role, lora_rank=LORA_RANK))


KINDS: tuple[Kind, ...] = (
    smaller_update,
    smaller_log_prob,
    chunked_logits,
    checkpointing,
    more_utilization,
    less_utilization,
    leave_at_rest,
    more_sharding,
    context_parallel,
    tensor_parallel,
    optimizer_on_host,
    state_on_host,
    more_gpus,
    context_parallel_on_more,
    tensor_parallel_on_more,
    shorter_sequences,
    lora,
)
"""In the order of cost: settings, layout of the same GPUs, host, more GPUs, another training."""


def _fewer(batch: MicroBatch) -> Iterator[MicroBatch]:
    """Yield the batches that divide this one, largest first, so that the global batch stays whole."""
    for sequences in reversed(divisors(batch.sequences)[:-1]):
        yield replace(batch, sequences=sequences)


def _utilizations(setup: Setup, role: Role, sign: int) -> Iterator[Change]:
    model = setup.roles[role]
    if not isinstance(model, RolloutSetup):
        return
    now = model.gpu_memory_utilization
    for step in range(1, 20):
        value = round(now + sign * step * _UTILIZATION_STEP, 2)
        if not _UTILIZATION_MIN <= value <= _UTILIZATION_MAX:
            break
        yield Change(f"rollout: gpu_memory_utilization {value:g} instead of {now:g}", setup.change(role, gpu_memory_utilization=value))


def _wider(setup: Setup, role: Role, degree: str, added: bool) -> Iterator[Change]:
    """Multiply a degree by powers of two: of the same GPUs where dp divides, or of added ones where the role has its own."""
    layout = setup.roles[role].layout
    now = getattr(layout, degree)
    if added and (role,) not in setup.pools:
        return
    for factor in _POWERS:
        dp = layout.dp if added else layout.dp // factor
        degrees = {name: getattr(layout, name) for name in ("tp", "pp", "cp", "ep")} | {degree: now * factor, "dp": dp}
        if (layout.dp % factor and not added) or (degrees["tp"] * degrees["cp"] * dp) % layout.ep:
            continue
        wider = Layout(**degrees)
        if obstacle(setup.roles[role].architecture, wider, setup.node.gpus) is None:
            cost = f" ({wider.gpus} GPUs instead of {layout.gpus})" if added else ""
            yield Change(f"{role}: {degree} {now * factor} instead of {now}{cost}", setup.change(role, layout=wider))


def _longest(model: ModelSetup | RolloutSetup) -> int:
    if isinstance(model, RolloutSetup):
        return model.context_tokens
    batches = (model.log_prob, model.update) if isinstance(model, TrainSetup) else (model.log_prob,)
    return max((batch.tokens for batch in batches if batch), default=0)


def _cut(model: ModelSetup | RolloutSetup, tokens: int) -> ModelSetup | RolloutSetup:
    if isinstance(model, RolloutSetup):
        return replace(model, context_tokens=min(tokens, model.context_tokens))
    log_prob = _cut_batch(model.log_prob, tokens) if model.log_prob else None
    if isinstance(model, TrainSetup):
        return replace(model, log_prob=log_prob, update=_cut_batch(model.update, tokens))
    return replace(model, log_prob=log_prob)


def _cut_batch(batch: MicroBatch, tokens: int) -> MicroBatch:
    return replace(batch, tokens=min(tokens, batch.tokens))
