"""What follows from several keys of AReaL, ROLL, NeMo-RL, prime-rl and SkyRL."""

from __future__ import annotations

from rollplan.models.strict import show
from rollplan.profilers.configs.backends import Backend, allocation, backend
from rollplan.profilers.configs.derive_flags import updates_of_batches
from rollplan.profilers.configs.draft import Draft
from rollplan.profilers.configs.ranks import ranks


def areal(draft: Draft) -> None:
    """Complete a draft from the placement strings."""
    together = False
    if draft.table.name.startswith("allocation_mode"):
        text = draft.text("allocation_mode") or ""
        sides = allocation(text)
        if sides is None:
            draft.flat.warn(f"allocation_mode {text} is not understood")
        else:
            rollout, train, together = sides
            _rollout(draft, rollout, "allocation_mode")
            _train(draft, train, "allocation_mode")
    else:
        for key, use in (("rollout.backend", _rollout), ("actor.backend", _train)):
            words = draft.text(key)
            side = None if words is None else backend(words)
            if side is not None:
                use(draft, side, key)
            elif words is not None:
                draft.flat.warn(f"{key} {words} is not understood")
        for mine, other in (("rollout", "actor"), ("actor", "rollout")):
            where = f"{mine}.scheduling_strategy"
            together = together or (draft.text(f"{where}.type") == "colocation" and draft.text(f"{where}.target") == other)
    if together or draft.of("rollout_gpus") is not None:
        draft.set("placement", "colocated" if together else "separate", "scheduling_strategy" if together else draft.table.rollout.keys[0])
    draft.set("partial_rollout", True, "interruptible generation")
    staleness = draft.values.get("staleness")
    if isinstance(staleness, (int, float)):
        draft.set("asynchronous", staleness > 0, draft.read["staleness"])
    samples, most = draft.of("samples_per_prompt"), draft.whole("rollout.max_concurrent_rollouts")
    if samples and most:
        draft.set("in_flight", samples * most, "rollout.max_concurrent_rollouts x gconfig.n_samples")
    step, updates = draft.of("prompts_per_step"), draft.of("updates_per_step")
    if step is not None and updates is not None and step % updates == 0:
        draft.set("prompts_per_update", step // updates, "train_dataset.batch_size / actor.ppo_n_minibatches")
    updates_of_batches(draft)


def _rollout(draft: Draft, side: Backend, key: str) -> None:
    draft.set("rollout_engine", side.engine or None, key)
    draft.set("rollout_gpus", side.gpus, key)
    # Both engines may have their section; only that of the one in use counts.
    for name, keys in draft.table.keys.items():
        for its in keys:
            if side.engine and its.startswith(f"{side.engine}."):
                draft.take(name, its)
    draft.set("rollout_tp", side.t, key)
    draft.set("rollout_pp", side.p, key)


def _train(draft: Draft, side: Backend, key: str) -> None:
    draft.set("sharding", side.engine or None, key)
    draft.set("train_gpus", side.gpus, key)
    draft.set("train_tp", side.t, key)
    draft.set("train_pp", side.p, key)
    draft.set("train_cp", side.c, key)
    draft.set("train_ep", side.e, key)
    if side.engine == "fsdp" and (side.p > 1 or side.e > 1):
        draft.flat.warn(f"{key}: the fsdp backend has neither pipeline nor expert parallelism")


def roll(draft: Draft) -> None:
    """Complete a draft from the rank lists."""
    rollout, train = (_ranks(draft, f"{side}.device_mapping") for side in ("actor_infer", "actor_train"))
    draft.set("rollout_gpus", len(rollout) or None, "actor_infer.device_mapping")
    draft.set("train_gpus", len(train) or None, "actor_train.device_mapping")
    if rollout and train:
        shared = len(rollout & train)
        draft.set("placement", "colocated" if shared else "separate", "actor_infer.device_mapping, actor_train.device_mapping")
        if shared and rollout != train:
            draft.flat.warn(f"{shared} GPUs belong to both sides, of {len(rollout)} for rollout and {len(train)} for training")
    staleness = draft.values.get("staleness")
    if isinstance(staleness, (int, float)):
        draft.set("asynchronous", staleness > 0, draft.read["staleness"])
    _groups(draft)
    train_gpus, unit = draft.of("train_gpus"), draft.degree("train_tp", "train_pp", "train_cp")
    arguments = "actor_train.training_args"
    each, accumulate = draft.whole(f"{arguments}.per_device_train_batch_size"), draft.whole(f"{arguments}.gradient_accumulation_steps")
    samples = draft.of("samples_per_prompt")
    if train_gpus and each and accumulate and samples and train_gpus % unit == 0:
        responses = each * accumulate * (train_gpus // unit)
        if responses % samples == 0:
            reason = f"{arguments}.per_device_train_batch_size x gradient_accumulation_steps x data-parallel ranks"
            draft.set("prompts_per_update", responses // samples, reason)
    updates_of_batches(draft)


def _ranks(draft: Draft, key: str) -> frozenset[int]:
    given = draft.flat.get(key)
    found = None if given is None else ranks(given.value)
    if given is not None and found is None:
        draft.flat.warn(f"{key} {show(given.value)} is not understood")
    return found or frozenset()


def _groups(draft: Draft) -> None:
    """Read the group size of agentic pipelines, whose batch counts trajectories."""
    size, batch = draft.whole("train_env_manager.group_size"), draft.whole("rollout_batch_size")
    if not size or draft.of("samples_per_prompt") is not None:
        return
    draft.set("samples_per_prompt", size, "train_env_manager.group_size")
    if batch and batch % size == 0:
        draft.set("prompts_per_step", batch // size, "rollout_batch_size / train_env_manager.group_size")
    elif batch:
        draft.drop("prompts_per_step")
        draft.flat.warn(f"rollout_batch_size {batch} is not a multiple of group_size {size}")


def nemo_rl(draft: Draft) -> None:
    """Complete a draft: training gets what generation leaves of the cluster."""
    where = "policy.generation.colocated"
    nodes, node = draft.whole("cluster.num_nodes"), draft.whole("cluster.gpus_per_node")
    colocated = draft.flag(f"{where}.enabled")
    placement = None if colocated is None else "colocated" if colocated else "separate"
    draft.set("placement", placement, f"{where}.enabled")
    if nodes and node and colocated:
        draft.set("rollout_gpus", nodes * node, "cluster.num_nodes x cluster.gpus_per_node")
        draft.set("train_gpus", nodes * node, "cluster.num_nodes x cluster.gpus_per_node")
    elif nodes and node and colocated is False:
        some = draft.whole(f"{where}.resources.num_nodes", 1)
        each = draft.whole(f"{where}.resources.gpus_per_node", node if nodes > 1 else None)
        if some and each:
            draft.set("rollout_gpus", some * each, f"{where}.resources.num_nodes x gpus_per_node")
            draft.set("train_gpus", nodes * node - some * each, f"cluster without {where}.resources")
    _nemo_async(draft)
    _nemo_trainer(draft)
    updates_of_batches(draft)


def _nemo_trainer(draft: Draft) -> None:
    megatron = draft.switch("policy.megatron_cfg.enabled")
    if megatron is None and not draft.flag("policy.dtensor_cfg.enabled"):
        return
    parallel = "policy.megatron_cfg" if megatron else "policy.dtensor_cfg"
    draft.set("sharding", "megatron" if parallel.endswith("megatron_cfg") else "dtensor", f"{parallel}.enabled")
    words = ("tensor_model", "pipeline_model", "context", "expert_model") if "megatron" in parallel else ("tensor", "", "context", "")
    degrees = [draft.whole(f"{parallel}.{word}_parallel_size") or None if word else None for word in words]
    draft.set("train_tp", degrees[0], f"{parallel}.{words[0]}_parallel_size")
    draft.set("train_pp", degrees[1], f"{parallel}.{words[1]}_parallel_size")
    draft.set("train_cp", degrees[2], f"{parallel}.{words[2]}_parallel_size")
    draft.set("train_ep", degrees[3], f"{parallel}.{words[3]}_parallel_size")


def _nemo_async(draft: Draft) -> None:
    controller = any(key.startswith("async_rl.") for key in draft.flat)
    asynchronous = controller or draft.switch("grpo.async_grpo.enabled")
    draft.set("asynchronous", asynchronous, "async_rl" if controller else "grpo.async_grpo.enabled")
    if asynchronous is None:
        draft.drop("staleness")
    elif not asynchronous:
        draft.set("staleness", 0.0, "grpo.async_grpo.enabled")
    elif controller and (age := draft.number("async_rl.sampler.max_staleness_versions")) is not None and age >= 0:
        draft.set("staleness", min(age, 1e6), "async_rl.sampler.max_staleness_versions")
    if asynchronous and draft.values.get("placement") == "colocated":
        draft.flat.warn("async GRPO needs generation on GPUs of its own (policy.generation.colocated.enabled: false)")
    samples, most = draft.of("samples_per_prompt"), draft.whole("async_rl.max_inflight_prompts")
    if samples and most:
        draft.set("in_flight", samples * most, "async_rl.max_inflight_prompts x grpo.num_generations_per_prompt")


def prime_rl(draft: Draft) -> None:
    """Complete a draft: GPUs of one node, or whole nodes."""
    where = "deployment"
    node = draft.whole(f"{where}.gpus_per_node") or 0
    multi = draft.text(f"{where}.type") == "multi_node" or draft.given(f"{where}.num_train_nodes")
    if multi:
        copies = draft.whole(f"{where}.num_infer_replicas", 1)
        infer, train = draft.whole(f"{where}.num_infer_nodes"), draft.whole(f"{where}.num_train_nodes")
        if infer and copies and node:
            draft.set("rollout_gpus", infer * copies * node, f"{where}.num_infer_nodes x num_infer_replicas x gpus_per_node")
        if train and node:
            draft.set("train_gpus", train * node, f"{where}.num_train_nodes x gpus_per_node")
    else:
        draft.set("rollout_gpus", draft.whole(f"{where}.num_infer_gpus", 1), f"{where}.num_infer_gpus")
        draft.set("train_gpus", draft.whole(f"{where}.num_train_gpus", 1), f"{where}.num_train_gpus")
        total = (draft.of("rollout_gpus") or 0) + (draft.of("train_gpus") or 0)
        if total > node > 0:
            draft.flat.warn(f"{total} GPUs are more than the {node} of a single node")
    draft.set("placement", "separate", where)
    draft.set("asynchronous", True, "prime-rl")
    draft.set("partial_rollout", True, "in-flight weight updates")
    draft.set("sharding", "fsdp", "prime-rl")
    if draft.whole("orchestrator.token_batch_size"):
        draft.drop("prompts_per_step")
        draft.flat.warn("orchestrator.token_batch_size counts tokens: prompts per step are not known")
    step = draft.of("prompts_per_step")
    if step is not None:
        draft.set("prompts_per_update", step, draft.read["prompts_per_step"])
    updates_of_batches(draft)


def skyrl(draft: Draft) -> None:
    """Complete a draft: with everything colocated the engines take the trainer's GPUs."""
    programs = " ".join(draft.flat.commands)
    fully = "fully_async" in programs or bool(draft.switch("trainer.fully_async.enabled"))
    one_step = not fully and "main_async" in programs
    colocated = draft.flag("trainer.placement.colocate_all")
    placement = None if colocated is None else "colocated" if colocated else "separate"
    draft.set("placement", placement, "trainer.placement.colocate_all")
    reason = "trainer.fully_async.enabled" if fully else "main_async" if one_step else "main_base"
    draft.set("asynchronous", fully or one_step, reason)
    workers, samples = draft.of("in_flight"), draft.of("samples_per_prompt")
    why = draft.read.get("in_flight", "")
    draft.drop("in_flight")
    if fully:
        if workers and samples:
            draft.set("in_flight", workers * samples, f"{why} x generator.n_samples_per_prompt")
        draft.set("partial_rollout", True, reason)
        if colocated:
            draft.flat.warn("the fully async trainer needs trainer.placement.colocate_all=false")
        if draft.flag("generator.batched"):
            draft.flat.warn("the fully async trainer needs generator.batched=false")
    else:
        draft.set("staleness", 1.0 if one_step else 0.0, reason)
    updates_of_batches(draft)
