"""`rollplan profile rollout` with a worker that answers at once: the screen, the file, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.profile.file import Profile
from rollplan.profilers import worker

Call = Callable[..., Any]
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
}


@pytest.fixture
def asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Everything that workers were asked; each answers a law with a spread of 1 %, which a later answer moves by 2 %."""
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    questions: list[dict[str, Any]] = []

    def ask(module: str, request: dict[str, Any], python: str | None, timeout_s: float, on_line: Callable[[str], None]) -> dict[str, Any]:
        questions.append({**request, "module": module, "python": python})
        on_line("noise of a library")
        on_line("rollplan: round 1")
        factor = 1 + 0.02 * (len(questions) - 1)
        cells = [(b, c) for b in request["measure"]["batches"] for c in request["measure"]["contexts"]]
        return {
            "device": "CPU",
            "threads": 1,
            "versions": {"vllm": "0.32.0"},
            "settings": {"dtype": "bfloat16"},
            "slots": 8,
            "max_model_len": 1024,
            "kv_tokens": 4096,
            "points": [
                {
                    "batch": b,
                    "context": c,
                    "attended": c,
                    "ms": [x * factor * (3 + 0.1 * b + b * c / 2000) for x in (0.99, 0.99, 1, 1.01, 1.01)],
                }
                for b, c in cells
            ],
            "dropped": [],
            "prefill": {"batch": 8, "prompt_tokens": 64, "s_per_token": [2e-5] * 5},
            "workloads": [],
            "rounds": 5,
            "seconds": 12.0,
            "unsettled": 0,
            "disturbed": 0.0,
        }

    monkeypatch.setattr(worker, "ask", ask)
    return questions


BASE = ("profile", "rollout", "--model", "tiny", "--batches", "1,8,4", "--contexts", "100,400", "--processes", 1)


def test_the_screen_shows_what_was_measured(cli: Call, asked: list[dict[str, Any]]) -> None:
    """Table with spread, prefill, room, fits; progress of the worker on stderr, not what libraries print."""
    done = cli(*BASE, "--engine", "vllm", "--python", "elsewhere")
    assert done.code == 0
    for says in (
        "rollout tiny   vllm on CPU, 1 compute thread, dummy weights",
        "4.2 +-1.0 %",
        "KV cache 4096 tokens, 8 slots",
        "20 us per prompt token (+-0.0 %), with prompts of 64 tokens in a batch of 8",
        "3 + 0.1 B + 0.5 B C / 1000 ms: error 0.0 % median, 0.0 % worst",
        "raw points: rise with the batch everywhere",
        "affine: the affine law is within",
    ):
        assert says in done.out
    assert done.err == "round 1\n"
    (question,) = asked
    assert (question["module"], question["python"]) == ("rollplan.profilers.rollout.engine_vllm", "elsewhere")
    assert question["measure"]["batches"] == (1, 4, 8)


def test_every_option_reaches_the_worker(cli: Call, asked: list[dict[str, Any]]) -> None:
    """Once for each tp and process."""
    more = ("--tp", "1,2", "--max-num-seqs", 9, "--weights", "real", "--prompt-tokens", 33, "--enforce-eager")
    assert cli(*BASE, *more, "--spread", "5%", "--time-limit", 77, "--processes", 2).code == 0
    assert [question["tp"] for question in asked] == [1, 1, 2, 2]
    one = asked[0]
    assert (one["slots"], one["weights"], one["enforce_eager"]) == (9, "real", True)
    wanted = one["measure"]
    assert (wanted["prompt_tokens"], wanted["spread"], wanted["time_limit_s"], wanted["workloads"]) == (33, 0.05, 77.0, ())


def test_the_profile_is_written_and_printed(cli: Call, asked: list[dict[str, Any]], folder: Path) -> None:
    """The same bytes; a scenario reads them."""
    done = cli(*BASE, "-o", "p.json", "--json")
    assert done.out == (folder / "p.json").read_text()
    profile = Profile.load(folder / "p.json")
    assert profile.decode is not None
    assert profile.decode.curve(1).ptl_ms(8, 400) == pytest.approx(5.4)


def test_a_second_measurement_is_compared_with_the_file_it_replaces(cli: Call, asked: list[dict[str, Any]]) -> None:
    """2 % more: within the spread of both and the floor; 4 % more, later, is within them, too; 8 % is not."""
    cli(*BASE, "-o", "p.json")
    assert "6 of 6 points agree within their spread and 3%; largest change +2.0 %" in cli(*BASE, "-o", "p.json").out
    for _ in range(4):
        cli(*BASE)
    assert "0 of 6 points agree within their spread and 3%; largest change +9.8 %" in cli(*BASE, "-o", "p.json").out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--batches", "1,x"), "--batches = `1,x`: is not a list of whole numbers from 1; write 1,2,4"),
        (("--contexts", "0"), "--contexts = `0`: is not a list of whole numbers from 1"),
        (("--tp", ""), "--tp = ``: is not a list of whole numbers from 1"),
        (("--model", "nowhere"), "--model = `nowhere`: is neither a folder, nor a config.json, nor a model of the reference data"),
        (("--engine", "torch", "--tp", "1,2"), "--tp = 1,2: the torch engine runs on one device; use --engine vllm"),
        (("--time-limit", "inf"), "Invalid value for '--time-limit'"),
        (("--spread", "2"), "--spread = `2`: could be a share or per cent"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(cli: Call, asked: list[dict[str, Any]], more: tuple[str, str], says: str) -> None:
    """Exit code 2, the option, the value, the way out."""
    done = cli(*BASE, *more)
    assert (done.code, done.out, asked) == (2, "", [])
    assert says in done.err


def test_a_file_of_something_else_is_not_overwritten(cli: Call, asked: list[dict[str, Any]], folder: Path) -> None:
    """Unless forced."""
    (folder / "thesis.json").write_text("{}")
    assert cli(*BASE, "-o", "thesis.json").code == 2
    assert (folder / "thesis.json").read_text() == "{}"
    assert cli(*BASE, "-o", "thesis.json", "--force").code == 0
    assert Profile.load(folder / "thesis.json").decode is not None


def test_an_interpreter_without_the_engine_is_exit_code_two(cli: Call, folder: Path) -> None:
    """The real worker: what is missing, and which option names another interpreter."""
    done = cli("profile", "rollout", "--model", "Qwen3-8B")
    assert done.code == 2
    assert "cannot import" in done.err
    assert "--python" in done.err
    assert "Traceback" not in done.err
