"""Profiles: how long each stage of a job takes on so many GPUs, and where the numbers come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollplan.models.counted import GpuCount, WholeNumberKeys
from rollplan.models.strict import Strict
from rollplan.models.workload import Duration


class Provenance(Strict):
    """Where measured numbers come from."""

    kind: Literal["measured", "imported", "reference", "estimated"]
    source: Annotated[str, Field(min_length=1, max_length=500)]


class PhaseTimes(Strict):
    """Seconds per iteration of the stages of one job, for each number of GPUs that was measured.

    Only counts in the table are used; nothing is interpolated between parallel layouts.
    """

    provenance: Provenance
    rollout: Annotated[dict[GpuCount, Duration], Field(min_length=1), WholeNumberKeys]
    train: Annotated[dict[GpuCount, Duration], Field(min_length=1), WholeNumberKeys]
