"""Rules of frameworks and arithmetic: named with their numbers when broken, silent when not."""

from __future__ import annotations

from typing import Any

import pytest

from rollplan.models.launch import LaunchSettings, broken_rules


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"framework": "verl", "rollout_gpus": 6, "rollout_tp": 4}, "6 rollout GPUs are not a multiple of 4"),
        ({"framework": "verl", "rollout_tp": 16, "gpus_per_node": 8}, "reaches beyond a node of 8"),
        ({"framework": "verl", "train_gpus": 6, "train_tp": 2, "train_pp": 2}, "6 training GPUs are not a multiple of 4"),
        ({"framework": "verl", "train_gpus": 96, "prompts_per_update": 32, "samples_per_prompt": 16}, "512 responses of an update are not"),
        (
            {"framework": "SkyRL", "placement": "colocated", "rollout_gpus": 8, "train_gpus": 16},
            "same number of GPUs in SkyRL, here 8 and 16",
        ),
        ({"framework": "NeMo-RL", "placement": "separate", "rollout_gpus": 12, "train_gpus": 12, "gpus_per_node": 8}, "whole nodes of 8"),
        ({"framework": "prime-rl", "placement": "separate", "rollout_gpus": 6, "train_gpus": 6, "gpus_per_node": 8}, "whole nodes of 8"),
        (
            {"framework": "open-instruct", "prompt_limit": 512, "response_limit": 512, "sequence_limit": 1000},
            "exceed the sequence limit 1000",
        ),
        (
            {
                "framework": "verl",
                "dialect": "V1",
                "placement": "separate",
                "prompts_per_step": 64,
                "prompts_per_update": 16,
                "sync_every": 3,
            },
            "train_batch_size 64 is not parameter_sync_step 3 x ppo_mini_batch_size 16",
        ),
        ({"framework": "verl", "prompts_per_step": 64, "prompts_per_update": 128}, "64 is less than ppo_mini_batch_size 128"),
        ({"framework": "slime", "prompts_per_step": 64, "prompts_per_update": 16, "updates_per_step": 2}, "not 2 steps x 16 prompts"),
        ({"framework": "SkyRL", "prompts_per_step": 60, "prompts_per_update": 16}, "60 is not a multiple of policy_mini_batch_size 16"),
        ({"framework": "ROLL", "staleness": 0.5}, "below 1"),
        (
            {
                "framework": "SkyRL",
                "asynchronous": True,
                "prompts_per_step": 64,
                "prompts_per_update": 64,
                "staleness": 1.0,
                "in_flight": 129 * 8,
                "samples_per_prompt": 8,
            },
            "129 generation workers are outside 64 to 128",
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_numbers(settings: dict[str, Any], words: str) -> None:
    """One rule each; 96 training GPUs that 512 responses do not divide over is verl's own example of why a split was forced."""
    found = list(broken_rules(LaunchSettings(**settings)))
    assert len(found) == 1
    assert words in found[0]


def test_unknown_numbers_break_no_rule() -> None:
    """Nothing is held against a configuration that does not tell."""
    assert list(broken_rules(LaunchSettings(framework="verl"))) == []


def test_units_that_plans_need() -> None:
    """GPUs of an engine and of a data-parallel rank, responses of an update, the name at the end of a path."""
    settings = LaunchSettings(
        framework="verl",
        rollout_tp=4,
        rollout_pp=2,
        train_cp=2,
        prompts_per_update=8,
        samples_per_prompt=4,
        model="${HOME}/models/Qwen3-8B/",
    )
    assert (settings.rollout_unit, settings.train_unit, settings.samples_per_update, settings.model_name) == (8, 2, 32, "Qwen3-8B")
    assert LaunchSettings(framework="verl").train_unit is None
