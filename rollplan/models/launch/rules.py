"""What frameworks or arithmetic enforce of launch settings, where it is cheap and certain."""

from __future__ import annotations

from collections.abc import Iterator

from rollplan.models.launch.settings import FrameworkName, LaunchSettings

_WHOLE_NODES: tuple[FrameworkName, ...] = ("NeMo-RL", "prime-rl")
_EVEN_RANKS: tuple[FrameworkName, ...] = ("verl", "SkyRL")
"""Others pack sequences, or pad the last ranks."""
_EQUAL_SIDES: tuple[FrameworkName, ...] = ("OpenRLHF", "SkyRL", "AReaL")


def broken_rules(settings: LaunchSettings) -> Iterator[str]:
    """Yield every rule that the settings break, with its numbers; rules whose numbers are not known are passed over."""
    yield from _engines(settings)
    yield from _ranks(settings)
    yield from _sides(settings)
    yield from _lengths(settings)
    yield from _batches(settings)


def _engines(settings: LaunchSettings) -> Iterator[str]:
    unit, gpus, node = settings.rollout_unit, settings.rollout_gpus, settings.gpus_per_node
    if unit is not None and gpus is not None and gpus % unit:
        yield f"{gpus} rollout GPUs are not a multiple of {unit}, the GPUs of one engine"
    if settings.rollout_tp is not None and node is not None and settings.rollout_tp > node:
        yield f"rollout tensor parallelism {settings.rollout_tp} reaches beyond a node of {node} GPUs"


def _ranks(settings: LaunchSettings) -> Iterator[str]:
    unit, gpus, samples = settings.train_unit, settings.train_gpus, settings.samples_per_update
    if gpus is None:
        return
    if unit is not None and gpus % unit:
        yield f"{gpus} training GPUs are not a multiple of {unit}, the GPUs of one copy of the model"
    elif settings.framework in _EVEN_RANKS and samples is not None and samples % (ranks := gpus // (unit or 1)):
        yield f"{samples} responses of an update are not a multiple of {ranks} data-parallel ranks"


def _sides(settings: LaunchSettings) -> Iterator[str]:
    rollout, train, node = settings.rollout_gpus, settings.train_gpus, settings.gpus_per_node
    if rollout is None or train is None:
        return
    if settings.placement == "colocated":
        if settings.framework in _EQUAL_SIDES and rollout != train:
            yield f"colocated sides need the same number of GPUs in {settings.framework}, here {rollout} and {train}"
    elif settings.framework in _WHOLE_NODES and node is not None and rollout + train > node and (rollout % node or train % node):
        yield f"beyond one node, {settings.framework} gives whole nodes of {node} GPUs to each side, here {rollout} and {train} GPUs"


def _lengths(settings: LaunchSettings) -> Iterator[str]:
    prompt, response, sequence = settings.prompt_limit, settings.response_limit, settings.sequence_limit
    if prompt is not None and response is not None and sequence is not None and prompt + response > sequence:
        yield f"prompt limit {prompt} + response limit {response} exceed the sequence limit {sequence}"


def _batches(settings: LaunchSettings) -> Iterator[str]:
    step, update, updates = settings.prompts_per_step, settings.prompts_per_update, settings.updates_per_step
    if settings.framework == "verl" and step is not None and update is not None:
        if settings.dialect == "V1" and settings.placement == "separate" and settings.sync_every is not None:
            if step != settings.sync_every * update:
                yield f"train_batch_size {step} is not parameter_sync_step {settings.sync_every} x ppo_mini_batch_size {update}"
        elif step < update:
            yield f"train_batch_size {step} is less than ppo_mini_batch_size {update}"
    if settings.framework == "slime" and step is not None and update is not None and updates is not None and step != update * updates:
        yield f"rollout batch of {step} prompts is not {updates} steps x {update} prompts of the global batch"
    if settings.framework == "SkyRL" and step is not None and update is not None:
        yield from _skyrl(settings, step, update)
    if settings.framework == "ROLL" and settings.staleness is not None and 0 < settings.staleness < 1:
        yield f"async_generation_ratio {settings.staleness:g} is below 1, which the RLVR pipeline refuses"


def _skyrl(settings: LaunchSettings, step: int, update: int) -> Iterator[str]:
    if step % update:
        yield f"train_batch_size {step} is not a multiple of policy_mini_batch_size {update}"
    if not (settings.asynchronous and settings.in_flight is not None and settings.staleness is not None):
        return
    if step != update:
        yield f"fully async needs train_batch_size = policy_mini_batch_size, here {step} and {update}"
    workers, most = settings.in_flight // (settings.samples_per_prompt or 1), int(update * (settings.staleness + 1))
    if not update <= workers <= most:
        yield f"{workers} generation workers are outside {update} to {most}, the mini-batch to (staleness + 1) mini-batches"
