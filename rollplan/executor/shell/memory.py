"""How much memory a process holds, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path


def held_bytes(pid: int | None = None) -> int:
    """Return the proportional set size of a process and all its descendants in bytes; pages that are shared count in shares.

    pid: None for this process. Where there is no /proc it is 0: nothing is known, so nothing is claimed.
    """
    pids = [os.getpid() if pid is None else pid]
    total = 0
    for one in pids:
        pids += _children(one)
        total += _proportional(one)
    return total


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss:", "SwapPss:")))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    found: list[int] = []
    try:
        for task in tasks.iterdir():
            found += [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
    except OSError:
        return found
    return found
