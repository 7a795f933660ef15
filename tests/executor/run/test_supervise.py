"""The parent of a run, with a driver that misbehaves in every way: nothing is lost, nothing hangs, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor import supervise as module
from rollplan.executor.core.records import Record, Remark
from rollplan.executor.run_folder import RunFolder
from rollplan.executor.shell.processes import MARK, end, of_run
from rollplan.executor.supervise import Ended, Launch, check_python, supervise
from rollplan.models.errors import InputError

from .made import a_job, a_runbook


class Seen:
    """A watcher that remembers, and asks for the end after so many states."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.records: list[Record] = []
        self.remarks: list[Remark] = []
        self.states: list[Mapping[str, Any]] = []
        self.ticks = 0
        self.stop_after = stop_after

    def record(self, record: Record) -> None:
        self.records.append(record)

    def remark(self, remark: Remark) -> None:
        self.remarks.append(remark)

    def state(self, state: Mapping[str, Any]) -> None:
        self.states.append(state)

    def tick(self) -> None:
        self.ticks += 1

    def asked(self) -> bool:
        return self.stop_after is not None and len(self.states) >= self.stop_after


@pytest.fixture
def run(tmp_path: Path, fake_python: str) -> Iterator[Callable[..., Ended]]:
    """Return a function that runs two jobs whose driver does what it is told; afterwards no process may be left."""
    path = tmp_path / "run"

    def call(fake: str = "", seen: Seen | None = None, resume: bool = False, iterations: int = 3) -> Ended:
        jobs = (a_job(settings={"fake": fake}, iterations=iterations), a_job("b", iterations=iterations))
        watcher = seen or Seen()
        with RunFolder(path, a_runbook(*jobs), resume) as folder:
            return supervise(Launch(a_runbook(*jobs), fake_python), folder, watcher, watcher.asked)

    yield call
    assert of_run(path) == []


def trained(ended: Ended, job: str = "a") -> list[int]:
    return [record.iteration for record in ended.records if record.job == job and record.kind == "train"]


def test_everything_the_driver_says_arrives(run: Callable[..., Ended], tmp_path: Path) -> None:
    """In its order, at the watcher, in the result and in the folder; what a library prints does not disturb."""
    seen = Seen()
    ended = run(seen=seen)
    assert (ended.reason, ended.drivers) == ("finished", 1)
    assert trained(ended) == trained(ended, "b") == [0, 1, 2]
    assert list(ended.records) == seen.records
    assert [state["jobs"]["a"]["iteration"] for state in seen.states] == [0, 1, 2, 3, 3]
    assert ended.state == seen.states[-1]
    assert [(one.job, one.resource, one.held_bytes) for one in ended.held] == [("a", "g1/train", 2**30), ("b", "g1/train", 2**30)]
    with RunFolder(tmp_path / "run", a_runbook(), resume=True) as folder:
        assert folder.records == ended.records
    assert "and writes to stderr" in (tmp_path / "run" / "driver.log").read_text()


@pytest.mark.parametrize("fake", ["dies", "orphan"])
def test_a_driver_that_dies_is_started_again_and_goes_on(run: Callable[..., Ended], fake: str) -> None:
    """From the finished iterations; the clock of the run does not go back; what the dead one left is ended."""
    ended = run(fake)
    assert (ended.reason, ended.drivers) == ("finished", 2)
    assert trained(ended) == [0, 1, 2]
    assert [remark.text for remark in ended.remarks] == ["the driver ended (exit code 1); another one goes on from the finished iterations"]
    starts = [record.start_s for record in ended.records if record.kind == "start" and record.job == "a"]
    assert starts[:2] == [0.0, 0.0]
    assert starts[2] > 0.0


def test_a_driver_that_always_dies_is_given_up_with_its_last_words(run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """After five in a row without a finished iteration."""
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    with pytest.raises(InputError, match=r"ended 5 times in a row .* \(exit code 75\)[\s\S]*something dreadful happened") as refused:
        run("dies-always")
    assert "--resume" in str(refused.value)


def test_what_the_driver_refuses_is_an_error_with_its_way_out(run: Callable[..., Ended]) -> None:
    """It is not started again: the input would be the same."""
    with pytest.raises(InputError) as refused:
        run("refuses")
    assert [(found.problem, found.remedy) for found in refused.value.findings] == [
        ("the pool r stands for 1 GPU, 2 are needed", "give the cluster more nodes")
    ]


def test_a_run_that_was_asked_to_end_is_resumed(run: Callable[..., Ended]) -> None:
    """Nothing is lost and nothing is done twice; times go on where they ended."""
    first = run(seen=Seen(stop_after=2), iterations=50)
    done = trained(first)
    assert first.reason == "stopped"
    assert 0 < len(done) < 50
    second = run(resume=True, iterations=len(done) + 2)
    assert second.reason == "finished"
    assert trained(second) == list(range(len(done) + 2))
    new = second.records[len(first.records) :]
    assert min(record.start_s for record in new) >= max(record.end_s for record in first.records)


def test_a_deaf_driver_is_killed_after_the_grace(run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses Ctrl-C gets the shell back."""
    monkeypatch.setattr(module, "GRACE_S", 0.5)
    ended = run("deaf", seen=Seen(stop_after=2), iterations=10_000)
    assert ended.reason == "stopped; the driver did not end within 0.5 s and was killed"


def test_an_exception_of_the_watcher_ends_the_driver(run: Callable[..., Ended]) -> None:
    """As a second Ctrl-C does, which is raised wherever the parent is."""

    class Impatient(Seen):
        def state(self, state: Mapping[str, Any]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("orphan", seen=Impatient())


def test_an_interpreter_without_ray_is_refused_with_the_way_to_get_it(tmp_path: Path, fake_python: str) -> None:
    """Before anything starts."""
    check_python(fake_python)
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(InputError, match=r"bare has no Ray; name an interpreter that has it with --python or ROLLPLAN_PYTHON"):
        check_python(str(bare))
    with pytest.raises(InputError, match="cannot be started"):
        check_python(str(tmp_path / "nothing"))


def test_a_folder_of_any_name_has_its_leftovers_found(tmp_path: Path) -> None:
    """Names of files are bytes, not all of which are text."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: str(folder)}) as process:
        assert of_run(folder) == [process.pid]
        end(folder)
    assert process.returncode == -signal.SIGKILL
