"""What holds for any run: intervals in order, the present split predicted as measured, nothing promised within noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.launch import LaunchSettings
from rollplan.models.profile.run import AmountName, LoggedRun, LoggedStep, PhaseName
from rollplan.planner.advise.advise import HOURS_PER_MONTH, advise
from rollplan.planner.advise.estimate import Estimate
from rollplan.planner.advise.facts import Facts, facts
from rollplan.planner.advise.levers import levers
from rollplan.planner.advise.options import options, splits
from rollplan.planner.advise.present import present
from rollplan.planner.advise.shape import PowerShape

from .runs import run

seconds = st.floats(1.0, 1000.0)


@st.composite
def runs(draw: st.DrawFn) -> tuple[LoggedRun, Facts]:
    """Return runs of every placement, with and without lengths, and their GPUs."""
    lengths = draw(st.sampled_from([{}, {"response_mean": 500.0, "response_max": 4000.0}]))
    update, sync = draw(seconds), draw(st.floats(0.0, 50.0))
    kind = draw(st.sampled_from(["colocated", "serial", "async"]))
    if kind == "async":
        wait = draw(st.floats(0.0, 1000.0))
        logged = run("async", wait + update + sync, {"wait": wait, "update": update, "sync": sync}, lengths)
        x, y = draw(st.integers(1, 40)), draw(st.integers(1, 40))
        return logged, Facts(rollout_gpus=x, train_gpus=y, staleness=draw(st.sampled_from([None, 0.0, 0.1, 0.5, 2.0])))
    generation = draw(seconds)
    logged = run("sync", generation + update + sync, {"generation": generation, "update": update, "sync": sync}, lengths)
    x, y = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    return logged, Facts(placement="colocated", rollout_gpus=x) if kind == "colocated" else Facts("separate", x, y)


@given(runs())
def test_every_option_keeps_the_gpus_and_the_order_of_its_interval(case: tuple[LoggedRun, Facts]) -> None:
    """low <= likely <= high, no gain of 100 % or more, no more GPUs than the run has, and the fastest comes first."""
    advice = advise(*case)
    total = advice.present.total_gpus
    likely = [option.step.likely for option in advice.options]
    assert likely == sorted(likely)
    for option in advice.options:
        assert option.gain[0] <= option.gain[1] <= option.gain[2] < 1
        assert (option.gpus[0] if option.way is None else sum(option.gpus)) <= total
    assert all(0 <= share <= 1 for idle in advice.present.idle for share in idle.ends)
    assert len(advice.settings) <= 3


@given(runs())
def test_nothing_is_promised_within_noise(case: tuple[LoggedRun, Facts]) -> None:
    """What is called better saves more than reruns differ by; without it no option does."""
    advice = advise(*case)
    if advice.better is None:
        assert all(option.gain[1] <= advice.noise for option in advice.options)
    else:
        assert advice.better.gain[1] > advice.noise
        assert advice.better in advice.options


@given(runs(), st.integers(2, 5))
def test_time_has_no_unit(case: tuple[LoggedRun, Facts], factor: int) -> None:
    """A run that is slower in every phase by one factor gets the same advice."""
    logged, facts = case
    slower = logged.model_copy(
        update={
            "steps": tuple(
                step.model_copy(
                    update={"step_s": (step.step_s or 0) * factor, "phases": {name: value * factor for name, value in step.phases.items()}}
                )
                for step in logged.steps
            )
        }
    )
    before, after = advise(logged, facts), advise(slower, facts)
    assert before.binds == after.binds
    assert [option.gain for option in after.options] == [pytest.approx(option.gain, abs=1e-6) for option in before.options]


def test_a_balanced_run_has_nothing_to_gain() -> None:
    """The trainer hardly waits, and rollout is known to be busy: "nothing to gain" is a good answer."""
    logged = run("async", 100.0, {"wait": 2.0, "update": 97.0, "sync": 1.0}, beside={"generation": 98.0}, framework="slime")
    advice = advise(logged, Facts(rollout_gpus=16, train_gpus=16, staleness=1.0))
    assert advice.better is None
    assert advice.settings == ()
    assert advice.binds == "nothing"


def test_the_present_split_is_the_anchor() -> None:
    """Half of what the trainer does not explain stays: 100 s measured, 80 s of work, and the same share in every option."""
    logged = run("async", 100.0, {"wait": 40.0, "update": 60.0})
    seen = present(logged, Facts(rollout_gpus=4, train_gpus=4, staleness=1.0))
    moved = {option.gpus: option for option in options(seen, PowerShape(8, 1, 1))}
    assert (4, 4) not in {option.gpus for option in moved.values() if option.way == "async-batch"}
    assert moved[5, 3].step.likely == pytest.approx(max(100 * 0.8**0.8, 60 * (4 / 3) ** 0.8), rel=1e-6)


def test_idle_gpus_cost_what_they_cost() -> None:
    """Trainers wait half of the step on 4 of 8 GPUs at 2 $/h: a quarter of 11,680 $ per month."""
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0})
    advice = advise(logged, Facts(rollout_gpus=4, train_gpus=4, staleness=1.0, price_per_gpu_h=2.0))
    assert advice.per_month == pytest.approx(8 * 2 * HOURS_PER_MONTH)
    assert advice.idle_per_month == pytest.approx(advice.per_month / 4)


def test_list_prices_stand_in_for_an_unknown_price() -> None:
    """With their source; without a GPU there is no price at all."""
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0})
    assert advise(logged, Facts(rollout_gpus=4, train_gpus=4, gpu="H100")).price_note is not None
    assert advise(logged, Facts(rollout_gpus=4, train_gpus=4)).per_month is None


def test_laws_of_the_model_replace_exponents() -> None:
    """Where model, GPU and lengths are known; where they are not, the reason stands there."""
    amounts = {"samples": 512.0, "response_mean": 2000.0, "response_max": 8192.0, "prompt_mean": 300.0}
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0}, amounts)
    facts = Facts(rollout_gpus=4, train_gpus=4, staleness=1.0, model="Qwen3-8B", gpu="H100")
    assert advise(logged, facts).law == "laws of Qwen3-8B on H100, at the level of the log"
    assert "lengths" in advise(run("async", 100.0, {"wait": 50.0, "update": 50.0}), facts).law
    huge = Facts(rollout_gpus=4, train_gpus=4, staleness=1.0, model="Qwen3-235B-A22B", gpu="H100")
    assert advise(logged, huge).law.startswith("published exponents (")


@pytest.mark.parametrize(
    ("logged", "facts", "problem"),
    [
        (run("async", 100.0, {"update": 50.0}), Facts(), "how many GPUs roll out and how many train"),
        (run("sync", 100.0, {"generation": 50.0}), Facts(), "on how many GPUs"),
        (run("unknown", 100.0, {"generation": 50.0}), Facts(), "whether rollout and training overlap"),
        (run("async", 100.0, {}), Facts(rollout_gpus=4, train_gpus=4), "neither how long the trainer works"),
        (run("sync", 100.0, {"generation": 50.0}), Facts("colocated", 8, 4), "8 are said to roll out and 4 to train"),
        (run("async", 100.0, {"update": 50.0}), Facts(placement="colocated", rollout_gpus=8), "needs GPUs of its own"),
        (run("sync", 100.0, {"update": 50.0}), Facts(rollout_gpus=8), "says nothing of generation"),
        (run("sync", 0.0, {"generation": 0.0}), Facts(rollout_gpus=8), "whose length is known"),
    ],
)
def test_what_is_missing_is_asked_for(logged: LoggedRun, facts: Facts, problem: str) -> None:
    """By name, with the option that gives it."""
    with pytest.raises(InputError, match=problem):
        advise(logged, facts)


@given(st.integers(1, 60), st.sets(st.integers(1, 60), min_size=1), st.sets(st.integers(1, 60), min_size=1))
def test_no_split_leaves_gpus_that_a_side_could_use(total: int, rollout: set[int], train: set[int]) -> None:
    """Brute force: the splits that fit and that no other one beats on both sides."""
    fitting = [(x, y) for x in rollout for y in train if x + y <= total]
    best = {(x, y) for x, y in fitting if not any((a, b) != (x, y) and a >= x and b >= y for a, b in fitting)}
    assert sorted(splits(total, rollout, train)) == sorted(best)


def test_a_wait_that_is_not_timed_is_what_no_phase_explains() -> None:
    """Asynchronous OpenRLHF times no wait: 23 of 65 s in no phase are the trainer's wait and not its work."""
    logged = run("async", 65.0, {"logprobs": 10.0, "update": 30.0, "sync": 2.0}, framework="OpenRLHF")
    advice = advise(logged, Facts(rollout_gpus=8, train_gpus=8))
    assert advice.binds == "rollout"
    assert advice.present.wait_s == pytest.approx(23.0)
    assert advice.present.train.likely == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("facts", "way"),
    [
        (Facts("separate", 8, 8, staleness=0.0), "serial"),
        (Facts("separate", 8, 8, staleness=2.0), "async-batch"),
        (Facts("colocated", 8), None),
    ],
)
def test_who_knows_the_mode_can_say_it(facts: Facts, way: str | None) -> None:
    """AReaL's log does not tell; its rollout was read as a wait and is a generation where sides take turns."""
    seen = present(run("unknown", 100.0, {"wait": 60.0, "update": 40.0}, framework="AReaL"), facts)
    assert seen.way == way
    assert seen.train.likely == pytest.approx(40.0)
    if way in (None, "serial"):
        assert seen.rollout.likely == pytest.approx(60.0)


