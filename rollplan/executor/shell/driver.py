"""The driver of a run: `python -m rollplan.executor.shell.driver`, with an interpreter that has Ray.

It reads one JSON line from stdin, `{"runbook": Runbook.to_dict(), "folder": ..., "address": null, "interface": null, "temp":
null}` (`finished`, iterations by job, is read from the folder unless it is given), later perhaps `{"stop": true}`; the end of
stdin stops it, too. `temp` is a folder for the files of Ray and of engines, with a short path because sockets lie there; the driver
removes it at the end (null: it makes one). It writes JSON lines to stdout:

    {"record": {...}} {"remark": {...}}     what was executed and what people should read: see `core.records`
    {"state": {...}}                        `Core.status()` and `memory`: bytes by resource and job
    {"event": {...}}                        what the core was told, also appended to journal.jsonl of the folder
    {"process": {"pid", "kind", ...}}       a process of the run: driver, gcs, raylet, or host with job, resource, worker
    {"done": {"reason": "finished"}}        or `stopped`; the last line, exit code 0
    {"error": "problem; remedy"}            the input cannot be run, exit code 2

An exit code other than 0 and 2 means that Ray or the driver died: another driver with the same folder goes on from there.
Programs print to logs/<job>-<resource>.log of the folder. Try it with two sleeping jobs: tests/executor/shell/sleepers.py.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rollplan.executor.shell import processes, reaper
from rollplan.executor.shell.environment import for_ray
from rollplan.models.process import end_with_the_caller

_REFUSED = 2


def main() -> int:
    """Run what stdin says; return the exit code."""
    end_with_the_caller()
    # Whatever Ray or a library prints goes to stderr; stdout is for our lines alone.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def say(line: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):
            out.write(json.dumps(line) + "\n")

    say({"process": {"pid": os.getpid(), "kind": "driver", "job": None, "resource": None}})
    try:
        request = json.loads(sys.stdin.readline())
        folder = Path(request["folder"]).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "driver.lock").open("a")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ValueError, KeyError, TypeError) as error:
        say({"error": f"the first line of stdin is no request ({error!r}); give runbook and folder as JSON"})
        return _REFUSED
    except OSError as error:
        say({"error": f"the run folder cannot be used ({error}); end the other run in it, or give another one"})
        return _REFUSED
    os.environ[processes.MARK] = str(folder)
    os.environ.update(for_ray(request.get("address")))
    processes.end(folder)
    temp = Path(request.get("temp") or tempfile.mkdtemp(prefix="rollplan-"))
    # What is killed cannot remove its files.
    os.environ["TMPDIR"] = str(temp)
    ends_the_rest = reaper.start(temp)
    reason = _run({**request, "folder": str(folder), "temp": str(temp)}, say)
    # What is left now is the reaper, and whatever Ray left.
    processes.end(folder)
    ends_the_rest.wait()
    shutil.rmtree(temp, ignore_errors=True)
    if reason is None:
        return _REFUSED
    say({"done": {"reason": reason}})
    return 0


def _run(request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> str | None:
    """Return why the run ended, None if it was refused."""
    # Ray reads the environment when it is imported.
    from rollplan.executor.shell.cluster import ClusterError
    from rollplan.executor.shell.placement import TooFewError
    from rollplan.executor.shell.run import Run

    try:
        run = Run(request, say)
    except (KeyError, TypeError) as error:
        say({"error": f"the runbook is incomplete ({error!r}); give `Runbook.to_dict()`"})
        return None
    except (ClusterError, TooFewError, ValueError, OSError) as error:
        say({"error": str(error)})
        return None
    try:
        return asyncio.run(run.run())
    finally:
        run.close()


if __name__ == "__main__":
    # Threads of Ray and of stdin must not keep it.
    code = main()
    sys.stderr.flush()
    os._exit(code)
