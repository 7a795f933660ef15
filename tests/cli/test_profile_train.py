"""`rollplan profile train` with a worker that answers at once: the screen, the file, and every refusal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.profile.file import Profile
from rollplan.profilers.training import profile as module
from rollplan.profilers.worker import failure

CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "tie_word_embeddings": True,
}


@pytest.fixture
def model(folder: Path) -> str:
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    return "tiny"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of 0.1 s + 1 ms per token for both kinds of pass; one warm move."""

    def ask(_module: str, request: dict[str, Any], python: str | None, _env: object, _limit: float, on_line: Callable[[str], None]) -> Any:
        on_line("rollplan: the model is ready")
        on_line("some library: a warning that nobody needs")
        points = [
            {
                "sequences": sequences,
                "length": length,
                "update_s": [0.1 + 0.001 * sequences * length] * 3,
                "log_prob_s": [0.1 + 0.001 * sequences * length] * 3,
                "peak_bytes": 2**30,
                "log_prob_peak_bytes": None,
            }
            for sequences, length in ((1, 100), (2, 100), (1, 400), (2, 400))
        ]
        move = {"what": "weights", "direction": "offload", "temperature": "warm", "bytes": 2**30, "seconds": [0.5, 0.5]}
        return {
            "points": points,
            "optimizer_s": [0.25],
            "state_bytes": {"weights": 2**20, "gradients": 2**20, "optimizer": 2**21},
            "moves": [move] if request["moves"] else [],
            "skipped": ["8 x 400 tokens: out of memory"],
            "dtype": request["dtype"] or "bfloat16",
            "device": "NVIDIA H200",
            "threads": None,
            "host": "Linux x86_64",
            "versions": {"torch": python or "here"},
        }

    monkeypatch.setattr(module, "ask", ask)


@pytest.mark.usefixtures("worker")
def test_the_screen_shows_points_law_moves_memory_and_what_was_left_out(cli: Callable[..., Any], model: str) -> None:
    """And progress goes to stderr, without what libraries print."""
    done = cli("profile", "train", "--model", model)
    assert done.code == 0
    assert done.err == "the model is ready\n"
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert any(line.startswith("800 2 x 400 0.9 0 %") and line.endswith("% 1") and " 888.9 0.9 0 % " in line for line in lines)
    assert "step 0.25 s +-0 % for one optimizer step" in lines
    assert any(line.startswith("law 0.1 s + 0.001 s x tokens + ") for line in lines)
    assert "warm offload of weights 1 0.5 s +-0 % 2.15 -" in lines
    assert "memory in forward and backward of 2 x 400 tokens" in lines
    assert "skipped 8 x 400 tokens: out of memory" in lines


@pytest.mark.usefixtures("worker")
def test_the_file_and_json_are_the_same_profile(cli: Callable[..., Any], model: str, folder: Path) -> None:
    """Without moves, in another type, by another interpreter."""
    done = cli("profile", "train", "--model", model, "--no-moves", "--dtype", "float32", "--python", "other", "-o", "p.json", "--json")
    assert done.code == 0
    made = Profile.load(folder / "p.json")
    assert done.out == made.to_json()
    assert made.training is not None
    assert (made.training.dtype, made.training.moves, made.origin.versions) == ("float32", (), {"torch": "other"})
    assert cli("profile", "train", "--model", model, "-o", "p.json").code == 0, "a profile may be replaced"


@pytest.mark.usefixtures("worker")
def test_a_file_that_is_no_profile_is_not_overwritten(cli: Callable[..., Any], model: str, folder: Path) -> None:
    """Unless somebody means it."""
    (folder / "notes.txt").write_text("mine")
    refused = cli("profile", "train", "--model", model, "-o", "notes.txt")
    assert (refused.code, (folder / "notes.txt").read_text()) == (2, "mine")
    assert "exists and is not a profile; choose another path, or add --force" in refused.err
    assert cli("profile", "train", "--model", model, "-o", "notes.txt", "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tokens", "2k"), "--tokens = `2k`: is not a list of whole numbers from 1; write 1,2,4"),
        (("--lengths", "0"), "--lengths = `0`: is not a list of whole numbers from 1"),
        (("--time-limit", "inf"), "Invalid value for '--time-limit'"),
        (("--time-limit", "nan"), "Invalid value for '--time-limit'"),
        (("--spread", "5"), "--spread = `5`: could be a share or per cent; write 5%"),
        (("--disk", "nowhere"), "--disk = `nowhere`: is not a folder"),
    ],
)
@pytest.mark.usefixtures("worker")
def test_wrong_options_are_named(cli: Callable[..., Any], model: str, arguments: tuple[str, ...], message: str) -> None:
    """Before anything is measured."""
    done = cli("profile", "train", "--model", model, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_worker_that_fails_is_a_clear_fault(cli: Callable[..., Any], model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words, with what to do, and its last lines; no traceback."""

    def ask(*_: object) -> None:
        raise failure("a worker", "the GPU is busy; wait for it\nline of a log")

    monkeypatch.setattr(module, "ask", ask)
    done = cli("profile", "train", "--model", model)
    assert done.code == 2
    assert done.err.splitlines() == ["error: a worker: 1 fault", "  measurement: the GPU is busy; wait for it", "    line of a log"]


def test_an_interpreter_without_torch_is_a_clear_fault(run_cli: Callable[..., Any], model: str) -> None:
    """The real worker, in the interpreter of the tests; or in none at all."""
    missing = run_cli("profile", "train", "--model", model, "--python", "no-such-python")
    assert missing.code == 2
    assert "no-such-python cannot be started" in missing.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_worker_and_leaves_no_file(model: str, folder: Path, number: int) -> None:
    """A scheduler sends SIGTERM; cold moves write many GiB into a folder for a while, and the worker holds a GPU."""
    interpreter, alive, room = folder / "python", folder / "alive", folder / "room"
    interpreter.write_text("#!/bin/sh\necho $$ > alive\nexec sleep 600\n")
    interpreter.chmod(0o755)
    room.mkdir()
    command = [sys.executable, "-m", "rollplan", "profile", "train", "--model", model, "--python", str(interpreter), "-o", "p.json"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(room)}, stderr=subprocess.DEVNULL)
    while not (alive.exists() and alive.read_text().endswith("\n")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(timeout=60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)
    assert list(room.iterdir()) == []
    assert not (folder / "p.json").exists()
