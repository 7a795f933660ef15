"""Adaptive back-pressure: long queues raise their consumer or lower their producer, short ones give it back. Pure, no clock.

The article says "stays above a threshold (example 100)". How long, when to return, and what keeps two controllers from
working against each other is ours: docs/dataflow.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rollplan.executor.dataflow.graph import Edge, Graph


@dataclass(frozen=True, slots=True)
class BackPressure:
    """Settings. Durations are counted in observations. Raises `ValueError`.

    threshold: a queue must be longer, `observations` times in a row. release: a queue of at most so many items counts as
    short; once it was, `release_observations` times in a row, one step is undone. cooldown: after a switch of one of its
    ends an edge rests for so many observations.
    """

    threshold: int = 100
    release: int = 50
    observations: int = 3
    release_observations: int = 10
    cooldown: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.release < self.threshold:
            raise ValueError(f"release must be at least 0 and below threshold {self.threshold}, got {self.release}")
        if min(self.observations, self.release_observations, self.cooldown) < 1:
            raise ValueError(f"observations, release_observations and cooldown must be at least 1, got {self}")


@dataclass(frozen=True, slots=True)
class Change:
    """Run `node` with `target` workers instead of `before`."""

    node: str
    before: int
    target: int
    reason: str


@dataclass(slots=True)
class _Watch:
    """How many observations in a row an edge's queue was long, and short, since one of its ends was switched."""

    long: int = 0
    short: int = 0
    rests_until: int = 0


@dataclass(slots=True)
class _History:
    """Of a node. step: of its last change, 0 if there was none. patience: observations that a change of direction takes."""

    patience: int
    step: int = 0
    undone: bool = False


class Controller:
    """Watches the data edges of a graph and says which node to run with another number of workers, one step at a time.

    Whoever changes direction must wait for `patience` observations, and every change of direction doubles it; only the relapse
    after an undone switch is quick. So in n observations, under any load, a node changes direction at most
    1 + log2(1 + 3 n / release_observations) times: nothing flutters.
    """

    def __init__(self, graph: Graph, settings: BackPressure) -> None:
        self._graph, self._settings = graph, settings
        self._watches = {edge: _Watch() for edge in graph.edges if not edge.control}
        self._histories = {node.name: _History(settings.release_observations) for node in graph.nodes}
        self._wished = {node.name: node.parallelism for node in graph.nodes}
        self._now = 0

    def wish(self, name: str, parallelism: int) -> None:
        """Take another number of workers than the declared one as what a node returns to: an operator asked for it."""
        self._wished[name] = parallelism

    def observe(self, queues: Mapping[Edge, int], workers: Mapping[str, int], room_for: Callable[[str], bool]) -> Iterator[Change]:
        """Take one observation, yield what to change: at most one step of each node. Apply a change before taking the next.

        queues: items that wait at each data edge for a worker. workers: of each node, without those that are draining.
        room_for: whether devices for one more worker of a node are free.
        """
        self._now += 1
        touched: set[str] = set()
        for edge, watch in self._watches.items():
            watch.long = watch.long + 1 if queues[edge] > self._settings.threshold else 0
            watch.short = watch.short + 1 if queues[edge] <= self._settings.release else 0
            if self._now < watch.rests_until or touched & {edge.source, edge.target}:
                continue
            undo = watch.long < self._settings.observations
            if undo and watch.short < self._settings.release_observations:
                continue
            if change := (self._undo if undo else self._relieve)(edge, queues, workers, room_for):
                history, step = self._histories[change.node], change.target - change.before
                history.patience *= 2 if history.step == -step else 1
                history.step, history.undone = step, undo
                touched.add(change.node)
                yield change
        for edge, watch in self._watches.items():
            if touched & {edge.source, edge.target}:
                watch.long, watch.short, watch.rests_until = 0, 0, self._now + self._settings.cooldown + 1

    def _may(self, name: str, step: int, run: int, undo: bool = False) -> bool:
        """Return whether a queue was long or short for enough observations to change a node in this direction."""
        history = self._histories[name]
        relapse = history.undone and not undo
        return history.step != -step or relapse or run >= history.patience

    def _relieve(
        self, edge: Edge, queues: Mapping[Edge, int], workers: Mapping[str, int], room_for: Callable[[str], bool]
    ) -> Change | None:
        """Raise the consumer if that helps and is possible, otherwise slow the producer down."""
        source, target, run = self._graph.node(edge.source), self._graph.node(edge.target), self._watches[edge].long
        why = f"{edge}: {queues[edge]} items wait, more than {self._settings.threshold} for {run} observations"
        now = workers[target.name]
        jammed = [out for out in self._graph.targets(target.name) if queues[out] > self._settings.release]
        if jammed:
            no = f"{jammed[0]} has {queues[jammed[0]]} items waiting itself"
        elif not self._may(target.name, 1, run):
            no = f"{target.name} was slowed down lately"
        elif target.max_parallelism is not None and now >= target.max_parallelism:
            no = f"{target.name} is at max_parallelism {now}"
        elif not room_for(target.name):
            no = f"no device is free for {target.name}"
        else:
            return Change(target.name, now, now + 1, f"{why}; devices are free for one more {target.name}")
        if (now := workers[source.name]) > source.min_parallelism and self._may(source.name, -1, run):
            return Change(source.name, now, now - 1, f"{why}; {no}, so {source.name} is slowed down")
        return None

    def _undo(self, edge: Edge, queues: Mapping[Edge, int], workers: Mapping[str, int], room_for: Callable[[str], bool]) -> Change | None:
        """Take one step towards the wished parallelism: first let the producer go, then take workers from the consumer."""
        source, target, run = self._graph.node(edge.source), self._graph.node(edge.target), self._watches[edge].short
        why = f"{edge}: at most {self._settings.release} items wait for {run} observations"
        beside = [*self._graph.targets(source.name), *self._graph.sources(target.name)]
        if any(queues[other] > self._settings.release for other in beside):
            return None
        now, wished = workers[source.name], self._wished[source.name]
        if now < wished and self._may(source.name, 1, run, undo=True) and room_for(source.name):
            return Change(source.name, now, now + 1, f"{why}; {source.name} returns to its {wished}")
        now, wished = workers[target.name], self._wished[target.name]
        if now > wished and self._may(target.name, -1, run, undo=True):
            return Change(target.name, now, now - 1, f"{why}; {target.name} returns to its {wished}")
        return None
