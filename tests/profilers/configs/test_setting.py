"""What `setting` writes, the reader reads back: the table of keys is one for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.launch import Adjustable, FrameworkName, LaunchSettings, changed_lines, dialect, setting
from rollplan.models.launch.setting import ADJUSTABLE
from rollplan.profilers.configs.read import parse_config
from tests.profilers.configs.examples import EXAMPLES, Example

SINGLE: dict[Adjustable, list[float]] = {
    "rollout_gpus": [8, 24, 48],
    "train_gpus": [8, 16, 40],
    "staleness": [0, 1, 2, 3],
    "sync_every": [1, 2, 6],
    "prompts_per_step": [24, 96, 480],
    "samples_per_prompt": [2, 8, 16],
    "rollout_tp": [1, 2, 8],
    "max_num_seqs": [17, 512],
    "gpu_memory_utilization": [0.35, 0.9],
}
CANNOT = {
    ("verl", "one step off", "sync_every"),
    ("verl", "one step off", "staleness"),
    ("OpenRLHF", "", "sync_every"),
    ("OpenRLHF", "", "max_num_seqs"),
    ("AReaL", "", "sync_every"),
    ("ROLL", "", "sync_every"),
    ("NeMo-RL", "", "sync_every"),
    ("prime-rl", "", "sync_every"),
    ("SkyRL", "", "sync_every"),
    ("open-instruct", "", "sync_every"),
    ("open-instruct", "", "max_num_seqs"),
    ("open-instruct", "", "staleness"),
    ("slime", "flags", "staleness"),
    ("TRL", "GRPO", "sync_every"),
    ("TRL", "GRPO", "staleness"),
    ("TRL", "async GRPO", "prompts_per_step"),
}
"""Settings for which a framework has no words, at least for some of the values above."""


def applied(example: Example, lines: tuple[str, ...]) -> str:
    """The example's text with the changes made as a user would make them, remarks included."""
    text = example.text
    for note in (line.removeprefix("# ") for line in lines if line.startswith("# ")):
        if note.startswith("leave "):
            text = text.replace(f"{note.removeprefix('leave ').removesuffix(' out')} ", " ")
        elif note.startswith("run train"):
            text = text.replace("train_async.py", "train.py").replace("train.py", note.removeprefix("run "))
        elif note.startswith("run python -m"):
            text = note.removeprefix("run ") + " " + text.partition("\\\n")[2]
        elif note.startswith("run main"):
            text = text.replace("skyrl_train.entrypoints.main_base", f"examples.{note.removeprefix('run ')}")
    changes = [line for line in lines if not line.startswith("#")]
    match dialect(example.framework, example.dialect).notation:
        case "toml":
            keys = {line.partition(" = ")[0] for line in changes}
            kept = [line for line in text.splitlines() if line.partition(" = ")[0] not in keys]
            return "\n".join([*changes, *kept])
        case "yaml":
            return "\n".join([text, *changes])
        case _:
            return text.rstrip() + " " + " ".join(changes)


def read(text: str, example: Example) -> LaunchSettings:
    return parse_config(text, "launch", example.suffix, example.framework)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.framework}: {example.dialect}")
@pytest.mark.parametrize("name", SINGLE)
def test_a_single_change_is_read_back(example: Example, name: Adjustable) -> None:
    """Each setting of each dialect, several values; where nothing can be written it is None, never a wrong line."""
    before = read(example.text, example)
    written = 0
    for value in SINGLE[name]:
        lines = changed_lines(before, {name: value})
        if lines is not None and not any("bounds staleness" in line for line in lines):
            written += 1
            assert getattr(read(applied(example, lines), example), name) == value
    silent = {(example.framework, "", name), (example.framework, example.dialect, name)} & CANNOT
    assert written or silent
    assert written == len(SINGLE[name]) or silent or name in ("prompts_per_step", "sync_every", "train_gpus", "rollout_gpus", "rollout_tp")


SPLITS = [example for example in EXAMPLES if "before" not in example.dialect and "deprecated" not in example.dialect]


@given(st.sampled_from(SPLITS), st.integers(1, 6), st.integers(1, 6))
def test_a_split_in_whole_nodes_is_read_back(example: Example, rollout: int, train: int) -> None:
    """Both sides at once, for every framework: what `advise` prints when it moves nodes."""
    before = read(example.text, example)
    lines = changed_lines(before, {"rollout_gpus": 8 * rollout, "train_gpus": 8 * train})
    assert lines is not None
    after = read(applied(example, lines), example)
    assert (after.rollout_gpus, after.train_gpus, after.placement) == (8 * rollout, 8 * train, "separate")


