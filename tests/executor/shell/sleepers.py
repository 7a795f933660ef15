"""Sleeping jobs and a driver to talk to: `ROLLPLAN_VLLM_PYTHON=... python tests/executor/shell/sleepers.py` runs two jobs and prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from rollplan.executor.core.runbook import JobRun, Predicted, Resource, Runbook
from rollplan.executor.shell import processes
from rollplan.models.process import kill_group

CHECKOUT = Path(__file__).parents[3]

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
ROLLOUT_S, TRAIN_S, SAMPLES = 0.3, 0.2, 4


def sleeper(name: str, rollout: tuple[str, ...] = ("rollout-0",), train: str = "train", **changes: Any) -> JobRun:
    """Return a job of `programs.sleep`; `settings` in `changes` go into the usual ones."""
    settings = {"rollout_s": ROLLOUT_S, "train_s": TRAIN_S, "tokens": 16, **changes.pop("settings", {})}
    given = {"iterations": 4, "samples": SAMPLES, "seed": 7, "hang_s": 20.0, **changes}
    predicted = Predicted(ROLLOUT_S, TRAIN_S, 0.0, 0.0, 0.0, ROLLOUT_S + TRAIN_S, ROLLOUT_S + TRAIN_S)
    module = "rollplan.executor.programs.sleep"
    return JobRun(name, "group", module, rollout=rollout, train=train, predicted=predicted, settings=settings, **given)


def book(*jobs: JobRun, policy: Any = "round-robin") -> Runbook:
    """Return a runbook in which every resource is one node of one GPU with its jobs in the order given."""
    resources = []
    for kind, pool in (("rollout", "roll"), ("train", "train")):
        names = dict.fromkeys(name for job in jobs for name in (job.rollout if kind == "rollout" else (job.train,)))
        for name in names:
            pinned = tuple(job.name for job in jobs if name in (*job.rollout, job.train))
            resources.append(Resource(name, pool, kind, pinned, 1, 1, 64.0))
    return Runbook("seal", policy, tuple(resources), tuple(jobs))


class Driven:
    """A driver process, and what it said. A context that leaves no process behind."""

    def __init__(self, runbook: Runbook, folder: Path, address: str | None = None) -> None:
        assert PYTHON is not None
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.temp = tempfile.TemporaryDirectory(prefix="rpt-", ignore_cleanup_errors=True)
        self.log = (self.folder / "driver.log").open("ab")
        self.lines: list[tuple[float, Mapping[str, Any]]] = []
        self.process = subprocess.Popen(
            [PYTHON, "-m", "rollplan.executor.shell.driver"],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1", processes.MARK: str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )
        self.say({"runbook": runbook.to_dict(), "folder": str(self.folder), "address": address, "temp": self.temp.name})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((monotonic(), json.loads(line)))

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def all(self, key: str) -> list[Mapping[str, Any]]:
        """Return what was said under a key."""
        return [line[key] for _, line in list(self.lines) if key in line]

    def events(self, kind: str, job: str | None = None) -> list[Mapping[str, Any]]:
        """Return the events of a kind, of one job or all."""
        return [one for one in self.all("event") if one["event"] == kind and job in (None, one.get("job"))]

    def records(self, kind: str, job: str | None = None) -> list[Mapping[str, Any]]:
        """Return the records of a kind, of one job or all."""
        return [one for one in self.all("record") if one["kind"] == kind and job in (None, one["job"])]

    def pids(self, kind: str) -> list[int]:
        """Return the processes of a kind that were told, the latest last."""
        return [int(one["pid"]) for one in self.all("process") if one["kind"] == kind]

    def wait_for(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until something is true and return it; fail with the driver's log if it ends before."""
        until = monotonic() + timeout_s
        while not (value := condition()):
            over = self.process.poll() is not None
            if over:
                self.reader.join(10)
            if (over and not condition()) or monotonic() > until:
                said = [line for _, line in self.lines if "state" not in line][-8:]
                raise AssertionError(f"code {self.process.returncode}: {said}\n{(self.folder / 'driver.log').read_text()[-3000:]}")
            sleep(0.005)
        return value

    def end(self, timeout_s: float = 120.0) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(timeout_s)
        self.reader.join(10)
        return code

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        kill_group(self.process)
        processes.end(self.folder)
        self.log.close()
        self.reader.join(10)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self.temp.cleanup()


if __name__ == "__main__":
    run = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sleepers-"))
    with Driven(book(sleeper("a"), sleeper("b")), run) as driven:
        print("exit code", driven.end())
        for _, line in driven.lines:
            if "state" not in line and "event" not in line:
                print(line)
