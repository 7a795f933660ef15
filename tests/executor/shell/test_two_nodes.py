"""A cluster of two raylets on the loopback runs the runbook of one machine; a raylet that dies costs only what lies on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from rollplan.executor.shell import processes
from rollplan.executor.shell.environment import for_ray
from rollplan.executor.shell.saved import SavedStates
from rollplan.executor.shell.seat import free_port
from rollplan.models.process import kill_group
from tests.executor.shell.sleepers import PYTHON, Driven, book, sleeper

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray (make test-vllm)"),
]

ROLL, TRAIN = '{"rollplan:roll": 2}', '{"rollplan:train": 1}'


class Raylets:
    """A head that stands for the rollout pool, and a second node that stands for the training pool. All of it ends with the context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temp = tempfile.TemporaryDirectory(prefix="rpn-", ignore_cleanup_errors=True)

    def add(self, resources: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(resources + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "added\n"

    def raylets(self) -> list[int]:
        return [pid for pid in processes.of_run(self.folder) if processes.program(pid) == "raylet"]

    def __enter__(self) -> Raylets:
        assert PYTHON is not None
        Path(self.temp.name, "ray").mkdir()
        added = {processes.MARK: str(self.folder), "RAY_TMPDIR": self.temp.name, **for_ray("localhost:0")}
        self.process = subprocess.Popen(
            [PYTHON, str(Path(__file__).with_name("raylets.py")), ROLL, TRAIN],
            env={**os.environ, **added},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        try:
            self.address = self.process.stdout.readline().strip()
            assert self.address.startswith("127.0.0.1:")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        kill_group(self.process)
        processes.end(self.folder)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.temp.cleanup()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Raylets]:
    with Raylets(tmp_path / "cluster") as raylets:
        yield raylets


def trained(folder: Path, job: str) -> list[int]:
    states = SavedStates(folder, job)
    found: list[int] = json.loads((states.of(states.finished()) / "trained.json").read_text())["trained"]
    return found


def node_of(run: Driven, resource: str) -> int:
    """Return the raylet that is the parent of a host."""
    pid = next(int(one["pid"]) for one in run.all("process") if one["resource"] == resource)
    return int(processes._status(pid)[1])


def test_the_runbook_of_one_machine_runs_on_two_nodes(cluster: Raylets, tmp_path: Path) -> None:
    """Each pool on its own node; afterwards the cluster is as it was."""
    before = len(processes.of_run(cluster.folder))
    with Driven(book(sleeper("a"), sleeper("b")), tmp_path / "run", cluster.address) as run:
        run.wait_for(lambda: run.events("TrainEnded"))
        nodes = node_of(run, "rollout-0"), node_of(run, "train")
        assert set(nodes) == set(cluster.raylets())
        assert run.end() == 0
        for job in "ab":
            assert trained(run.folder, job) == [0, 1, 2, 3]
        hosts = [one["pid"] for one in run.all("process") if one["kind"] == "host"]
        assert not any(processes.alive(pid) for pid in hosts)
    assert len(cluster.raylets()) == 2
    assert len(processes.of_run(cluster.folder)) <= before + 2


def test_a_plan_that_needs_more_than_the_cluster_has_is_refused(cluster: Raylets, tmp_path: Path) -> None:
    jobs = sleeper("a", ("rollout-0", "rollout-1")), sleeper("b", ("rollout-2",))
    with Driven(book(*jobs), tmp_path / "run", cluster.address) as run:
        assert run.end() == 2
        said = run.all("error")[0]
        assert "pool roll: the plan needs 3 GPUs" in said
        assert "stand for 2 (2 on 127.0.0.1)" in said
        assert "ray start --address" in said


def test_jobs_wait_for_a_lost_node_and_go_on_when_it_is_back(cluster: Raylets, tmp_path: Path) -> None:
    with Driven(book(sleeper("a", iterations=20), sleeper("b", iterations=20)), tmp_path / "run", cluster.address) as run:
        run.wait_for(lambda: run.events("TrainEnded", "b"))
        # A raylet alone is not missed for a while; with a machine its processes are gone, too.
        hosts = [int(one["pid"]) for one in run.all("process") if one["resource"] == "train"]
        for pid in (node_of(run, "train"), *hosts):
            os.kill(pid, signal.SIGKILL)
        run.wait_for(lambda: run.events("ResourceLost"), 90)
        run.wait_for(lambda: all(job["state"] == "waiting" for job in run.all("state")[-1]["jobs"].values()))
        cluster.add(TRAIN)
        run.wait_for(lambda: run.events("ResourceBack"))
        assert run.end() == 0
        for job in "ab":
            assert trained(run.folder, job) == list(range(20))
            assert [one["iteration"] for one in run.events("TrainEnded", job)] == list(range(20))


def test_an_address_at_which_nobody_answers_is_refused_in_words(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    begun = monotonic()
    with Driven(book(sleeper("a")), tmp_path, f"127.0.0.1:{port}") as run:
        assert run.end(90) == 2
        assert f"no Ray cluster answers at 127.0.0.1:{port}" in run.all("error")[0]
        assert "ray start --head" in run.all("error")[0]
        assert "Traceback" not in (tmp_path / "driver.log").read_text()
    assert monotonic() - begun < 60
