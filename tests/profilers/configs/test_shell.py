"""Launch scripts are read as a shell would cut them, and nothing in them is run or guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan.models.launch import LaunchSettings
from rollplan.profilers.configs.read import parse_config

MAIN = "python -m verl.trainer.main_ppo"


def read(*lines: str) -> LaunchSettings:
    return parse_config("\n".join(lines), "launch.sh", ".sh")


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        (("N=3", f"{MAIN} trainer.nnodes=$N"), 24),
        (("N=3", f"{MAIN} trainer.nnodes=${{N}}"), 24),
        ((f"{MAIN} trainer.nnodes=${{N:-5}}",), 40),
        (("N=''", f"{MAIN} trainer.nnodes=${{N:-5}}"), 40),
        (("M=2", f"{MAIN} trainer.nnodes=${{N:-$((M * 2 + 1))}}"), 40),
        (('export N="3"', f"{MAIN} 'trainer.nnodes='\"$N\""), 24),
        ((': "${N:=6}"', f'{MAIN} trainer.nnodes="$N"'), 48),
        (("A=4", "B=$((A / 2 - 1))", f"{MAIN} trainer.nnodes=$B"), 8),
        (("ARGS=(", "  trainer.nnodes=2 # two", ")", "ARGS+=(trainer.n_gpus_per_node=4)", f'{MAIN} "${{ARGS[@]}}"'), 8),
        (('ARGS="trainer.nnodes=2 trainer.n_gpus_per_node=4"', f"{MAIN} $ARGS"), 8),
        ((f"FOO=1 BAR=2 {MAIN} \\", "  trainer.nnodes=2 \\", "  trainer.n_gpus_per_node=4 2>&1 | tee trainer.nnodes=9"), 8),
        ((f"cd x && {MAIN} ++trainer.nnodes=2 +trainer.n_gpus_per_node=4; echo trainer.nnodes=7",), 8),
        (("cat <<EOF > x", f"{MAIN} trainer.nnodes=9", "EOF", f"{MAIN} trainer.nnodes=2"), 16),
        ((f"# {MAIN} trainer.nnodes=9", f"{MAIN} trainer.nnodes=2 # trainer.nnodes=3"), 16),
        (("cat <<'E O F' > x", f"{MAIN} trainer.nnodes=9", "E O F", f"{MAIN} trainer.nnodes=2"), 16),
        (("cat <<\\EOF > x", f"{MAIN} trainer.nnodes=9", "EOF", f"{MAIN} trainer.nnodes=2"), 16),
        (("N=2", "if (( N == 4 )); then echo; fi", "printf '%s' N", f"{MAIN} trainer.nnodes=$N"), 16),
        (("run() {", "  N=2", f'  {MAIN} trainer.nnodes=$N "$@"', "}", "run"), 16),
        (("run() {", f'  {MAIN} trainer.nnodes=2 "$@"', "}", "run"), 16),
    ],
)
def test_variables_arrays_quotes_and_comments(lines: tuple[str, ...], gpus: int) -> None:
    """Training GPUs (nodes x 8 if only nodes are given) come through what scripts do to them."""
    found = read(*lines)
    assert found.train_gpus == gpus
    assert not any("not told" in warning or "does not tell" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "lines",
    [
        (f"{MAIN} trainer.nnodes=$N",),
        ("N=$(nvidia-smi -L | wc -l)", f"{MAIN} trainer.nnodes=$N"),
        ("if true; then N=2; else N=4; fi", f"{MAIN} trainer.nnodes=$N"),
        ("N=1", "[ -z $X ] && N=2", f"{MAIN} trainer.nnodes=$N"),
        ("for N in 1 2; do", f"{MAIN} trainer.nnodes=$N", "done"),
        ("N=$1", f"{MAIN} trainer.nnodes=$N"),
        (f"{MAIN} trainer.nnodes=$((N * 0 + 7 / 0))",),
        ("N=2", "read -r N", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "unset N", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", 'eval "N=4"', f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "printf -v N 4", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "mapfile -t N < nodes", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "((N++))", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "(( N += 4 ))", f"{MAIN} trainer.nnodes=$N"),
        ("N=2", "more() { N=4; }", "more", f"{MAIN} trainer.nnodes=$N"),
    ],
)
def test_what_only_the_run_knows_stays_unknown(lines: tuple[str, ...]) -> None:
    """Never the default in its place: unset variables, output of commands, branches, loops, arguments, commands that set variables."""
    found = read(*lines)
    assert found.train_gpus is None
    assert any("trainer.nnodes" in warning for warning in found.warnings)


def test_a_branch_that_changes_nothing_is_no_doubt() -> None:
    """The same value in the branch as before."""
    assert read("N=2", "if true; then", "N=2", "fi", f"{MAIN} trainer.nnodes=$N").train_gpus == 16


def test_arguments_that_are_not_told_leave_no_defaults() -> None:
    """Anything might stand in `$EXTRA`: the engine's size is not called 2 because verl's default is."""
    found = read(f"{MAIN} trainer.nnodes=2 trainer.n_gpus_per_node=8 $EXTRA")
    assert (found.train_gpus, found.rollout_tp) == (16, None)
    assert "$" in found.warnings[0]


def test_a_file_of_settings_behind_a_sign_leaves_no_defaults() -> None:
    """prime-rl's `rl @ rl.toml`: whatever is not on the command line may stand in the file."""
    found = parse_config("uv run rl @ rl.toml --deployment.num-infer-gpus 6 --deployment.num-train-gpus 2", "launch.sh", ".sh")
    assert (found.rollout_gpus, found.train_gpus) == (6, 2)
    assert (found.prompts_per_step, found.samples_per_prompt, found.staleness, found.rollout_tp) == (None, None, None, None)
    assert any("rl.toml was not read" in warning for warning in found.warnings)


def test_flags_alone_with_values_and_with_several_values() -> None:
    """argparse's ways of writing one argument."""
    text = "python grpo_fast.py --single_gpu_mode --num_learners_per_node 2 6 --response_length=512 --vllm_num_engines 3 run"
    found = parse_config(text, "launch")
    assert (found.placement, found.train_gpus, found.response_limit, found.rollout_gpus) == ("colocated", 8, 512, 3)


def test_nothing_is_executed(tmp_path: Path) -> None:
    """Substitutions, here-documents and rank lists that would leave a trace if anybody ran them."""
    trace = tmp_path / "trace"
    read(f"X=$(touch {trace})", f"`touch {trace}`", f"touch {trace}", f"{MAIN} trainer.nnodes=$(touch {trace}; echo 2)")
    evil = f"actor_infer: {{device_mapping: \"__import__('pathlib').Path('{trace}').touch() or [0]\"}}\nactor_train: {{}}\n"
    found = parse_config(evil, "launch", ".yaml")
    assert found.rollout_gpus is None
    assert not trace.exists()
