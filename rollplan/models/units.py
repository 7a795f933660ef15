"""Quantities with units: parsing, printing, and the field types that scenarios use.

A quantity in a file is a number and a unit (`133 s`, `275.7 GB`, `1.85 $/h`, `20Gbps`). Inside the program every
quantity is a float whose name carries the unit: seconds `_s`, GiB (2^30 bytes) `_gib`, dollars per hour `_per_h`,
10^9 bytes per second `_gb_s`. A number without a unit is refused, because 133 could be seconds or minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from rollplan.models.strict import refusal, show

_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\s\d].*?)?\s*")


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of quantity: the factors of its units to the one used inside, and the range that makes sense."""

    kind: str
    factors: Mapping[str, float]
    example: str
    low: float
    high: float

    def parse(self, raw: object) -> float:
        """Return `raw` (text with a unit) in the unit used inside; raise a refusal otherwise."""
        if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
            raise refusal(f"is not a {self.kind}", f"write text such as `{self.example}`")
        found = _QUANTITY.fullmatch(str(raw)) if len(str(raw)) <= 1000 else None
        if not found:
            raise refusal(f"is not a {self.kind}", f"write a number and a unit, such as `{self.example}`")
        number, unit = float(found[1]), found[2]
        if unit is None:
            raise refusal("has no unit", f"write `{raw} {next(iter(self.factors))}`; accepted: {self.names}")
        if unit not in self.factors:
            raise refusal(f"has the unit {show(unit)}, which is not a {self.kind}", f"accepted: {self.names}")
        value = number * self.factors[unit]
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise refusal(f"is outside {self.low:g} to {self.high:g} {self._inside}", f"write a {self.kind} in this range")
        return value

    @property
    def names(self) -> str:
        """Accepted units, for messages."""
        return ", ".join(self.factors)

    @property
    def _inside(self) -> str:
        return next(name for name, factor in self.factors.items() if factor == 1.0)


DURATION = Unit("duration", {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}, "133 s", 0.0, 1e7)
MEMORY = Unit(
    "memory size",
    {"GiB": 1.0, "GB": 1e9 / 2**30, "MiB": 2.0**-10, "MB": 1e6 / 2**30, "TiB": 2.0**10, "TB": 1e12 / 2**30},
    "275.7 GB",
    0.0,
    1e6,
)
PRICE = Unit("price", {"$/h": 1.0, "USD/h": 1.0, "usd/h": 1.0}, "1.85 $/h", 0.0, 1e6)
BANDWIDTH = Unit("bandwidth", {"GB/s": 1.0, "Gbps": 0.125, "Gbit/s": 0.125, "MB/s": 1e-3, "Mbps": 1.25e-4}, "20 Gbps", 1e-6, 1e6)
PARAMETERS = Unit("model size", {"B": 1.0, "b": 1.0, "M": 1e-3}, "7B", 1e-3, 1e5)


def _schema(unit: Unit) -> WithJsonSchema:
    units = "|".join(re.escape(name) for name in unit.factors)
    return WithJsonSchema(
        {
            "type": "string",
            "description": f"{unit.kind}: a number and one of {unit.names}",
            "pattern": rf"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*({units})\s*$",
            "examples": [unit.example],
        }
    )


def _written(unit: str) -> PlainSerializer:
    """Write a quantity with its unit into JSON, so that what was written can be read again."""
    return PlainSerializer(lambda value: f"{value!r} {unit}", when_used="json-unless-none")


Seconds = Annotated[float, BeforeValidator(DURATION.parse), _written("s"), _schema(DURATION)]
GiB = Annotated[float, BeforeValidator(MEMORY.parse), _written("GiB"), _schema(MEMORY)]
DollarsPerHour = Annotated[float, BeforeValidator(PRICE.parse), _written("$/h"), _schema(PRICE)]
GBPerSecond = Annotated[float, BeforeValidator(BANDWIDTH.parse), _written("GB/s"), _schema(BANDWIDTH)]
BillionParameters = Annotated[float, BeforeValidator(PARAMETERS.parse), _written("B"), _schema(PARAMETERS)]
