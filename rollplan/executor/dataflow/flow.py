"""Which items can run: the pure core of an execution. Items come in, batches that can run go out, results come in; no clock, no workers.

An item has the same number at every node. A node's batches are fixed stretches of numbers; one can run when each of its items
has arrived from every source or has failed on the way, and when its iteration may start.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollplan.executor.dataflow.graph import Edge, Feedback, Graph


@dataclass(frozen=True, slots=True)
class Item:
    """A result and what the runtime knows it by. at_s: when the scheduler learned of it."""

    handle: Any
    size_bytes: int = 0
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """A batch that can run. columns: for each source, in the order of the graph's edges, one item per number; `None`: what was fed.

    feedback holds handles in the place of values.
    """

    node: str
    iteration: int
    numbers: tuple[int, ...]
    columns: Mapping[str | None, tuple[Item, ...]]
    feedback: Mapping[str, Feedback]


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed at a node; at the nodes behind it, it is skipped."""

    node: str
    iteration: int
    number: int
    error: str


@dataclass(slots=True)
class _Stage:
    """One iteration of a node. missing: sources that an item waits for. waiting: items that a batch waits for."""

    size: int
    missing: list[int]
    waiting: list[int]
    results: dict[int, Item] = field(default_factory=dict)
    settled: int = 0


