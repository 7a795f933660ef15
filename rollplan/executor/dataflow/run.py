"""Runs a compiled graph: gives batches to idle workers, follows the queues, changes parallelism while items flow."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from rollplan.executor.dataflow.compile import Compiled
from rollplan.executor.dataflow.flow import Flow, Item, Task
from rollplan.executor.dataflow.graph import Edge
from rollplan.executor.dataflow.outcome import EdgeStatus, NodeStatus, Outcome, Switch
from rollplan.executor.dataflow.placement import Place
from rollplan.executor.dataflow.policy import BackPressure, Controller
from rollplan.executor.dataflow.runtime import Done, Report, Runtime

RECENT = 2000
"""Latencies of an edge that are kept."""


@dataclass(slots=True)
class _Worker:
    place: Place
    started: bool = False
    busy: bool = False
    draining: bool = False
    sent_s: float = 0.0
    devices: tuple[int, ...] = ()
    report: Report | None = None

    @property
    def idle(self) -> bool:
        """Whether it could take a task or go."""
        return self.started and not self.busy


@dataclass(slots=True)
class _Traffic:
    items: int = 0
    bytes_moved: int = 0
    oversized: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


class Execution:
    """A graph at work. `run` runs it; the other methods may be called from other threads meanwhile.

    feed: the items of an iteration, for every node without sources. in_flight: iterations that may be open at a time.
    back_pressure: its settings, None: parallelism changes by hand only; the queues are looked at every `observe_s` seconds.
    keep: nodes whose results the outcome holds, by default those that no data edge leaves. stop_on_failure: nothing new starts
    after the first item that failed.
    """

    def __init__(
        self,
        compiled: Compiled,
        runtime: Runtime,
        feed: Callable[[int], Sequence[Any]],
        iterations: int,
        *,
        in_flight: int = 2,
        back_pressure: BackPressure | None = None,
        observe_s: float = 0.1,
        keep: Collection[str] | None = None,
        stop_on_failure: bool = False,
    ) -> None:
        graph = compiled.graph
        self._compiled, self._graph, self._runtime, self._feed = compiled, graph, runtime, feed
        self._flow = Flow(graph, iterations, in_flight)
        self._controller = Controller(graph, back_pressure) if back_pressure else None
        self._observe_s, self._stop_on_failure = observe_s, stop_on_failure
        kept = [node.name for node in graph.nodes if not graph.targets(node.name)] if keep is None else keep
        self._outputs: dict[str, list[tuple[Any, ...]]] = {graph.node(name).name: [] for name in kept}
        self._workers = {place: _Worker(place, devices=place.devices) for place in compiled.places}
        self._lanes: dict[Place, tuple[int, int]] = {}
        self._traffic = {edge: _Traffic() for edge in graph.edges if not edge.control}
        self._switches: list[Switch] = []
        self._memory: dict[str, int] = {}
        self._lock = threading.RLock()
        self._began_s = runtime.now_s()
        self._running = False

    def run(self) -> Outcome:
        """Run all iterations. Raises `RuntimeError` if a node is left without workers; items that fail are in the outcome."""
        iterations, observed_s = 0, self._runtime.now_s()
        self._began_s = observed_s
        try:
            with self._lock:
                self._running = True
                for place in self._workers:
                    self._runtime.start(self._graph.node(place.node), place)
                self._regroup()
            while not self._flow.finished:
                with self._lock:
                    stopping = self._stop_on_failure and bool(self._flow.failures)
                    if stopping and all(worker.idle for worker in self._workers.values()):
                        break
                    if not stopping:
                        self._dispatch()
                found = self._runtime.wait(self._observe_s)
                with self._lock:
                    for done in found:
                        self._take(done)
                    for _, results in self._flow.close():
                        iterations += 1
                        self._collect(results)
                    if self._controller and self._runtime.now_s() - observed_s >= self._observe_s:
                        observed_s = self._runtime.now_s()
                        self._observe(self._controller)
            with self._lock:
                outputs = {name: tuple(results) for name, results in self._outputs.items()}
                seconds, failures = self._runtime.now_s() - self._began_s, tuple(self._flow.failures)
                return Outcome(
                    outputs, iterations, failures, tuple(self._switches), self.status(), self.edges(), dict(self._memory), seconds
                )
        finally:
            with self._lock:
                self._running = False
                self._runtime.close()

    def adjust_parallelism(self, node: str, target: int, reason: str) -> None:
        """Run a node with `target` workers from now on; back-pressure returns to this number.

        New workers go onto free devices; those that must go first finish what they do. Raises `ValueError`, and changes
        nothing, if the target is outside of the node's limits, devices are missing, or there is no reason.
        """
        declared = self._graph.node(node)
        top = declared.max_parallelism
        if target < declared.min_parallelism or (top is not None and target > top):
            limits = f"{declared.min_parallelism} to {'what fits' if top is None else top}"
            raise ValueError(f"{node}: parallelism {target} is outside of its limits, {limits}; change the node")
        if not reason.strip():
            raise ValueError(f"{node}: reason must not be empty; say why, for the log")
        with self._lock:
            self._adjust(node, target, reason, "operator")
            if self._controller:
                self._controller.wish(node, target)

    def status(self) -> dict[str, NodeStatus]:
        """Return the state of every node."""
        with self._lock:
            failed = Counter(failure.node for failure in self._flow.failures)
            found = {}
            for name in (node.name for node in self._graph.nodes):
                workers = [worker for worker in self._workers.values() if worker.place.node == name]
                devices = sorted({(worker.place.machine or 0, device) for worker in workers for device in worker.devices})
                found[name] = NodeStatus(
                    workers=len(self._active(name)),
                    draining=sum(worker.draining for worker in workers),
                    gpus=sum(worker.place.gpus for worker in workers),
                    queue_len=self._flow.ready(name),
                    busy=sum(worker.busy for worker in workers),
                    done=self._flow.done[name],
                    failed=failed[name],
                    skipped=self._flow.skipped[name],
                    devices=tuple(devices),
                )
            return found

    def edges(self) -> dict[str, EdgeStatus]:
        """Return the state of every data edge, by `source -> target`."""
        with self._lock:
            found = {}
            for edge, seen in self._traffic.items():
                times = sorted(seen.latencies)
                mean, p95 = (sum(times) / len(times), times[ceil(0.95 * len(times)) - 1]) if times else (None, None)
                waiting = self._flow.sent[edge] - self._flow.taken[edge]
                found[str(edge)] = EdgeStatus(
                    waiting,
                    seen.items,
                    seen.bytes_moved,
                    seen.oversized,
                    mean,
                    p95,
                    self._compiled.transport(edge),
                    self._runtime.transport,
                )
            return found

    def _active(self, node: str) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.place.node == node and not worker.draining]

    def _end(self, worker: _Worker) -> None:
        place = worker.place
        del self._workers[place]
        self._compiled = self._compiled.without(place)
        if self._running:
            self._runtime.stop(place)

    def _regroup(self) -> None:
        """Deal the workers of every node to its stages anew."""
        for name in (node.name for node in self._graph.nodes):
            lanes = self._compiled.lanes(name)
            lane_of = {number: (lane, len(lanes)) for lane, numbers in enumerate(lanes) for number in numbers}
            self._lanes.update((place, lane_of[place.worker]) for place in self._compiled.workers(name))

    def _dispatch(self) -> None:
        while self._flow.wants is not None:
            fed = [Item(self._runtime.put(value), at_s=self._runtime.now_s()) for value in self._feed(self._flow.wants)]
            self._flow.feed(fed)
        for place, worker in self._workers.items():
            if worker.idle and (task := self._flow.take(place.node, *self._lanes[place])):
                worker.busy, worker.sent_s = True, self._runtime.now_s()
                self._runtime.submit(place, task)

    def _take(self, done: Done) -> None:
        worker = self._workers[done.place]
        worker.started, worker.busy = True, False
        worker.devices = worker.devices if done.devices is None else done.devices
        now_s = self._runtime.now_s()
        if done.task:
            if done.report:
                worker.report = done.report
                self._measure(worker, done.task, done.report, now_s)
            stamped = [Item(one.handle, one.size_bytes, now_s) if isinstance(one, Item) else one for one in done.results]
            self._flow.settle(done.task, stamped)
        if done.error:
            node, count = done.place.node, len(self._active(done.place.node))
            self._end(worker)
            left = len(self._active(node))
            self._switches.append(Switch(now_s - self._began_s, "fault", node, count, left, f"worker {done.place.worker}: {done.error}"))
            self._regroup()
            if not left:
                raise RuntimeError(f"{node} has no worker left: worker {done.place.worker}: {done.error}")
        elif worker.draining:
            self._end(worker)
            self._regroup()

    def _measure(self, worker: _Worker, task: Task, report: Report, now_s: float) -> None:
        way_s = max(0.0, now_s - worker.sent_s - report.seconds)
        for edge in self._graph.sources(task.node):
            seen = self._traffic[edge]
            for item in task.columns[edge.source]:
                seen.items += 1
                seen.bytes_moved += item.size_bytes
                seen.oversized += item.size_bytes > edge.max_size_bytes
                seen.latencies.append(worker.sent_s - item.at_s + way_s)
        reports = {(one.place.machine or 0, one.report.process): one.report for one in self._workers.values() if one.report}
        seen_now = Counter({"host": sum(one.host_bytes for one in reports.values())})
        for (machine, _), one in reports.items():
            seen_now.update({f"machine {machine} GPU {number}": held for number, held in one.gpu_bytes.items()})
        self._memory.update({device: max(held, self._memory.get(device, 0)) for device, held in seen_now.items()})

    def _collect(self, results: Mapping[str, tuple[Item | None, ...]]) -> None:
        for name, kept in self._outputs.items():
            values = iter(self._runtime.fetch([item.handle for item in results[name] if item]))
            kept.append(tuple(next(values) if item else None for item in results[name]))

    def _observe(self, controller: Controller) -> None:
        queues: dict[Edge, int] = {edge: self._flow.ready(edge.target) for edge in self._traffic}
        workers = {node.name: len(self._active(node.name)) for node in self._graph.nodes}
        for change in controller.observe(queues, workers, lambda name: self._compiled.with_one_more(name) is not None):
            self._adjust(change.node, change.target, change.reason, "adaptive back-pressure")

    def _adjust(self, node: str, target: int, reason: str, by: str) -> None:
        active = self._active(node)
        before = len(active)
        stay = [worker for worker in self._workers.values() if worker.place.node == node and worker.draining][: max(0, target - before)]
        compiled = self._compiled
        for _ in range(target - before - len(stay)):
            more = compiled.with_one_more(node)
            if more is None:
                fits = before + len(stay) + len(compiled.places) - len(self._compiled.places)
                raise ValueError(f"{node}: parallelism {target} does not fit, {fits} would; lower another node first")
            compiled = more
        for worker in stay:
            worker.draining = False
        added = compiled.places[len(self._compiled.places) :]
        self._compiled = compiled
        for place in added:
            self._workers[place] = _Worker(place, devices=place.devices)
            if self._running:
                self._runtime.start(self._graph.node(node), place)
        leaving = sorted(active, key=lambda worker: (not worker.idle, -worker.place.worker))[: max(0, before - target)]
        for worker in leaving:
            worker.draining = True
            if worker.idle:
                self._end(worker)
        self._regroup()
        self._switches.append(Switch(self._runtime.now_s() - self._began_s, by, node, before, target, reason))
