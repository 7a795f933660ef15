"""A scenario that names a profile: what the profile says, where the scenario says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from yaml import safe_dump

from rollplan.models.errors import InputError
from rollplan.models.profile.calibration import Calibration, Number
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.reference.architectures import architecture
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split

ORIGIN = Origin(kind="measured", by="rollplan", date="2026-11-30T00:00:00+00:00", source="a test")


def calibrated() -> Profile:
    """A profile that calibrates engine and trainer."""
    numbers = (
        Number(name="scale", default=1.07, value=1.2, samples=9, origin=ORIGIN),
        Number(name="overhead_ms", default=5.0, value=2.5, samples=9, origin=ORIGIN),
        Number(name="mfu", default=0.35, value=0.41, samples=3, origin=ORIGIN),
        Number(name="sync_s", default=1.0, value=3.0, samples=3, origin=ORIGIN),
    )
    return Profile(name="mine", origin=ORIGIN, calibration=Calibration(job="job", model="Qwen3-8B", numbers=numbers))


def split_of(folder: Path, **split: Any) -> Split:
    """Return the split of a scenario file that names a profile beside it."""
    job = {
        "name": "job",
        "split": {
            "model": "Qwen3-8B",
            "workload": {"prompts": 8, "lengths": {"mean": 900, "sigma": 0.7, "limit": 4096}},
            "measured": "mine.json",
            **split,
        },
    }
    pool = {"gpu": "H100", "price": "3 $/h", "memory": "2 TB", "nodes": 1}
    (folder / "scenario.yaml").write_text(safe_dump({"name": "one", "pools": {"h100": pool}, "jobs": [job]}))
    found = Scenario.load(folder / "scenario.yaml").jobs[0].split
    assert found is not None
    return found


def test_a_calibration_becomes_settings(tmp_path: Path) -> None:
    """In the scenario's own words and units."""
    calibrated().save(tmp_path / "mine.json")
    split = split_of(tmp_path)
    assert (split.engine.scale, split.engine.overhead_s, split.trainer.mfu, split.sync_s) == (1.2, pytest.approx(0.0025), 0.41, 3.0)


def test_what_the_scenario_writes_wins(tmp_path: Path) -> None:
    """Key by key; but scale and overhead were fitted together, so one of them does not stand beside another's."""
    calibrated().save(tmp_path / "mine.json")
    split = split_of(tmp_path, engine={"scale": 1.5}, sync="9 s")
    assert (split.engine.scale, split.engine.overhead_s, split.sync_s, split.trainer.mfu) == (1.5, None, 9.0, 0.41)


def test_a_latency_of_ones_own_is_not_calibrated_again(tmp_path: Path) -> None:
    """It was measured on the engine, host time and all."""
    calibrated().save(tmp_path / "mine.json")
    split = split_of(tmp_path, engine={"ptl": {1: "9 ms", 64: "12 ms"}})
    assert (split.engine.scale, split.engine.overhead_s, split.trainer.mfu) == (None, None, 0.41)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        (7, r"jobs\[0\].split.measured = `7`: is not text"),
        ("absent.json", r"jobs\[0\].split.measured = `absent.json`: does not exist"),
        ("scenario.yaml", r"jobs\[0\].split.measured = `scenario.yaml`: is not JSON"),
        ("empty.json", r"jobs\[0\].split.measured = `empty.json`: has neither decode steps, nor lengths, nor a calibration"),
    ],
)
def test_what_is_no_profile_is_refused_by_its_place(named: object, problem: str, tmp_path: Path) -> None:
    """With the key of the scenario that names it."""
    Profile(name="empty", origin=ORIGIN).save(tmp_path / "empty.json")
    with pytest.raises(InputError, match=problem):
        split_of(tmp_path, measured=named)


def test_a_job_of_co_location_takes_engine_and_trainer(tmp_path: Path) -> None:
    """Its sync is that of its group, so the profile's is left out."""
    calibrated().save(tmp_path / "mine.json")
    workload = {"prompts": 8, "lengths": {"mean": 900, "sigma": 0.7, "limit": 4096}}
    job = {"name": "job", "model": "Qwen3-8B", "workload": workload, "rollout": {}, "train": {}, "measured": "mine.json"}
    pool = {"gpu": "H100", "price": "3 $/h", "memory": "2 TB"}
    (tmp_path / "scenario.yaml").write_text(safe_dump({"name": "one", "pools": {"h100": pool}, "jobs": [job]}))
    found = Scenario.load(tmp_path / "scenario.yaml").jobs[0]
    assert found.engine is not None
    assert (found.engine.scale, found.sync_s) == (1.2, None)


def test_decode_steps_of_another_model_are_refused(tmp_path: Path) -> None:
    """A tiny model's steps under a plan of Qwen3-8B would be seen by nobody."""
    point = DecodePoint(batch=1, context_tokens=100, attended_tokens=100.0, ms=Spread.of([1.0]))
    curve = DecodeCurve(tp=1, points=(point,), max_num_seqs=8, max_model_len=1024)
    for name, shape in (("own.json", "Qwen3-8B"), ("other.json", "Qwen2.5-1.5B")):
        section = DecodeProfile(model=shape, architecture=architecture(shape), curves=(curve,))
        Profile(name="mine", origin=ORIGIN, decode=section).save(tmp_path / name)
    own = split_of(tmp_path, measured="own.json")
    assert own.engine.latency is not None
    with pytest.raises(InputError, match=r"split.measured = `other.json`: has decode steps of Qwen2.5-1.5B .* not of Qwen3-8B"):
        split_of(tmp_path, measured="other.json")
