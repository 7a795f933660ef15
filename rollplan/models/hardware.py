"""Pools of GPUs and the links between them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollplan.models.strict import Strict
from rollplan.models.units import DollarsPerHour, GBPerSecond, GiB

Role = Literal["rollout", "train", "any"]


class Pool(Strict):
    """GPUs of one kind in one place.

    role: which phases may run here. gpus_per_node: GPUs that are rented and shared together.
    nodes: how many nodes there are at most; absent means as many as needed.
    price_per_gpu_h: dollars per GPU and hour. memory_gib: host memory of one node, shared by the resident jobs.
    """

    role: Role = "any"
    gpu: Annotated[str, Field(min_length=1, max_length=60)]
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] = 8
    nodes: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    price_per_gpu_h: DollarsPerHour = Field(alias="price")
    memory_gib: GiB = Field(alias="memory")


class Link(Strict):
    """The network between two pools; `bandwidth_gb_s` is what one stream gets (RollMux: 20 Gbps), in 10^9 bytes/s."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    bandwidth_gb_s: GBPerSecond = Field(alias="bandwidth")
