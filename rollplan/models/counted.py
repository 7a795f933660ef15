"""Mappings from whole numbers (GPU counts, batch sizes) to quantities, as YAML and JSON write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from rollplan.models.strict import refusal
from rollplan.models.units import Seconds


def _whole_number_keys(raw: object) -> object:
    """Let JSON's text keys stand for numbers of GPUs."""
    if not isinstance(raw, dict):
        return raw
    numbers = {key: int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 8 else key for key in raw}
    if len(set(numbers.values())) < len(numbers):
        raise refusal("gives one number of GPUs twice, as a number and as text", "keep one of the two")
    return {numbers[key]: value for key, value in raw.items()}


def _positive(seconds: float) -> float:
    if seconds == 0:
        raise refusal("is zero", "a stage takes some time; leave this number of GPUs out")
    return seconds


GpuCount = Annotated[int, Field(ge=1, le=1_000_000)]
WholeNumberKeys = BeforeValidator(_whole_number_keys)
StageTable = Annotated[dict[GpuCount, Annotated[Seconds, AfterValidator(_positive)]], Field(min_length=1), WholeNumberKeys]
