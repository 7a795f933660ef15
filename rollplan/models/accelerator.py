"""What a GPU can do, as far as time and memory depend on it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rollplan.models.strict import Strict

Positive = Annotated[float, Field(gt=0, le=1e6)]


class Gpu(Strict):
    """Peak numbers of the maker.

    memory_gib: GiB (2^30 bytes). peak_tflops: dense bf16. memory_tb_s: 10^12 bytes/s. link_gb_s: 10^9 bytes/s in one
    direction to the other GPUs of its node (NVLink, or PCIe).
    """

    name: Annotated[str, Field(min_length=1, max_length=60)]
    memory_gib: Positive
    peak_tflops: Positive
    memory_tb_s: Positive
    link_gb_s: Positive
