"""`rollplan run` with Ray and jobs that sleep: what was planned is executed, stopped, and gone on with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rollplan.executor.shell.processes import of_run
from rollplan.models.profile.file import Profile
from rollplan.models.scenario import Scenario
from rollplan.planner.compose import plan

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON names no interpreter with Ray"),
]

SLEEPERS = """\
name: sleepers
pools:
  r: {role: rollout, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 4 GiB}
  t: {role: train, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 4 GiB}
overheads: zero
jobs:
  - name: a
    slo: 2
    rollout: {time: 600 ms, memory: 1 GiB}
    train: {time: 400 ms, memory: 1 GiB}
    program: {module: rollplan.executor.programs.sleep, samples: 8, settings: {rollout_s: 0.6, train_s: 0.4}}
  - name: b
    slo: 2
    rollout: {time: 400 ms, memory: 1 GiB}
    train: {time: 300 ms, memory: 1 GiB}
    program: {module: rollplan.executor.programs.sleep, samples: 8, settings: {rollout_s: 0.4, train_s: 0.3}}
"""


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `rollplan run`; the caller waits for it."""
    assert PYTHON is not None
    command = [sys.executable, "-m", "rollplan", "run", "plan.json", "--python", PYTHON, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], words: str) -> None:
    """Read stderr until a line holds these words."""
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"ended before it said {words!r}"


PAGE = Path(__file__).parents[3] / "docs" / "run.md"


def test_the_worked_example_of_the_page_learns(folder: Path) -> None:
    """Program and scenario as they stand there; then the plan from what was measured, as the page goes on to say."""
    blocks = re.findall(r"^```(python|yaml)\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    program, scenario = (next(text for kind, text in blocks if kind == wanted) for wanted in ("python", "yaml"))
    (folder / "bandit.py").write_text(program)
    (folder / "bandits.yaml").write_text(scenario)
    plan(Scenario.load(folder / "bandits.yaml")).save(folder / "plan.json")
    with begin(folder, "-o", "measured.json") as process:
        _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    for run in Profile.load(folder / "measured.json").runs:
        rewards = [step.amounts["reward"] for step in run.steps]
        assert rewards[0] < 0.4
        assert min(rewards[-3:]) > 0.8
    again = re.sub(r"(rollout|train): \{time: 100 ms, ", r"\1: {", scenario).replace("slo: 2\n", "slo: 3\n    measured: measured.json\n")
    (folder / "bandits.yaml").write_text(again)
    measured = Scenario.load(folder / "bandits.yaml").jobs[0]
    assert measured.rollout is not None
    assert measured.rollout.time is not None
    assert plan(Scenario.load(folder / "bandits.yaml")).groups


def test_a_plan_is_executed_stopped_and_gone_on_with(folder: Path) -> None:
    """Iterations take what was planned, Ctrl-C leaves no process, the rest is run afterwards, and a dead driver is replaced."""
    plan(Scenario.from_yaml(SLEEPERS)).save(folder / "plan.json")
    home = folder / "plan.run"
    with begin(folder, "--iterations", "200") as first:
        until(first, "a   3 of 200")
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=60)
    assert first.returncode == 130, err
    assert of_run(home) == []
    stopped = int(re.search(r"^a +([0-9]+) of 200", out, re.MULTILINE)[1])  # type: ignore[index]
    assert 3 <= stopped < 200

    with begin(folder, "--resume", "--iterations", str(stopped + 6), "--json") as second:
        until(second, f"a   {stopped + 2} of")
        driver = next(pid for pid in of_run(home) if b"shell.driver" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(driver, signal.SIGKILL)
        out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert "the driver ended (signal 9)" in err
    assert of_run(home) == []
    data = json.loads(out)
    for job in data["jobs"]:
        assert (job["finished"], job["failed"]) == (stopped + 6, None)
        iteration = job["phases"][-1]
        assert iteration["predicted_s"] == 1.0
        # The bound is wide: whatever else this machine does meanwhile is in it.
        assert 0.99 < iteration["executed_s"] < 1.5
    assert {remark["text"] for remark in data["remarks"]} >= {
        "the driver ended (signal 9); another one goes on from the finished iterations"
    }
