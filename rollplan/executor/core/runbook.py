"""What the core needs to know of a plan, as plain frozen data that travels as JSON.

The interpreter that has Ray and the engines need not have rollplan's own dependencies, so nothing here is pydantic.

Resources are what a permit is for: every rollout node (or rollout instance of a split) is one, and all training nodes of
a group together are one, because every job of a group trains on all of them (RollMux 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Policy = Literal["round-robin", "fifo"]
Way = Literal["serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed"]
SyncPlan = Literal["two-stage", "flat"]
Setting = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How the samples of an iteration are dealt to the instances of a job.

    tail_instances: instances that take the `tail_share` samples estimated longest (0: no separation). order: `lpt` sends
    each instance its longest first, `given` keeps the order of the samples. slots, tail_slots: most samples in a batch of
    a regular and of a tail instance.
    """

    order: Literal["given", "lpt"] = "given"
    tail_share: float = 0.2
    tail_instances: int = 0
    slots: int = 256
    tail_slots: int = 256


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds per iteration that the plan promises; `iteration_s` is the period of the group, or the step of a split.

    rollout_s, train_s: without switch and sync.
    """

    rollout_s: float
    train_s: float
    rollout_switch_s: float
    train_switch_s: float
    sync_s: float
    iteration_s: float
    solo_s: float


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job: its program, where it is pinned, and how its stages overlap.

    module: dotted name or path of a Python file with functions marked by `rollplan.executor.api.phase`. samples: per
    iteration. rollout: its rollout resources; train: its training resource, train_ranks: processes there. way, staleness:
    as in docs/modes.md; a job in a group is `serial`. chunks: of mini-batch. fill: samples that fill the trainer, for
    dynamic-batch and async-streamed. rollout_memory_gib, train_memory_gib: declared footprint per node, None: not limited.
    migrate_at: share of finished samples at which the rest is consolidated, None: never; migrate_to: instances that keep it.
    sync: how new weights travel (docs/weight_sync.md).
    hang_s: seconds without progress after which a running phase counts as hung. restarts: how often in a row the job may be
    started again without finishing an iteration. group: the co-execution group or the split it belongs to.
    """

    name: str
    group: str
    module: str
    iterations: int
    samples: int
    rollout: tuple[str, ...]
    train: str
    predicted: Predicted
    settings: Mapping[str, Setting] = field(default_factory=dict)
    seed: int = 0
    train_ranks: int = 1
    way: Way = "serial"
    staleness: int = 0
    chunks: int = 1
    fill: int = 1
    dispatch: Dispatch = Dispatch()
    rollout_memory_gib: float | None = None
    train_memory_gib: float | None = None
    migrate_at: float | None = None
    migrate_to: int = 1
    sync: SyncPlan = "two-stage"
    hang_s: float = 300.0
    restarts: int = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """What a permit is for. jobs: in round-robin order, or with a timetable. nodes: how many plan nodes of `pool` it stands for.

    moments: for each of `jobs`, when its phases start here in a period of `period_s` seconds, in the order of its iterations;
    only their order counts. Empty: strict round robin, one turn each.

    gpus: of one node. memory_gib: host memory of one node. on: the resource whose nodes these are, too, because the stages of a
    colocated split take turns on them; None: nodes of its own.
    """

    name: str
    pool: str
    kind: Literal["rollout", "train"]
    jobs: tuple[str, ...]
    nodes: int
    gpus: int
    memory_gib: float
    on: str | None = None
    moments: tuple[tuple[float, ...], ...] = ()
    period_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Runbook:
    """A plan, ready to run. seal: of the plan file. folder: relative paths of programs start here."""

    seal: str
    policy: Policy
    resources: tuple[Resource, ...]
    jobs: tuple[JobRun, ...]
    folder: str = "."

    def job(self, name: str) -> JobRun:
        """Return a job by name; KeyError if there is none."""
        return {job.name: job for job in self.jobs}[name]

    def resource(self, name: str) -> Resource:
        """Return a resource by name; KeyError if there is none."""
        return {resource.name: resource for resource in self.resources}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Runbook:
        """Return the runbook of `to_dict`, whether or not it went through JSON."""
        jobs = tuple(
            JobRun(
                **{
                    **job,
                    "rollout": tuple(job["rollout"]),
                    "predicted": Predicted(**job["predicted"]),
                    "dispatch": Dispatch(**job["dispatch"]),
                }
            )
            for job in raw["jobs"]
        )
        resources = tuple(
            Resource(**{**resource, "jobs": tuple(resource["jobs"]), "moments": tuple(map(tuple, resource["moments"]))})
            for resource in raw["resources"]
        )
        return cls(raw["seal"], raw["policy"], resources, jobs, raw["folder"])
