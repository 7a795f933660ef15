"""How each framework is told whether rollout and training share their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rollplan.models.launch.keys import dialect
from rollplan.models.launch.layouts import areal_allocation, areal_rollout, areal_train, nemo_sides, roll_mapping, trl_rollout
from rollplan.models.launch.settings import FrameworkName, LaunchSettings, SettingName
from rollplan.models.launch.write import Value, Written, count


def _sides(want: LaunchSettings) -> Written:
    """Return the GPUs of both sides, as far as they are known and can be written."""
    table = dialect(want.framework, want.dialect)
    parts = (count(table.rollout, want, want.rollout_gpus, want.rollout_unit), count(table.train, want, want.train_gpus, want.train_unit))
    whole = Written()
    for part in parts:
        whole = whole if part is None else whole.and_then(part)
    return whole


def _verl(want: LaunchSettings) -> Written | None:
    train = count(dialect("verl").train, want, want.train_gpus, want.train_unit) or Written()
    note = () if want.dialect in (None, "V1") else ("run python -m verl.trainer.main_ppo",)
    if want.placement == "colocated":
        mode = "colocate_async" if want.staleness else "sync"
        return Written({"trainer.use_v1": True, "trainer.v1.trainer_mode": mode}, note).and_then(train)
    if want.dialect not in (None, "V1"):
        return _sides(want)
    batch: dict[str, Value] = {"trainer.use_v1": True, "trainer.v1.trainer_mode": "separate_async"}
    if want.prompts_per_step is not None and want.prompts_per_update is not None and want.prompts_per_step % want.prompts_per_update == 0:
        batch["trainer.v1.separate_async.parameter_sync_step"] = want.prompts_per_step // want.prompts_per_update
    return Written({**batch, "actor_rollout_ref.rollout.checkpoint_engine.backend": "nccl"}).and_then(_sides(want))


def _openrlhf(want: LaunchSettings) -> Written | None:
    flat = want.dialect is not None and want.dialect.startswith("flat")
    together, enable = ("--colocate_all_models", "--async_train") if flat else ("--train.colocate_all", "--train.async_enable")
    sleep = "--vllm_enable_sleep" if flat else "--vllm.enable_sleep"
    if want.placement == "colocated":
        return Written({together: True, sleep: True}, (f"leave {enable} out",)).and_then(_sides(want))
    return Written({enable: True}, (f"leave {sleep} out",)).and_then(_sides(want))


SLIME_FULLY_ASYNC = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"


def without_fully_async(want: LaunchSettings) -> tuple[str, ...]:
    """Return the remark that takes the fully async rollout out of a slime launch that has it."""
    has = "--sglang-server-concurrency" in want.read.get("staleness", "")
    return (f"leave --rollout-function-path {SLIME_FULLY_ASYNC} out",) if has else ()


def _slime(want: LaunchSettings) -> Written | None:
    if want.placement == "colocated":
        return Written({"--colocate": True}, (*without_fully_async(want), "run train.py")).and_then(_sides(want))
    return Written({}, ("leave --colocate out", "run train_async.py")).and_then(_sides(want))


def _areal(want: LaunchSettings) -> Written | None:
    if want.dialect is not None and want.dialect.startswith("allocation_mode"):
        return areal_allocation(want)
    rollout, train = areal_rollout(want), areal_train(want)
    backends: dict[str, Value] = {} if rollout is None or train is None else {"rollout.backend": rollout, "actor.backend": train}
    where = "rollout.scheduling_strategy"
    if want.placement == "separate":
        return Written({f"{where}.type": "separation", **backends})
    sharing: dict[str, Value] = {"actor.weight_update_mode": "disk", "enable_offload": True}
    return Written({f"{where}.type": "colocation", f"{where}.target": "actor", **sharing, **backends})


def _roll(want: LaunchSettings) -> Written | None:
    rollout, train = roll_mapping(want, rollout=True), roll_mapping(want, rollout=False)
    if rollout is None or train is None:
        return None
    return Written({"async_generation_ratio": 0} if want.placement == "colocated" else {}).and_then(train).and_then(rollout)


def _nemo(want: LaunchSettings) -> Written | None:
    shared = want.placement == "colocated"
    off: dict[str, Value] = {"grpo.async_grpo.enabled": False} if shared else {}
    return Written({"policy.generation.colocated.enabled": shared, **off}).and_then(nemo_sides(want) or Written())


def _trl(want: LaunchSettings) -> Written | None:
    if want.dialect == "async GRPO":
        return _never(want)
    shared = want.placement == "colocated"
    mode = Written({"--vllm_mode": "colocate" if shared else "server"}, ("start no server",) if shared else ())
    train = count(dialect("TRL").train, want, want.train_gpus, want.train_unit) or Written()
    return mode.and_then(train).and_then(trl_rollout(want) or Written())


def _skyrl(want: LaunchSettings) -> Written | None:
    shared = want.placement == "colocated"
    off: dict[str, Value] = {"trainer.fully_async.enabled": False} if shared else {}
    return Written({"trainer.placement.colocate_all": shared, **off}).and_then(_sides(want))


def _never(want: LaunchSettings) -> Written | None:
    """Return that prime-rl, open-instruct (beyond one GPU) and TRL's async trainer always separate the sides."""
    return None if want.placement == "colocated" else Written()


_BY_FRAMEWORK: Mapping[FrameworkName, Callable[[LaunchSettings], Written | None]] = {
    "verl": _verl,
    "OpenRLHF": _openrlhf,
    "slime": _slime,
    "AReaL": _areal,
    "ROLL": _roll,
    "NeMo-RL": _nemo,
    "prime-rl": _never,
    "TRL": _trl,
    "SkyRL": _skyrl,
    "open-instruct": _never,
}
PLACEMENTS: Mapping[tuple[FrameworkName, SettingName], Callable[[LaunchSettings], Written | None]] = {
    (framework, "placement"): writer for framework, writer in _BY_FRAMEWORK.items()
}
