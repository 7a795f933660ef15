"""Calls under watch: a solver that does not come back in time is left behind.

Limits and Ctrl-C are seen by Python code only. HiGHS in presolve, CP-SAT while it loads a model and a kernel while it is
compiled see neither, so such calls run in a daemon thread, and the caller waits for the thread or for its limits,
whichever comes first. A call that was left behind goes on until the process ends; the command line ends without waiting
for it.

What a search has found so far must be in the caller's hands before the call comes back, or it is lost with it: let the
call hand over every improvement (an immutable value in one assignment), as `planner/colocation.py` does.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

from rollplan.models.certified import Limits

ResultT = TypeVar("ResultT")
PATIENCE_S = 0.4
"""How long after its limits a call may still take to come back by itself."""
_GLANCE_S = 0.02


def run(call: Callable[[], ResultT], limits: Limits, patience_s: float = PATIENCE_S) -> ResultT | None:
    """Return what `call` returns, or None if it has not come back `patience_s` seconds after its limits struck.

    A call is not begun when the limits have struck before. What it raises is raised here. It must release the GIL while
    it is busy (HiGHS, CP-SAT and kernels compiled with nogil do) and must not change, after its limits struck, what
    others read. Starting a thread costs 0.1 ms: watch a whole search, not each of its steps.
    """
    if limits.stop():
        return None
    results: list[ResultT] = []
    faults: list[BaseException] = []
    done = Event()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as fault:
            faults.append(fault)
        finally:
            done.set()

    Thread(target=work, name="rollplan-native", daemon=True).start()
    while not done.wait(_GLANCE_S):
        if limits.stop():
            done.wait(patience_s)
            break
    if faults:
        raise faults[0]
    return results[0] if results else None
