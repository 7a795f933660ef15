"""How scenarios bring their own decode latency: a curve in batch, or a table in batch and context for each tp.

engine: {ptl: {1: 8.4 ms, 64: 11.7 ms}}
engine: {latency: {1: {contexts: [512, 8192], batches: [1, 64], ms: [[7.1, 7.3], [9.0, 14.2]]}}}
engine: {latency: {file: latency.csv}}          columns tp, context, batch, ms; read when the file is loaded
engine: {latency: {file: profile.json}}         what `rollplan profile rollout` measured: the medians
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.latency import TableLatency
from rollplan.models.strict import Strict, refusal, show

COLUMNS = ("tp", "context", "batch", "ms")


class LatencyTable(Strict):
    """Milliseconds of one decode step, one row for each batch, one column for each context (tokens per sequence)."""

    contexts: Annotated[tuple[Annotated[float, Field(ge=0, le=1e7)], ...], Field(min_length=1, max_length=200)]
    batches: Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(min_length=1, max_length=200)]
    ms: Annotated[tuple[tuple[Annotated[float, Field(gt=0, le=1e6)], ...], ...], Field(min_length=1, max_length=200)]

    @model_validator(mode="after")
    def _is_a_grid(self) -> Self:
        rows = {len(row) for row in self.ms}
        if len(self.ms) != len(self.batches) or rows != {len(self.contexts)}:
            shape = f"{len(self.batches)} rows of {len(self.contexts)}"
            raise refusal(f"has {len(self.ms)} rows of {', '.join(map(str, sorted(rows)))} values", f"give {shape}: one row per batch")
        try:
            self.law()
        except ValueError as error:
            raise refusal(f"is not a table of latencies: {error}", "sort batches and contexts") from None
        return self

    def law(self) -> TableLatency:
        """Build the law."""
        return TableLatency(np.array(self.batches), np.array(self.contexts), np.array(self.ms))


def inline_latency(raw: object, folder: Path) -> object:
    """Return `raw` with `file` replaced by its tables; anything else as it is. Raises `InputError` for a bad file."""
    if not isinstance(raw, Mapping) or "file" not in raw:
        return raw
    file = raw["file"]
    if not isinstance(file, str) or not file.strip() or "\0" in file:
        raise InputError("latency", [Finding("file", show(file), "is not text", "write the path of a CSV file or a profile")])
    if len(raw) > 1:
        raise InputError("latency", [Finding("", show(dict(raw)), "gives more than `file`", "keep `file`, or the tables")])
    return read_latency(folder / file)


def read_latency(path: Path) -> dict[int, dict[str, object]]:
    """Return the tables of a CSV file or a profile by tp, as plain data; raise `InputError` with every row at fault."""
    text = read_text(path, "latency table")
    if text.lstrip().startswith("{"):
        return _of_profile(path)
    rows = csv.DictReader(StringIO(text))
    if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
        problem = f"has no column {', '.join(missing)}"
        raise InputError(str(path), [Finding(str(path), "", problem, f"give the columns {', '.join(COLUMNS)}")])
    cells: dict[int, dict[tuple[int, float], float]] = {}
    faults: list[Finding] = []
    for line, row in enumerate(_rows(rows, path), start=2):
        try:
            tp, batch, context, ms = int(row["tp"]), int(row["batch"]), float(row["context"]), float(row["ms"])
            if not (tp >= 1 and isfinite(context) and isfinite(ms)):
                raise ValueError
        except (TypeError, ValueError):
            faults.append(Finding(f"line {line}", "", "is not four numbers", "write tp, context, batch and ms as numbers"))
            continue
        cells.setdefault(tp, {})[batch, context] = ms
    for tp, table in cells.items():
        batches, contexts = {batch for batch, _ in table}, {context for _, context in table}
        if len(table) < len(batches) * len(contexts):
            hole = next((b, c) for b in sorted(batches) for c in sorted(contexts) if (b, c) not in table)
            faults.append(Finding(f"tp {tp}", "", f"has no row for batch {hole[0]} at context {hole[1]:g}", "measure every pair"))
    if not cells and not faults:
        faults.append(Finding(str(path), "", "has no rows", "give at least one"))
    if faults:
        raise InputError(str(path), faults[:10])
    return {tp: _table(table) for tp, table in sorted(cells.items())}


def _of_profile(path: Path) -> dict[int, dict[str, object]]:
    """Return the medians of a profile's decode section; cells beyond the KV cache are filled in."""
    # Only here: a scenario that brings no profile should not load what profiles rest on.
    from rollplan.models.profile.file import Profile

    section = Profile.load(path).decode
    if section is None:
        remedy = "give one that `rollplan profile rollout` wrote"
        raise InputError(str(path), [Finding("decode", "", "is missing: the profile holds no decode latency", remedy)])
    return {
        curve.tp: {
            "batches": list(curve.batches),
            "contexts": [float(context) for context in curve.contexts],
            "ms": curve.complete_ms().tolist(),
        }
        for curve in sorted(section.curves, key=lambda curve: curve.tp)
    }


def _rows(rows: csv.DictReader[str], path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows; what the csv module cannot read is a fault of the file."""
    try:
        yield from rows
    except csv.Error as error:
        raise InputError(str(path), [Finding(str(path), "", f"is not CSV ({error})", "write plain comma-separated numbers")]) from None


def _table(cells: Mapping[tuple[int, float], float]) -> dict[str, object]:
    batches, contexts = sorted({batch for batch, _ in cells}), sorted({context for _, context in cells})
    return {"batches": batches, "contexts": contexts, "ms": [[cells[batch, context] for context in contexts] for batch in batches]}
