"""What the memory bill is asked about: the models of a job, their layouts, and who shares GPUs with whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, get_args

from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout

Role = Literal["rollout", "train", "reference", "critic", "reward"]
Sharding = Literal["ddp", "zero1", "zero2", "zero3"]
Checkpointing = Literal["full", "selective", "none"]
Head = Literal["vocab", "value"]
Rest = Literal["resident", "host", "discard"]

SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
"""From nothing to everything sharded."""
ROLES: tuple[Role, ...] = get_args(Role)


def _check_stages(architecture: Architecture, layout: Layout) -> None:
    if layout.pp > architecture.layers:
        raise ValueError(f"layout pp must be at most the {architecture.layers} layers, got {layout.pp}: use fewer stages")
    if layout.ep > 1 and not architecture.moe:
        raise ValueError(f"layout ep must be 1, got {layout.ep}: {architecture.name} has no experts")
    tables_b = architecture.vocab * architecture.hidden * (1 if architecture.tied_embeddings else 2) / 1e9
    if tables_b >= architecture.params_b - architecture.expert_params_b:
        raise ValueError(
            f"params_b must exceed the {tables_b:.3g} of vocab x hidden embeddings, got {architecture.params_b}"
            " (experts included): correct vocab, hidden or tied_embeddings"
        )


def _check_bytes(setup: Any, *names: str) -> None:
    for name in names:
        if not (isfinite(getattr(setup, name)) and getattr(setup, name) > 0):
            raise ValueError(f"{name} must be finite and above 0, got {getattr(setup, name)}: bf16 has 2 bytes, fp32 4, fp8 1")


def _at_least(least: float, name: str, value: float, remedy: str) -> None:
    if not (isfinite(value) and value >= least):
        raise ValueError(f"{name} must be finite and at least {least}, got {value}: {remedy}")


def _choice(name: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value}")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one copy of the model (tp x pp x cp GPUs) takes at once: sequences, and tokens of each (prompt and response).

    Packed sequences without padding are one sequence of `tokens per GPU x cp` tokens.
    """

    sequences: int
    tokens: int

    def __post_init__(self) -> None:
        """Refuse empty batches."""
        for name in ("sequences", "tokens"):
            _at_least(1, name, getattr(self, name), "give what one forward pass takes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetup:
    """A model that is only read: reference, reward.

    layout: all its GPUs. log_prob: its forward pass without gradients; None if there is none. sharding: `ddp` keeps
    every copy whole; `zero1` shards the optimizer over data and context parallel ranks (Megatron's distributed
    optimizer), `zero2` the gradients too, `zero3` the weights too (FSDP). head: logits over the vocabulary or one
    value per token. chunk_tokens: logits exist for so many tokens at once (fused or chunked loss). vocab_parallel:
    tensor ranks hold a part of the vocabulary each. weights_on_host: weights stream in layer by layer (FSDP's CPU
    offload). at_rest: where state waits in the phases of other roles on the same GPUs.
    """

    architecture: Architecture
    layout: Layout
    log_prob: MicroBatch | None = None
    sharding: Sharding = "zero3"
    weight_bytes: float = 2.0
    log_prob_logit_bytes: float = 4.0
    chunk_tokens: int | None = None
    head: Head = "vocab"
    vocab_parallel: bool = True
    sequence_parallel: bool = True
    flash_attention: bool = True
    weights_on_host: bool = False
    at_rest: Rest = "resident"

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        _check_bytes(self, "weight_bytes", "log_prob_logit_bytes")
        _choice("sharding", self.sharding, Sharding)
        _choice("head", self.head, Head)
        if self.at_rest not in ("resident", "host"):
            raise ValueError(f"at_rest must be resident or host, got {self.at_rest}: only an engine can fetch its weights again")
        if self.chunk_tokens is not None:
            _at_least(1, "chunk_tokens", self.chunk_tokens, "leave it out for whole logits")
        _check_stages(self.architecture, self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSetup(ModelSetup):
    """A model that is trained: actor, critic (`head="value"`).

    update: one forward and backward pass. Bytes per parameter: bf16 weights 2, gradients 2 (4 in fp32), optimizer 12
    (Adam's two moments and the master weights in fp32); together 16. logit_copies: copies of the fp32 logits alive at
    the peak of the loss; 1 is the least, losses in plain PyTorch hold 3 to 4 (logits, softmax, gradient). lora_rank:
    the base is frozen, adapters of this rank are trained.
    """

    update: MicroBatch
    gradient_bytes: float = 2.0
    optimizer_bytes: float = 12.0
    checkpointing: Checkpointing = "full"
    logit_bytes: float = 4.0
    logit_copies: float = 1.0
    optimizer_on_host: bool = False
    lora_rank: int | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        # `super()` without arguments does not work in dataclasses with slots.
        ModelSetup.__post_init__(self)
        _check_bytes(self, "gradient_bytes", "logit_bytes")
        _at_least(0, "optimizer_bytes", self.optimizer_bytes, "Adam with fp32 master weights has 12")
        _at_least(0, "logit_copies", self.logit_copies, "1 is the least of an unfused loss")
        _choice("checkpointing", self.checkpointing, Checkpointing)
        if self.lora_rank is not None:
            _at_least(1, "lora_rank", self.lora_rank, "leave it out to train all parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSetup:
    """Inference engines: one instance on tp x pp x cp GPUs, dp instances.

    context_tokens: prompt and response of the longest sequence. gpu_memory_utilization: share of the GPU that an engine
    claims for weights and KV cache. at_rest: an engine that sleeps gives up its cache and moves its weights to the
    `host`, or `discard`s them because the next sync brings new ones; one that does not stays `resident`.
    """

    architecture: Architecture
    layout: Layout
    context_tokens: int
    gpu_memory_utilization: float = 0.9
    weight_bytes: float = 2.0
    kv_bytes: float = 2.0
    at_rest: Rest = "resident"

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        _at_least(1, "context_tokens", self.context_tokens, "give prompt plus response")
        _check_bytes(self, "weight_bytes", "kv_bytes")
        _choice("at_rest", self.at_rest, Rest)
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, got {self.gpu_memory_utilization}: 0.9 is usual")
        _check_stages(self.architecture, self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host. memory_gib: None if it is not known. worker_gib: what one worker process needs; one per GPU in use."""

    gpus: int = 8
    memory_gib: float | None = None
    worker_gib: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        _at_least(1, "gpus", self.gpus, "a node of a pool has GPUs")
        _at_least(0, "worker_gib", self.worker_gib, "give GiB of host memory")
        if self.memory_gib is not None:
            _at_least(0, "memory_gib", self.memory_gib, "leave it out if it is not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The models of one job and their places.

    shared: groups of roles that take turns on the same GPUs; a role in no group has its own. Reserve of a training
    process: reserve_gib (CUDA context, communication buffers) and reserve_fraction of what it holds (fragmentation).
    sync_buffer_gib: per GPU on either side of a weight sync; pinned_gib: the same on the host.
    Raises `ValueError` if there is no role, or if roles that share have layouts of different sizes.
    """

    rollout: RolloutSetup | None = None
    train: TrainSetup | None = None
    reference: ModelSetup | None = None
    critic: TrainSetup | None = None
    reward: ModelSetup | None = None
    shared: tuple[tuple[Role, ...], ...] = ()
    node: Node = Node()
    reserve_gib: float = 2.0
    reserve_fraction: float = 0.05
    sync_buffer_gib: float = 1.0
    pinned_gib: float = 0.0

    def __post_init__(self) -> None:
        """Refuse unknown or repeated roles, and layouts that cannot share."""
        for name in ("reserve_gib", "reserve_fraction", "sync_buffer_gib", "pinned_gib"):
            _at_least(0, name, getattr(self, name), "0 leaves it out")
        if not self.roles:
            raise ValueError(f"a setup needs a role, got none: give one of {', '.join(ROLES)}")
        for name in ("reference", "reward"):
            if isinstance(getattr(self, name), TrainSetup):
                raise ValueError(f"{name} must be a ModelSetup, got a TrainSetup: it is never updated")
        sharing = [role for group in self.shared for role in group]
        if absent := sorted(set(sharing) - self.roles.keys()):
            raise ValueError(f"shared must name roles of the setup, got {', '.join(absent)}: the roles are {', '.join(self.roles)}")
        if len(set(sharing)) < len(sharing):
            raise ValueError(f"shared must name a role once, got {', '.join(sharing)}: a role has one set of GPUs")
        for group in self.shared:
            if len({self.roles[role].layout.gpus for role in group}) > 1:
                sizes = ", ".join(f"{role} {self.roles[role].layout.gpus}" for role in group)
                raise ValueError(f"roles that share GPUs must have layouts of the same size, got {sizes}: change dp")

    @property
    def roles(self) -> Mapping[Role, ModelSetup | RolloutSetup]:
        """The roles there are, in the order of `ROLES`."""
        return {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}

    @property
    def pools(self) -> tuple[tuple[Role, ...], ...]:
        """Roles by the GPUs they lie on, in the order of `ROLES`; those of one pool take turns."""
        groups = {role: group for group in self.shared for role in group}
        pools = [tuple(other for other in self.roles if other in groups.get(role, (role,))) for role in self.roles]
        return tuple(dict.fromkeys(pools))

    @property
    def gpus(self) -> int:
        """GPUs of all pools together."""
        return sum(self.roles[pool[0]].layout.gpus for pool in self.pools)

    def change(self, role: Role, **values: Any) -> Setup:
        """Return a setup in which fields of one role are replaced; raise `ValueError` if the new values are refused."""
        changed: dict[str, Any] = {role: replace(self.roles[role], **values)}
        return replace(self, **changed)


def time_shared(setup: Setup) -> Setup:
    """Return the setup with all roles on the same GPUs, each leaving them in the phases of the others.

    Models move to the host, engines discard what the next sync brings.
    """
    resting: dict[str, Any] = {
        role: replace(model, at_rest="discard" if role == "rollout" else "host") for role, model in setup.roles.items()
    }
    return replace(setup, **resting, shared=(tuple(setup.roles),))
