"""How a runtime is talked to, what happens inside of a worker, and the runtime that is always there: one thread per worker."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from rollplan.executor.dataflow.flow import Item, Task
from rollplan.executor.dataflow.graph import Batch, Feedback, Node
from rollplan.executor.dataflow.placement import Place


@dataclass(frozen=True, slots=True)
class Report:
    """Of a call: errors by position, bytes of each result (0 where it failed), seconds in the function, the process and its memory.

    gpu_bytes: what torch holds on each GPU, by the number the machine knows it by; empty without torch or GPUs.
    """

    errors: Mapping[int, str]
    sizes: tuple[int, ...]
    seconds: float
    process: int
    host_bytes: int
    gpu_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Done:
    """A worker is idle again. task: what it ran, None: it has started. error: the worker is gone for good, and why.

    devices: GPUs that the runtime gave a worker that has started, if it chooses them itself.
    """

    place: Place
    task: Task | None
    results: tuple[Item | str, ...] = ()
    report: Report | None = None
    error: str | None = None
    devices: tuple[int, ...] | None = None


class Runtime(Protocol):
    """Workers that run tasks, one at a time each. Its methods return at once, except `wait` and `fetch`.

    transport: how items really travel.
    """

    transport: str

    def now_s(self) -> float:
        """Return seconds on a clock that never goes back."""

    def put(self, value: object) -> Any:
        """Return a handle for a value that is fed."""

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values behind handles."""

    def start(self, node: Node, place: Place) -> None:
        """Start a worker; ends with a `Done` without task."""

    def submit(self, place: Place, task: Task) -> None:
        """Run a task on an idle worker; ends with its `Done`."""

    def wait(self, timeout_s: float) -> Sequence[Done]:
        """Wait until something is done or the time is over."""

    def stop(self, place: Place) -> None:
        """End an idle worker, or one whose start failed."""

    def close(self) -> None:
        """End all workers, whatever they do."""


class Caller:
    """What a worker is: the node's function, or an instance of it, and where it runs."""

    def __init__(self, node: Node, place: Place) -> None:
        self._function = node.function() if isinstance(node.function, type) else node.function
        self._place = place

    def call(self, task: Task, columns: Mapping[str | None, Sequence[Any]], feedback: Mapping[str, Feedback]) -> tuple[list[Any], Report]:
        """Call the function with values in the place of handles; return one result for each number, None where one failed."""
        rows = zip(*columns.values(), strict=True)
        values = tuple(row[0] if len(row) == 1 else dict(zip(columns, row, strict=True)) for row in rows)
        batch = Batch(task.iteration, task.numbers, values, feedback, self._place.worker, self._place.devices)
        begin = time.perf_counter()
        try:
            results = list(self._function(batch))
            if len(results) != len(values):
                raise ValueError(f"{task.node} returned {len(results)} results for {len(values)} items; return one for each")
        except (Exception, SystemExit) as error:
            results = [error] * len(values)
        seconds = time.perf_counter() - begin
        errors = {n: f"{type(result).__name__}: {result}" for n, result in enumerate(results) if isinstance(result, Exception | SystemExit)}
        kept = [None if n in errors else result for n, result in enumerate(results)]
        sizes = tuple(0 if n in errors else size_of(result) for n, result in enumerate(kept))
        return kept, Report(errors, sizes, seconds, os.getpid(), _host_bytes(), _gpu_bytes())


def size_of(value: object) -> int:
    """Return about how many bytes a value has: those of its arrays, texts and numbers, without what Python adds; nothing is pickled."""
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        return sum(size_of(key) + size_of(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(size_of, value))
    if isinstance(held := getattr(value, "nbytes", None), int):
        return held
    return 8 if isinstance(value, int | float) else sys.getsizeof(value)


def _host_bytes() -> int:
    with suppress(OSError), open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _gpu_bytes() -> dict[str, int]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    seen = [number for number in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if number]
    held = {n: torch.cuda.memory_reserved(n) for n in range(torch.cuda.device_count())}
    return {seen[n] if n < len(seen) else str(n): count for n, count in held.items() if count}


class ThreadRuntime:
    """Workers as threads of this process: nothing is copied, handles are the values themselves."""

    transport = "by reference, in one process"

    def __init__(self) -> None:
        self._done = SimpleQueue[Done]()
        self._inboxes: dict[Place, SimpleQueue[Task | None]] = {}

    def now_s(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def put(self, value: object) -> Any:
        """Return the value."""
        return value

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values."""
        return list(handles)

    def start(self, node: Node, place: Place) -> None:
        """Start a thread."""
        inbox = self._inboxes[place] = SimpleQueue[Task | None]()
        threading.Thread(target=self._work, args=(node, place, inbox), name=f"{node.name} {place.worker}", daemon=True).start()

    def submit(self, place: Place, task: Task) -> None:
        """Give the worker its task."""
        self._inboxes[place].put(task)

    def wait(self, timeout_s: float) -> Sequence[Done]:
        """Wait until something is done or the time is over."""
        with suppress(Empty):
            found = [self._done.get(timeout=timeout_s)]
            with suppress(Empty):
                while True:
                    found.append(self._done.get_nowait())
            return found
        return []

    def stop(self, place: Place) -> None:
        """Let the worker's thread end."""
        self._inboxes.pop(place).put(None)

    def close(self) -> None:
        """Let all threads end after what they do now; nobody can stop a thread, so nobody waits for one."""
        while self._inboxes:
            self._inboxes.popitem()[1].put(None)

    def _work(self, node: Node, place: Place, inbox: SimpleQueue[Task | None]) -> None:
        try:
            caller = Caller(node, place)
        except Exception as error:
            self._done.put(Done(place, None, error=f"{type(error).__name__}: {error}"))
            return
        self._done.put(Done(place, None))
        while task := inbox.get():
            columns = {source: [item.handle for item in column] for source, column in task.columns.items()}
            values, report = caller.call(task, columns, task.feedback)
            self._done.put(Done(place, task, results_of(values, report), report))


def results_of(handles: Sequence[Any], report: Report) -> tuple[Item | str, ...]:
    """Return what a flow takes: an item or the text of an error for each result."""
    return tuple(report.errors[n] if n in report.errors else Item(handle, report.sizes[n]) for n, handle in enumerate(handles))
