"""A job that fails in whatever way is isolated and goes on from its last finished iteration; the other one does not notice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor.core.runbook import JobRun
from rollplan.executor.shell import processes
from rollplan.executor.shell.saved import SavedStates
from tests.executor.shell.sleepers import PYTHON, Driven, book, sleeper

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray (make test-vllm)"),
]
ITERATIONS = 4


def faulty(folder: Path, kind: str, pool: str, **changes: Any) -> JobRun:
    settings = {"fault": kind, "fault_pool": pool, "fault_at": 2, "fault_once": str(folder / "once"), **changes.pop("settings", {})}
    return sleeper("bad", settings=settings, iterations=ITERATIONS, **changes)


def trained(run: Driven, job: str) -> list[int]:
    states = SavedStates(run.folder, job)
    found: list[int] = json.loads((states.of(states.finished()) / "trained.json").read_text())["trained"]
    return found


@pytest.mark.parametrize(
    ("kind", "pool", "reason"),
    [
        ("raise", "train", "RuntimeError: this was asked for (sleep.py:"),
        ("raise", "rollout", "rollout of iteration 2: RuntimeError: this was asked for"),
        ("exit", "rollout", "its process died"),
        ("hang", "train", "showed no progress for"),
    ],
)
def test_a_job_with_a_fault_goes_on_from_its_last_finished_iteration(tmp_path: Path, kind: str, pool: str, reason: str) -> None:
    bad = faulty(tmp_path, kind, pool, hang_s=2.0)
    with Driven(book(bad, sleeper("good", iterations=2 * ITERATIONS)), tmp_path / "run") as run:
        assert run.end() == 0
        assert any(reason in one["text"] and one["job"] == "bad" for one in run.all("remark")), run.all("remark")
        for job, iterations in (("bad", ITERATIONS), ("good", 2 * ITERATIONS)):
            assert trained(run, job) == list(range(iterations))
            assert [one["iteration"] for one in run.events("TrainEnded", job)] == list(range(iterations))
        assert len(run.events("JobReady", "bad")) == 2
        assert [one["finished"] for one in run.events("JobStopped", "bad")] == [2, ITERATIONS]
        assert len(run.events("JobReady", "good")) == 1, "the other job was never touched"
        assert len(run.records("restart", "bad")) == 2


def test_a_job_that_fails_again_and_again_is_given_up_and_the_other_one_ends(tmp_path: Path) -> None:
    bad = sleeper("bad", settings={"fault": "raise", "fault_at": 1}, restarts=1)
    with Driven(book(bad, sleeper("good")), tmp_path) as run:
        assert run.end() == 0
        assert any("given up after 1 restarts" in one["text"] for one in run.all("remark"))
        assert run.all("state")[-1]["jobs"]["bad"]["state"] == "failed"
        assert trained(run, "good") == [0, 1, 2, 3]
        assert trained(run, "bad") == [0]


def test_a_job_over_its_declared_memory_is_stopped_with_its_number_and_the_other_one_ends(tmp_path: Path) -> None:
    """It declares 0.5 GiB and takes a thousand MiB more in its third iteration."""
    bad = faulty(tmp_path, "overrun", "train", settings={"memory_mib": 16}, train_memory_gib=0.5, rollout_memory_gib=0.5)
    with Driven(book(bad, sleeper("good", train_memory_gib=0.5)), tmp_path / "run") as run:
        assert run.end() == 0
        remark = next(one["text"] for one in run.all("remark") if one["job"] == "bad" and "GiB" in one["text"])
        assert "declared are 0.5 GiB" in remark
        assert run.all("state")[-1]["jobs"]["bad"]["state"] == "failed"
        assert trained(run, "good") == [0, 1, 2, 3]


def test_a_program_that_cannot_be_loaded_fails_its_job_alone(tmp_path: Path) -> None:
    from dataclasses import replace

    bad = replace(sleeper("bad", restarts=0), module="nowhere.py")
    with Driven(book(bad, sleeper("good")), tmp_path) as run:
        assert run.end() == 0
        assert any("nowhere.py is not a file; relative paths start at the folder of the plan" in one["text"] for one in run.all("remark"))
        assert trained(run, "good") == [0, 1, 2, 3]


def test_a_run_that_is_stopped_goes_on_later(tmp_path: Path) -> None:
    """By a line on stdin; the second driver finds in the folder how far the first one was."""
    jobs = sleeper("a", iterations=6), sleeper("b", iterations=6)
    with Driven(book(*jobs), tmp_path) as run:
        run.wait_for(lambda: run.events("TrainEnded", "b"))
        run.say({"stop": True})
        assert run.end(20) == 0
        assert run.all("done") == [{"reason": "stopped"}]
        assert processes.of_run(run.folder) == []
        first = {job: [one["iteration"] for one in run.events("TrainEnded", job)] for job in "ab"}
    with Driven(book(*jobs), tmp_path) as run:
        assert run.end() == 0
        for job in "ab":
            assert first[job] + [one["iteration"] for one in run.events("TrainEnded", job)] == list(range(6))
            assert trained(run, job) == list(range(6))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_driver_cleanly(tmp_path: Path, number: int) -> None:
    with Driven(book(sleeper("a", iterations=100)), tmp_path) as run:
        run.wait_for(lambda: run.events("TrainEnded", "a"))
        os.kill(run.process.pid, number)
        assert run.end(20) == 0
        assert run.all("done") == [{"reason": "stopped"}]
        assert processes.of_run(run.folder) == []


def test_the_end_of_its_caller_ends_the_driver(tmp_path: Path) -> None:
    with Driven(book(sleeper("a", iterations=100)), tmp_path) as run:
        run.wait_for(lambda: run.events("TrainEnded", "a"))
        assert run.process.stdin is not None
        run.process.stdin.close()
        assert run.end(20) == 0
        assert processes.of_run(run.folder) == []


def test_a_second_driver_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with Driven(book(sleeper("a", iterations=100)), tmp_path) as run:
        run.wait_for(lambda: run.events("JobReady", "a"))
        with Driven(book(sleeper("a")), tmp_path) as other:
            assert other.end() == 2
            assert "the run folder cannot be used" in other.all("error")[0]
            assert run.process.poll() is None
            other.folder = tmp_path / "elsewhere"


def test_unfinished_responses_move_to_few_nodes_and_lose_no_token(tmp_path: Path) -> None:
    """The trainer of this program checks every token."""
    nodes = ("rollout-0", "rollout-1")
    settings = {"tokens": 60, "sigma": 0.9, "rollout_s": 1.2}
    moving = sleeper("a", nodes, settings=settings, samples=16, migrate_at=0.5, migrate_to=1)
    with Driven(book(moving, sleeper("b", nodes)), tmp_path) as run:
        assert run.end() == 0
        assert trained(run, "a") == [0, 1, 2, 3]
        assert len(run.records("migrate", "a")) >= 4
        assert sum(one["values"]["samples"] for one in run.records("migrate", "a")) > 0
        for iteration in range(4):
            done = [number for one in run.events("SamplesDone", "a") if one["iteration"] == iteration for number in one["samples"]]
            assert sorted(done) == list(range(16))


def test_ranks_train_together_and_meet_where_they_are_told(tmp_path: Path) -> None:
    """A program of the test: both ranks are given the same place, which is free on the loopback."""
    (tmp_path / "ranks.py").write_text(
        """