@given(st.integers(1, 200))
def test_any_number_of_gpus_is_nodes_times_gpus(gpus: int) -> None:
    """Sizes that are no whole nodes are spread evenly over as few nodes as divide them."""
    line = setting(LaunchSettings(framework="verl", dialect="fully async"), "rollout_gpus", gpus) or ""
    nodes, each = (int(part.rpartition("=")[2]) for part in line.split())
    assert nodes * each == gpus
    assert each <= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.framework}: {example.dialect}")
def test_colocating_is_read_back_where_the_framework_can(example: Example) -> None:
    """With all GPUs for both sides; prime-rl, open-instruct and TRL's async trainer never share them."""
    before = read(example.text, example)
    lines = changed_lines(before, {"placement": "colocated"})
    if example.framework in ("prime-rl", "open-instruct") or example.dialect == "async GRPO":
        assert lines is None
        return
    assert lines is not None
    after = read(applied(example, lines), example)
    assert (after.placement, after.train_gpus, after.rollout_gpus) == ("colocated", 24, 24)


def test_a_setting_speaks_the_words_of_its_version() -> None:
    """The same change in old and new words of one framework."""
    old, new = (
        LaunchSettings(framework="OpenRLHF", dialect=name, rollout_tp=2) for name in ("flat flags (before 2026-04)", "dotted flags")
    )
    assert setting(old, "rollout_gpus", 16) == "--vllm_num_engines 8"
    assert setting(new, "rollout_gpus", 16) == "--vllm.num_engines 8"


def test_gpus_that_are_no_whole_engines_are_not_written() -> None:
    """6 GPUs cannot hold engines of 4."""
    assert setting(LaunchSettings(framework="OpenRLHF", rollout_tp=4), "rollout_gpus", 6) is None


def test_more_samples_keep_the_prompts_of_a_batch_that_counts_responses() -> None:
    """slime's global batch and prime-rl's batch are in responses."""
    before = read(EXAMPLES[10].text, EXAMPLES[10])
    assert setting(before, "samples_per_prompt", 8) == "orchestrator.group_size = 8\norchestrator.batch_size = 384"


def test_only_adjustable_settings_and_whole_numbers_are_written() -> None:
    """A caller's mistake is an error, not a line."""
    with pytest.raises(ValueError, match="must be a whole number"):
        setting(LaunchSettings(framework="verl"), "rollout_gpus", 1.5)
    with pytest.raises(ValueError, match="cannot be written"):
        setting(LaunchSettings(framework="verl"), "model", "x")
    assert set(ADJUSTABLE) == {*SINGLE, "placement"}


def test_nodes_are_no_fuller_than_keeps_engines_whole() -> None:
    """20 GPUs in engines of 4: five nodes of 4, not four of 5, across which an engine would lie."""
    wanted = LaunchSettings(framework="verl", dialect="fully async", gpus_per_node=8, rollout_tp=4, rollout_gpus=16, train_gpus=16)
    assert changed_lines(wanted, {"rollout_gpus": 20}) == ("rollout.nnodes=5", "rollout.n_gpus_per_node=4")
    assert changed_lines(wanted, {"rollout_gpus": 24}) == ("rollout.nnodes=3", "rollout.n_gpus_per_node=8")


COLOCATED = [
    LaunchSettings(framework="verl", dialect="V1", placement="colocated", rollout_gpus=16, train_gpus=16),
    LaunchSettings(framework="OpenRLHF", placement="colocated", rollout_gpus=16, train_gpus=16, rollout_tp=2),
    LaunchSettings(framework="SkyRL", placement="colocated", rollout_gpus=16, train_gpus=16, rollout_tp=2),
    LaunchSettings(framework="NeMo-RL", placement="colocated", rollout_gpus=16, train_gpus=16),
    LaunchSettings(framework="TRL", placement="colocated", rollout_gpus=16, train_gpus=16),
    LaunchSettings(framework="AReaL", placement="colocated", rollout_gpus=16, train_gpus=16, rollout_engine="sglang", sharding="fsdp"),
]


@pytest.mark.parametrize("before", COLOCATED, ids=lambda settings: settings.framework)
def test_sides_that_share_their_gpus_change_together_or_not_at_all(before: LaunchSettings) -> None:
    """A pool of rollout's own beside a colocated trainer would be ignored, or refused when the run starts."""
    assert changed_lines(before, {"rollout_gpus": 24, "train_gpus": 8}) is None
    assert changed_lines(before, {"rollout_gpus": 32}) == changed_lines(before, {"train_gpus": 32})
    assert changed_lines(before, {"rollout_gpus": 32}) == changed_lines(before, {"rollout_gpus": 32, "train_gpus": 32})
    assert not any("actor_rollout_ref.rollout.nnodes" in line for line in changed_lines(before, {"rollout_gpus": 32}) or ())


