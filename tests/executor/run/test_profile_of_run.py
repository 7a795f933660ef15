"""What a run measured goes back into a scenario, and into `calibrate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest

from rollplan.executor.profile_of_run import profile_of_run
from rollplan.models.calibration.read import of_profile
from rollplan.models.errors import InputError
from rollplan.models.profile.file import Profile
from rollplan.models.resolve import resolve
from rollplan.models.scenario import Scenario

from ...conftest import Outcome
from .made import a_job, a_runbook, executed, record


def profile(iterations: int = 5, **changes: object) -> Profile:
    jobs = (a_job(**changes), a_job("b"))
    records = executed(iterations, 15.0) + executed(iterations, 15.0, "b", 9.0)
    # The slowest iteration of a: 2 s more.
    records.append(record("rollout", 2.0 + 2 * 15 + 6.5, 2.0 + 2 * 15 + 8.5, 2))
    made = profile_of_run(a_runbook(*jobs), records, Path("two.json"), "rollplan 1", "2026-03-01T00:00:00+00:00", "Linux x86_64")
    assert made is not None
    return made


def test_every_job_is_a_run_in_the_words_of_logs() -> None:
    """Phases of its steps, the first one dropped; what went on at both sides is summed as `switch`, and told apart beside it."""
    made = profile()
    assert [run.source for run in made.runs] == ["a", "b"]
    run = made.runs[0]
    assert (run.mode, run.gpus, run.framework) == ("sync", None, "rollplan")
    assert run.steps[0].dropped == "first iteration"
    step = run.steps[1]
    assert step.phases == pytest.approx({"generation": 6.0, "update": 3.0, "checkpoint": 0.5, "switch": 1.5, "sync": 1.0})
    assert (step.step_s, step.total) == (15.0, "timestamps")
    assert step.amounts == pytest.approx({"samples": 8.0, "response_mean": 100.0, "reward": 0.1, "rollout_switch_s": 1.0})
    assert made.origin.kind == "measured"
    assert "a, b shared nodes" in made.warnings[0]


def test_the_file_is_read_again(tmp_path: Path) -> None:
    """It is a profile like any other."""
    profile().save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == profile()


def test_overlapping_jobs_keep_generation_beside_the_trainers_step() -> None:
    """Adding it would count seconds twice."""
    step = profile(way="async-batch", staleness=1).runs[0].steps[1]
    assert step.beside == {"generation": 6.0}
    assert "generation" not in step.phases
    assert step.phases["switch"] == 0.5


def test_calibrate_reads_it_as_a_log() -> None:
    """With GPUs from the command line, because rollout and training had their own."""
    source = of_profile(profile(), "p.json", rollout_gpus=1, train_gpus=1)[0]
    assert source.left_out == ()
    assert [(one.gpus, one.time_s, one.samples, one.response_mean) for one in source.samples.rollout] == [(1, 6.0, 8, 100.0)]
    assert source.samples.sync_s == (1.0,)


def test_a_run_without_iterations_is_no_profile() -> None:
    """There is nothing to say."""
    assert profile_of_run(a_runbook(), [], Path("p.json"), "rollplan 1", "2026", "Linux") is None


def test_a_number_that_is_none_costs_nobody_his_profile() -> None:
    """A loss that has become NaN is no amount; everything else was measured all the same."""
    records = [replace(one, values={"reward": nan}) if one.kind == "train" else one for one in executed(3)]
    made = profile_of_run(a_runbook(), records, Path("p.json"), "rollplan 1", "2026-03-01T00:00:00+00:00", "Linux")
    assert made is not None
    assert "reward" not in made.runs[0].steps[1].amounts
    assert made.runs[0].steps[1].phases["update"] == 3.0


MEASURED = """\
name: measured
pools:
  r: {role: rollout, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 400 GiB}
  t: {role: train, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 400 GiB}
jobs:
  - {name: a, slo: 2, measured: p.json, rollout: {memory: 1 GiB}, train: {memory: 1 GiB}}
  - {name: b, slo: 2, measured: p.json, rollout: {memory: 1 GiB, time: 9 s}, train: 4 s, size: 7B}
"""


@pytest.fixture
def files(folder: Path) -> Path:
    """A scenario that names the profile of a run."""
    profile().save(folder / "p.json")
    (folder / "s.yaml").write_text(MEASURED)
    return folder


def test_a_job_takes_its_times_from_the_run_of_its_name(files: Path) -> None:
    """worst: the slowest iteration; expected: the median; writing the state belongs to training."""
    scenario = Scenario.load(files / "s.yaml")
    a = scenario.jobs[0]
    assert a.rollout is not None
    assert a.train is not None
    assert a.rollout.time is not None
    assert a.train.time is not None
    assert (a.rollout.time.worst_s, a.rollout.time.expected_s, a.rollout.switch_s) == (8.0, 6.0, 1.0)
    assert (a.train.time.worst_s, a.train.time.expected_s, a.train.switch_s, a.sync_s) == (3.5, 3.5, 0.5, 1.0)
    assert resolve(scenario).jobs[0].expected_known


def test_what_the_scenario_says_itself_wins(files: Path) -> None:
    """Key by key, as with every profile; a phase in the short form is all of the phase."""
    b = Scenario.load(files / "s.yaml").jobs[1]
    assert b.rollout is not None
    assert b.train is not None
    assert b.rollout.time is not None
    assert b.train.time is not None
    assert (b.rollout.time.worst_s, b.rollout.switch_s) == (9.0, 1.0)
    assert (b.train.time.worst_s, b.train.switch_s) == (4.0, None)


def test_a_table_of_phase_times_wins_over_those_of_a_run(files: Path) -> None:
    """The job names it itself."""
    text = MEASURED.replace("name: a, slo: 2,", "name: a, slo: 2, profile: mine,").replace("jobs:", PROFILES + "jobs:")
    (files / "s.yaml").write_text(text)
    a = Scenario.load(files / "s.yaml").jobs[0]
    assert a.rollout is not None
    assert (a.rollout.time, a.rollout.switch_s) == (None, 1.0)


PROFILES = """\
profiles:
  mine: {provenance: {kind: measured, source: me}, rollout: {1: 5 s}, train: {1: 5 s}}
"""


def test_a_job_of_another_name_is_refused_with_the_names_there_are(files: Path) -> None:
    """Times of another job would go unseen into a plan."""
    (files / "s.yaml").write_text(MEASURED.replace("name: a,", "name: c,"))
    with pytest.raises(InputError, match=r"jobs\[0\].measured = `p.json`: has no run of a job called `c`; it has runs of a, b"):
        Scenario.load(files / "s.yaml")


@pytest.mark.parametrize(("iterations", "way"), [(1, "serial"), (5, "async-batch")])
def test_a_run_without_iterations_that_count_is_refused_with_the_reason(files: Path, iterations: int, way: str) -> None:
    """The only one warmed up, or stages overlapped; to ask for decode steps would lead astray."""
    records = executed(iterations)
    made = profile_of_run(a_runbook(a_job(way=way)), records, Path("p.json"), "rollplan 1", "2026-03-01T00:00:00+00:00", "Linux")
    assert made is not None
    made.save(files / "p.json")
    with pytest.raises(InputError, match="has no iteration that counts of a job whose stages take turns; run more iterations"):
        Scenario.load(files / "s.yaml")


def test_such_a_scenario_is_planned(files: Path, cli: Callable[..., Outcome]) -> None:
    """Profile, plan: the circle is closed."""
    assert cli("plan", "s.yaml", "-o", "plan.json").code == 0
    assert cli("check", "s.yaml", "plan.json").code == 0
