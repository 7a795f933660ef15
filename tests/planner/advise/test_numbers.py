"""Single numbers of the advice, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rollplan.models.profile.run import AmountName, LoggedRun, PhaseName
from rollplan.planner.advise.advise import advise
from rollplan.planner.advise.estimate import Estimate
from rollplan.planner.advise.facts import Facts
from rollplan.planner.advise.levers import Change, levers
from rollplan.planner.advise.options import Option, nearest, options
from rollplan.planner.advise.present import present
from rollplan.planner.advise.shape import LawShape, PowerShape

from .runs import run

APART = Facts("separate", 4, 4)


def by_split(logged: LoggedRun, facts: Facts, shape: PowerShape) -> dict[tuple[str | None, tuple[int, int]], Option]:
    """Return the options by way and GPUs."""
    return {(option.way, option.gpus): option for option in options(present(logged, facts), shape)}


def test_what_the_law_misses_stays_only_with_the_way_that_was_measured() -> None:
    """Phases of 100 s in a step of 95 s: serial options keep the ratio, one step apart is another law."""
    found = by_split(run("sync", 95.0, {"generation": 60.0, "update": 40.0}), APART, PowerShape(8, 1, 1))
    assert found["serial", (5, 3)].step.likely == pytest.approx(0.95 * (60 * 0.8**0.8 + 40 * (4 / 3) ** 0.8))
    assert found["one-step", (4, 4)].step.ends == pytest.approx((60.0, 60.0, 60.0))


def test_sides_that_part_need_not_switch() -> None:
    """4 s of off-loading go, 2 s of sync stay, 4 s in no phase are the trainer's."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 30.0, "switch": 4.0, "sync": 2.0})
    found = by_split(logged, Facts("colocated", 8), PowerShape(8, 4, 4))
    assert found["one-step", (4, 4)].step.likely == pytest.approx(max(60 * 2**0.8, 34 * 2**0.35) + 2)


def test_sides_that_join_take_turns() -> None:
    """A batch alone takes 80 / 0.7 s where overlapping ones are taken to fill 80 of 100 s."""
    logged = run("async", 100.0, {"wait": 5.0, "update": 85.0, "sync": 10.0})
    found = by_split(logged, Facts(rollout_gpus=8, train_gpus=8, staleness=1.0), PowerShape(16, 4, 4))
    assert found[None, (16, 16)].step.likely == pytest.approx(80 / 0.7 * 0.5**0.8 + 85 * 0.5**0.35 + 10)


@pytest.mark.parametrize(("noise", "gpus"), [(0.05, (6, 2)), (0.1, (5, 3))])
def test_of_equal_options_the_nearest_is_taken(noise: float, gpus: tuple[int, int]) -> None:
    """54 s are as good as 50 s at a noise of 10 %, but not at 5 %."""
    seen = present(run("async", 100.0, {"wait": 50.0, "update": 50.0}), Facts(rollout_gpus=4, train_gpus=4, staleness=1.0))
    steps = {(6, 2): 50.0, (5, 3): 54.0}
    found = [Option("async-batch", split, Estimate.exact(step_s), (0.5, 0.5, 0.5)) for split, step_s in steps.items()]
    assert nearest(seen, found, noise, 8).gpus == gpus


def test_ranks_divide_the_samples_of_an_update() -> None:
    """Copies of 4 GPUs, 6 samples: 1, 2, 3 or 6 copies."""
    assert list(PowerShape(32, 4, 4, 6).train_counts()) == [4, 8, 12, 24]


def test_laws_are_trusted_more_nearby() -> None:
    """14 % from one doubling on, and less before."""
    problem = SimpleNamespace(rollout={"pool": {8: 100.0, 9: 90.0, 16: 60.0, 32: 40.0}})
    shape = LawShape(problem, "pool")
    assert shape.rollout(8, 9).high == pytest.approx(0.9 * (1 + 0.14 * 0.169925), rel=1e-5)
    assert shape.rollout(8, 16).high == pytest.approx(0.6 * 1.14)
    assert shape.rollout(8, 32).high == pytest.approx(0.4 * 1.14)


@pytest.mark.parametrize(("staleness", "alone_s"), [(0.0, 90.0), (0.1, 100.0)])
def test_without_staleness_the_last_portion_is_trained_after_the_rollout(staleness: float, alone_s: float) -> None:
    """A quarter of 40 s of training."""
    logged = run("async", 100.0, {"wait": 60.0, "update": 40.0})
    assert present(logged, Facts(rollout_gpus=4, train_gpus=4, staleness=staleness)).rollout.likely == pytest.approx(alone_s)


