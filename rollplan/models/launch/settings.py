"""How a run of an RL framework was launched, in the same words for every framework.

Staleness is by how many versions of the weights a sample may be older: with B prompts per version, a prompt may start
while `started < B * (version + 1 + staleness)`. What that is in each framework's own settings stands in `STALENESS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Literal, get_args

from pydantic import Field

from rollplan.models.profile.origin import Text
from rollplan.models.strict import Strict

FrameworkName = Literal["verl", "OpenRLHF", "slime", "AReaL", "ROLL", "NeMo-RL", "prime-rl", "TRL", "SkyRL", "open-instruct"]
FRAMEWORKS: tuple[FrameworkName, ...] = get_args(FrameworkName)
Placement = Literal["colocated", "separate"]
SettingName = Literal[
    "placement",
    "asynchronous",
    "rollout_gpus",
    "train_gpus",
    "gpus_per_node",
    "model",
    "rollout_engine",
    "rollout_tp",
    "rollout_pp",
    "rollout_dp",
    "rollout_ep",
    "train_tp",
    "train_pp",
    "train_cp",
    "train_ep",
    "sharding",
    "prompts_per_step",
    "samples_per_prompt",
    "prompts_per_update",
    "updates_per_step",
    "sync_every",
    "staleness",
    "partial_rollout",
    "prompt_limit",
    "response_limit",
    "sequence_limit",
    "gpu_memory_utilization",
    "max_num_seqs",
    "in_flight",
]
"""Fields of `LaunchSettings` that a configuration gives."""

STALENESS: Mapping[FrameworkName, str] = {
    "verl": "fully async: staleness_threshold, a share of the prompts between two syncs; one step off: 1; V1: num_warmup_batches "
    "(max_off_policy_threshold - 1 drops or waits beyond it), 0 in sync mode",
    "OpenRLHF": "async_queue_size: a place in the queue is free again when the trainer takes a batch, before it trains; 0 without async",
    "slime": "1 with train_async.py, which prefetches one rollout; with the fully async rollout function twice the groups in flight "
    "over the rollout batch, because only completed groups are bounded; 0 with train.py",
    "AReaL": "max_head_offpolicyness, the same rule",
    "ROLL": "async_generation_ratio, batches generated ahead",
    "NeMo-RL": "max_trajectory_age_steps (or async_rl.sampler.max_staleness_versions): generation runs ahead by as many steps; "
    "0 without async",
    "prime-rl": "max_off_policy_steps: older samples are dropped; before mid-2026 max_async_level, how far generation may run ahead",
    "TRL": "async trainer: max_staleness; 0 otherwise",
    "SkyRL": "fully async: max_staleness_steps, the same rule; one step off: 1; 0 otherwise",
    "open-instruct": "async_steps: batches prepared ahead, and the age beyond which results are dropped",
}
"""Which setting of each framework is read as `LaunchSettings.staleness`."""

Count = Annotated[int, Field(ge=1, le=10**9)]


class LaunchSettings(Strict):
    """Settings of one run; None where the configuration does not tell.

    dialect: which of the framework's sets of keys, as in `keys.DIALECTS`. placement: rollout and training on the same GPUs
    (both counts are then all of them; in ROLL they may differ) or apart. *_gpus: of each side. model: name or path as
    written. *_tp, *_pp, *_dp, *_cp, *_ep: degrees of parallelism; train_cp is also the sequence-parallel degree (Ulysses,
    ring attention). sharding: strategy of the trainer as written, such as fsdp2, megatron, zero3. prompts_per_step: whose
    responses one logged step trains on. prompts_per_update: of one optimizer update (mini-batch). sync_every: optimizer
    updates between two weight syncs. partial_rollout: whether running samples go on after a sync. *_limit: tokens.
    max_num_seqs: sequences that one engine decodes at once. in_flight: responses under way in all engines together, at
    most. read: which key gave a field. missing: fields that were looked for, each with the keys. warnings: contradictions,
    broken rules, values that could not be read.
    """

    framework: FrameworkName
    dialect: Text | None = None
    placement: Placement | None = None
    asynchronous: bool | None = None
    rollout_gpus: Count | None = None
    train_gpus: Count | None = None
    gpus_per_node: Count | None = None
    model: Text | None = None
    rollout_engine: Text | None = None
    rollout_tp: Count | None = None
    rollout_pp: Count | None = None
    rollout_dp: Count | None = None
    rollout_ep: Count | None = None
    train_tp: Count | None = None
    train_pp: Count | None = None
    train_cp: Count | None = None
    train_ep: Count | None = None
    sharding: Text | None = None
    prompts_per_step: Count | None = None
    samples_per_prompt: Count | None = None
    prompts_per_update: Count | None = None
    updates_per_step: Count | None = None
    sync_every: Count | None = None
    staleness: Annotated[float, Field(ge=0, le=1e6)] | None = None
    partial_rollout: bool | None = None
    prompt_limit: Count | None = None
    response_limit: Count | None = None
    sequence_limit: Count | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    max_num_seqs: Count | None = None
    in_flight: Count | None = None
    read: dict[SettingName, Text] = Field(default_factory=dict)
    missing: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()

    @property
    def model_name(self) -> str | None:
        """The last part of the model's name or path: `Qwen3-8B` of `Qwen/Qwen3-8B` and of `/models/Qwen3-8B/`."""
        return None if self.model is None else self.model.rstrip("/").rpartition("/")[2] or None

    @property
    def rollout_unit(self) -> int | None:
        """GPUs of one engine (tensor x pipeline); None if the tensor degree is not known."""
        return None if self.rollout_tp is None else self.rollout_tp * (self.rollout_pp or 1)

    @property
    def train_unit(self) -> int | None:
        """GPUs of one data-parallel rank of the trainer; None if no degree is known."""
        known = [degree for degree in (self.train_tp, self.train_pp, self.train_cp) if degree is not None]
        return prod(known) if known else None

    @property
    def samples_per_update(self) -> int | None:
        """Responses of one optimizer update."""
        if self.prompts_per_update is None or self.samples_per_prompt is None:
            return None
        return self.prompts_per_update * self.samples_per_prompt

    @property
    def total_gpus(self) -> int | None:
        """All GPUs, counted once where both sides share them."""
        if self.placement == "colocated":
            return max((gpus for gpus in (self.rollout_gpus, self.train_gpus) if gpus is not None), default=None)
        return None if self.rollout_gpus is None or self.train_gpus is None else self.rollout_gpus + self.train_gpus
