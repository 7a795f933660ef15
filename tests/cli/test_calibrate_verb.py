"""`rollplan calibrate` from the outside: screen, JSON, file, and how it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from rollplan import InputError, Scenario
from rollplan.cli.main import app
from rollplan.models.calibration.samples import DecodeSample, InterferenceSample, RolloutSample, Samples, TrainingSample
from rollplan.models.profile.calibration import Calibration, Comparison, Errors, LeftOut, Number, NumberName
from rollplan.models.profile.file import Profile

ROOT = Path(__file__).parent.parent.parent
SCENARIO = """\
name: demo
pools:
  h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 2 TB}
jobs:
  - name: grpo
    split:
      model: Qwen3-8B
      workload: {prompts: 16, samples_per_prompt: 8, prompt_tokens: 256, lengths: {mean: 900, sigma: 0.7, limit: 4096}}
"""
SAMPLES = """\
decode:
  - {tp: 1, batch: 1, context: 1024, ms: 11.4}
  - {tp: 1, batch: 64, context: 4096, ms: 27.6}
  - {tp: 1, batch: 128, context: 4096, ms: 45.1}
  - {tp: 1, batch: 32, context: 2048, ms: 16.7}
training: [{gpus: 8, update: 20 s}]
sync: [2.1 s]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a scenario and samples."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "notes.yaml").write_text(SAMPLES)
    return tmp_path


def called(folder: Path, *options: str) -> str:
    """Return what the command prints."""
    result = CliRunner().invoke(app, ["calibrate", str(folder / "scenario.yaml"), str(folder / "notes.yaml"), *options])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_lines_to_paste_are_a_scenario(folder: Path) -> None:
    """As printed, under `split`."""
    printed = called(folder)
    pasted = "".join(f"    {line}\n" for line in printed.partition("in the job's `split`\n")[2].splitlines())
    split = Scenario.from_yaml(SCENARIO + pasted).jobs[0].split
    assert split is not None
    assert split.engine.scale is not None
    assert split.sync_s == 2.1


def test_the_screen_shows_every_number_and_the_errors_before_and_after(folder: Path) -> None:
    """Nothing is changed in silence."""
    printed = called(folder)
    for words in ("engine.scale", "engine.overhead", "trainer.mfu", "before", "after", "unseen", "decode steps", "updates", "notes.yaml"):
        assert words in printed


def test_the_file_is_the_profile_that_json_prints(folder: Path) -> None:
    """Dates aside."""
    printed = json.loads(called(folder, "--json", "-o", str(folder / "calibration.json")))
    profile = Profile.load(folder / "calibration.json")
    assert profile.calibration is not None
    assert profile.calibration.model_dump(mode="json", exclude_none=True) == printed["calibration"]
    assert set(profile.calibration.settings()) == {"engine", "trainer", "sync"}


def test_a_file_that_is_no_profile_is_not_overwritten(folder: Path) -> None:
    """Unless told to; a former profile is."""
    target = folder / "scenario.yaml"
    with pytest.raises(InputError, match="exists and is not a profile"):
        called(folder, "-o", str(target))
    assert target.read_text() == SCENARIO
    called(folder, "-o", str(folder / "new.json"))
    called(folder, "-o", str(folder / "new.json"))
    called(folder, "-o", str(target), "--force")
    assert yaml.safe_load(target.read_text())["format"] == "rollplan/profile/1"


def test_an_unknown_job_is_refused_with_the_known_ones(folder: Path) -> None:
    """Exit code 2, like all wrong input."""
    with pytest.raises(InputError, match="choose from grpo"):
        called(folder, "--job", "ppo")


def test_every_key_of_samples_and_section_stands_in_the_page() -> None:
    """A key that nobody can look up is guessed."""
    page = re.sub(r"^```.*?^```", "", (ROOT / "docs" / "calibrate.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    words = {word for code in re.findall(r"`([^`]+)`", page) for word in re.findall(r"[A-Za-z0-9_-]+", code)}
    models = (Samples, DecodeSample, RolloutSample, TrainingSample, InterferenceSample, Calibration, Number, Comparison, Errors, LeftOut)
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert (keys | set(get_args(NumberName))) - words == set()
