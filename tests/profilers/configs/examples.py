"""Launch configurations of every framework and dialect, generated from one set of numbers, and what they must be read as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROLLOUT, TRAIN, NODE, PROMPTS, SAMPLES, RESPONSE = 16, 8, 8, 48, 4, 6000


@dataclass(frozen=True)
class Example:
    """text with the suffix of its file; dialect; fields that must be read from it."""

    framework: str
    dialect: str
    text: str
    suffix: str
    fields: Mapping[str, object] = field(default_factory=dict)


SIZES = {"rollout_gpus": ROLLOUT, "train_gpus": TRAIN, "samples_per_prompt": SAMPLES, "response_limit": RESPONSE}


def command(program: str, *arguments: str) -> str:
    """A command over several lines, as scripts have it."""
    return " \\\n  ".join((program, *arguments)) + "\n"


_VERL = (
    "actor_rollout_ref.model.path=org/tiny-moe",
    f"data.max_prompt_length=1000 data.max_response_length={RESPONSE}",
    f"trainer.nnodes=1 trainer.n_gpus_per_node={TRAIN}",
    f"actor_rollout_ref.rollout.n={SAMPLES} actor_rollout_ref.rollout.tensor_model_parallel_size=4",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.7 actor_rollout_ref.rollout.max_num_seqs=99",
)
EXAMPLES: tuple[Example, ...] = (
    Example(
        "verl",
        "fully async",
        command(
            "python -m verl.experimental.fully_async_policy.fully_async_main",
            *_VERL,
            "actor_rollout_ref.hybrid_engine=False data.train_batch_size=0 data.gen_batch_size=1",
            "rollout.nnodes=2 rollout.n_gpus_per_node=8 actor_rollout_ref.actor.ppo_mini_batch_size=12",
            "async_training.staleness_threshold=0.4 async_training.trigger_parameter_sync_step=2 async_training.require_batches=2",
        ),
        ".sh",
        {
            **SIZES,
            "placement": "separate",
            "asynchronous": True,
            "prompts_per_step": PROMPTS,
            "prompts_per_update": 12,
            "sync_every": 4,
            "staleness": 0.4,
            "partial_rollout": True,
            "rollout_tp": 4,
            "gpu_memory_utilization": 0.7,
            "max_num_seqs": 99,
            "in_flight": 4 * 16 * SAMPLES,
            "model": "org/tiny-moe",
        },
    ),
    Example(
        "verl",
        "one step off",
        command(
            "python -m verl.experimental.one_step_off_policy.main_ppo",
            *_VERL,
            f"rollout.nnodes=2 rollout.n_gpus_per_node=8 data.train_batch_size={PROMPTS} actor_rollout_ref.actor.ppo_mini_batch_size=24",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 1.0, "prompts_per_step": PROMPTS, "updates_per_step": 2},
    ),
    Example(
        "verl",
        "V1",
        command(
            "python -m verl.trainer.main_ppo",
            *_VERL,
            "trainer.use_v1=True trainer.v1.trainer_mode=separate_async trainer.v1.separate_async.parameter_sync_step=4",
            "actor_rollout_ref.rollout.nnodes=2 actor_rollout_ref.rollout.n_gpus_per_node=8",
            f"data.train_batch_size={PROMPTS} actor_rollout_ref.actor.ppo_mini_batch_size=12",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "asynchronous": True, "staleness": 1.0, "sync_every": 4, "prompts_per_step": PROMPTS},
    ),
    Example(
        "OpenRLHF",
        "dotted flags",
        command(
            "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray",
            "--actor.model_name_or_path org/tiny --train.async_enable --train.async_queue_size 2 --train.partial_rollout_enable",
            f"--actor.num_nodes 1 --actor.num_gpus_per_node {TRAIN} --vllm.num_engines 4 --vllm.tensor_parallel_size 4",
            f"--rollout.batch_size {PROMPTS} --rollout.n_samples_per_prompt {SAMPLES} --train.batch_size {PROMPTS * SAMPLES // 2}",
            f"--rollout.max_new_tokens {RESPONSE} --data.max_len 8000 --ds.zero_stage 3 --vllm.gpu_memory_utilization=0.8",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 2.0, "prompts_per_step": PROMPTS, "updates_per_step": 2, "sharding": "zero3"},
    ),
    Example(
        "OpenRLHF",
        "flat flags (before 2026-04)",
        command(
            "python3 -m openrlhf.cli.train_ppo_ray",
            "--pretrain org/tiny --async_train --ref_num_gpus_per_node 8",
            f"--actor_num_nodes 1 --actor_num_gpus_per_node {TRAIN} --vllm_num_engines 4 --vllm_tensor_parallel_size 4",
            f"--rollout_batch_size {PROMPTS} --n_samples_per_prompt {SAMPLES} --train_batch_size {PROMPTS * SAMPLES}",
            f"--generate_max_len {RESPONSE} --prompt_max_len 1000",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 1.0, "prompts_per_step": PROMPTS, "updates_per_step": 1},
    ),
    Example(
        "slime",
        "flags",
        "N=4\nROLLOUT=(\n  --rollout-batch-size 48  # prompts\n  --n-samples-per-prompt ${N:-9}\n)\n"
        + command(
            "python3 train_async.py",
            "${MODEL_ARGS[@]} ${ROLLOUT[@]}",
            f"--actor-num-nodes 1 --actor-num-gpus-per-node {TRAIN} --rollout-num-gpus {ROLLOUT} --rollout-num-gpus-per-engine 4",
            f"--global-batch-size {PROMPTS * SAMPLES // 2} --num-rollout 10 --rollout-max-response-len {RESPONSE}",
            "--update-weights-interval 3 --sglang-mem-fraction-static 0.7 --tensor-model-parallel-size 2",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 1.0, "prompts_per_step": PROMPTS, "updates_per_step": 2, "sync_every": 6},
    ),
    Example(
        "AReaL",
        "backend strings",
        command(
            "python3 examples/math/run.py",
            "rollout.backend=sglang:d4t4p1 actor.backend=fsdp:d8p1t1 actor.path=org/tiny cluster.n_gpus_per_node=8",
            f"rollout.max_head_offpolicyness=3 rollout.max_concurrent_rollouts=96 train_dataset.batch_size={PROMPTS}",
            f"gconfig.n_samples={SAMPLES} gconfig.max_new_tokens={RESPONSE} actor.ppo_n_minibatches=2 sglang.mem_fraction_static=0.7",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 3.0, "prompts_per_step": PROMPTS, "in_flight": 96 * SAMPLES, "rollout_tp": 4},
    ),
    Example(
        "AReaL",
        "allocation_mode (deprecated)",
        command(
            "python3 run.py",
            "allocation_mode=sglang:d4t4p1+megatron:d4p1t2 rollout.max_head_offpolicyness=0",
            f"train_dataset.batch_size={PROMPTS} gconfig.n_samples={SAMPLES} gconfig.max_new_tokens={RESPONSE} actor.ppo_n_minibatches=1",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 0.0, "asynchronous": False, "train_tp": 2, "sharding": "megatron"},
    ),
    Example(
        "ROLL",
        "device mappings",
        f"""pretrain: org/tiny
