"""A scenario's `split`: stage times as tables, or a model and a workload that they are derived from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from rollplan.models.counted import GpuCount, StageTable
from rollplan.models.hardware import Pool
from rollplan.models.recipe import EngineSettings, Interference, Model, TrainerSettings, Workload
from rollplan.models.split.problem import Objective, Trim, Way
from rollplan.models.strict import Strict, refusal
from rollplan.models.units import Seconds

Pools = Mapping[str, Pool]

FROM_TABLES: tuple[Way, ...] = ("one-step",)
FROM_MODEL: tuple[Way, ...] = ("mini-batch", "one-step", "async-batch")
"""Ways of pipelining that are compared where a split names none."""


class Split(Strict):
    """A job that asks how many GPUs should roll out and how many should train (problem P1).

    budget: GPUs that may be used of each pool (absent: all of the pools that say how many nodes they have). rollout, train:
    for each pool, measured seconds per iteration of the stage on so many GPUs, with its best parallel layout; without
    `model` only these counts are candidates, with it the derived times are shifted to pass through them.
    model, workload, engine, trainer: what stage times are derived from. sync_s: weight transfer that is not hidden
    (absent: reference by model size, 0 without a model). switch_s: seconds per iteration to change between the stages on
    the same GPUs. pipelining: ways to overlap separate stages, in order of preference. staleness: batches in flight
    beside the current one where batches overlap (`async-*`). chunks, chunk_s: of `mini-batch`, and what each chunk adds
    to training. interference: while separate stages overlap. objective: seconds or dollars per iteration. target_s: also
    say the fewest GPUs for so many seconds per iteration. noise: relative difference that reruns show anyway; closer
    plans are called equal. trim: which rule frees GPUs of the faster site (`paper`: StreamRL Algorithm 1 as printed;
    `safe`: never slower than the slower site).
    """

    budget: dict[str, GpuCount] = Field(default_factory=dict)
    rollout: dict[str, StageTable] = Field(default_factory=dict)
    train: dict[str, StageTable] = Field(default_factory=dict)
    model: Model | None = None
    workload: Workload | None = None
    engine: EngineSettings = EngineSettings()
    trainer: TrainerSettings = TrainerSettings()
    sync_s: Seconds | None = Field(default=None, alias="sync")
    switch_s: Seconds | None = Field(default=None, alias="switch")
    pipelining: Annotated[tuple[Way, ...], Field(min_length=1, max_length=6)] | None = None
    staleness: Annotated[float, Field(ge=0, le=100)] = 1.0
    chunks: Annotated[int, Field(ge=1, le=64)] = 8
    chunk_s: Seconds = Field(default=0.0, alias="chunk_overhead")
    interference: Interference = Interference()
    objective: Objective = "time"
    target_s: Seconds | None = Field(default=None, alias="target")
    noise: Annotated[float, Field(ge=0, le=1)] = 0.05
    trim: Trim = "safe"

    @model_validator(mode="after")
    def _stage_times_can_be_had(self) -> Self:
        if (self.model is None) != (self.workload is None):
            have, need = ("model", "workload") if self.workload is None else ("workload", "model")
            raise refusal(f"gives `{have}` without `{need}`", f"add `{need}`, or measured tables `rollout` and `train` alone")
        if self.model is None:
            if not (self.rollout and self.train):
                raise refusal("gives no stage times", "give `model` and `workload`, or tables `rollout` and `train` for each pool")
            if idle := sorted(self.model_fields_set & {"engine", "trainer"}):
                raise refusal(
                    f"gives `{idle[0]}` without a `model`, where it has no effect", "leave it out, or give `model` and `workload`"
                )
            if unknown := sorted(set(self.pipelining or ()) & {"mini-batch", "dynamic-batch"}):
                raise refusal(f"asks for {unknown[0]}, which needs to know when samples finish", "give `model` and `workload`")
        if twice := sorted(way for way, times in Counter(self.pipelining).items() if times > 1):
            raise refusal(f"names {twice[0]} twice in `pipelining`", "name each way once")
        return self

    @property
    def ways(self) -> tuple[Way, ...]:
        """Ways of pipelining to compare."""
        return self.pipelining or (FROM_TABLES if self.model is None else FROM_MODEL)


def budgets(split: Split, pools: Pools) -> dict[str, int]:
    """Return the GPUs that a split may use of each pool: its budget, else all of the pools that are limited."""
    return dict(split.budget) or {name: pool.nodes * pool.gpus_per_node for name, pool in pools.items() if pool.nodes is not None}
