"""Settings that a framework writes in a way of its own; all others follow from the table of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from rollplan.models.launch.keys import dialect
from rollplan.models.launch.layouts import LAYOUTS
from rollplan.models.launch.placements import PLACEMENTS, SLIME_FULLY_ASYNC, without_fully_async
from rollplan.models.launch.settings import FrameworkName, LaunchSettings, SettingName
from rollplan.models.launch.write import Value, Written, count, direct, engine_size, samples

Writer = Callable[[LaunchSettings], Written | None]


def written(want: LaunchSettings, name: SettingName) -> Written | None:
    """Return how `want` has a setting written; None if the framework has no words for it or not for this value."""
    table = dialect(want.framework, want.dialect)
    if name == "staleness" and want.staleness and want.placement == "colocated" and want.framework in _TAKE_TURNS:
        return None
    own = _OWN.get((want.framework, name))
    if own is not None:
        return own(want)
    match name:
        case "rollout_gpus":
            return count(table.rollout, want, want.rollout_gpus, want.rollout_unit)
        case "train_gpus":
            return count(table.train, want, want.train_gpus, want.train_unit)
        case "rollout_tp":
            return engine_size(table, want)
        case "samples_per_prompt":
            return samples(table, want)
        case "staleness":
            return direct(table, want, name, None if want.staleness is None else ceil(want.staleness))
        case _:
            return direct(table, want, name, getattr(want, name))


def _verl_staleness(want: LaunchSettings) -> Written | None:
    staleness = want.staleness or 0.0
    if want.dialect == "one step off":
        return Written(notes=("one step off is staleness 1 as it is",)) if staleness == 1 else None
    if want.dialect == "fully async":
        return Written({"async_training.staleness_threshold": staleness})
    batches = ceil(staleness)
    if want.placement == "separate":
        return Written({"trainer.v1.trainer_mode": "separate_async", "trainer.v1.separate_async.num_warmup_batches": batches})
    mode = "colocate_async" if batches else "sync"
    return Written({"trainer.v1.trainer_mode": mode, **({"trainer.v1.colocate_async.num_warmup_batches": batches} if batches else {})})


def _verl_sync_every(want: LaunchSettings) -> Written | None:
    updates = want.sync_every or 1
    if want.dialect == "fully async":
        return Written({"async_training.require_batches": 1, "async_training.trigger_parameter_sync_step": updates})
    if want.dialect == "one step off" or want.placement != "separate":
        return None
    batch = {} if want.prompts_per_update is None else {"data.train_batch_size": updates * want.prompts_per_update}
    return Written({"trainer.v1.separate_async.parameter_sync_step": updates, **batch})


def _verl_prompts(want: LaunchSettings) -> Written | None:
    prompts, mini = want.prompts_per_step or 1, "actor_rollout_ref.actor.ppo_mini_batch_size"
    if want.dialect == "fully async":
        updates = want.sync_every
        return None if updates is None or prompts % updates else Written({mini: prompts // updates})
    if want.dialect != "one step off" and want.placement == "separate":
        updates = want.sync_every or 4
        return None if prompts % updates else Written({"data.train_batch_size": prompts, mini: prompts // updates})
    return Written({"data.train_batch_size": prompts})


def _openrlhf_staleness(want: LaunchSettings) -> Written | None:
    flat = want.dialect is not None and want.dialect.startswith("flat")
    enable, queue = ("--async_train", "--async_queue_size") if flat else ("--train.async_enable", "--train.async_queue_size")
    if not want.staleness:
        return Written(notes=(f"leave {enable} out",))
    return Written({enable: True, queue: ceil(want.staleness)})


def _slime_staleness(want: LaunchSettings) -> Written | None:
    if want.staleness is not None and want.staleness <= 1:
        return Written(notes=(*without_fully_async(want), "run train_async.py" if want.staleness else "run train.py"))
    return Written(
        {"--rollout-function-path": SLIME_FULLY_ASYNC}, ("run train_async.py", "--sglang-server-concurrency then bounds staleness")
    )


def _slime_tp(want: LaunchSettings) -> Written | None:
    return Written({"--rollout-num-gpus-per-engine": (want.rollout_tp or 1) * (want.rollout_pp or 1)})


def _slime_sync_every(want: LaunchSettings) -> Written | None:
    updates = want.updates_per_step or 1
    return (
        None if want.sync_every is None or want.sync_every % updates else Written({"--update-weights-interval": want.sync_every // updates})
    )


def _slime_prompts(want: LaunchSettings) -> Written | None:
    """Return the batch, and the global batch that makes the same number of updates of it."""
    prompts, updates, n = want.prompts_per_step or 1, want.updates_per_step, want.samples_per_prompt
    if updates is None or n is None:
        return Written({"--rollout-batch-size": prompts})
    return None if prompts % updates else Written({"--rollout-batch-size": prompts, "--global-batch-size": prompts // updates * n})


def _areal_prompts(want: LaunchSettings) -> Written | None:
    return Written({"train_dataset.batch_size": want.prompts_per_step or 1, "rollout.consumer_batch_size": want.prompts_per_step or 1})


def _nemo_staleness(want: LaunchSettings) -> Written | None:
    age = ceil(want.staleness or 0)
    if want.read.get("staleness", "").startswith("async_rl."):
        return Written({"async_rl.sampler.max_staleness_versions": age})
    if age == 0:
        return Written({"grpo.async_grpo.enabled": False})
    in_flight = {"grpo.async_grpo.in_flight_weight_updates": True} if age > 1 else {}
    return Written({"grpo.async_grpo.enabled": True, "grpo.async_grpo.max_trajectory_age_steps": age, **in_flight})


def _roll_staleness(want: LaunchSettings) -> Written | None:
    ratio = want.staleness or 0.0
    return Written({"async_generation_ratio": max(1.0, ratio) if ratio else 0})


def _skyrl_staleness(want: LaunchSettings) -> Written | None:
    steps = ceil(want.staleness or 0)
    keys: dict[str, Value] = {"trainer.fully_async.enabled": True, "trainer.fully_async.max_staleness_steps": steps}
    if not want.asynchronous:
        mini = {} if want.prompts_per_step is None else {"trainer.policy_mini_batch_size": want.prompts_per_step}
        keys |= {"generator.batched": False, **mini}
    return Written(keys | _skyrl_workers(want), ("run main_fully_async",))


def _skyrl_prompts(want: LaunchSettings) -> Written | None:
    batch = {"trainer.train_batch_size": want.prompts_per_step or 1}
    if not want.asynchronous:
        return Written(batch)
    return Written({**batch, "trainer.policy_mini_batch_size": want.prompts_per_step or 1, **_skyrl_workers(want)})


def _skyrl_workers(want: LaunchSettings) -> dict[str, Value]:
    """Return the generation workers, where those there are would not be between one batch and staleness + 1 batches."""
    prompts, now = want.prompts_per_step, want.in_flight
    if prompts is None or want.samples_per_prompt is None:
        return {}
    most = prompts * (1 + ceil(want.staleness or 0))
    workers = most if now is None else min(max(now // want.samples_per_prompt, prompts), most)
    changed = now is None or workers != now // want.samples_per_prompt
    return {"trainer.fully_async.num_parallel_generation_workers": workers} if changed else {}


def _trl_staleness(want: LaunchSettings) -> Written | None:
    return Written({"--max_staleness": ceil(want.staleness or 0)}) if want.dialect == "async GRPO" else None


def _trl_prompts(want: LaunchSettings) -> Written | None:
    return _trl_batch(want, direct(dialect("TRL", want.dialect), want, "prompts_per_step", want.prompts_per_step))


def _trl_samples(want: LaunchSettings) -> Written | None:
    return _trl_batch(want, samples(dialect("TRL", want.dialect), want))


def _trl_batch(want: LaunchSettings, batch: Written | None) -> Written | None:
    """Return a batch with the remark that it stands in the place of steps per generation: TRL takes one of the two."""
    key = "--generation_batch_size"
    if batch is None or key not in batch.values or want.read.get("prompts_per_step") == key:
        return batch
    return batch.and_then(Written(notes=("leave --steps_per_generation out",)))


def _open_instruct_staleness(want: LaunchSettings) -> Written | None:
    return Written({"--async_steps": ceil(want.staleness)}) if want.staleness else None


_TAKE_TURNS: tuple[FrameworkName, ...] = ("OpenRLHF", "slime", "NeMo-RL", "SkyRL")
"""Whose sides cannot overlap on GPUs that they share."""
_OWN: Mapping[tuple[FrameworkName, SettingName], Writer] = {
    **LAYOUTS,
    **PLACEMENTS,
    ("verl", "staleness"): _verl_staleness,
    ("verl", "sync_every"): _verl_sync_every,
    ("verl", "prompts_per_step"): _verl_prompts,
    ("OpenRLHF", "staleness"): _openrlhf_staleness,
    ("slime", "staleness"): _slime_staleness,
    ("slime", "rollout_tp"): _slime_tp,
    ("slime", "sync_every"): _slime_sync_every,
    ("slime", "prompts_per_step"): _slime_prompts,
    ("AReaL", "prompts_per_step"): _areal_prompts,
    ("NeMo-RL", "staleness"): _nemo_staleness,
    ("ROLL", "staleness"): _roll_staleness,
    ("SkyRL", "staleness"): _skyrl_staleness,
    ("SkyRL", "prompts_per_step"): _skyrl_prompts,
    ("TRL", "staleness"): _trl_staleness,
    ("TRL", "prompts_per_step"): _trl_prompts,
    ("TRL", "samples_per_prompt"): _trl_samples,
    ("open-instruct", "staleness"): _open_instruct_staleness,
}