def test_the_longest_sample_is_not_how_long_rollout_works() -> None:
    """verl times single samples beside the step: slots are filled again, so a short sample is no idle pool."""
    phases: dict[PhaseName, float] = {"wait": 2.0, "update": 98.0}
    facts = Facts(rollout_gpus=8, train_gpus=8, staleness=1.0)
    verl = present(run("async", 100.0, phases, {"rollout_idle": 0.0}, beside={"generation": 20.0}), facts)
    assert verl.steady.ends == (50.0, 80.0, 100.0)
    assert present(run("async", 100.0, phases, beside={"generation": 20.0}, framework="slime"), facts).steady.likely == 20.0


def test_one_step_off_is_told_by_the_reader() -> None:
    """Its batches do not overlap, whatever staleness a user leaves unsaid."""
    logged = run("async", 100.0, {"wait": 40.0, "update": 60.0})
    one_step = logged.model_copy(update={"mode_reason": "one_step_off: sync_rollout_weights; `gen` is the trainer's wait"})
    facts = Facts(rollout_gpus=4, train_gpus=4)
    assert (present(logged, facts).way, present(one_step, facts).way) == ("async-batch", "one-step")


def test_doubtful_numbers_of_gpus_are_told() -> None:
    """Equal numbers may be the same GPUs or not; the log's own rates may contradict both."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 40.0})
    assert any("--placement separate" in text for text in advise(logged, Facts(rollout_gpus=8, train_gpus=8)).warnings)
    known = logged.model_copy(update={"gpus": 16})
    assert present(known, Facts(rollout_gpus=8, train_gpus=8)).way == "serial"
    assert any("imply 16 GPUs, not 8" in text for text in advise(known, Facts(rollout_gpus=8)).warnings)


def test_validation_is_a_lever_though_its_steps_do_not_count() -> None:
    """Every second step holds 40 s of validation: 20 s per step of 100 s, a sixth of the time."""
    logged = run("sync", 100.0, {"generation": 60.0, "update": 40.0})
    check = LoggedStep(
        step=9, step_s=140.0, total="stated", phases={"generation": 60.0, "update": 40.0, "validation": 40.0}, dropped="has it"
    )
    logged = logged.model_copy(update={"steps": (*logged.steps, *[check] * len(logged.steps))})
    found = next(change for change in levers(present(logged, Facts(rollout_gpus=1)), Facts()) if "validate" in change.text)
    assert found.saves == pytest.approx(20 / 120)


def test_damaged_amounts_make_no_levers() -> None:
    """A log may hold anything: no samples, fewer than none, more than all clipped."""
    amounts: dict[AmountName, float] = {"samples": -1.0, "response_clipped": 7.0}
    found = levers(present(run("async", 100.0, {"wait": 50.0, "update": 50.0}, amounts), Facts(rollout_gpus=1, train_gpus=1)), Facts())
    assert all(0 <= change.saves <= 1 for change in found)
    assert not any("requests" in change.text or "limit" in change.text for change in found)


def test_gpus_of_one_side_follow_from_the_total() -> None:
    """verl's throughput tells all GPUs; one of the two options is enough then."""
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0}).model_copy(update={"gpus": 32})
    assert present(logged, Facts(rollout_gpus=24)).gpus == (24, 8)
    assert present(logged, Facts(train_gpus=8)).gpus == (24, 8)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_an_estimate_refuses_disorder(a: float, b: float, c: float) -> None:
    """And keeps its order under falling functions."""
    low, likely, high = sorted((a, b, c))
    found = Estimate(low, likely, high).map(lambda value: -value + 2e6)
    assert found.low <= found.likely <= found.high
    if low < high:
        with pytest.raises(ValueError, match="in the order"):
            Estimate(high, likely, low)


