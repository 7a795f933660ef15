"""Every framework's configuration is read as what it means, and says which key gave what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollplan.models.launch import DIALECTS
from rollplan.models.launch.settings import SettingName
from rollplan.profilers.configs.read import parse_config, read_config
from tests.profilers.configs.examples import EXAMPLES, Example


def named(example: Example) -> str:
    return f"{example.framework}: {example.dialect}"


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_an_example_of_every_dialect_is_recognised_and_read(example: Example) -> None:
    """Framework, dialect and numbers, without being told the framework."""
    read = parse_config(example.text, "launch", example.suffix)
    assert (read.framework, read.dialect) == (example.framework, example.dialect)
    assert {name: getattr(read, name) for name in example.fields} == dict(example.fields)
    assert read.warnings == ()


def test_there_is_an_example_of_every_dialect() -> None:
    """A dialect without one would be untested."""
    assert {(example.framework, example.dialect) for example in EXAMPLES} == {(table.framework, table.name) for table in DIALECTS}


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_every_field_that_was_read_says_where_from(example: Example) -> None:
    """Provenance: nobody has to guess which key made a number."""
    read = parse_config(example.text, "launch", example.suffix)
    filled = {name for name in SettingName.__args__ if getattr(read, name) is not None}
    assert filled == set(read.read)


def test_colocated_sides_have_all_gpus() -> None:
    """verl's ordinary trainer runs both sides on the trainer's GPUs."""
    read = parse_config("python -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8", "launch")
    assert (read.placement, read.rollout_gpus, read.train_gpus, read.total_gpus, read.staleness) == ("colocated", 16, 16, 16, 0)


def test_rank_lists_that_overlap_are_colocated() -> None:
    """ROLL has no switch: sharing ranks is colocation, and unequal lists are said."""
    text = "actor_train: {device_mapping: 'list(range(0,8))'}\nactor_infer: {device_mapping: 'list(range(0,4)) + list(range(6,8))'}\n"
    read = parse_config(text, "launch", ".yaml")
    assert (read.placement, read.rollout_gpus, read.train_gpus) == ("colocated", 6, 8)
    assert "6 GPUs belong to both sides" in read.warnings[0]


def test_areal_sides_share_gpus_if_one_targets_the_other() -> None:
    """`scheduling_strategy`, in either direction; a reference that sits with the actor says nothing about rollout."""
    base = "rollout: {backend: 'vllm:d8'}\nactor: {backend: 'megatron:(attn:d2p2t2c1|ffn:d1p2t2e2)'"
    together = parse_config(base + ", scheduling_strategy: {type: colocation, target: rollout}}\n", "launch", ".yaml")
    apart = parse_config(base + "}\nref: {scheduling_strategy: {type: colocation, target: actor}}\n", "launch", ".yaml")
    assert (together.placement, together.train_gpus, together.train_ep) == ("colocated", 8, 2)
    assert apart.placement == "separate"


def test_the_section_of_the_engine_in_use_counts() -> None:
    """AReaL's files hold sections of both engines."""
    text = "rollout: {backend: 'vllm:d8'}\nsglang: {mem_fraction_static: 0.5}\nvllm: {gpu_memory_utilization: 0.9}\n"
    assert parse_config(text, "launch", ".yaml").gpu_memory_utilization == 0.9


def test_nemo_training_gets_what_generation_leaves() -> None:
    """On one node generation takes GPUs, on several whole nodes."""
    text = "cluster: {num_nodes: 1, gpus_per_node: 8}\npolicy: {generation: {colocated: {enabled: false, resources: {gpus_per_node: 3}}}}\n"
    read = parse_config(text, "launch", ".yaml")
    assert (read.rollout_gpus, read.train_gpus) == (3, 5)


def test_nemo_recipes_that_inherit_do_not_get_the_defaults() -> None:
    """What the file below sets is not known, so it is not called synchronous or colocated."""
    read = parse_config("defaults: ../base.yaml\ngrpo: {num_prompts_per_step: 4}\n", "launch", ".yaml")
    assert (read.asynchronous, read.placement, read.staleness) == (None, None, None)
    assert "base.yaml was not read" in read.warnings[0]


def test_slime_bounds_fully_async_rollout_in_groups() -> None:
    """Groups in flight and as many waiting: 2 x 32 x 4 engines over 64 prompts."""
    text = (
        "python3 train_async.py --rollout-num-gpus 8 --rollout-num-gpus-per-engine 2 --rollout-batch-size 64 --n-samples-per-prompt 4 "
        "--sglang-server-concurrency 32 --rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async"
    )
    read = parse_config(text, "launch")
    assert (read.staleness, read.in_flight) == (4.0, 32 * 4 * 4)
    assert "groups in flight" in read.warnings[0]


