"""Workers as Ray actors: results stay in Ray's object store and go from worker to worker.

Ray sends results below 100 KiB inside of its messages and puts larger ones into the shared memory of the node that made them;
a worker on the same node reads them there, one on another node gets a copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rollplan.executor.dataflow.flow import Task
from rollplan.executor.dataflow.graph import Feedback, Node
from rollplan.executor.dataflow.placement import Place
from rollplan.executor.dataflow.runtime import Caller, Done, Report, results_of


class _Actor:
    """The process of one worker."""

    def __init__(self, node: Node, place: Place) -> None:
        found = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        self._devices = tuple(int(number) for number in found)
        self._caller = Caller(node, replace(place, devices=tuple(range(len(found)))))

    def ready(self) -> tuple[int, ...]:
        """Return the GPUs that Ray gave."""
        return self._devices

    def call(self, task: Task, *values: Any) -> tuple[Any, ...]:
        """Run a task whose handles come resolved: first those of its columns, then those of its feedback."""
        rest, columns = iter(values), dict[str | None, list[Any]]()
        for source in task.columns:
            columns[source] = [next(rest) for _ in task.numbers]
        feedback = {name: Feedback(one.iteration, tuple(next(rest) for _ in one.values)) for name, one in task.feedback.items()}
        kept, report = self._caller.call(task, columns, feedback)
        return (report, *kept)


class RayRuntime:
    """Workers on the machines of the Ray cluster that this process is connected to.

    A worker goes to the machine of its place, by hard affinity, and asks Ray for its GPUs and CPUs; which GPUs of the machine
    it gets is Ray's choice (`Done.devices`). A worker whose process dies is replaced; the items that it held have failed. One
    that Ray does not start within `start_s` seconds is given up. Raises `RuntimeError` without a connection.
    """

    transport = "Ray's object store"

    def __init__(self, start_s: float = 60.0) -> None:
        if not ray.is_initialized():
            raise RuntimeError("there is no connection to a Ray cluster; call ray.init first")
        alive = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: str(node["NodeID"]))
        self._machines = [str(node["NodeID"]) for node in alive]
        self.devices = tuple(int(node["Resources"].get("GPU", 0)) for node in alive)
        """GPUs of each machine, for `compile_graph`."""
        self._start_s = start_s
        self._nodes: dict[Place, Node] = {}
        self._begun_s: dict[Place, float] = {}
        self._actors: dict[Place, Any] = {}
        self._running: dict[Any, tuple[Place, Task | None, Sequence[Any]]] = {}
        self._failed: dict[Place, tuple[Task, str]] = {}

    def now_s(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def put(self, value: object) -> Any:
        """Put a value into the object store."""
        return ray.put(value)

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        """Bring values here."""
        found: list[Any] = ray.get(list(handles))
        return found

    def start(self, node: Node, place: Place) -> None:
        """Ask Ray for an actor."""
        options: dict[str, Any] = {"num_cpus": node.cpus, "num_gpus": place.gpus}
        if place.machine is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(self._machines[place.machine], soft=False)
        self._nodes[place] = node
        actor = self._actors[place] = ray.remote(_Actor).options(**options).remote(node, place)
        self._running[actor.ready.remote()] = place, None, ()
        self._begun_s[place] = self.now_s()

    def submit(self, place: Place, task: Task) -> None:
        """Call the actor; handles are resolved on its side."""
        handles = [item.handle for column in task.columns.values() for item in column]
        handles += [value for one in task.feedback.values() for value in one.values]
        bare = replace(task, columns=dict.fromkeys(task.columns, ()), feedback=_bare(task.feedback))
        report, *results = self._actors[place].call.options(num_returns=1 + len(task.numbers)).remote(bare, *handles)
        self._running[report] = place, task, results

    def wait(self, timeout_s: float) -> Sequence[Done]:
        """Wait until something is done or the time is over."""
        running = list(self._running)
        if not running:
            time.sleep(timeout_s)
            return []
        if ray.wait(running, num_returns=1, timeout=timeout_s)[0]:
            ready, _ = ray.wait(running, num_returns=len(running), timeout=0)
            return [done for reference in ready if (done := self._done(reference))]
        late = [place for place, task, _ in self._running.values() if task is None and self.now_s() > self._begun_s[place] + self._start_s]
        return [self._given_up(place, f"Ray did not start it within {self._start_s:g} s; are its GPUs and CPUs free?") for place in late]

    def stop(self, place: Place) -> None:
        """Kill the actor."""
        self._nodes.pop(place)
        self._running = {reference: run for reference, run in self._running.items() if run[0] != place}
        ray.kill(self._actors.pop(place))

    def close(self) -> None:
        """Kill all actors."""
        for place in list(self._actors):
            self.stop(place)

    def _done(self, reference: Any) -> Done | None:
        if reference not in self._running:
            return None
        place, task, results = self._running.pop(reference)
        try:
            answer: Any = ray.get(reference)
        except Exception as error:
            text = _first_line(error)
            if task is not None and isinstance(error, ray.exceptions.RayActorError):
                self._failed[place] = task, text
                self.start(self._nodes[place], place)
                return None
            return self._given_up(place, text) if task is None else Done(place, task, (text,) * len(task.numbers))
        if isinstance(answer, Report):
            return Done(place, task, results_of(results, answer), answer)
        if place in self._failed:
            task, text = self._failed.pop(place)
            return Done(place, task, (text,) * len(task.numbers), devices=answer)
        return Done(place, None, devices=answer)

    def _given_up(self, place: Place, error: str) -> Done:
        """A worker did not start, or not again after its process died with a task."""
        task, text = self._failed.pop(place, (None, ""))
        return Done(place, task, (text,) * len(task.numbers) if task else (), error=error)


def _bare(feedback: Mapping[str, Feedback]) -> dict[str, Feedback]:
    return {name: Feedback(one.iteration, (None,) * len(one.values)) for name, one in feedback.items()}


def _first_line(error: Exception) -> str:
    """Return what went wrong, without Ray's traceback in front of it and its advice behind it."""
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [""]
    return f"{type(cause).__name__}: {lines[-1][:120]}"