rollout_batch_size: {PROMPTS}
num_return_sequences_in_group: {SAMPLES}
prompt_length: 1000
response_length: {RESPONSE}
async_generation_ratio: 1
num_gpus_per_node: 8
actor_train:
  training_args: {{per_device_train_batch_size: 1, gradient_accumulation_steps: 12}}
  strategy_args: {{strategy_name: megatron_train, strategy_config: {{tensor_model_parallel_size: 2}}}}
  device_mapping: list(range(0,8))
actor_infer:
  strategy_args: {{strategy_name: vllm, strategy_config: {{tensor_parallel_size: 4, gpu_memory_utilization: 0.7}}}}
  device_mapping: list(range(8, 3 * 8))
""",
        ".yaml",
        {**SIZES, "placement": "separate", "staleness": 1.0, "prompts_per_step": PROMPTS, "updates_per_step": 4, "rollout_tp": 4},
    ),
    Example(
        "NeMo-RL",
        "cluster and generation resources",
        command(
            "uv run examples/run_grpo.py",
            "cluster.num_nodes=3 cluster.gpus_per_node=8 policy.model_name=org/tiny policy.generation.colocated.enabled=false",
            "policy.generation.colocated.resources.num_nodes=2 policy.generation.colocated.resources.gpus_per_node=8",
            f"policy.train_global_batch_size={PROMPTS * SAMPLES} grpo.num_prompts_per_step={PROMPTS}",
            f"grpo.num_generations_per_prompt={SAMPLES} policy.generation.max_new_tokens={RESPONSE} grpo.async_grpo.enabled=true",
            "grpo.async_grpo.max_trajectory_age_steps=1 policy.generation.vllm_cfg.tensor_parallel_size=4",
            "policy.megatron_cfg.enabled=true policy.megatron_cfg.tensor_model_parallel_size=2",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 1.0, "prompts_per_step": PROMPTS, "updates_per_step": 1, "train_tp": 2},
    ),
    Example(
        "prime-rl",
        "deployment",
        f"""deployment.type = "multi_node"
