"""The verbs for one job on all kinds of ground: wrong input, long names, terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

SCENARIO, SEVERAL = (Path(__file__).with_name(f"split_{name}.yaml").read_text() for name in ("one", "several"))
NOTHING_FITS = SCENARIO.replace("Qwen3-0.6B", "Qwen2.5-72B")


@pytest.fixture(autouse=True)
def scenarios(folder: Path) -> None:
    """One job, several jobs, and what is wrong with them, each in a file."""
    texts = {
        "one": SCENARIO,
        "several": SEVERAL,
        "groups": SEVERAL[: SEVERAL.index("  - name: grpo")],
        "large": NOTHING_FITS,
        "bad": SCENARIO.replace("prompts: 8", "prompts: 0"),
        "unknown": SCENARIO.replace("Qwen3-0.6B", "Qwen9-1B"),
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


# What every verb does with wrong input: exit code, field, value, remedy, and nothing on stdout.

REFUSED = {
    "split nowhere.yaml": (2, "nowhere.yaml: does not exist; give the path of a scenario file"),
    "fit nowhere.yaml": (2, "nowhere.yaml: does not exist; give the path of a scenario file"),
    "dispatch nowhere.yaml": (2, "nowhere.yaml: does not exist; give the path of a scenario file"),
    "what-if nowhere.json gpus=+8": (2, "nowhere.json: does not exist; give the path of a plan file"),
    "what-if one.yaml gpus=+8": (2, "is not JSON"),
    "split one.yaml --job sft": (2, "job = `sft`: is not a job that asks for a split; choose from grpo"),
    "fit one.yaml --job sft": (2, "job = `sft`: has no `model` and `workload`; choose from grpo"),
    "dispatch one.yaml --job sft": (2, "job = `sft`: has no `model` and `workload`; choose from grpo"),
    "split several.yaml --job chat": (2, "job = `chat`: is not a job that asks for a split; choose from grpo, dapo, tables"),
    "fit several.yaml": (2, "jobs: has 2 jobs with a `model`; choose one with --job: grpo, dapo"),
    "dispatch several.yaml": (2, "jobs: has 2 jobs with a `model`; choose one with --job: grpo, dapo"),
    "fit several.yaml --job tables": (2, "job = `tables`: has no `model` and `workload`; choose from grpo, dapo"),
    "split groups.yaml": (2, "jobs: has no job that asks for a split; give a job a `split`"),
    "split groups.yaml --job chat": (2, "job = `chat`: is not a job that asks for a split; choose from none: there is none"),
    "fit groups.yaml": (2, "jobs: has 0 jobs with a `model`; give a job a `split` with `model` and `workload`"),
    "dispatch groups.yaml": (2, "jobs: has 0 jobs with a `model`; give a job a `split` with `model` and `workload`"),
    "fit one.yaml --rollout tp3": (
        2,
        "layout = `tp3-dp1`: cannot be: tp 3 does not divide the 16 attention heads; choose degrees that divide",
    ),
    "fit one.yaml --rollout 4": (2, "--rollout = `4`: is not a layout: layout must look like tp4-pp2-dp8, got 4; write tp4-pp2-dp8"),
    "fit one.yaml --train dp99999999999": (2, "--train = `dp99999999999`: is not a layout"),
    "fit one.yaml --colocated --train dp2": (2, "--colocated: needs layouts of both stages on as many GPUs; give --rollout and --train"),
    "split large.yaml": (3, "because training fit on no number of GPUs within the budget"),
    "split large.yaml --json": (3, "because training fit on no number of GPUs within the budget"),
    "dispatch large.yaml": (3, "because training fit on no number of GPUs within the budget"),
    "split bad.yaml": (2, "jobs[0].split.workload.prompts = `0`: input should be greater than or equal to 1; raise it to the limit"),
    "fit bad.yaml": (2, "jobs[0].split.workload.prompts = `0`: input should be greater than or equal to 1; raise it to the limit"),
    "split unknown.yaml": (2, "jobs[0].split.model = `Qwen9-1B`: is not in the reference data; did you mean `"),
}


@pytest.mark.parametrize(("command", "expected"), REFUSED.items(), ids=REFUSED)
def test_wrong_input_is_refused_with_field_value_and_remedy(cli: Call, command: str, expected: tuple[int, str]) -> None:
    """Bad input never shows a traceback, and never half an answer."""
    outcome = cli(*command.split())
    assert (outcome.code, outcome.out) == (expected[0], "")
    assert outcome.err.startswith("error: ")
    assert expected[1] in outcome.err
    assert "Traceback" not in outcome.err


# Screens.

COMMANDS = ["plan {}.yaml -q", "split {}.yaml", "fit {}.yaml --job {}", "dispatch {}.yaml --job {}", "explain {}.json"]


def long_names(text: str, length: int) -> str:
    """Return a scenario whose jobs and pools have long names."""
    for name in ("h20", "h800", "h100", "grpo", "chat", "code", "tables", "dapo"):
        text = re.sub(rf"\b{name}\b", (f"{name}-" * length)[:length], text)
    return text


@pytest.mark.parametrize("length", [12, 30, 100])
@pytest.mark.parametrize("text", [SCENARIO, SEVERAL], ids=["one", "several"])
def test_no_screen_is_wider_than_100_columns(cli: Call, folder: Path, text: str, length: int) -> None:
    """Whatever jobs and pools are called; long names are folded, not cut."""
    (folder / "s.yaml").write_text(long_names(text, length))
    job = ("grpo-" * length)[:length]
    assert cli("plan", "s.yaml", "-o", "s.json", "-q").code == 0
    screens = [cli(*command.format("s", job).split()) for command in COMMANDS]
    screens.append(cli("what-if", "s.json", "--job", job, "workload.samples_per_prompt=8", "pools.price-of-a-name-that-is-not-there=1"))
    assert [screen.code for screen in screens] == [0] * len(COMMANDS) + [2]
    screens.append(cli("what-if", "s.json", "--job", job, "workload.samples_per_prompt=8", "noise=0.1"))
    assert screens[-1].code == 0
    wide = [line for screen in screens for line in screen.out.splitlines() if len(line) > 100]
    assert wide == []


@pytest.mark.parametrize("command", ["split one.yaml", "what-if one.json gpus=+4"])
def test_a_terminal_shows_the_same_words_as_a_pipe(cli: Call, run_cli: Call, command: str) -> None:
    """Nothing is said by colour alone, and pipes get no escape codes."""
    assert cli("plan", "one.yaml", "-o", "one.json", "-q").code == 0
    piped = run_cli(*command.split())
    assert "\x1b" not in piped.out
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rollplan", *command.split()], stdout=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        parts = []
        # Linux ends a terminal that nobody writes to with an error in place of an end of file.
        while (part := _read(mine)) != b"":
            parts.append(part)
    os.close(mine)
    assert process.returncode == piped.code
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", b"".join(parts).decode()).replace("\r\n", "\n")
    assert plain == piped.out


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
