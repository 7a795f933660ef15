"""Advice on published runs: who binds, in which direction to go, and whether what happened there lies inside the interval.

The exponents behind the advice come from some of these very runs (docs/advise.md), so the intervals are no independent
evidence; the binding side and the direction are, because nothing was fitted to them.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.profile.run import LoggedRun
from rollplan.planner.advise.advise import Advice, advise
from rollplan.planner.advise.facts import Facts

from .runs import VERL_LENGTHS, run

MEASURED = Path(__file__).parents[3] / "benchmarks" / "data" / "measured_splits.csv"


def row(source: str, mode: str, gpus: int) -> dict[str, Any]:
    """Return a published row, with what stands in `other` beside the columns."""
    rows = list(csv.DictReader(MEASURED.read_text(encoding="utf-8").splitlines()))
    found = next(row for row in rows if source in row["source"] and row["mode"] == mode and row["total_gpus"] == str(gpus))
    return found | dict(part.split("=", 1) for part in found["other"].split(";") if part.count("=") == 1)


def colocated(gpus: int) -> LoggedRun:
    """verl docs/advance/fully_async.md, Qwen2.5-Math-7B on H20, colocated."""
    found = row("fully_async.md L355", "colocate_sync", gpus)
    phases = {"generation": float(found["gen_s"]), "old_logprob": float(found["old_log_prob_s"]), "update": float(found["train_s"])}
    return run("sync", float(found["step_s"]), phases, VERL_LENGTHS)


def separate(source: str, mode: str, gpus: int) -> LoggedRun:
    """The same page, both sides apart."""
    found = row(source, mode, gpus)
    phases = {"wait": float(found["trainer_wait_s"]), "update": float(found["train_s"])}
    return run("async", float(found["step_s"]), phases, VERL_LENGTHS)


def halves(gpus: int, staleness: float = 0.5) -> Facts:
    """Half of the GPUs each."""
    return Facts(rollout_gpus=gpus // 2, train_gpus=gpus // 2, staleness=staleness)


@pytest.mark.parametrize(("gpus", "binds"), [(32, "training"), (64, "rollout"), (128, "rollout")])
def test_the_fully_async_ladder_binds_where_its_trainer_says(gpus: int, binds: str) -> None:
    """verl, 16:16 waits for 21 of 295 s, 32:32 for 28 of 189 s, 64:64 for 33 of 151 s."""
    advice = advise(separate("fully_async.md L355", "fully_async", gpus), halves(gpus))
    assert advice.binds == binds
    if binds == "rollout":
        assert advice.better is not None
        assert advice.better.gpus[0] > gpus // 2
    else:
        assert advice.better is None or advice.better.gpus[1] > gpus // 2


@pytest.mark.parametrize("gpus", [32, 64, 128])
def test_a_colocated_run_should_separate_as_verl_did(gpus: int) -> None:
    """790 -> 295 s, 365 -> 189 s, 356 -> 151 s on the same GPUs; the interval holds what was measured."""
    advice = advise(colocated(gpus), Facts(placement="colocated", rollout_gpus=gpus))
    assert advice.binds == "both in turn"
    assert advice.better is not None
    assert advice.better.way == "async-batch"
    measured = float(row("fully_async.md L355", "fully_async", gpus)["step_s"])
    same = next(option for option in advice.options if option.way == "async-batch" and option.gpus == (gpus // 2, gpus // 2))
    assert same.step.low <= measured <= same.step.high
    assert abs(same.step.likely / measured - 1) < 0.45


@pytest.mark.parametrize(
    ("source", "mode", "staleness"), [("L373", "fully_async_stream_only", 0.0), ("L390", "fully_async_staleness0.1", 0.1)]
)
def test_too_little_staleness_is_named_and_gains_what_it_gained(source: str, mode: str, staleness: float) -> None:
    """64:64 GPUs take 231 s at staleness 0, 171 s at 0.1, and 151 s at 0.5."""
    before = separate(f"fully_async.md {source}", mode, 128)
    advice = advise(before, halves(128, staleness))
    assert advice.binds == "rollout"
    assert "overlap" in advice.settings[0].text
    assert advice.better is not None
    assert advice.better.step.low <= float(row("fully_async.md L355", "fully_async", 128)["step_s"]) <= advice.better.step.high


@pytest.mark.parametrize(("gpus", "wait", "update", "binds"), [((16, 16), 3.0, 3.5, "rollout"), ((24, 8), 0.1, 6.2, "training")])
def test_both_published_splits_of_32_gpus_move_towards_each_other(gpus: tuple[int, int], wait: float, update: float, binds: str) -> None:
    """verl commit 298fdc71f, Qwen3.5-35B-A3B: 16:16 (6.546 h, the trainer starves) and 24:8 (6.379 h, the queue is full).

    The page gives hours of the whole run and who starves, not the phases: these are ours, in hundredths of the run.
    """
    hours = {(16, 16): 6.546, (24, 8): 6.379}[gpus]
    advice = advise(
        run("async", 100 * hours, {"wait": 100 * wait, "update": 100 * update}), Facts(rollout_gpus=gpus[0], train_gpus=gpus[1])
    )
    assert advice.binds == binds
    assert advice.better is not None
    assert 16 < advice.better.gpus[0] < 24
    assert sum(advice.better.gpus) == 32


def test_96_to_32_gpus_have_too_many_that_roll_out() -> None:
    """verl, Qwen3-30B-A3B on 128 H20: the page itself says that 96:32 is not optimal, training-bound."""
    logged = run("async", 282.8, {"wait": 22.1, "reference": 50.1, "update": 206.6})
    advice = advise(logged, Facts(rollout_gpus=96, train_gpus=32, staleness=0.5))
    assert advice.binds == "training"
    assert advice.better is not None
    assert advice.better.gpus[0] < 96
    assert advice.better.step.likely < 282.8
    divided = advise(logged, Facts(rollout_gpus=96, train_gpus=32, staleness=0.5, samples_per_update=2048))
    assert all(2048 % option.gpus[1] == 0 for option in divided.options if option.way is not None)


def test_what_is_not_generation_is_not_solved_by_a_split() -> None:
    """verl #7203: generation is 10 % of 290 s, two log-prob passes are 57 %."""
    phases = {"generation": 29.0, "old_logprob": 84.0, "reference": 82.0, "update": 91.0, "sync": 3.5}
    advice = advise(run("sync", 290.0, phases, {"mfu": 0.025}), Facts(placement="colocated", rollout_gpus=8))
    assert "log-probs" in advice.settings[0].text
    assert advice.settings[0].saves == pytest.approx(166 / 290)
    assert "84 s of old log-probs that rollout gives as well are left out, which needs no split" in advice.settings[1].why


def test_seven_training_gpus_that_wait_for_one_are_found() -> None:
    """TRL #2971: 240 of 420 s are generation on one of 8 A800; 57 % of 7 GPUs idle, 45 % of GPU time is used."""
    logged = run("sync", 420.0, {"generation": 240.0, "update": 180.0}, {"samples": 7.0}, framework="TRL")
    advice = advise(logged, Facts(rollout_gpus=1, train_gpus=7, placement="separate"))
    assert advice.present.idle[1].likely == pytest.approx(240 / 420)
    assert _busy(advice) == pytest.approx(0.446, abs=0.001)
    texts = [change.text for change in advice.settings]
    assert any("requests" in text for text in texts)


def _busy(advice: Advice) -> float:
    (rollout, train), (x, y) = advice.present.idle, advice.present.gpus
    return 1 - (rollout.likely * x + train.likely * y) / (x + y)