deployment.gpus_per_node = 8
deployment.num_train_nodes = 1
deployment.num_infer_nodes = 2
model.name = "org/tiny"
orchestrator.batch_size = {PROMPTS * SAMPLES}
orchestrator.group_size = {SAMPLES}
orchestrator.max_off_policy_steps = 5
orchestrator.train.sampling.max_completion_tokens = {RESPONSE}
inference.vllm.tensor_parallel_size = 4
""",
        ".toml",
        {**SIZES, "placement": "separate", "staleness": 5.0, "prompts_per_step": PROMPTS, "rollout_tp": 4, "model": "org/tiny"},
    ),
    Example(
        "prime-rl",
        "max_async_level (before mid-2026)",
        f"""max_async_level = 2
deployment.num_train_gpus = 2
deployment.num_infer_gpus = 6
orchestrator.batch_size = {PROMPTS * SAMPLES}
orchestrator.rollouts_per_example = {SAMPLES}
""",
        ".toml",
        {"rollout_gpus": 6, "train_gpus": 2, "staleness": 2.0, "prompts_per_step": PROMPTS, "samples_per_prompt": SAMPLES},
    ),
    Example(
        "TRL",
        "GRPO",
        command("CUDA_VISIBLE_DEVICES=0,1,2,3 trl vllm-serve", f"--model org/tiny --tensor-parallel-size {ROLLOUT} &")
        + command(
            f"accelerate launch --num_processes {TRAIN} train.py",
            f"--use_vllm --vllm_mode server --num_generations {SAMPLES} --max_completion_length {RESPONSE}",
            "--per_device_train_batch_size 2 --gradient_accumulation_steps 6 --steps_per_generation 12",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "asynchronous": False, "prompts_per_step": PROMPTS, "updates_per_step": 2},
    ),
    Example(
        "TRL",
        "async GRPO",
        command(f"vllm serve org/tiny --tensor-parallel-size {ROLLOUT} &")
        + command(
            f"accelerate launch --num_processes {TRAIN} train.py",
            f"--num_generations {SAMPLES} --max_completion_length {RESPONSE} --max_staleness 3 --weight_sync_steps 2",
            "--per_device_train_batch_size 2 --gradient_accumulation_steps 12",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "asynchronous": True, "staleness": 3.0, "sync_every": 2, "prompts_per_step": PROMPTS},
    ),
    Example(
        "SkyRL",
        "inference_engine",
        command(
            "uv run --isolated --extra fsdp -m examples.train.fully_async.main_fully_async",
            "trainer.fully_async.enabled=true trainer.fully_async.max_staleness_steps=2",
            "trainer.fully_async.num_parallel_generation_workers=100 trainer.placement.colocate_all=false",
            f"trainer.placement.policy_num_nodes=1 trainer.placement.policy_num_gpus_per_node={TRAIN} generator.batched=false",
            "generator.inference_engine.num_engines=4 generator.inference_engine.tensor_parallel_size=4",
            f"trainer.train_batch_size={PROMPTS} trainer.policy_mini_batch_size={PROMPTS} generator.n_samples_per_prompt={SAMPLES}",
            f"generator.sampling_params.max_generate_length={RESPONSE} trainer.policy.model.path=org/tiny",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 2.0, "prompts_per_step": PROMPTS, "in_flight": 100 * SAMPLES},
    ),
    Example(
        "SkyRL",
        "num_inference_engines (before spring 2026)",
        command(
            "uv run -m skyrl_train.entrypoints.main_base",
            "trainer.placement.colocate_all=false generator.num_inference_engines=4 generator.inference_engine_tensor_parallel_size=4",
            f"trainer.placement.policy_num_gpus_per_node={TRAIN} generator.n_samples_per_prompt={SAMPLES}",
            f"generator.sampling_params.max_generate_length={RESPONSE}",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 0.0, "asynchronous": False},
    ),
    Example(
        "open-instruct",
        "flags",
        command(
            "python open_instruct/grpo_fast.py",
            f"--num_learners_per_node 4 4 --vllm_num_engines 4 --vllm_tensor_parallel_size 4 --response_length {RESPONSE}",
            f"--num_unique_prompts_rollout {PROMPTS} --num_samples_per_prompt_rollout {SAMPLES} --num_mini_batches 2",
            "--max_prompt_token_length 1000 --pack_length 7000 --async_steps 4 --inflight_updates True --deepspeed_stage 3",
        ),
        ".sh",
        {**SIZES, "placement": "separate", "staleness": 4.0, "prompts_per_step": PROMPTS, "updates_per_step": 2, "sharding": "zero3"},
    ),
)
