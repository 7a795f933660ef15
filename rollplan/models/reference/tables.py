"""The data files: tables in CSV, whose first lines (`#`) say what they hold and where it comes from."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from rollplan.models.errors import Finding, InputError
from rollplan.models.overheads import Provenance
from rollplan.models.strict import show


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value, how it came about, and a sentence for the plan's report: from where, and how far to trust it."""

    value: float
    provenance: Provenance
    note: str


@cache
def rows(name: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a data file, read once."""
    data = (files(__package__) / "data" / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def unknown(field: str, value: str, known: Iterable[str], instead: str) -> InputError:
    """Return the refusal of a name that the reference data does not have; `instead` is what a user can give."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    near = [lowered[match] for match in get_close_matches(value.lower()[:60], lowered, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else f"known: {', '.join(names)}."
    return InputError(field, [Finding(field, show(value), "is not in the reference data", f"{hint} Or {instead}")])