def test_a_generation_that_is_longer_than_the_step_does_not_tell_how_busy_rollout_is() -> None:
    """It spans several steps."""
    logged = run("async", 100.0, {"wait": 2.0, "update": 98.0}, beside={"generation": 300.0}, framework="slime")
    assert present(logged, Facts(rollout_gpus=4, train_gpus=4, staleness=1.0)).steady.ends == (50.0, 80.0, 100.0)


def test_overlapping_batches_are_shorter_by_the_tail() -> None:
    """Mean 250 of at most 1,000 tokens: a quarter, likely half, or nothing is saved."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 40.0}, {"response_mean": 250.0, "response_max": 1000.0})
    assert present(logged, Facts("colocated", 8)).steady.ends == pytest.approx((15.0, 30.0, 60.0))


def test_what_few_steps_have_is_not_of_every_step() -> None:
    """One of five steps synced."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 40.0})
    odd = logged.steps[0].model_copy(update={"phases": {**logged.steps[0].phases, "sync": 50.0}})
    assert present(logged.model_copy(update={"steps": (odd, *logged.steps[1:])}), Facts("colocated", 8)).sync_s == 0.0


def test_noise_is_that_of_the_run() -> None:
    """Quartiles 80 and 120 around 100 s."""
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0})
    times = (60.0, 80.0, 100.0, 120.0, 140.0)
    wide = logged.model_copy(update={"steps": tuple(s.model_copy(update={"step_s": t}) for s, t in zip(logged.steps, times, strict=True))})
    facts = Facts(rollout_gpus=4, train_gpus=4, staleness=1.0)
    assert (advise(logged, facts).noise, advise(wide, facts).noise) == (0.05, pytest.approx(0.2))


def test_shared_gpus_idle_while_weights_move() -> None:
    """10 of 100 s."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 30.0, "sync": 10.0})
    advice = advise(logged, Facts("colocated", 8, price_per_gpu_h=1.0))
    assert advice.per_month is not None
    assert advice.idle_per_month == pytest.approx(advice.per_month / 10)


def lever(word: str, phases: dict[PhaseName, float], amounts: dict[AmountName, float], facts: Facts, mode: str = "sync") -> Change | None:
    """Return the lever whose text holds a word."""
    found = levers(present(run(mode, 100.0, phases, amounts), facts), facts)
    return next((change for change in found if word in change.text and change.saves > 0), None)


@pytest.mark.parametrize(
    ("word", "amount", "saves"),
    [
        ("pack", {"mfu": 0.1}, 0.3 * (1 - 0.1 / 0.35)),
        ("requests", {"samples": 64.0}, 0.6 * 0.75),
        ("fewer sequences", {"preempted": 3.0}, 0.3),
    ],
)
def test_levers_save_their_part_of_a_phase(word: str, amount: dict[AmountName, float], saves: float) -> None:
    """60 s of generation, 30 s of update, 8 engines."""
    found = lever(word, {"generation": 60.0, "update": 30.0, "old_logprob": 10.0}, amount, Facts("colocated", 8))
    assert found is not None
    assert found.saves == pytest.approx(saves)


@pytest.mark.parametrize(("wait_s", "named"), [(5.0, True), (40.0, False)])
def test_a_trainer_that_waits_anyway_gains_nothing_from_shorter_passes(wait_s: float, named: bool) -> None:
    """Its seconds are hidden behind rollout."""
    phases: dict[PhaseName, float] = {"wait": wait_s, "old_logprob": 20.0, "update": 80.0 - wait_s}
    facts = Facts(rollout_gpus=4, train_gpus=4, staleness=1.0)
    assert (lever("log-probs", phases, {}, facts, "async") is not None) == named


def test_a_run_that_does_not_fit_by_the_memory_bill_is_not_given_laws() -> None:
    """8 billion parameters do not train on one GPU of 80 GB; the log says that something did."""
    amounts: dict[AmountName, float] = {"samples": 512.0, "response_mean": 2000.0, "response_max": 8192.0, "prompt_mean": 300.0}
    facts = Facts(rollout_gpus=7, train_gpus=1, staleness=1.0, model="Qwen3-8B", gpu="H100")
    assert "no layout of train fits" in advise(run("async", 100.0, {"wait": 50.0, "update": 50.0}, amounts), facts).law
