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

_PACKAGE = Path(__file__).resolve().parents[1]


def end_with_the_caller() -> None:
    """Ask the kernel to stop this process when the one that waits for its answer is gone; elsewhere than on Linux it works on."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def python_path(folder: Path) -> str:
    """Return a path on which another interpreter finds this very rollplan, and nothing else that is installed beside it.

    folder: gets a link to the package, and must be there as long as the other interpreter imports.
    """
    link = folder / _PACKAGE.name
    folder.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.resolve() != _PACKAGE:
        link.unlink()
    with suppress(FileExistsError):
        link.symlink_to(_PACKAGE, target_is_directory=True)
    known = os.environ.get("PYTHONPATH")
    return str(folder) if not known else os.pathsep.join([str(folder), known])


def kill_group(process: subprocess.Popen[str]) -> None:
    """Stop a process that leads a group of its own, and every process that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
