"""From a request to a profile: origin, warnings, and what the user is told when the engine fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.errors import InputError
from rollplan.models.profile.file import Profile
from rollplan.models.profile.predict import predict_batch
from rollplan.models.reference.architectures import architecture, architecture_names, from_hf_config
from rollplan.profilers import worker
from rollplan.profilers.rollout.model import config_of, model_folder
from rollplan.profilers.rollout.profile import RolloutRequest, profile_and_generate, profile_rollout

from .fake import FakeEngine, answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """The engine behind every question to a worker."""
    fake = FakeEngine(kv_tokens=20_000, chunk=4096)

    def ask(module: str, request: dict[str, Any], python: str | None, timeout_s: float, on_line: object) -> dict[str, Any]:
        assert (Path(request["model"]) / "config.json").is_file()
        fake.questions.append((module, python))
        return answer(fake, request)

    monkeypatch.setattr(worker, "ask", ask)
    return fake


def request(**changes: Any) -> RolloutRequest:
    usual = {"model": "Qwen3-8B", "batches": (1, 8, 32), "contexts": (50, 400, 960), "time_limit_s": 1e6, "processes": 1}
    return RolloutRequest(**{**usual, **changes})


def test_a_profile_says_what_was_measured_on_what(engine: FakeEngine, tmp_path: Path) -> None:
    """The law at every point, prefill, capacity, origin; and the file holds all of it."""
    profile = profile_rollout(request(tp=(1, 2), weights="dummy", python="/some/python"))
    assert engine.questions == [("rollplan.profilers.rollout.engine_vllm", "/some/python")] * 2
    section = profile.decode
    assert section is not None
    assert [curve.tp for curve in section.curves] == [1, 2]
    curve = section.curve(2)
    for point in curve.points:
        assert point.ms.median == pytest.approx(engine.ms(point.batch, point.batch * point.context_tokens), rel=1e-3)
    assert curve.prefill is not None
    assert curve.prefill.s_per_token.median == pytest.approx(2e-5, rel=0.01)
    assert (curve.kv_tokens, curve.max_num_seqs, curve.max_model_len) == (20_000, 32, 1024)
    assert curve.fits is not None
    assert curve.fits.use == "affine"
    assert section.architecture == architecture("Qwen3-8B")
    assert (profile.origin.kind, profile.origin.device, profile.origin.weights) == ("measured", "CPU", "dummy")
    assert profile.warnings == tuple(
        f"tp {tp}: not measured: batch 32 at context 960: needs 31744 tokens of KV cache, the engine has 20000" for tp in (1, 2)
    )
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == profile


def test_a_batch_that_was_not_measured_is_predicted(engine: FakeEngine) -> None:
    """The loop closes: a law, points of it, a profile, a prediction; the law's own seconds within half a per cent."""
    prompts, outputs = [60 + 7 * index % 90 for index in range(80)], [4 + 37 * index % 400 for index in range(80)]
    profile, (batch,) = profile_and_generate(request(contexts=(40, 400, 900), batches=(1, 8, 20)), [(prompts, outputs)])
    assert profile.decode is not None
    curve = profile.decode.curve(1).model_copy(update={"max_num_seqs": 32})
    with pytest.raises(InputError, match="batch 32: is outside of the measured range, 1 to 20"):
        predict_batch(curve, prompts, outputs)
    profile, (batch,) = profile_and_generate(request(contexts=(40, 400, 900), batches=(1, 8, 32)), [(prompts, outputs)])
    assert profile.decode is not None
    predicted = predict_batch(profile.decode.curve(1), prompts, outputs)
    assert predicted.seconds == pytest.approx(batch.seconds, rel=0.005)
    assert batch.spread < 1e-9