def test_leaving_shared_gpus_is_written_whole() -> None:
    """verl's own words for separate and asynchronous, not only the counts: these alone would stay colocated and synchronous."""
    settings = LaunchSettings(framework="verl", dialect="V1", placement="colocated", rollout_gpus=8, train_gpus=8, gpus_per_node=8)
    logged = run("sync", 100.0, {"generation": 60.0, "old_logprob": 15.0, "update": 25.0}, {"response_mean": 500.0, "response_max": 8000.0})
    advice = advise(logged, facts(settings, Facts()))
    change = next(change for change in advice.settings if change.text.startswith("asynchronous on GPUs of their own"))
    assert "trainer.v1.trainer_mode=separate_async" in change.lines
    assert any(line.startswith("actor_rollout_ref.rollout.nnodes=") for line in change.lines)


def test_samples_come_from_the_configuration_where_the_log_counts_none() -> None:
    """32 prompts with 8 samples each: enough for the laws of the model."""
    settings = LaunchSettings(
        framework="slime", placement="separate", asynchronous=True, rollout_gpus=4, train_gpus=4, prompts_per_step=32, samples_per_prompt=8
    )
    logged = run("async", 100.0, {"wait": 50.0, "update": 50.0}, {"response_mean": 2000.0, "response_max": 8192.0}, framework="slime")
    given = facts(settings, Facts(model="Qwen3-8B", gpu="H100"))
    assert advise(logged, given).law.startswith("laws of Qwen3-8B")
