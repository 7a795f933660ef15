"""What was executed, as the shell saw it: one record per stretch of time on a resource. Reports, traces and profiles rest on these.

Records say what happened and decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

RecordKind = Literal["start", "load", "rollout", "train", "step", "save", "offload", "sync", "migrate", "restart", "idle"]


@dataclass(frozen=True, slots=True)
class Record:
    """One stretch of work of a job on a resource; seconds since the run started.

    kind: `start` makes workers and their state (a cold start), `load` and `offload` move resident state (warm), `step` is
    the optimizer, `save` writes the state of a finished iteration. iteration: of a `start` the one to go on with, of a `sync`
    the one whose training made the weights. values: numbers of the program or the shell, such as
    `reward`, `loss`, `tokens`, `samples`, `bytes`, `held_bytes`.
    """

    job: str
    resource: str
    kind: RecordKind
    iteration: int
    start_s: float
    end_s: float
    worker: int = 0
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of host memory that a job's workers were seen to hold on the fullest node of a resource; seconds since the run started."""

    at_s: float
    job: str
    resource: str
    held_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that people should read: a restart, a stopped job, a fallback. at_s: seconds since the run started."""

    at_s: float
    job: str | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)
