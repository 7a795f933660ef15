"""Processes that a run left behind: found by the marker in their environment, and ended.

Ray gives its processes sessions of their own, so the driver's process group does not hold them all. Standard library only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

MARKER = "ROLLPLAN_RUN"
"""Environment variable of every process of a run on this machine: the run's folder."""
_WAIT_S = 10.0


def leftovers(folder: Path) -> Iterator[int]:
    """Yield the processes that have the run's marker, but for this one; none where there is no /proc."""
    wanted = os.fsencode(f"{MARKER}={folder}")
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def end_leftovers(folder: Path) -> None:
    """Kill what the run left behind, and what that starts meanwhile; processes that the kernel cannot end are given up."""
    until = monotonic() + _WAIT_S
    while (found := list(leftovers(folder))) and monotonic() < until:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        sleep(0.05)
