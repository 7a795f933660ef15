"""The parent of a run: starts the driver, listens to it, starts it again if it dies, and leaves no process behind.

The driver is `rollplan.executor.shell.driver` in an interpreter that has Ray. It reads JSON lines (the request, later perhaps
`{"stop": true}`) and writes JSON lines: `record`, `remark`, `state`, `event`, `process`, `done`, `error`. When it dies without
`done`, another one finds the finished iterations in the run's folder.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from shutil import rmtree
from tempfile import mkdtemp
from threading import Thread
from time import monotonic, sleep
from typing import Any, Protocol

from rollplan.executor.core.records import Held, Record, Remark
from rollplan.executor.core.runbook import Runbook
from rollplan.executor.run_folder import RunFolder
from rollplan.executor.shell import processes
from rollplan.models.errors import Finding, InputError
from rollplan.models.process import kill_group, python_path

DRIVER = "rollplan.executor.shell.driver"
GRACE_S = 20.0
"""What a driver that was asked to stop may take before it is killed."""
ATTEMPTS = 5
"""Drivers in a row that may die without a finished iteration."""
_TICK_S = 0.25
_PAUSE_S = 0.5
_JOIN_S = 5.0
_TAIL = 8


@dataclass(frozen=True, slots=True)
class Launch:
    """What is run, and with what. address: of a Ray cluster, None: one of its own. interface: of the network for weights."""

    runbook: Runbook
    python: str
    address: str | None = None
    interface: str | None = None


class Watcher(Protocol):
    """Whoever wants to see a run; called in the order of what happens, from one thread."""

    def record(self, record: Record) -> None:
        """Something was executed."""

    def remark(self, remark: Remark) -> None:
        """Something should be read."""

    def state(self, state: Mapping[str, Any]) -> None:
        """How everything stands: the status of the core, and memory."""

    def tick(self) -> None:
        """A moment has passed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over. records, remarks, held: of earlier parts of the run, too. state: the last one that the driver told."""

    records: tuple[Record, ...]
    remarks: tuple[Remark, ...]
    held: tuple[Held, ...]
    reason: str
    state: Mapping[str, Any]
    drivers: int


def supervise(launch: Launch, folder: RunFolder, watcher: Watcher, asked: Callable[[], bool]) -> Ended:
    """Run to the end, or until `asked` says that somebody wants it to end; whatever happens, no process is left.

    Raises `InputError` for what the driver refuses, and if it dies again and again.
    """
    return _Supervisor(launch, folder, watcher, asked).run()


class _Supervisor:
    def __init__(self, launch: Launch, folder: RunFolder, watcher: Watcher, asked: Callable[[], bool]) -> None:
        self.launch, self.folder, self.watcher, self.asked = launch, folder, watcher, asked
        self.records, self.remarks, self.held = list(folder.records), list(folder.remarks), list(folder.held)
        self.state: Mapping[str, Any] = {}
        self.drivers = 0
        self.found: int | None = None
        """Finished iterations of all jobs when the present driver began; None: not told yet."""
        # Times go on where the last part of the run ended; what lay between is not shown.
        self.earlier_s = max((record.end_s for record in self.records), default=0.0)
        self.zero: float | None = None
        """When the run's clock was 0; None until the first driver tells a time."""
        self.from_s: float | None = None
        """What the run's clock said when that of the present driver began; None until it tells a time."""

    def run(self) -> Ended:
        failures = 0
        while True:
            reason, problem = self._drive()
            if reason is None and self.asked():
                reason = "stopped"
            if reason is not None:
                return Ended(tuple(self.records), tuple(self.remarks), tuple(self.held), reason, self.state, self.drivers)
            failures = 1 if self._went_on() else failures + 1
            if failures >= ATTEMPTS:
                raise self._gives_up(problem)
            self._remark(f"the driver ended ({problem}); another one goes on from the finished iterations")
            sleep(_PAUSE_S)

    def _drive(self) -> tuple[str | None, str]:
        """Return why a driver says it is done, else None and how it died; nothing of it is left afterwards."""
        self.drivers += 1
        self.found = None
        self.from_s = None
        temp = mkdtemp(prefix="rollplan-")
        try:
            with self.folder.driver_log.open("ab") as log:
                process = self._start(log.fileno())
            lines: Queue[str | None] = Queue()
            reader = Thread(target=_pass_on, args=(process, lines), daemon=True)
            reader.start()
            try:
                return self._listen(process, lines, temp)
            finally:
                kill_group(process)
                processes.end(self.folder.path)
                _close(process, reader)
        finally:
            rmtree(temp, ignore_errors=True)

    def _start(self, log: int) -> subprocess.Popen[str]:
        added = {"PYTHONPATH": python_path(self.folder.path / "code"), processes.MARK: str(self.folder.path)}
        try:
            return subprocess.Popen(
                [self.launch.python, "-m", DRIVER],
                env={**os.environ, **added},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise _fault(f"{self.launch.python} cannot be started ({error.strerror})", "give the path of a Python interpreter") from None

    def _listen(self, process: subprocess.Popen[str], lines: Queue[str | None], temp: str) -> tuple[str | None, str]:
        request = {
            "runbook": self.launch.runbook.to_dict(),
            "folder": str(self.folder.path),
            "address": self.launch.address,
            "interface": self.launch.interface,
            "temp": temp,
        }
        self._say(process, request)
        stop_by: float | None = None
        reason: str | None = None
        while True:
            try:
                line = lines.get(timeout=_TICK_S)
            except Empty:
                line = ""
            if line is None:
                break
            reason = self._hear(line) or reason
            if stop_by is None and (self.asked() or reason is not None):
                stop_by = monotonic() + GRACE_S
                self._say(process, {"stop": True})
            if stop_by is not None and monotonic() > stop_by:
                late = f"stopped; the driver did not end within {GRACE_S:g} s and was killed"
                return reason or late, ""
            self.watcher.tick()
        code = process.wait()
        if reason is None and stop_by is not None:
            reason = "stopped"
        return reason, f"signal {-code}" if code < 0 else f"exit code {code}"

    def _say(self, process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

    def _hear(self, line: str) -> str | None:
        """Take one line of the driver; return the reason if it says that it is done."""
        try:
            message = json.loads(line)
        except ValueError:
            return None  # a library that prints
        if not isinstance(message, dict):
            return None
        if "error" in message:
            problem, _, remedy = str(message["error"]).rpartition("; ")
            raise _fault(problem or remedy, remedy if problem else f"read {self.folder.driver_log}")
        if "done" in message:
            return str(message["done"]["reason"])
        if "record" in message:
            self._record(Record(**message["record"]))
        elif "remark" in message:
            remark = Remark(**message["remark"])
            self._take(replace(remark, at_s=self._at(remark.at_s)))
        elif "event" in message:
            self._event(message["event"])
        elif "state" in message:
            self.state = message["state"]
            self.found = finished_iterations(self.state) if self.found is None else self.found
            self.watcher.state(self.state)
        return None

    def _went_on(self) -> bool:
        """Return whether the present driver has finished an iteration."""
        return self.found is not None and finished_iterations(self.state) > self.found

    def _record(self, record: Record) -> None:
        end_s = self._at(record.end_s)
        shifted = replace(record, start_s=self._at(record.start_s), end_s=end_s)
        self.records.append(shifted)
        self.folder.add(shifted)
        self.watcher.record(shifted)

    def _event(self, event: Mapping[str, Any]) -> None:
        at_s = self._at(event["at_s"])
        if event["event"] == "MemoryMeasured":
            held = Held(at_s, event["job"], event["resource"], event["held_bytes"])
            self.held.append(held)
            self.folder.add(held)

    def _at(self, driver_s: float) -> float:
        """Return a time of the present driver by the run's clock; the first one it tells is that of now."""
        if self.from_s is None:
            self.from_s = self.earlier_s if self.zero is None else monotonic() - self.zero - driver_s
        if self.zero is None:
            self.zero = monotonic() - driver_s - self.earlier_s
        return driver_s + self.from_s

    def _remark(self, text: str) -> None:
        self._take(Remark(self.earlier_s if self.zero is None else monotonic() - self.zero, None, text))

    def _take(self, remark: Remark) -> None:
        self.remarks.append(remark)
        self.folder.add(remark)
        self.watcher.remark(remark)

    def _gives_up(self, problem: str) -> InputError:
        last = self.folder.driver_log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        remedy = "\n    ".join([f"correct what {self.folder.driver_log} says and add --resume; its last lines:", *last])
        return _fault(f"ended {ATTEMPTS} times in a row without finishing an iteration ({problem})", remedy)


def finished_iterations(state: Mapping[str, Any]) -> int:
    """Return how many iterations of all jobs are finished."""
    return sum(job["iteration"] for job in state.get("jobs", {}).values())


def _pass_on(process: subprocess.Popen[str], lines: Queue[str | None]) -> None:
    """Put what the driver says into the queue, None at its end."""
    assert process.stdout is not None
    with suppress(ValueError):
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _close(process: subprocess.Popen[str], reader: Thread) -> None:
    """Close both pipes of a process that has ended; one that is still read, because somebody holds its other end, is left."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    reader.join(_JOIN_S)
    if not reader.is_alive():
        process.stdout.close()


def _fault(problem: str, remedy: str) -> InputError:
    return InputError("run", [Finding("driver", "", problem, remedy)])


def check_python(python: str) -> None:
    """Raise `InputError` if an interpreter cannot be started or has no Ray, without importing it."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)"
    remedy = "name an interpreter that has it with --python or ROLLPLAN_PYTHON; `pip install 'ray>=2.50'` installs it"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _fault(f"{python} cannot be started ({error})", "give the path of a Python interpreter with --python") from None
    if done.returncode:
        raise _fault(f"{Path(python)} has no Ray", remedy)
