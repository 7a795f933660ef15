"""Work that needs a heavy library runs in a process of its own: another interpreter may have it, and a crash stays there.

A worker is a module with `main()` that calls `serve`. It may import the standard library, its heavy library and other
such modules, nothing else: rollplan's own dependencies may be missing in the interpreter that has the engine. It prints
its progress in lines that begin with `PROGRESS`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rollplan.models.process import end_with_the_caller, kill_group, python_path

if TYPE_CHECKING:
    from rollplan.models.errors import InputError

PROGRESS = "rollplan: "
_ANSWER = "ROLLPLAN_WORKER_ANSWER"
_TAIL = 12
_GRACE_S = 10.0
"""What processes that a worker started may take to end by themselves after it."""


class WorkerError(Exception):
    """Raised inside of a worker that cannot do its work. The message says why; what stands behind its last `; ` is the way out."""


def ask(
    module: str,
    request: Mapping[str, Any],
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Any:
    """Return the answer of a worker to a request, both plain JSON data.

    python: interpreter that has the heavy library; absent, this one. environment: what is added to ours. on_line: gets
    every line that the worker prints (progress, warnings of libraries). Raises `InputError` if it fails, is killed, or takes
    longer than timeout_s.
    """
    with tempfile.TemporaryDirectory(prefix="rollplan-") as folder:
        answer = Path(folder) / "answer.json"
        command = [python or sys.executable, "-m", module]
        added = {**(environment or {}), "PYTHONPATH": python_path(Path(folder)), _ANSWER: str(answer)}
        try:
            process = subprocess.Popen(
                command,
                env={**os.environ, **added},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise failure(module, f"{command[0]} cannot be started ({error.strerror}); give the path of a Python interpreter") from None
        tail = _talk(module, process, json.dumps(request), timeout_s, on_line)
        if not answer.exists():
            end = f"killed by signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
            raise failure(module, "\n".join([f"ended without an answer ({end}); its last lines:", *tail]))
        given = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in given:
        raise failure(module, given["error"])
    return given["answer"]


def failure(module: str, message: str) -> InputError:
    """Return what a worker says as an error: its way out is what stands behind the last semicolon, its last lines follow."""
    from rollplan.models.errors import Finding, InputError

    head, *rest = (line.rstrip() for line in message.splitlines() if line.strip())
    problem, _, remedy = head.rpartition("; ")
    way_out = "\n    ".join([remedy if problem else "correct what it names", *rest])
    return InputError(module.removeprefix("rollplan.profilers."), [Finding("measurement", "", problem or head, way_out)])


def serve(work: Callable[[Any], Any]) -> NoReturn:
    """Answer the request on stdin; called by a worker's `main`. The words of a `WorkerError` reach the caller."""
    end_with_the_caller()
    place = Path(os.environ[_ANSWER])
    try:
        given = {"answer": work(json.load(sys.stdin))}
    except WorkerError as error:
        given = {"error": str(error)}
    except ImportError as error:
        given = {"error": f"{sys.executable} cannot import {error.name or error} ({error}); name an interpreter that has it with --python"}
    except Exception as error:
        traceback.print_exc()
        given = {"error": f"{type(error).__name__}: {error}"}
    whole = place.with_suffix(".part")
    whole.write_text(json.dumps(given), encoding="utf-8")
    whole.replace(place)
    sys.stdout.flush()
    # Engines leave threads and processes behind that would keep the interpreter alive.
    os._exit(0)


def _talk(
    module: str, process: subprocess.Popen[str], request: str, timeout_s: float | None, on_line: Callable[[str], None] | None
) -> list[str]:
    """Send the request, pass on what the worker prints, and return its last lines; the worker has ended afterwards."""
    from threading import Event, Thread, Timer

    assert process.stdin is not None
    assert process.stdout is not None
    late = False
    heard = Event()

    def stop() -> None:
        nonlocal late
        late = True
        kill_group(process)

    def clear() -> None:
        # What the worker started may hold its output open.
        process.wait()
        if not heard.wait(_GRACE_S):
            kill_group(process)

    timer = Timer(timeout_s, stop) if timeout_s is not None else None
    tail: list[str] = []
    cleaner = Thread(target=clear, daemon=True)
    cleaner.start()
    try:
        if timer is not None:
            timer.start()
        try:
            process.stdin.write(request)
            process.stdin.close()
        except BrokenPipeError:
            pass
        for line in process.stdout:
            tail = [*tail[1 - _TAIL :], line.rstrip("\n")]
            if on_line is not None:
                on_line(line.rstrip("\n"))
        process.wait()
    except BaseException:
        kill_group(process)
        raise
    finally:
        heard.set()
        if timer is not None:
            timer.cancel()
        process.stdout.close()
        # The process has ended, so the threads have nothing left to wait for.
        for thread in (cleaner, timer):
            if thread is not None and thread.is_alive():
                thread.join()
    if late:
        raise failure(module, f"the worker took longer than {timeout_s:g} s and was stopped; ask for less, or allow more time")
    return tail