def test_the_configuration_that_verl_prints_is_found_in_a_log(tmp_path: Path) -> None:
    """`pprint` of the resolved configuration, behind Ray's prefixes, amid other lines."""
    printed = [
        "{'actor_rollout_ref': {'model': {'path': 'org/tiny'},",
        "                       'rollout': {'n': 4, 'name': 'vllm'}},",
        " 'data': {'train_batch_size': 64},",
        " 'trainer': {'n_gpus_per_node': 8, 'nnodes': 2}}",
    ]
    lines = [
        "starting",
        *(f"(TaskRunner pid=17, ip=10.0.0.1) {line}" for line in printed),
        "(TaskRunner pid=17) step:1 - timing_s/step:3.2",
    ]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines))
    read = read_config(path)
    assert (read.framework, read.train_gpus, read.samples_per_prompt, read.prompts_per_step) == ("verl", 16, 4, 64)


def test_json_is_read_like_yaml() -> None:
    """The same keys, the same settings."""
    tree = {"deployment": {"num_train_gpus": 2, "num_infer_gpus": 6}, "orchestrator": {"batch_size": 64, "group_size": 8}}
    assert parse_config(json.dumps(tree), "launch", ".json").rollout_gpus == 6


def test_references_between_keys_are_followed() -> None:
    """OmegaConf's `${a.b}` and the default of `${oc.env:..}`."""
    text = (
        "num_return_sequences_in_group: ${actor_infer.n}\nresponse_length: ${oc.env:LEN, 512}\nprompt_length: ${nowhere}\n"
        "actor_infer: {n: 6, device_mapping: '[0, 1]'}\n"
    )
    read = parse_config(text, "launch", ".yaml")
    assert (read.samples_per_prompt, read.response_limit, read.prompt_limit) == (6, 512, None)
    assert any("prompt_length" in warning and "does not tell" in warning for warning in read.warnings)


def test_a_key_that_is_given_twice_is_said() -> None:
    """Hydra takes the later one; two values are a mistake more often than not."""
    read = parse_config("python -m verl.trainer.main_ppo trainer.nnodes=2 \\\n trainer.nnodes=4", "launch")
    assert read.train_gpus == 32
    assert "trainer.nnodes is given twice" in " ".join(read.warnings)


def test_what_was_looked_for_and_not_found_is_said_with_its_keys() -> None:
    """So that a user knows which key to add, or which file to give."""
    read = parse_config("actor_infer: {device_mapping: '[0,1]'}\n", "launch", ".yaml")
    assert "train_gpus: actor_train.device_mapping" in read.missing


def test_values_that_cannot_be_are_left_out_and_said() -> None:
    """A share above 1, a fraction of a GPU, a word for a number."""
    values = ("actor_rollout_ref.rollout.gpu_memory_utilization=7", "trainer.nnodes=1.5", "data.max_response_length=long")
    text = " ".join(("python -m verl.trainer.main_ppo", *values))
    read = parse_config(text, "launch")
    assert (read.gpu_memory_utilization, read.train_gpus, read.response_limit) == (None, None, None)
    assert len(read.warnings) >= 3


FULLY = "python -m verl.experimental.fully_async_policy.fully_async_main actor_rollout_ref.rollout.n=8 "
FULLY += "rollout.nnodes=2 rollout.n_gpus_per_node=8 "
FULLY += "actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
FULLY += "async_training.staleness_threshold=0.5 async_training.trigger_parameter_sync_step=4 async_training.require_batches=1 "


@pytest.mark.parametrize(("each", "responses"), [(16, 16 * 8 * 8), (64, 192 * 8)])
def test_what_verl_generates_at_once_is_bounded_by_replicas_and_by_its_queue(each: int, responses: int) -> None:
    """Prompts: those of 8 replicas, at most int(32 x 1 x (1 + 0.5) x 4) = 192, the size of the queue; 8 responses each."""
    assert parse_config(f"{FULLY} async_training.concurrent_samples_per_replica={each}", "launch").in_flight == responses


def test_a_fully_async_trainer_of_verl_with_batches_of_its_own_is_warned_of() -> None:
    """It asserts data.train_batch_size 0 and data.gen_batch_size 1."""
    assert parse_config(f"{FULLY} data.train_batch_size=0 data.gen_batch_size=1", "launch").warnings == ()
    found = parse_config(f"{FULLY} data.train_batch_size=64 data.gen_batch_size=2", "launch").warnings
    assert [text.split(" for ")[0] for text in found] == ["data.train_batch_size must be 0", "data.gen_batch_size must be 1"]


@pytest.mark.parametrize(("extra", "placement"), [("", "colocated"), ("--train.async_enable", "separate")])
def test_colocating_all_models_of_openrlhf_leaves_the_engines_apart_if_it_is_asynchronous(extra: str, placement: str) -> None:
    """With async, --train.colocate_all only joins the DeepSpeed models."""
    text = f"python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all --actor.num_nodes 2 --vllm.num_engines 16 {extra}"
    assert parse_config(text, "launch").placement == placement
