"""What all tests share: how hypothesis searches, a small scenario, and two ways to run the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from rollplan.cli import main

settings.register_profile("tests", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("tests")

SCENARIO = """\
name: small
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB, nodes: 8}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB, nodes: 8}
links:
  - {from: h800, to: h20, bandwidth: 20 Gbps}
jobs:
  - {name: chat, size: 7B, slo: 2, rollout: 133 s, train: 70 s}
  - {name: code, size: 7B, slo: 2.5, rollout: {time: {worst: 90 s, expected: 60 s}, nodes: 2}, train: 1.5 min}
  - {name: math, size: 14B, slo: 1.5, lengths: 14B-8k, rollout: 100 s, train: 40 s}
  - name: tool
    slo: 1
    rollout: {time: 50 s, memory: 100 GB, switch: 1 s}
    train: {time: 55 s, memory: 120 GB, switch: 2 s}
    sync: 3 s
  - name: alone
    split:
      budget: {h20: 8, h800: 8}
      rollout: {h20: {4: 100 s, 8: 55 s}}
      train: {h800: {4: 90 s, 8: 50 s}}
      sync: 4 s
"""


@dataclass(frozen=True)
class Outcome:
    """What a user sees of one call of the command line."""

    code: int
    out: str
    err: str


@pytest.fixture
def scenario_text() -> str:
    """Four jobs to be co-located, with every way of giving numbers, and one job to be split."""
    return SCENARIO


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, so that messages show short paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scenario_file(folder: Path) -> Path:
    """The small scenario as scenario.yaml in the working directory."""
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def cli(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run the command line in this process: fast, and what C libraries print is caught as well."""

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rollplan", *map(str, arguments)])
        # A thread that is left over (a solver, a compiler) makes the program leave at once, and would take the tests along.
        monkeypatch.setattr(main, "_exit", sys.exit)
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main.run()
        out, err = capfd.readouterr()
        return Outcome(int(left.value.code or 0), out, err)

    return call


@pytest.fixture
def run_cli(folder: Path) -> Callable[..., Outcome]:
    """Run the command line as a process of its own, with changes to its environment."""

    def call(*arguments: object, **environment: str) -> Outcome:
        command = [sys.executable, "-m", "rollplan", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, cwd=folder)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return call
