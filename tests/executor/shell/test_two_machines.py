"""A plan runs on a cluster that `ray start` made of two machines as it runs on one: two network namespaces with a cable between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor.shell import processes
from rollplan.models.scenario import Scenario
from rollplan.planner.compose import plan
from tests.profilers.link.cable import Cable, laid

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray and torch"),
]
PORT = 6379
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of this test alone"}
JOBS = """\
name: two_machines
pools:
  r: {role: rollout, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 8 GiB}
  t: {role: train, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 8 GiB}
overheads: zero
jobs:
"""
JOB = """\
  - name: ALGORITHM
    slo: 2
    rollout: {time: 300 ms, memory: 2 GiB}
    train: {time: 300 ms, memory: 2 GiB}
    program:
      module: rollplan.executor.programs.rl
      iterations: 3
      samples: 16
      ranks: 2
      settings: {algorithm: ALGORITHM, layers: 1, max_tokens: 16}
"""


@contextmanager
def cluster(cable: Cable, folder: Path) -> Iterator[str]:
    """Start Ray on both machines, which know nothing of rollplan; yield its address."""
    assert PYTHON is not None
    ray = str(Path(PYTHON).with_name("ray"))
    address = f"{cable.addresses[0]}:{PORT}"
    with tempfile.TemporaryDirectory(prefix="rpm-", ignore_cleanup_errors=True) as temp:
        head = ["--head", f"--port={PORT}", f"--temp-dir={temp}", "--include-dashboard=false"]
        environment = {**os.environ, **TOKEN, processes.MARK: str(folder)}
        try:
            for end, (pool, role) in enumerate((("r", head), ("t", [f"--address={address}"]))):
                own = [f"--node-ip-address={cable.addresses[end]}", f'--resources={{"rollplan:{pool}": 1}}']
                small = ["--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats"]
                command = cable.inside(end, ray, "start", *role, *own, *small)
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
                assert done.returncode == 0, done.stderr[-2000:]
            yield address
        finally:
            processes.end(folder)


def learned(folder: Path) -> Mapping[tuple[str, int], float]:
    """Return the reward of every iteration of every job."""
    records: list[dict[str, Any]] = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    trained = (one for one in records if one["kind"] == "train")
    return {(one["job"], one["iteration"]): one["values"]["reward"] for one in trained}


def test_a_plan_runs_on_two_machines_as_it_runs_on_one(tmp_path: Path) -> None:
    """The same file by the same command, `--address` aside; rewards are equal bit for bit, and nothing of the run stays in the cluster."""
    plan(Scenario.from_yaml(JOBS + "".join(JOB.replace("ALGORITHM", name) for name in ("grpo", "ppo")))).save(tmp_path / "plan.json")
    command = [sys.executable, "-m", "rollplan", "run", str(tmp_path / "plan.json"), "--python", str(PYTHON), "-q"]
    environment = {**os.environ, **TOKEN, "OMP_NUM_THREADS": "1"}

    def run(folder: Path, *options: str, inside: tuple[str, ...] = ()) -> None:
        whole = [*inside, *command, "--folder", str(folder), *options]
        done = subprocess.run(whole, env=environment, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    with laid() as cable, cluster(cable, tmp_path / "cluster") as address:
        run(tmp_path / "two", "--address", address, inside=tuple(cable.inside(0)))
        assert processes.of_run(tmp_path / "two") == []
    run(tmp_path / "one")
    assert learned(tmp_path / "two") == learned(tmp_path / "one")
    assert len(learned(tmp_path / "one")) == 6
