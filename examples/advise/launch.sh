#!/usr/bin/env bash
# The launch script that belongs to fully_async.log: verl, 16 GPUs roll out and 16 train.
NNODES_ROLLOUT=2
python -m verl.experimental.fully_async_policy.fully_async_main \
  actor_rollout_ref.model.path=models/policy \
  actor_rollout_ref.hybrid_engine=False \
  data.train_batch_size=0 data.gen_batch_size=1 \
  data.max_prompt_length=2048 data.max_response_length=28672 \
  rollout.nnodes=${NNODES_ROLLOUT} rollout.n_gpus_per_node=8 rollout.total_rollout_steps=51200 \
  trainer.nnodes=2 trainer.n_gpus_per_node=8 \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.mode=async actor_rollout_ref.rollout.n=16 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=4 actor_rollout_ref.rollout.gpu_memory_utilization=0.8 \
  actor_rollout_ref.rollout.calculate_log_probs=True \
  actor_rollout_ref.actor.strategy=megatron \
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 \
  async_training.staleness_threshold=0.5 async_training.trigger_parameter_sync_step=4 \
  async_training.require_batches=4 async_training.partial_rollout=True \
  trainer.logger=['console','file']