class Flow:
    """The items of some iterations of a graph, of which at most `in_flight` are open at a time."""

    def __init__(self, graph: Graph, iterations: int, in_flight: int = 2) -> None:
        if iterations < 0 or in_flight < 1:
            raise ValueError(f"iterations must be at least 0 and in_flight at least 1, got {iterations} and {in_flight}")
        self._graph, self._iterations, self._in_flight = graph, iterations, in_flight
        self._stages: dict[tuple[str, int], _Stage] = {}
        self._fed: dict[int, tuple[Item, ...]] = {}
        self._ready: dict[str, list[tuple[int, int]]] = {node.name: [] for node in graph.nodes}
        self._through = {node.name: 0 for node in graph.nodes}
        self._opened = self._closed = 0
        self.failures: list[Failure] = []
        self.done, self.skipped = Counter[str](), Counter[str]()
        self.sent, self.taken = Counter[Edge](), Counter[Edge]()

    @property
    def finished(self) -> bool:
        """Whether every item of every iteration is settled and every iteration was closed."""
        return self._closed == self._iterations

    @property
    def wants(self) -> int | None:
        """The iteration that can be opened now."""
        return self._opened if self._opened < min(self._iterations, self._closed + self._in_flight) else None

    def feed(self, items: Sequence[Item]) -> None:
        """Open the iteration that `wants` names, with what the nodes without sources get."""
        iteration, size = self._opened, len(items)
        self._opened += 1
        self._fed[iteration] = tuple(items)
        for node in self._graph.nodes:
            step, sources = node.batch_size or max(size, 1), len(self._graph.sources(node.name))
            waiting = [min(step, size - first) for first in range(0, size, step)]
            self._stages[node.name, iteration] = _Stage(size, [max(1, sources)] * size, waiting)
        entries = [node.name for node in self._graph.nodes if not self._graph.sources(node.name)]
        self._settle_all(deque((name, iteration, number) for name in entries for number in range(size)))
        for node in self._graph.nodes:
            self._advance(node.name)

    def ready(self, name: str) -> int:
        """Return how many items of a node could run now if there were workers."""
        return sum(len(self._numbers(name, *batch)) for batch in self._ready[name] if self._may_start(name, batch[0]))

    def take(self, name: str, lane: int = 0, lanes: int = 1) -> Task | None:
        """Take a node's next batch: of the oldest iteration, if possible one of the lane's, the first of these."""
        ready = self._ready[name]
        if not ready or not self._may_start(name, ready[0][0]):
            return None
        oldest = ready[0][0]
        own = (place for place, (iteration, batch) in enumerate(ready) if iteration == oldest and batch % lanes == lane)
        iteration, batch = ready.pop(next(own, 0))
        numbers = tuple(number for number in self._numbers(name, iteration, batch) if self._arrived(name, iteration, number))
        columns: dict[str | None, tuple[Item, ...]] = {}
        for edge in self._graph.sources(name):
            columns[edge.source] = tuple(self._stages[edge.source, iteration].results[number] for number in numbers)
            self.taken[edge] += len(numbers)
        columns = columns or {None: tuple(self._fed[iteration][number] for number in numbers)}
        feedback = {edge.source: self._feedback(edge, iteration) for edge in self._graph.sources(name, control=True)}
        return Task(name, iteration, numbers, columns, feedback)

    def settle(self, task: Task, results: Sequence[Item | str]) -> None:
        """Take the results of a batch, one for each of its numbers: an item, or the text of an error."""
        arrivals: deque[tuple[str, int, int]] = deque()
        for number, result in zip(task.numbers, results, strict=True):
            if isinstance(result, Item):
                self._stages[task.node, task.iteration].results[number] = result
                self.done[task.node] += 1
                self.sent.update(self._graph.targets(task.node))
            else:
                self.failures.append(Failure(task.node, task.iteration, number, result))
            arrivals += self._leave(task.node, task.iteration, number)
        self._settle_all(arrivals)
        for node in self._graph.nodes:
            self._advance(node.name)

    def close(self) -> Iterator[tuple[int, Mapping[str, tuple[Item | None, ...]]]]:
        """Yield each iteration that is settled everywhere, oldest first, with the results of every node: None where one failed.

        What nobody can ask for any more is dropped.
        """
        while self._closed < min(self._through.values()) and self._closed < self._opened:
            iteration = self._closed
            stages = {node.name: self._stages[node.name, iteration] for node in self._graph.nodes}
            self._closed += 1
            del self._fed[iteration]
            for node in self._graph.nodes:
                self._stages.pop((node.name, iteration - 1), None)
            yield iteration, {name: tuple(stage.results.get(number) for number in range(stage.size)) for name, stage in stages.items()}

    def _numbers(self, name: str, iteration: int, batch: int) -> range:
        size = self._stages[name, iteration].size
        step = self._graph.node(name).batch_size or max(size, 1)
        return range(batch * step, min((batch + 1) * step, size))

    def _arrived(self, name: str, iteration: int, number: int) -> bool:
        return all(number in self._stages[edge.source, iteration].results for edge in self._graph.sources(name))

    def _may_start(self, name: str, iteration: int) -> bool:
        strong = (edge for edge in self._graph.sources(name, control=True) if edge.consistency == "strong")
        return all(self._through[edge.source] >= iteration for edge in strong)

    def _feedback(self, edge: Edge, iteration: int) -> Feedback:
        newest = min(self._through[edge.source], iteration) - 1
        if newest < 0:
            return Feedback(None, ())
        stage = self._stages[edge.source, newest]
        found = (stage.results.get(number) for number in range(stage.size))
        return Feedback(newest, tuple(item and item.handle for item in found))

    def _leave(self, name: str, iteration: int, number: int) -> list[tuple[str, int, int]]:
        """Settle one item at a node; return where it arrives next."""
        self._stages[name, iteration].settled += 1
        return [(edge.target, iteration, number) for edge in self._graph.targets(name)]

    def _settle_all(self, arrivals: deque[tuple[str, int, int]]) -> None:
        """Let items arrive. A batch whose items all failed on the way is settled on the spot, and so on behind it."""
        while arrivals:
            name, iteration, number = arrivals.popleft()
            stage = self._stages[name, iteration]
            stage.missing[number] -= 1
            if stage.missing[number]:
                continue
            batch = number // (self._graph.node(name).batch_size or max(stage.size, 1))
            stage.waiting[batch] -= 1
            if not self._arrived(name, iteration, number):
                self.skipped[name] += 1
                self.taken.update(e for e in self._graph.sources(name) if number in self._stages[e.source, iteration].results)
                arrivals += self._leave(name, iteration, number)
            if not stage.waiting[batch] and any(self._arrived(name, iteration, one) for one in self._numbers(name, iteration, batch)):
                insort(self._ready[name], (iteration, batch))

    def _advance(self, name: str) -> None:
        while (stage := self._stages.get((name, self._through[name]))) and stage.settled == stage.size:
            self._through[name] += 1