def test_noise_and_a_limit_that_came_first_are_warned_of(engine: FakeEngine) -> None:
    """A reader must not take the medians for more than they are."""
    engine.noise = lambda run, step: (4.0 if step % 10 == run % 10 else 1.0) * (1 + 0.1 * (run % 7))
    warnings = profile_rollout(request(time_limit_s=60.0, batches=(1, 2), contexts=(50, 100))).warnings
    assert any("2.0% over all rounds and processes" in warning for warning in warnings)
    assert any("of the steps took more than 1.5 times their typical time: something else was using the machine" in one for one in warnings)


def test_rounds_of_several_processes_are_pooled(engine: FakeEngine) -> None:
    """One process at 1, one at 1.1: each agrees with itself, the profile's quartiles hold both and say so."""
    engine.noise = lambda run, step: 1.1 if len(engine.questions) == 2 else 1.0
    wanted = request(batches=(1, 8), contexts=(50, 400), processes=2)
    prompts, outputs = [50] * 8, [30] * 8
    profile, (batch,) = profile_and_generate(wanted, [(prompts, outputs)])
    assert profile.decode is not None
    assert len(engine.questions) == 2
    for point in profile.decode.curve(1).points:
        law = engine.ms(point.batch, point.batch * point.context_tokens)
        assert (point.ms.low, point.ms.high) == pytest.approx((law, 1.1 * law), rel=1e-3)
        assert point.ms.repeats >= 10
    assert any("4 of 4 points spread by more than 2.0%" in warning for warning in profile.warnings)
    assert "in 2 processes" in profile.origin.source
    assert batch.spread == pytest.approx(0.1 / 1.05, rel=1e-2)


def test_a_worker_that_fails_is_an_error_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last lines come along; no traceback."""

    def ask(*_: object, **__: object) -> None:
        raise worker.failure("worker", "the worker ended without an answer (exit code 1); its last lines:\nCUDA error\nbye")

    monkeypatch.setattr(worker, "ask", ask)
    with pytest.raises(InputError, match=r"measurement: the worker ended .* its last lines:\n +CUDA error\n +bye"):
        profile_rollout(request())


def test_an_interpreter_without_the_engine_is_named() -> None:
    """The real worker in our own interpreter, which has no vLLM."""
    with pytest.raises(InputError, match=r"cannot import (torch|vllm)"):
        profile_rollout(request())


@pytest.mark.parametrize("name", architecture_names())
def test_a_model_of_the_reference_data_becomes_a_config_of_the_same_shape(name: str) -> None:
    """What the engine loads is what the tables speak of."""
    with model_folder(name, real_weights=False) as folder:
        assert from_hf_config(folder, name) == architecture(name)
    assert config_of(name)["architectures"]


@pytest.mark.parametrize(
    ("model", "real", "says"),
    [
        ("Qwen9-8B", False, "is neither a folder, nor a config.json, nor a model of the reference data; did you mean"),
        ("Qwen3-8B", True, "has no weights; give the folder that holds them, or use --weights dummy"),
        ("empty", False, "does not exist; give the path of a config.json file"),
        ("bad.json", False, "is not a JSON mapping"),
    ],
)
def test_what_is_no_model_is_refused(folder: Path, model: str, real: bool, says: str) -> None:
    """Before an engine is started."""
    (folder / "empty").mkdir()
    (folder / "bad.json").write_text("[1]")
    with pytest.raises(InputError) as refused, model_folder(model, real):
        pass
    assert says in str(refused.value)


@pytest.mark.parametrize("module", ["engine_vllm", "engine_torch"])
def test_a_worker_needs_only_the_standard_library_until_it_starts_its_engine(module: str) -> None:
    """The interpreter that has the engine may lack everything that rollplan rests on."""
    program = f"import sys, rollplan.profilers.rollout.{module}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert not found & {"numpy", "pydantic", "pydantic_core", "scipy", "yaml", "rich", "typer", "torch", "vllm", "transformers"}
    ours = {name for name in done.stdout.split() if name.startswith(("rollplan.models", "rollplan.planner", "rollplan.cli"))}
    assert ours <= {"rollplan.models", "rollplan.models.process"}
