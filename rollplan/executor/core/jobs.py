"""The state of one job, and what it could do next if it had the permits.

Nothing here decides between jobs; `decide` does, and changes this state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollplan.executor.core import chunks, dispatch
from rollplan.executor.core.events import Train
from rollplan.executor.core.migration import Migration
from rollplan.executor.core.runbook import JobRun

State = Literal["starting", "running", "stopping", "waiting", "stopped", "failed", "done"]
ALIVE: tuple[State, ...] = ("starting", "running")
AT_REST: tuple[State, ...] = ("stopped", "failed", "done")
Cause = Literal["fault", "resource", "memory", "done", "asked"]


@dataclass(slots=True)
class Batch:
    """The samples of one iteration. shares: of each node. open: unfinished ones of the nodes that roll out now.

    finished: done and not yet trained, in the order of finishing. versions: of the weights that began each sample.
    trained, chunks: how much of it was handed to the trainer.
    """

    shares: Mapping[str, tuple[int, ...]]
    open: dict[str, set[int]] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    trained: int = 0
    chunks: int = 0
    migration: Migration | None = None

    @property
    def done(self) -> int:
        """How many samples are finished."""
        return self.trained + len(self.finished)


@dataclass(slots=True)
class Job:
    """One job. finished: iterations that are trained and saved; so the trainer's weights have this version.

    colocated: rollout and training take turns on the same nodes, so a training waits until the rollouts are off-loaded.
    since_s: when it began to start. synced: newest version that the rollout workers hold. rolling: the iteration on each
    node that rolls out now; next_rollout: the one after. seen_s: last sign of life of what runs now, by (what, resource).
    held: bytes of host memory by resource. cause, reason: of the stop, for a job that is being stopped or at rest.
    """

    run: JobRun
    colocated: bool = False
    state: State = "starting"
    since_s: float = 0.0
    finished: int = 0
    synced: int = 0
    syncing: int | None = None
    training: Train | None = None
    batches: dict[int, Batch] = field(default_factory=dict)
    next_rollout: dict[str, int] = field(default_factory=dict)
    rolling: dict[str, int] = field(default_factory=dict)
    estimating: int | None = None
    estimates: dict[int, tuple[float, ...]] = field(default_factory=dict)
    seen_s: dict[tuple[str, str], float] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    cause: Cause = "fault"
    reason: str = ""

    @property
    def resources(self) -> tuple[str, ...]:
        """All resources that it uses: its rollout nodes, then its training resource."""
        return (*self.run.rollout, self.run.train)

    @property
    def left(self) -> int:
        """Iterations that are not finished."""
        return max(self.run.iterations - self.finished, 0)

    def begin(self, iteration: int) -> None:
        """Go on after `iteration` finished iterations, with workers that hold these weights."""
        self.state, self.reason = "running", ""
        self.finished = self.synced = iteration
        self.next_rollout = dict.fromkeys(self.run.rollout, iteration)

    def end(self, cause: Cause, reason: str) -> None:
        """Drop everything that is lost with the processes, which are being stopped: what runs, samples, weights, memory."""
        self.state, self.cause, self.reason = "stopping", cause, reason
        self.syncing = self.training = self.estimating = None
        for lost in (self.batches, self.next_rollout, self.rolling, self.estimates, self.seen_s, self.held):
            lost.clear()

    def batch(self, iteration: int) -> Batch:
        """Return the batch of an iteration, dealt to the nodes when it is first asked for."""
        if iteration not in self.batches:
            run = self.run
            shares = dispatch.deal(range(run.samples), run.rollout, run.dispatch, self.estimates.pop(iteration, None) or None)
            self.batches[iteration] = Batch(shares)
        return self.batches[iteration]

    def drop_trained(self) -> None:
        """Forget batches that are trained and rolled out; training may end before the last node has said that it off-loaded."""
        for iteration in [one for one in self.batches if one < self.finished and self._rolled_out(one)]:
            del self.batches[iteration]

    def sync_due(self) -> bool:
        """Return whether the trainer's weights shall be sent now: they are newer, and some rollout will use them.

        One-step has a barrier: the rollout that runs beside the training has to end, too.
        """
        iteration = self.finished
        wanted = self.syncing is None and iteration > self.synced and min(self.next_rollout.values()) < self.run.iterations
        return wanted and (self.run.way != "one-step" or self._rolled_out(iteration))

    def estimate_due(self) -> int | None:
        """Return the iteration whose lengths shall be estimated now: the next one, else the one after.

        A worker answers after the rollout that it is busy with. Asked one ahead, it holds up no node that was done earlier.
        """
        if self.estimating is not None or not dispatch.needs_estimates(self.run.dispatch):
            return None
        first = max(self.next_rollout.values())
        wanted = range(first, min(first + 2, self.run.iterations))
        return next((one for one in wanted if one not in self.estimates and one not in self.batches), None)

    def rollout_due(self, node: str) -> int | None:
        """Return the iteration that could roll out on a node now: its weights and samples are there, the last one ended."""
        iteration = self.next_rollout[node]
        if iteration >= self.run.iterations or node in self.rolling or self.synced < iteration - chunks.staleness_bound(self.run):
            return None
        if dispatch.needs_estimates(self.run.dispatch) and iteration not in self.batches and iteration not in self.estimates:
            return None
        if self.run.way == "one-step" and (self._at_barrier() or not self._rolled_out(iteration - 1)):
            return None
        return iteration

    def chunk_due(self) -> tuple[int, ...]:
        """Return the samples that a free trainer would take now, none if it has to wait."""
        batch = self.batches.get(self.finished)
        if batch is None or self.training is not None:
            return ()
        if (self.colocated or self.run.way == "one-step") and not self._rolled_out(self.finished):
            return ()
        if self.run.way == "one-step" and self._at_barrier():
            return ()
        return chunks.next_chunk(self.run, batch.finished, batch.trained)

    def _at_barrier(self) -> bool:
        return self.syncing is not None or self.sync_due()

    def _rolled_out(self, iteration: int) -> bool:
        """Return whether the rollout of an iteration has ended on all nodes, or belongs to an earlier start of the job."""
        begun = min(self.next_rollout.values()) > iteration
        return begun and iteration not in self.rolling.values()
