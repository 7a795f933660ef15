"""A runtime with a clock of its own, on which every interleaving can be tried and repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rollplan.executor.dataflow.flow import Task
from rollplan.executor.dataflow.graph import Batch, Node
from rollplan.executor.dataflow.placement import Place
from rollplan.executor.dataflow.runtime import Caller, Done, results_of


@dataclass
class VirtualRuntime:
    """seconds: how long a task takes. meddle: called whenever somebody waits.

    calls: (node, iteration, numbers, start, end). held: places of live workers, at every start and stop.
    """

    seconds: Callable[[Task], float]
    meddle: Callable[[], None] = lambda: None
    random: Random = field(default_factory=lambda: Random(0))
    transport: str = "by reference"
    clock_s: float = 0.0
    callers: dict[Place, Caller] = field(default_factory=dict)
    running: dict[Place, tuple[float, Task | None]] = field(default_factory=dict)
    calls: list[tuple[str, int, tuple[int, ...], float, float]] = field(default_factory=list)
    held: list[tuple[Place, ...]] = field(default_factory=list)
    closed: bool = False

    def now_s(self) -> float:
        return self.clock_s

    def put(self, value: object) -> Any:
        return value

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        return list(handles)

    def start(self, node: Node, place: Place) -> None:
        assert place not in self.callers
        self.callers[place] = Caller(node, place)
        self.running[place] = self.clock_s + self.random.random(), None
        self.held.append(tuple(self.callers))

    def submit(self, place: Place, task: Task) -> None:
        assert place not in self.running, "a worker that works got more work"
        self.running[place] = self.clock_s + self.seconds(task), task

    def wait(self, timeout_s: float) -> Sequence[Done]:
        self.meddle()
        first_s = min((end_s for end_s, _ in self.running.values()), default=self.clock_s + timeout_s)
        self.clock_s = max(self.clock_s, min(first_s, self.clock_s + timeout_s))
        over = [(place, task) for place, (end_s, task) in self.running.items() if end_s <= self.clock_s]
        self.random.shuffle(over)
        return [self._end(place, task) for place, task in over]

    def stop(self, place: Place) -> None:
        assert place not in self.running, "a worker was stopped while it works"
        del self.callers[place]
        self.held.append(tuple(self.callers))

    def close(self) -> None:
        self.closed = True

    def _end(self, place: Place, task: Task | None) -> Done:
        del self.running[place]
        if task is None:
            return Done(place, None)
        columns = {source: [item.handle for item in column] for source, column in task.columns.items()}
        values, report = self.callers[place].call(task, columns, task.feedback)
        self.calls.append((task.node, task.iteration, task.numbers, self.clock_s - self.seconds(task), self.clock_s))
        return Done(place, task, results_of(values, report), report)


def echo(batch: Batch) -> list[Any]:
    """A function that returns what it got."""
    return list(batch.values)
