"""A process of another interpreter: how it finds this very rollplan, ends with who started it, and is ended with all it started.

Only the standard library: the other interpreter need not have rollplan's dependencies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def end_with_the_caller() -> None:
    """Ask the kernel to stop this process when the one that waits for its answer is gone; elsewhere than on Linux it works on."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def python_path() -> str:
    """Return a path on which the worker finds this very rollplan, before whatever is there."""
    known = os.environ.get("PYTHONPATH")
    return str(_ROOT) if not known else os.pathsep.join([str(_ROOT), known])


def kill_group(process: subprocess.Popen[str]) -> None:
    """Stop a process that leads a group of its own, and every process that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
