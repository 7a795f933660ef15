"""Workers: their answers and their words come through, whatever happens to them; none outlives its caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rollplan.models.errors import InputError
from rollplan.profilers import worker
from rollplan.profilers.worker import ask

WORKER = """
import os, signal, sys, time
from rollplan.profilers.worker import PROGRESS, WorkerError, serve

def work(request):
    print(PROGRESS + "at work")
    print("a warning of a library", file=sys.stderr)
    match request["do"]:
        case "double":
            return {"twice": 2 * request["number"]}
        case "refuse":
            raise WorkerError("the engine has no room; ask for less\\nits last line")
        case "fail":
            raise ZeroDivisionError("by accident")
        case "import":
            import no_such_engine
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            sys.exit(3)
        case "children":
            import subprocess
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open(request["alive"], "w").write(str(child.pid))
            return "done"
        case "half":
            open(os.environ["ROLLPLAN_WORKER_ANSWER"].replace(".json", ".part"), "w").write('{"ans')
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            open(request["alive"], "w").write(str(os.getpid()))
            time.sleep(600)

if __name__ == "__main__":
    serve(work)
"""


@pytest.fixture(autouse=True)
def worker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the worker where its interpreter finds it."""
    (tmp_path / "a_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_an_answer_comes_back_with_what_was_printed() -> None:
    """Progress and warnings alike, line by line; the caller chooses."""
    lines: list[str] = []
    assert ask("a_worker", {"do": "double", "number": 21}, on_line=lines.append) == {"twice": 42}
    assert lines == ["rollplan: at work", "a warning of a library"]


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("refuse", r"measurement: the engine has no room; ask for less\n +its last line"),
        ("fail", "ZeroDivisionError: by accident"),
        ("import", r"cannot import no_such_engine .*name an interpreter that has it with --python"),
        ("die", r"ended without an answer \(killed by signal 9\); its last lines:"),
        ("leave", r"ended without an answer \(exit code 3\)"),
    ],
)
def test_whatever_happens_to_a_worker_is_said_in_words(do: str, says: str) -> None:
    """A crash of an engine is not ours."""
    with pytest.raises(InputError, match=says):
        ask("a_worker", {"do": do})


def test_an_interpreter_that_does_not_exist_is_named() -> None:
    """The commonest mistake with --python."""
    with pytest.raises(InputError, match=r"/no/python cannot be started .*give the path of a Python interpreter"):
        ask("a_worker", {"do": "double"}, python="/no/python")


def test_a_worker_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    """And its process is gone afterwards."""
    alive = tmp_path / "alive"
    with pytest.raises(InputError, match="took longer than 2 s"):
        ask("a_worker", {"do": "sleep", "alive": str(alive)}, timeout_s=2.0)
    assert gone(int(alive.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_worker_ends_with_a_caller_that_is_killed(tmp_path: Path) -> None:
    """It would hold the GPU otherwise."""
    alive = tmp_path / "alive"
    program = f"from rollplan.profilers.worker import ask; ask('a_worker', {{'do': 'sleep', 'alive': {str(alive)!r}}})"
    # It cannot remove its temporary files.
    caller = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_for(lambda: alive.exists() and alive.read_text() != "")
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    worker = int(alive.read_text())
    wait_for(lambda: gone(worker))


def test_what_a_worker_leaves_behind_is_stopped_and_its_answer_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of an engine hold its output open; without this the caller would wait for them, and then call the worker late."""
    monkeypatch.setattr(worker, "_GRACE_S", 0.2)
    alive = tmp_path / "alive"
    assert ask("a_worker", {"do": "children", "alive": str(alive)}, timeout_s=60) == "done"
    wait_for(lambda: gone(int(alive.read_text())))


class LateEvent(threading.Event):
    """Who waits for it is slow to go on, as on a busy machine."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep a little after what it waits for."""
        came = super().wait(timeout)
        time.sleep(0.05)
        return came


@pytest.mark.parametrize("timeout_s", [None, 60])
def test_no_thread_stays_behind(timeout_s: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line leaves at once, without its clean-up, when it finds one."""
    monkeypatch.setattr(threading, "Event", LateEvent)
    before = threading.active_count()
    with pytest.raises(InputError):
        ask("no_such_worker", {}, timeout_s=timeout_s)
    assert threading.active_count() == before


def test_an_answer_that_is_not_whole_is_none() -> None:
    """A worker that is killed, or finds no room on the disk, while it writes."""
    with pytest.raises(InputError, match="ended without an answer"):
        ask("a_worker", {"do": "half"})


def wait_for(condition: object) -> None:
    """Wait until something holds, at most half a minute."""
    assert callable(condition)
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("did not happen within half a minute")


def gone(process: int) -> bool:
    """Return whether a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
