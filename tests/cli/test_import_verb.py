"""`rollplan profile import` as users see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollplan.models.profile.file import Profile

TIMES = "timing_s/gen:{gen:.1f} - timing_s/update_actor:50.0 - timing_s/step:{step:.1f}"
RATES = "response_length/mean:400.0 - prompt_length/mean:100.0 - perf/total_num_tokens:512000 - perf/throughput:{rate:.3f}"


def verl(*generation: float) -> str:
    """Return steps that generate for so long on 16 GPUs."""
    lines = []
    for number, gen in enumerate(generation, 1):
        step = gen + 51.0
        lines.append(f"step:{number} - {TIMES.format(gen=gen, step=step)} - {RATES.format(rate=512000 / (step * 16))}\n")
    return "".join(lines)


def test_the_screen_says_mode_steps_medians_and_what_was_dropped(folder: Path, cli: Callable[..., Any]) -> None:
    """Everything that a reader must know before using the numbers."""
    Path("run.log").write_text(verl(150, 40, 41, 42, 43))
    shown = cli("profile", "import", "run.log")
    words = " ".join(shown.out.split())
    assert shown.code == 0
    for part in (
        "run.log verl, 1 run that can be used",
        "mode sync:",
        "GPUs 16, as the log's own rates imply",
        "steps 4 of 5 count",
        "dropped step 1: warm-up: 201.0 s, later steps 92.5 s",
        "generation 41.5 s 44.9 % 40.8 s - 42.2 s 4",
        "update 50.0 s 54.1 %",
        "step (stated) 92.5 s 100.0 %",
        "response mean 400",
        "responses per step 1,024",
    ):
        assert part in words, part


def test_the_profile_is_written_and_shown_as_json(folder: Path, cli: Callable[..., Any]) -> None:
    """Both are the same file; dropped steps stay in it with their reasons."""
    Path("run.log").write_text(verl(150, 40, 41, 42, 43))
    done = cli("profile", "import", "run.log", "-o", "run.json", "--json", "--name", "mine")
    saved = Profile.load(Path("run.json"))
    assert (done.code, json.loads(done.out)) == (0, json.loads(Path("run.json").read_text()))
    assert (saved.name, saved.origin.kind, saved.origin.source, saved.origin.devices, saved.origin.engine) == (
        "mine",
        "imported",
        "run.log",
        16,
        "verl",
    )
    assert [step.dropped is None for step in saved.runs[0].steps] == [False, True, True, True, True]


def test_a_file_that_is_no_profile_is_not_overwritten(folder: Path, cli: Callable[..., Any]) -> None:
    """Unless told to."""
    Path("run.log").write_text(verl(40, 41, 42))
    refused = cli("profile", "import", "run.log", "-o", "run.log")
    assert (refused.code, "is not a profile" in refused.err) == (2, True)
    Path("notes.txt").write_text("mine")
    assert cli("profile", "import", "run.log", "-o", "notes.txt", "--force").code == 0
    assert cli("profile", "import", "run.log", "-o", "notes.txt").code == 0


def test_a_mixed_log_is_refused_and_read_with_a_choice(folder: Path, cli: Callable[..., Any]) -> None:
    """The refusal names both."""
    Path("run.log").write_text(verl(40, 41, 42) + "  • Total step time: 66.55s\n  • policy_training: 60.00s (90.2%)\n")
    refused = cli("profile", "import", "run.log")
    assert (refused.code, refused.out) == (2, "")
    assert "verl (3 lines), NeMo-RL (1 line); choose one with --framework" in refused.err
    assert "NeMo-RL" in cli("profile", "import", "run.log", "--framework", "nemo").out


def test_several_runs_are_shown_one_after_the_other(folder: Path, cli: Callable[..., Any]) -> None:
    """Up to five in full."""
    Path("run.log").write_text("".join(verl(40 + n, 41 + n, 42 + n) for n in range(0, 70, 10)))
    shown = cli("profile", "import", "run.log").out
    assert "7 runs that can be used" in shown
    assert shown.count("steps     3 of 3 count") == 5
    assert "and 2 more runs" in shown
