"""What happens (events, into the core) and what shall be done (instructions, out of it).

Every event carries `at_s`, seconds since the run started, as the shell saw it; the core has no clock of its own. Times
never decrease from event to event. `node` is the name of a rollout resource. Samples are numbers 0..samples-1 of their
iteration. Versions count weight updates: version v holds the updates of iterations 0..v-1, so iteration i is on-policy
when its samples were made by version i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened."""

    at_s: float


@dataclass(frozen=True, slots=True)
class JobReady(Event):
    """All workers of a job hold their state: of iteration 0, or restored from what the job last finished.

    iteration: the next one to run. Its rollout workers hold the weights of version `iteration`.
    """

    job: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Estimated(Event):
    """Estimated output tokens of the samples of an iteration, in the order of their numbers."""

    job: str
    iteration: int
    tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SamplesDone(Event):
    """Samples are finished and can be fetched by the trainer."""

    job: str
    iteration: int
    node: str
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolloutEnded(Event):
    """A node has nothing of this rollout left: all is finished, or it was interrupted with `remaining` unfinished."""

    job: str
    iteration: int
    node: str
    remaining: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrainEnded(Event):
    """All ranks have trained a chunk; with the last one the optimizer has stepped and the state is saved."""

    job: str
    iteration: int
    chunk: int


@dataclass(frozen=True, slots=True)
class SyncEnded(Event):
    """Every rollout worker of the job holds these weights (beside those in use, until its next rollout)."""

    job: str
    version: int


@dataclass(frozen=True, slots=True)
class MemoryMeasured(Event):
    """What the job's workers on one node of a resource hold in host memory, in bytes."""

    job: str
    resource: str
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """A running phase did something since the last such event."""

    job: str
    resource: str


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A worker process died, or its function raised."""

    job: str
    resource: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResourceLost(Event):
    """A node behind the resource is gone, with every worker on it."""

    resource: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResourceBack(Event):
    """The resource has all its nodes again."""

    resource: str


@dataclass(frozen=True, slots=True)
class JobStopped(Event):
    """No process of the job is left. finished: iterations whose state was saved."""

    job: str
    finished: int


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time passed; hung phases are found by it. The shell sends one a second."""


@dataclass(frozen=True, slots=True)
class StopAsked(Event):
    """Somebody wants the run to end: nothing new starts, running phases are interrupted, every job is stopped."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """Something to do now. The core never waits for an instruction; the event that ends it says so."""


@dataclass(frozen=True, slots=True)
class StartJob(Instruction):
    """Start all workers of a job, from the state saved after `iteration` iterations. Ends with `JobReady`."""

    job: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Estimate(Instruction):
    """Ask the job's program for the output lengths it expects. Ends with `Estimated`."""

    job: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Rollout(Instruction):
    """Generate samples on a node, in this order: load the state, generate, off-load. The permit is the job's.

    slots: most samples at once. version: weights to use. resumed: samples that other nodes began and were interrupted
    in. keep: nobody else uses the node, so the state stays loaded. Ends with `RolloutEnded`.
    """

    job: str
    iteration: int
    node: str
    version: int
    samples: tuple[int, ...]
    slots: int
    resumed: tuple[int, ...] = ()
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Interrupt(Instruction):
    """Stop generating on a node and keep what was generated. Ends with the node's `RolloutEnded`."""

    job: str
    iteration: int
    node: str


@dataclass(frozen=True, slots=True)
class Train(Instruction):
    """Train samples on all ranks. last: the optimizer steps after this chunk and the state is saved. Ends with `TrainEnded`.

    versions: of the weights that made each sample. The permit of the training resource is the job's from its first chunk.
    """

    job: str
    iteration: int
    chunk: int
    samples: tuple[int, ...]
    versions: tuple[int, ...]
    last: bool
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Sync(Instruction):
    """Send the trainer's weights, now `version`, to every rollout worker of the job. Ends with `SyncEnded`."""

    job: str
    version: int


@dataclass(frozen=True, slots=True)
class StopJob(Instruction):
    """Kill every process of the job. Ends with `JobStopped`. reason: for people."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finish(Instruction):
    """Everything is over: no process is left, nothing will be asked again."""


EVENTS: Mapping[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (
        JobReady, Estimated, SamplesDone, RolloutEnded, TrainEnded, SyncEnded, MemoryMeasured, Progress, WorkerLost, ResourceLost,
        ResourceBack, JobStopped, Tick, StopAsked,
    )
}  # fmt: skip


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return plain data for the journal."""
    return {"event": type(event).__name__, **asdict(event)}


def event_from_dict(raw: Mapping[str, Any]) -> Event:
    """Return the event of `event_to_dict`, whether or not it went through JSON; KeyError for an unknown kind."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items() if key != "event"}
    return EVENTS[raw["event"]](**values)
