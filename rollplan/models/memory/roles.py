"""Which terms a role holds on one GPU, and on the host, while it is active or while it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from rollplan.models.accelerator import Gpu
from rollplan.models.memory import terms
from rollplan.models.memory.amount import GIB, NOTHING, Amount, gib, number
from rollplan.models.memory.kv import kv_room
from rollplan.models.memory.parameters import Stage, stages
from rollplan.models.memory.setup import ModelSetup, Role, RolloutSetup, Setup, TrainSetup

Activity = Literal["decode", "update", "forward", "sync", "rest"]
Phase = Literal[
    "decode", "log-prob", "reference log-prob", "reward scoring", "critic values", "critic update", "update", "weight sync", "at rest"
]
Term = Literal[
    "weights",
    "gathered weights",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "KV cache",
    "engine weights",
    "sync buffer",
    "reserve",
    "workers",
]
Where = Literal["gpu", "host"]
Entry = tuple[Term, Where, Amount]
"""Entries are per GPU, on the host too: the bill multiplies those by the GPUs of a node."""

ACTIVE: dict[Phase, dict[Role, Activity]] = {
    "decode": {"rollout": "decode"},
    "reward scoring": {"reward": "forward"},
    "log-prob": {"train": "forward"},
    "reference log-prob": {"reference": "forward"},
    "critic values": {"critic": "forward"},
    "critic update": {"critic": "update"},
    "update": {"train": "update"},
    "weight sync": {"train": "sync", "rollout": "sync"},
    "at rest": {},
}
"""The phases in their order within an iteration, and who does what in each; everybody else rests."""


def entries(setup: Setup, role: Role, activity: Activity, gpu: Gpu) -> list[Entry]:
    """Return what a role holds during an activity, zeros left out."""
    model = setup.roles[role]
    if isinstance(model, RolloutSetup):
        held = list(_engine(setup, model, activity, gpu))
    else:
        # Phases may have different fullest stages: each is billed on its own.
        candidates = [list(_model(setup, model, activity, stage)) for stage in stages(model.layout)]
        held = max(candidates, key=lambda listed: sum(amount.bytes for _, where, amount in listed if where == "gpu"))
    return [entry for entry in held if entry[2].bytes]


def _engine(setup: Setup, model: RolloutSetup, activity: Activity, gpu: Gpu) -> Iterator[Entry]:
    room = kv_room(model, gpu)
    awake = model.at_rest == "resident"
    if activity == "sync":
        # An engine that is awake receives in the workspace that its claim includes.
        yield "sync buffer", "gpu", NOTHING if awake else gib(setup.sync_buffer_gib, "buffer")
        yield "sync buffer", "host", gib(setup.pinned_gib, "pinned")
    if awake or activity in ("decode", "sync"):
        yield "engine weights", "gpu", room.weights
    elif model.at_rest == "host":
        yield "engine weights", "host", room.weights
    if awake or activity == "decode":
        yield "KV cache", "gpu", room.cache
    else:
        # Awake, the context lives in the share that the engine does not claim.
        yield "reserve", "gpu", gib(setup.reserve_gib, "context")


def _model(setup: Setup, model: ModelSetup, activity: Activity, stage: Stage) -> Iterator[Entry]:
    held = list(_held(setup, model, activity, stage))
    yield from held
    on_gpu = sum(amount.bytes for _, where, amount in held if where == "gpu")
    yield "reserve", "gpu", reserve(setup, on_gpu)


def _held(setup: Setup, model: ModelSetup, activity: Activity, stage: Stage) -> Iterator[Entry]:
    away = activity == "rest" and model.at_rest == "host"
    yield "weights", "host" if away or model.weights_on_host else "gpu", terms.weights(model, stage)
    if activity in ("forward", "update"):
        yield "gathered weights", "gpu", terms.gathered(model, stage)
    if isinstance(model, TrainSetup):
        # State that leaves the GPU for other roles is fetched for the update only.
        away = model.optimizer_on_host or (activity != "update" and model.at_rest == "host")
        yield "optimizer", "host" if away else "gpu", terms.optimizer(model, stage)
        if activity == "update":
            yield "gradients", "gpu", terms.gradients(model, stage)
            yield "activations", "gpu", terms.kept_activations(model, stage)
            yield "logits", "gpu", terms.update_logits(model, stage)
    if activity == "forward" and model.log_prob:
        yield "activations", "gpu", terms.layer_activations(model, model.log_prob)
        yield "logits", "gpu", terms.log_prob_logits(model, model.log_prob, stage)
    if activity == "sync":
        yield "sync buffer", "gpu", gib(setup.sync_buffer_gib, "buffer")
        yield "sync buffer", "host", gib(setup.pinned_gib, "pinned")


def reserve(setup: Setup, held_bytes: float) -> Amount:
    """Return what a training process needs beyond its terms: a fixed part, and a share of what it holds."""
    fixed = gib(setup.reserve_gib, "context")
    share = setup.reserve_fraction * held_bytes
    held = Amount(share, f"{number(setup.reserve_fraction)} x {number(held_bytes / GIB)} GiB held") if share else NOTHING
    return fixed + held


def phases(pool: Iterable[Role], setup: Setup) -> list[Phase]:
    """Return the phases in which a role of the pool is active, and `at rest`."""
    present = {role: setup.roles[role] for role in pool}
    return [
        phase
        for phase, active in ACTIVE.items()
        if not active or any(_takes_part(present.get(role), what) for role, what in active.items())
    ]


def _takes_part(model: ModelSetup | RolloutSetup | None, activity: Activity) -> bool:
    if activity == "forward":
        return isinstance(model, ModelSetup) and model.log_prob is not None
    return model is not None