import json, socket
from rollplan.executor.api import Sample, phase
from rollplan.executor.programs import sleep

rollout = sleep.rollout
init = sleep.init_rollout

@phase(pool="train", kind="init")
def begin(worker):
    host, port = worker.rendezvous.split(":")
    assert host == "127.0.0.1" and worker.world == 2
    if worker.rank == 0:
        server = socket.create_server((host, int(port)))
        peer, _ = server.accept()
        assert peer.recv(5) == b"hello"
    else:
        import time
        for _ in range(200):
            try:
                socket.create_connection((host, int(port))).sendall(b"hello")
                break
            except OSError:
                time.sleep(0.05)
    print("rank", worker.rank, "met")
    sleep._allocate(worker)

@phase(pool="train")
def train(worker, task):
    return {**sleep.train(worker, task), "rank": worker.rank}
""",
        encoding="utf-8",
    )
    from dataclasses import replace

    job = replace(sleeper("a", iterations=2, train_ranks=2), module=str(tmp_path / "ranks.py"))
    with Driven(book(job), tmp_path / "run") as run:
        assert run.end() == 0, run.all("remark")
        assert sorted((one["iteration"], one["worker"], one["values"]["rank"]) for one in run.records("train", "a")) == [
            (0, 0, 0.0), (0, 1, 1.0), (1, 0, 0.0), (1, 1, 1.0)
        ]  # fmt: skip
        log = (run.folder / "logs" / "a-train.log").read_text()
        assert "rank 0 met" in log
        assert "rank 1 met" in log
