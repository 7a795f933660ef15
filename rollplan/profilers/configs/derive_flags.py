"""What follows from several flags of OpenRLHF, slime, TRL and open-instruct."""

from __future__ import annotations

from rollplan.profilers.configs.draft import Draft


def updates_of_batches(draft: Draft) -> None:
    """Set updates per step from both batches, and one sync per step where nothing else is said."""
    step, update = draft.of("prompts_per_step"), draft.of("prompts_per_update")
    if draft.of("updates_per_step") is None and step is not None and update is not None and step % update == 0:
        draft.set("updates_per_step", step // update, f"{draft.read['prompts_per_step']} / {draft.read['prompts_per_update']}")
    if draft.of("sync_every") is None and (updates := draft.of("updates_per_step")) is not None:
        draft.set("sync_every", updates, draft.read["updates_per_step"])


def zero_stage(draft: Draft) -> None:
    """Name the sharding after the DeepSpeed stage."""
    if str(draft.values.get("sharding", "")).isdigit():
        draft.set("sharding", f"zero{draft.values['sharding']}", draft.read["sharding"])


def openrlhf(draft: Draft) -> None:
    """Complete a draft: with async, colocating all models leaves the engines apart."""
    flat = draft.table.name.startswith("flat")
    together, enable = ("--colocate_all_models", "--async_train") if flat else ("--train.colocate_all", "--train.async_enable")
    asynchronous, shared = draft.switch(enable), draft.switch(together)
    draft.set("asynchronous", asynchronous, enable)
    if asynchronous is not None and shared is not None:
        draft.set("placement", "colocated" if shared and not asynchronous else "separate", together)
    queue = draft.values.get("staleness", 1.0)
    if asynchronous is None:
        draft.drop("staleness")
    else:
        draft.set("staleness", queue if asynchronous else 0.0, draft.read.get("staleness", enable) if asynchronous else enable)
    if asynchronous and draft.flag("--vllm_enable_sleep" if flat else "--vllm.enable_sleep"):
        draft.flat.warn(f"{enable} forbids engines that sleep")
    if draft.values.get("partial_rollout") and asynchronous is False:
        draft.flat.warn(f"partial rollout needs {enable}")
    zero_stage(draft)
    updates_of_batches(draft)


def slime(draft: Draft) -> None:
    """Complete a draft: which of the programs runs decides on overlap."""
    colocated, updates = draft.switch("--colocate"), draft.of("updates_per_step")
    programs = " ".join(draft.flat.commands)
    asynchronous = "train_async" in programs
    fully = "fully_async" in (draft.text("--rollout-function-path") or "")
    draft.set("placement", None if colocated is None else "colocated" if colocated else "separate", "--colocate")
    if colocated and draft.of("rollout_gpus") is None:
        draft.set("rollout_gpus", draft.of("train_gpus"), draft.read.get("train_gpus", ""))
    size, pp = draft.whole("--rollout-num-gpus-per-engine", 1), draft.degree("rollout_pp")
    if size is not None and size % pp:
        draft.flat.warn(f"{size} GPUs per engine are not a multiple of {pp} pipeline stages")
    elif size is not None:
        draft.set("rollout_tp", size // pp, "--rollout-num-gpus-per-engine")
    if programs or fully:
        draft.set("asynchronous", asynchronous or fully, "train_async.py" if asynchronous or fully else "train.py")
        draft.set("staleness", 1.0 if asynchronous else 0.0, "train_async.py" if asynchronous else "train.py")
    step = draft.of("prompts_per_step")
    if updates is not None and step is not None and draft.of("prompts_per_update") is None and step % updates == 0:
        draft.set("prompts_per_update", step // updates, "--rollout-batch-size / --num-steps-per-rollout")
    interval = draft.of("sync_every") or 1
    draft.drop("sync_every")
    updates_of_batches(draft)
    if (updates := draft.of("updates_per_step")) is not None:
        draft.set("sync_every", interval * updates, f"--update-weights-interval x {draft.read['updates_per_step']}")
    _slime_in_flight(draft, size, fully)


def _slime_in_flight(draft: Draft, size: int | None, fully: bool) -> None:
    gpus, samples, step = draft.of("rollout_gpus"), draft.of("samples_per_prompt"), draft.of("prompts_per_step")
    each = draft.whole("--sglang-server-concurrency", 512)
    if not gpus or not each or not size or gpus < size:
        return
    at_once = each * (gpus // size)
    if not fully:
        draft.set("in_flight", at_once, "--sglang-server-concurrency x engines")
        return
    if samples is not None:
        draft.set("in_flight", at_once * samples, "--sglang-server-concurrency x engines, in groups")
    if step is not None:
        reason = "2 x --sglang-server-concurrency x engines / --rollout-batch-size"
        draft.set("staleness", min(1e6, 2 * at_once / step), reason)
        draft.flat.warn(
            "fully async rollout of slime bounds groups in flight and waiting, not versions: staleness is what they allow at most"
        )


def trl(draft: Draft) -> None:
    """Complete a draft: server and trainer are two programs."""
    asynchronous = draft.table.name == "async GRPO"
    mode = draft.text("--vllm_mode")
    placement = "separate" if asynchronous or mode == "server" else "colocated" if mode == "colocate" else None
    draft.set("placement", placement, "--vllm_mode")
    draft.set("asynchronous", asynchronous, "--max_staleness" if asynchronous else draft.table.name)
    if not asynchronous:
        draft.set("staleness", 0.0, "GRPOTrainer")
    procs = draft.of("train_gpus")
    if placement == "colocated":
        draft.set("rollout_gpus", procs, draft.read.get("train_gpus", ""))
    elif draft.given("--tensor-parallel-size", "--data-parallel-size"):
        size, copies = draft.whole("--tensor-parallel-size", 1), draft.whole("--data-parallel-size", 1)
        gpus = None if size is None or copies is None else size * copies
        draft.set("rollout_gpus", gpus, "--tensor-parallel-size x --data-parallel-size")
    each, accumulate = draft.whole("--per_device_train_batch_size", 8), draft.whole("--gradient_accumulation_steps", 1)
    samples = draft.of("samples_per_prompt")
    if not (procs and each and accumulate and samples):
        return
    update = each * accumulate * procs
    steps = draft.whole("--steps_per_generation", accumulate)
    reason = "--per_device_train_batch_size x --gradient_accumulation_steps x --num_processes"
    if update % samples:
        draft.flat.warn(f"{update} responses of an update are not a multiple of num_generations {samples}")
        return
    draft.set("prompts_per_update", update // samples, reason)
    if draft.of("prompts_per_step") is None:
        responses = update if asynchronous else each * procs * (steps or 0)
        if responses and responses % samples == 0:
            draft.set("prompts_per_step", responses // samples, reason if asynchronous else "--steps_per_generation, in responses")
    updates_of_batches(draft)


def open_instruct(draft: Draft) -> None:
    """Complete a draft: learners are listed per node."""
    given = draft.flat.get("--num_learners_per_node")
    listed = [] if given is None or not given.known else given.value if isinstance(given.value, list) else str(given.value).split()
    if listed and all(str(size).strip().isdigit() and len(str(size)) < 8 for size in listed):
        draft.set("train_gpus", sum(int(str(size)) for size in listed), "--num_learners_per_node")
    elif listed:
        draft.flat.warn("--num_learners_per_node is not a list of whole numbers")
    elif given is None and not draft.flat.partial:
        draft.set("train_gpus", 1, "default of --num_learners_per_node")
    alone = draft.switch("--single_gpu_mode")
    draft.set("placement", None if alone is None else "colocated" if alone else "separate", "--single_gpu_mode")
    draft.set("asynchronous", True, "--async_steps")
    step, updates = draft.of("prompts_per_step"), draft.of("updates_per_step")
    if step is not None and updates is not None and step % updates == 0:
        draft.set("prompts_per_update", step // updates, f"{draft.read['prompts_per_step']} / {draft.read['updates_per_step']}")
    zero_stage(draft)
    updates_of_batches(draft)
