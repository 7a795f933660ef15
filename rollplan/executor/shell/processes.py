"""Processes of this machine: those of a run, found by a mark in their environment, and whether one is there, and its end.

So none is left, whoever was killed before: Ray gives its processes sessions of their own, and no process group holds them all.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "ROLLPLAN_RUN"
"""Environment variable with the folder of the run; every process that the driver starts inherits it."""
DRIVER_MARK = "ROLLPLAN_DRIVER"
"""Environment variable with a name that no other driver has, for what this one starts."""
SERVERS = {"gcs_server": "gcs", "raylet": "raylet"}
"""Ray's own servers by the name of their program."""


def of_run(folder: Path) -> list[int]:
    """Return the living processes that carry the mark of a run, this one and those it descends from left out."""
    return _marked(MARK, str(folder))


def end(folder: Path, patience_s: float = 10.0) -> list[int]:
    """Kill all processes of a run and wait until they are gone; return those that were there."""
    return _end(MARK, str(folder), patience_s)


def end_with(driver: str, patience_s: float = 10.0) -> list[int]:
    """Kill all processes that one driver of a run started, as `end` does."""
    return _end(DRIVER_MARK, driver, patience_s)


def _marked(mark: str, value: str) -> list[int]:
    wanted = os.fsencode(f"{mark}={value}")
    mine = _line_of_descent()
    return [pid for pid in _pids() if pid not in mine and wanted in _environment(pid) and alive(pid)]


def _end(mark: str, value: str, patience_s: float) -> list[int]:
    ended: list[int] = []
    deadline = time.monotonic() + patience_s
    while (there := _marked(mark, value)) and time.monotonic() < deadline:
        for pid in there:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended += [pid for pid in there if pid not in ended]
        time.sleep(0.02)
    return ended


def this_system() -> str:
    """Return what processes have in common that see the same process numbers; empty where it cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    fields = _status(pid)
    return bool(fields) and fields[0] not in "ZX"


def program(pid: int) -> str:
    """Return the name of the program that a process runs, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace").rpartition("/")[2]
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Kill a process, and the group that it leads or led."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _pids() -> list[int]:
    folder = Path("/proc")
    return [int(one.name) for one in folder.iterdir() if one.name.isdecimal()] if folder.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _status(pid: int) -> list[str]:
    """Return what the kernel says of a process after its name: state, parent, ...; nothing if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _line_of_descent() -> set[int]:
    line, pid = set(), os.getpid()
    while pid > 1 and (fields := _status(pid)):
        line.add(pid)
        pid = int(fields[1])
    return line
