"""The comparison of the GPU script, on raw measurements that are made from the reference data itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from time import monotonic
from typing import Any

import pytest

from rollplan.models.profile.file import Profile
from rollplan.models.reference.decode_latency import decode_latency
from rollplan.models.reference.forward import forward_seconds
from rollplan.profilers.worker import failure

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "gpu_profile.py"
DEVICE = "NVIDIA H100 80GB HBM3"
QWEN_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}


@pytest.fixture
def raw() -> dict[str, Any]:
    """An H100 that decodes 10 % slower than its kernels, trains with an MFU of 0.28 and takes the reference time for log-probs."""
    reference = decode_latency("Qwen2.5-7B", DEVICE, 1)
    assert reference is not None
    rows, columns = reference.batches.tolist(), reference.contexts.tolist()
    known = {
        (batch, context): float(reference.ptl_ms[rows.index(batch), columns.index(context)])
        for batch in (1, 64)
        for context in (1024, 4096)
    }
    cells = {cell: [1.1 * ms] * 3 for cell, ms in known.items()} | {(3, 1024): [9.0], (3, 4096): [9.5]}
    common = {"device": DEVICE, "dtype": "bfloat16", "threads": None, "host": "Linux x86_64", "versions": {"torch": "2.0"}, "skipped": []}
    points = [{"batch": batch, "context": context, "ms": ms} for (batch, context), ms in cells.items()]
    # 7.07e9 active parameters, 28 layers of 28 heads of 128: 6 N tokens + 6 L heads d (sum of squares).
    flops = 6 * 7.070619136e9 * 8192 + 6 * 28 * 28 * 128 * 2 * 4096**2
    training = {
        **common,
        "points": [
            {
                "sequences": 2,
                "length": 4096,
                "update_s": [flops * 4 / 3 / (0.28 * 989e12)] * 3,
                "log_prob_s": [forward_seconds("Qwen2.5-7B", DEVICE, 1, 8192, 4096).value] * 3,
                "peak_bytes": 70 * 2**30,
                "log_prob_peak_bytes": None,
            }
        ],
        "optimizer_s": [0.1],
        "state_bytes": {"weights": 15_231_233_024, "gradients": 15_231_233_024, "optimizer": 30_462_466_048},
        "moves": [],
    }
    case = {"name": "Qwen2.5-7B", "config": QWEN_7B, "checkpointing": "full", "decode": {**common, "points": points}, "training": training}
    return {"format": "rollplan/gpu-profile/1", "date": "2026-01-01T00:00:00+00:00", "cases": [case]}


def run(raw: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "raw.json").write_text(json.dumps(raw))
    command = [sys.executable, str(BENCHMARK), "--compare", str(folder / "raw.json"), "--profiles", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_errors_are_those_of_the_reference_against_the_measurement(raw: dict[str, Any], tmp_path: Path) -> None:
    """1 / 1.1 - 1 is -9.1 % in every cell that the table has (batch 3 is none); 0.28 / 0.35 - 1 is -20 %; log-probs agree."""
    done = run(raw, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "decode: 4 cells, median error -9.1%, median size 9.1%" in lines
    (training,) = (line for line in lines if line.startswith("2 x 4096 0.28"))
    assert training.split()[4] == "-20.0%"
    assert training.split()[-1] == "+0.0%"
    assert "weights 14.19 14.19 +0.0%" in lines


def test_a_profile_is_written_of_each_model(raw: dict[str, Any], tmp_path: Path) -> None:
    """With both sections, and the origin that the raw file states."""
    assert run(raw, tmp_path).returncode == 0
    made = Profile.load(tmp_path / "Qwen2.5-7B_NVIDIA_H100_80GB_HBM3.json")
    assert (made.origin.date, made.origin.device, made.origin.devices) == ("2026-01-01T00:00:00+00:00", DEVICE, 1)
    assert made.decode is not None
    assert made.decode.curve(1).contexts == (1024, 4096)
    assert made.training is not None
    assert made.training.update.terms == ("b",)


def test_a_part_that_failed_is_exit_code_one_and_the_rest_is_shown(raw: dict[str, Any], tmp_path: Path) -> None:
    """A script of eight minutes must not lose what it has."""
    raw["cases"][0]["decode"] = "the worker was killed"
    done = run(raw, tmp_path)
    assert done.returncode == 1
    assert "decode failed: the worker was killed" in done.stdout
    assert "2 x 4096" in done.stdout


def test_a_worker_that_fails_costs_its_part_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words stand where its numbers would; the next one is asked, unless the time of the script is over."""
    script = run_path(str(BENCHMARK))
    asked = []

    def ask(module: str, *_: object, **__: object) -> Any:
        asked.append(module)
        if "decode" in module:
            raise failure(module, "the worker took longer than 2 s and was stopped; ask for less, or allow more time")
        return {"points": []}

    measured = script["measured"]
    monkeypatch.setitem(measured.__globals__, "ask", ask)
    found = measured(script["TINY"], monotonic() + 100)
    assert "the worker took longer than 2 s" in found["decode"]
    assert (found["training"], len(asked)) == ({"points": []}, 2)
    late = measured(script["TINY"], monotonic() - 1)
    assert (late["decode"], late["training"], len(asked)) == (*["not begun: the 450 s of the whole script are over"] * 2, 2)


def test_a_place_that_cannot_be_written_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    """Not after eight minutes."""
    command = [sys.executable, str(BENCHMARK), "--tiny", "-o", str(tmp_path / "missing" / "raw.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr
    assert "measuring" not in done.stderr


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    """With the usage, as every wrong option."""
    done = run({"format": "rollplan/plan/2"}, tmp_path)
    assert done.returncode == 2
    assert "holds no raw measurements of this script" in done.stderr
