"""What `setting` writes, the reader reads back: the table of keys is one for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.launch import Adjustable, LaunchSettings, changed_lines, dialect, setting
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
    match dialect(example.framework, example.dialect).notation:  # type: ignore[arg-type]
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
        setting(LaunchSettings(framework="verl"), "model", "x")  # type: ignore[arg-type]
    assert set(ADJUSTABLE) == {*SINGLE, "placement"}


def test_nodes_are_no_fuller_than_keeps_engines_whole() -> None:
    """20 GPUs in engines of 4: five nodes of 4, not four of 5, across which an engine would lie."""
    wanted = LaunchSettings(framework="verl", dialect="fully async", gpus_per_node=8, rollout_tp=4, rollout_gpus=16, train_gpus=16)
    assert changed_lines(wanted, {"rollout_gpus": 20}) == ("rollout.nnodes=5", "rollout.n_gpus_per_node=4")
    assert changed_lines(wanted, {"rollout_gpus": 24}) == ("rollout.nnodes=3", "rollout.n_gpus_per_node=8")
