"""What a GPU costs per hour: published list prices."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from rollplan.models.reference.gpus import gpu_name
from rollplan.models.reference.tables import rows


@dataclass(frozen=True, slots=True)
class PriceRange:
    """Dollars per GPU and hour over so many published offers, and whose they are."""

    min_per_h: float
    median_per_h: float
    max_per_h: float
    offers: int
    note: str


def price_per_gpu_h(gpu_text: str) -> PriceRange | None:
    """Return the on-demand list prices of a GPU, 2025 and 2026, from the data file; None if there are none.

    Own contracts differ: a scenario states its prices, these are for a first look. Raise `InputError` for an unknown GPU.
    """
    kind = gpu_name(gpu_text)
    offers = [row for row in rows("prices.csv") if row["gpu"] == kind]
    if not offers:
        return None
    prices = [float(row["usd_per_gpu_h"]) for row in offers]
    providers = sorted({row["provider"] for row in offers})
    note = "RollMux (arXiv 2512.11306) Table 1" if providers == ["paper"] else f"list prices of {', '.join(providers)}, 2025 and 2026"
    return PriceRange(min(prices), median(prices), max(prices), len(prices), note)
