"""Keys of verl's three generations of trainers."""

from __future__ import annotations

from collections.abc import Mapping

from rollplan.models.launch.keys.dialect import Count, Dialect, Keys
from rollplan.models.launch.settings import SettingName

_ROLLOUT, _ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
_VERL: Mapping[SettingName, Keys] = {
    "model": ("actor_rollout_ref.model.path",),
    "rollout_engine": (f"{_ROLLOUT}.name",),
    "rollout_tp": (f"{_ROLLOUT}.tensor_model_parallel_size",),
    "rollout_pp": (f"{_ROLLOUT}.pipeline_model_parallel_size",),
    "rollout_dp": (f"{_ROLLOUT}.data_parallel_size",),
    "rollout_ep": (f"{_ROLLOUT}.expert_parallel_size",),
    "sharding": (f"{_ACTOR}.strategy",),
    "train_tp": (f"{_ACTOR}.megatron.tensor_model_parallel_size",),
    "train_pp": (f"{_ACTOR}.megatron.pipeline_model_parallel_size",),
    "train_cp": (f"{_ACTOR}.ulysses_sequence_parallel_size", f"{_ACTOR}.megatron.context_parallel_size"),
    "train_ep": (f"{_ACTOR}.megatron.expert_model_parallel_size",),
    "prompts_per_step": ("data.train_batch_size",),
    "samples_per_prompt": (f"{_ROLLOUT}.n",),
    "prompts_per_update": (f"{_ACTOR}.ppo_mini_batch_size",),
    "prompt_limit": ("data.max_prompt_length",),
    "response_limit": ("data.max_response_length",),
    "sequence_limit": (f"{_ROLLOUT}.max_model_len",),
    "gpu_memory_utilization": (f"{_ROLLOUT}.gpu_memory_utilization",),
    "max_num_seqs": (f"{_ROLLOUT}.max_num_seqs",),
}
_VERL_DEFAULTS: Mapping[str, str | int | float | bool] = {
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 8,
    f"{_ROLLOUT}.n": 1,
    f"{_ROLLOUT}.tensor_model_parallel_size": 2,
    f"{_ROLLOUT}.gpu_memory_utilization": 0.5,
    f"{_ROLLOUT}.max_num_seqs": 256,
    f"{_ACTOR}.ppo_mini_batch_size": 256,
}
_VERL_TRAIN = Count("nodes", ("trainer.nnodes", "trainer.n_gpus_per_node"))
_VERL_ROLLOUT = Count("nodes", ("rollout.nnodes", "rollout.n_gpus_per_node"))
_VERL_POOL: Mapping[str, str | int | float | bool] = {**_VERL_DEFAULTS, "rollout.nnodes": 1, "rollout.n_gpus_per_node": 8}
_FULLY, _SEPARATE = "async_training", "trainer.v1.separate_async"

VERL_V1 = Dialect(
    "verl",
    "V1",
    "override",
    Count("nodes", (f"{_ROLLOUT}.nnodes", f"{_ROLLOUT}.n_gpus_per_node")),
    _VERL_TRAIN,
    {**_VERL, "staleness": (f"{_SEPARATE}.num_warmup_batches",), "sync_every": (f"{_SEPARATE}.parameter_sync_step",)},
    defaults=_VERL_DEFAULTS,
    marks=("actor_rollout_ref.", "trainer.v1.", "trainer.use_v1"),
    programs=("verl.trainer.main_ppo",),
)
VERL_FULLY_ASYNC = Dialect(
    "verl",
    "fully async",
    "override",
    _VERL_ROLLOUT,
    _VERL_TRAIN,
    {
        **{name: keys for name, keys in _VERL.items() if name != "prompts_per_step"},
        "staleness": (f"{_FULLY}.staleness_threshold",),
        "sync_every": (f"{_FULLY}.trigger_parameter_sync_step",),
        "partial_rollout": (f"{_FULLY}.partial_rollout",),
        "gpu_memory_utilization": (f"{_ROLLOUT}.standalone_gpu_memory_utilization", f"{_ROLLOUT}.gpu_memory_utilization"),
    },
    defaults={**_VERL_POOL, f"{_FULLY}.staleness_threshold": 0.1, f"{_FULLY}.partial_rollout": True},
    marks=(f"{_FULLY}.",),
    programs=("fully_async_policy", "fully_async_main"),
)
VERL_ONE_STEP_OFF = Dialect(
    "verl",
    "one step off",
    "override",
    _VERL_ROLLOUT,
    _VERL_TRAIN,
    _VERL,
    defaults=_VERL_POOL,
    marks=("rollout.nnodes", "rollout.n_gpus_per_node"),
    programs=("one_step_off_policy",),
)
