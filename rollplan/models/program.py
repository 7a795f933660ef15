"""What a job runs when a plan is executed: the program and how much of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollplan.models.strict import Strict
from rollplan.models.units import Seconds

Setting = str | int | float | bool


class Program(Strict):
    """The program of a job (`rollplan run`).

    module: dotted name of a Python module, or path of a file that ends with `.py`, relative to the folder of the plan.
    iterations: how many to run. samples: responses per iteration (absent: of `workload`, else `responses`). settings: for the
    program. ranks: processes of the trainer. fill: samples that fill the trainer, where training streams. migrate_at: share
    of finished responses at which the rest is consolidated on `migrate_to` instances. sync: how new weights travel, one copy in
    parallel streams and on from there, or a copy for every rollout worker. hang_s: seconds without progress after which a phase
    counts as hung.
    """

    module: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]+$")]
    iterations: Annotated[int, Field(ge=1, le=10_000_000)] = 10
    samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    settings: Annotated[dict[Annotated[str, Field(max_length=100)], Setting], Field(max_length=100)] = Field(default_factory=dict)
    ranks: Annotated[int, Field(ge=1, le=4096)] = 1
    fill: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    migrate_at: Annotated[float, Field(gt=0, lt=1)] | None = None
    migrate_to: Annotated[int, Field(ge=1, le=4096)] = 1
    sync: Literal["two-stage", "flat"] = "two-stage"
    hang_s: Annotated[Seconds, Field(gt=0)] = Field(default=300.0, alias="hang_after")
