"""What follows from several keys of a verl configuration."""

from __future__ import annotations

from rollplan.profilers.configs.draft import Draft

_FULLY, _SEPARATE = "async_training", "trainer.v1.separate_async"


def verl(draft: Draft) -> None:
    """Complete a draft of any of verl's trainers."""
    if draft.text("actor_rollout_ref.actor.strategy") == "megatron":
        draft.set(
            "train_cp", draft.whole("actor_rollout_ref.actor.megatron.context_parallel_size") or None, "megatron.context_parallel_size"
        )
    if draft.table.name == "fully async":
        _fully_async(draft)
    elif draft.table.name == "one step off":
        draft.set("placement", "separate", "one_step_off_policy")
        draft.set("asynchronous", True, "one_step_off_policy")
        draft.set("staleness", 1.0, "one_step_off_policy")
        _updates(draft)
    else:
        _v1(draft)


def _fully_async(draft: Draft) -> None:
    draft.set("placement", "separate", "fully_async_policy")
    draft.set("asynchronous", True, "fully_async_policy")
    require, trigger = draft.whole(f"{_FULLY}.require_batches", 1), draft.whole(f"{_FULLY}.trigger_parameter_sync_step", 4)
    mini, samples = draft.of("prompts_per_update"), draft.of("samples_per_prompt")
    if require and trigger:
        reason = f"{_FULLY}.require_batches x {_FULLY}.trigger_parameter_sync_step"
        draft.set("sync_every", require * trigger, reason)
        draft.set("updates_per_step", require * trigger, reason)
        if mini is not None:
            draft.set("prompts_per_step", require * trigger * mini, f"{draft.read['prompts_per_update']} x {reason}")
    each = draft.whole(f"{_FULLY}.concurrent_samples_per_replica", 16)
    unit = draft.degree("rollout_tp", "rollout_pp", "rollout_dp")
    gpus, threshold = draft.of("rollout_gpus"), draft.values.get("staleness")
    if gpus and each and samples and gpus // unit:
        prompts = each * (gpus // unit)
        step = draft.of("prompts_per_step")
        if step is not None and isinstance(threshold, (int, float)):
            prompts = min(prompts, int(step * (1 + threshold)))
        draft.set("in_flight", prompts * samples, f"{_FULLY}.concurrent_samples_per_replica x replicas x samples per prompt")
    if draft.flag(f"{_FULLY}.use_dynamic_resource_scheduling"):
        draft.flat.warn("use_dynamic_resource_scheduling lends training GPUs to rollout: the split is not fixed")
    for key, needed in (("data.train_batch_size", 0), ("data.gen_batch_size", 1)):
        if draft.given(key) and draft.whole(key, needed) != needed:
            draft.flat.warn(f"{key} must be {needed} for the fully async trainer, here {draft.whole(key)}")


def _v1(draft: Draft) -> None:
    use_v1 = draft.flag("trainer.use_v1")
    mode = draft.text("trainer.v1.trainer_mode") if use_v1 is not False else "sync"
    mode = mode or "sync"
    if mode not in ("sync", "colocate_async", "separate_async"):
        draft.flat.warn(f"trainer.v1.trainer_mode is {mode}, which is not known here")
        return
    reason = "trainer.v1.trainer_mode" if draft.given("trainer.v1.trainer_mode") else "verl.trainer.main_ppo"
    draft.set("asynchronous", mode != "sync", reason)
    batches = None if mode == "sync" else draft.whole(f"trainer.v1.{mode}.num_warmup_batches", 1)
    draft.drop("staleness")
    draft.set("staleness", float(batches or 0), reason if mode == "sync" else f"trainer.v1.{mode}.num_warmup_batches")
    limit = draft.whole("trainer.v1.sampler.max_off_policy_threshold", 8)
    if limit and batches is not None and limit - 1 < batches:
        draft.flat.warn(f"max_off_policy_threshold {limit} drops or waits for what is more than {limit - 1} versions old")
    if mode == "separate_async":
        _separate(draft)
    else:
        draft.set("placement", "colocated", reason)
        draft.drop("rollout_gpus")
        draft.set("rollout_gpus", draft.of("train_gpus"), draft.read.get("train_gpus", ""))
        draft.drop("sync_every")
    draft.set("partial_rollout", mode != "sync", reason)
    _updates(draft)


def _separate(draft: Draft) -> None:
    draft.set("placement", "separate", "trainer.v1.trainer_mode")
    draft.set("sync_every", draft.whole(f"{_SEPARATE}.parameter_sync_step", 4) or None, f"{_SEPARATE}.parameter_sync_step")
    rollout = "actor_rollout_ref.rollout"
    nodes, own = draft.whole(f"{rollout}.nnodes"), draft.whole(f"{rollout}.n_gpus_per_node")
    each = own or draft.whole("trainer.n_gpus_per_node")
    draft.drop("rollout_gpus")
    if nodes and each:
        draft.set("rollout_gpus", nodes * each, f"{rollout}.nnodes x {rollout}.n_gpus_per_node")
    if draft.flag(f"{_SEPARATE}.hybrid_rollout.enable_switch"):
        draft.flat.warn("hybrid_rollout.enable_switch lends training GPUs to rollout: the split is not fixed")
    if draft.text(f"{rollout}.checkpoint_engine.backend") == "naive":
        draft.flat.warn("checkpoint_engine.backend naive cannot send weights to GPUs of their own")


def _updates(draft: Draft) -> None:
    step, update = draft.of("prompts_per_step"), draft.of("prompts_per_update")
    if step is not None and update is not None and step >= update:
        draft.set("updates_per_step", step // update, f"{draft.read['prompts_per_step']} / {draft.read['prompts_per_update']}")
        if draft.of("sync_every") is None:
            draft.set("sync_every", step // update, draft.read["updates_per_step"])