@pytest.mark.parametrize("framework", ["OpenRLHF", "slime", "NeMo-RL", "SkyRL"])
def test_sides_that_take_turns_cannot_be_made_asynchronous(framework: FrameworkName) -> None:
    """Each of these refuses to start so; on GPUs of their own they can."""
    assert setting(LaunchSettings(framework=framework, placement="colocated"), "staleness", 1) is None
    assert setting(LaunchSettings(framework=framework, placement="separate"), "staleness", 1) is not None


@pytest.mark.parametrize("framework", ["prime-rl", "open-instruct"])
def test_sides_that_are_always_apart_need_no_words_for_it(framework: FrameworkName) -> None:
    """A change of the split that says so, too, is still written."""
    before = LaunchSettings(framework=framework, placement="separate", rollout_gpus=8, train_gpus=8)
    split: dict[Adjustable, float | str] = {"rollout_gpus": 16, "train_gpus": 8}
    assert changed_lines(before, {"placement": "separate", **split}) == changed_lines(before, split)
    assert changed_lines(before, split)


SKYRL = "python -m examples.train.fully_async.main_fully_async trainer.fully_async.enabled=true trainer.placement.colocate_all=false "
SKYRL += "trainer.fully_async.max_staleness_steps=4 trainer.fully_async.num_parallel_generation_workers=320 generator.batched=false "
SKYRL += "trainer.train_batch_size=64 trainer.policy_mini_batch_size=64 generator.n_samples_per_prompt=8"


@pytest.mark.parametrize(
    ("changes", "workers"), [({"staleness": 2}, 192), ({"staleness": 6}, 320), ({"prompts_per_step": 512}, 512), ({"staleness": 0}, 64)]
)
def test_workers_of_skyrl_stay_between_a_batch_and_staleness_plus_one(changes: dict[Adjustable, float | str], workers: int) -> None:
    """Its fully async trainer asserts batch <= workers <= batch x (staleness + 1) when it starts."""
    lines = changed_lines(parse_config(SKYRL, "launch"), changes) or ()
    after = parse_config(" ".join([SKYRL, *(line for line in lines if not line.startswith("#"))]), "launch")
    assert after.in_flight == 8 * workers
    assert not any("generation workers are outside" in warning for warning in after.warnings)


def test_a_synchronous_skyrl_gets_all_that_the_fully_async_trainer_asks_for() -> None:
    """One mini-batch per batch, no batched generation, workers for staleness + 1 batches."""
    before = LaunchSettings(framework="SkyRL", placement="separate", asynchronous=False, prompts_per_step=64, samples_per_prompt=8)
    lines = changed_lines(before, {"staleness": 1}) or ()
    wanted = {"generator.batched=False", "trainer.policy_mini_batch_size=64", "trainer.fully_async.num_parallel_generation_workers=128"}
    assert wanted <= set(lines)


def test_a_less_stale_slime_leaves_its_fully_async_rollout_out() -> None:
    """Else train_async.py would go on with it."""
    path = "--rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async"
    before = parse_config(f"python3 train_async.py --rollout-num-gpus 16 --rollout-batch-size 64 {path}", "launch")
    assert changed_lines(before, {"staleness": 1}) == (f"# leave {path} out", "# run train_async.py")
    assert changed_lines(before.model_copy(update={"read": {}}), {"staleness": 1}) == ("# run train_async.py",)
    assert f"# leave {path} out" in (changed_lines(before, {"placement": "colocated"}) or ())


def test_a_batch_of_trl_takes_the_place_of_steps_per_generation() -> None:
    """Its trainer takes one of the two."""
    text = "accelerate launch --num_processes 4 train.py --vllm_mode server --num_generations 8 --per_device_train_batch_size 1 "
    before = parse_config(text + "--gradient_accumulation_steps 128 --steps_per_generation 128", "launch")
    note = "# leave --steps_per_generation out"
    assert changed_lines(before, {"prompts_per_step": 128}) == ("--generation_batch_size 1024", note)
    assert note in (changed_lines(before, {"samples_per_prompt": 16}) or ())
    given_batch = parse_config(text + "--generation_batch_size 512", "launch")
    assert changed_lines(given_batch, {"prompts_per_step": 128}) == ("--generation_batch_size 1024",)


@pytest.mark.parametrize(("staleness", "mode"), [(0.5, "colocate_async"), (0.0, "sync")])
def test_colocated_verl_stays_as_asynchronous_as_it_was(staleness: float, mode: str) -> None:
    """V1 has a trainer for either on shared GPUs."""
    before = LaunchSettings(
        framework="verl", dialect="fully async", rollout_gpus=16, train_gpus=16, placement="separate", staleness=staleness
    )
    assert f"trainer.v1.trainer_mode={mode}" in (changed_lines(before, {"placement": "colocated"}) or ())
