"""Pools of GPUs and the links between them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rollplan.models.strict import Strict, refusal
from rollplan.models.units import DollarsPerHour, GBPerSecond, GiB


def _worth_counting(price: float) -> float:
    if 0 < price < 1e-4:
        raise refusal("is less than a hundredth of a cent, which rounding would eat", "write 0 $/h, or a price of at least 0.0001 $/h")
    return price


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
    price_per_gpu_h: Annotated[DollarsPerHour, AfterValidator(_worth_counting)] = Field(alias="price")
    memory_gib: GiB = Field(alias="memory")

    @property
    def price_per_node_h(self) -> float:
        """Dollars per hour of a whole node."""
        return round(self.price_per_gpu_h * self.gpus_per_node, 9)


class Link(Strict):
    """The network between two pools; `bandwidth_gb_s` is what one stream gets (RollMux: 20 Gbps), in 10^9 bytes/s."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    bandwidth_gb_s: GBPerSecond = Field(alias="bandwidth")
