"""The file of samples: what a user measured on the job that is to be planned.

decode: [{tp: 2, batch: 64, context: 4096, ms: 18.4}]             one decode step
rollout: [{gpus: 16, tp: 2, time: 260.9 s}]                       generation of a whole iteration
training: [{gpus: 8, update: 61.1 s, old_logprob: 9.2 s}]
interference: [{stage: rollout, alone: 100 s, beside: 112 s}]
sync: [2.1 s]

A CSV file with the columns tp, context, batch, ms holds decode steps. What a sample leaves out is as in the scenario.
"""

from __future__ import annotations

import csv
import json
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.latency_given import COLUMNS
from rollplan.models.layout import Layout
from rollplan.models.strict import Strict, refusal, tuples
from rollplan.models.units import Seconds
from rollplan.models.yaml_reader import parse_yaml

LEAST_S = 1e-4
"""No stage of an iteration is shorter; errors are relative, so a time near nothing would be the only one that counts."""


def _longer_than_nothing(seconds: float) -> float:
    if seconds < LEAST_S:
        raise refusal(f"is less than {LEAST_S:g} s", "give the measured time, or leave the sample out")
    return seconds


def _layout(text: str) -> str:
    try:
        Layout.parse(text)
    except ValueError as error:
        raise refusal(f"is not a layout: {error}", "write tp4-pp2-dp8") from None
    return text


Time = Annotated[Seconds, AfterValidator(_longer_than_nothing)]
Degree = Annotated[int, Field(ge=1, le=4096)]
Gpus = Annotated[int, Field(ge=1, le=1_000_000)]
Sequences = Annotated[int, Field(ge=1, le=1_000_000)]
PoolName = Annotated[str, Field(min_length=1, max_length=200)]
LayoutText = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_layout)]


class DecodeSample(Strict):
    """One decode step of `batch` sequences with `context` tokens each took `ms` milliseconds. pool: absent, the one that rolls out."""

    tp: Degree
    batch: Annotated[int, Field(ge=1, le=1_000_000)]
    context: Annotated[float, Field(ge=0, le=1e7)]
    ms: Annotated[float, Field(ge=1e-3, le=1e6)]
    pool: PoolName | None = None

    def __str__(self) -> str:
        return f"decode tp {self.tp}, batch {self.batch}, context {self.context:g}"


class RolloutSample(Strict):
    """Generation of all samples of one iteration on `gpus` GPUs took `time_s`.

    tp: of its engines (absent: the scenario's only degree, else the fastest). samples, response_mean: what was generated,
    where it is not the scenario's workload.
    """

    gpus: Gpus
    tp: Degree | None = None
    time_s: Time = Field(alias="time")
    samples: Sequences | None = None
    response_mean: Annotated[float, Field(ge=1, le=1e7)] | None = None
    pool: PoolName | None = None

    def __str__(self) -> str:
        degree = "" if self.tp is None else f" with tp {self.tp}"
        return f"rollout on {self.gpus} GPUs{degree}"


class TrainingSample(Strict):
    """Training passes over all samples of one iteration, each in seconds; at least one of them.

    gpus or layout: where (absent layout: the fastest that fits). update_s: all optimizer steps of the iteration, without a
    critic's. old_logprob_s, reference_s: one forward pass over all samples. tokens: prompts and responses together;
    samples: sequences; where they are not those of the scenario's workload.
    """

    gpus: Gpus | None = None
    layout: LayoutText | None = None
    update_s: Time | None = Field(default=None, alias="update")
    old_logprob_s: Time | None = Field(default=None, alias="old_logprob")
    reference_s: Time | None = Field(default=None, alias="reference")
    tokens: Annotated[float, Field(gt=0, le=1e12)] | None = None
    samples: Sequences | None = None
    pool: PoolName | None = None

    @model_validator(mode="after")
    def _says_where_and_what(self) -> Self:
        if self.gpus is None and self.layout is None:
            raise refusal("does not say on how many GPUs", "add `gpus`, or `layout`")
        if self.gpus is not None and self.layout is not None and Layout.parse(self.layout).gpus != self.gpus:
            raise refusal(f"has {self.gpus} GPUs and a layout of {Layout.parse(self.layout).gpus}", "correct one of the two")
        if self.update_s is None and self.old_logprob_s is None and self.reference_s is None:
            raise refusal("has no time", "add `update`, `old_logprob` or `reference`")
        return self

    def __str__(self) -> str:
        tokens = "" if self.tokens is None else f", {self.tokens:.4g} tokens"
        return f"training {f'as {self.layout}' if self.layout else f'on {self.gpus} GPUs'}{tokens}"


class InterferenceSample(Strict):
    """A stage took `alone_s` by itself and `beside_s` while the other stage ran."""

    stage: Literal["rollout", "train"]
    alone_s: Time = Field(alias="alone")
    beside_s: Time = Field(alias="beside")

    def __str__(self) -> str:
        return f"{self.stage} {self.alone_s:g} s alone, {self.beside_s:g} s beside the other stage"


Many = Field(default=(), max_length=5000)


class Samples(Strict):
    """All samples of one file. sync_s: weight syncs that nothing hid."""

    decode: tuple[DecodeSample, ...] = Many
    rollout: tuple[RolloutSample, ...] = Many
    training: tuple[TrainingSample, ...] = Many
    interference: tuple[InterferenceSample, ...] = Many
    sync_s: tuple[Time, ...] = Field(default=(), max_length=5000, alias="sync")

    @property
    def count(self) -> int:
        """Samples of all kinds."""
        return len(self.decode) + len(self.rollout) + len(self.training) + len(self.interference) + len(self.sync_s)


def plain(path: Path) -> Any:
    """Return the plain data of a file by its suffix: CSV (decode steps), JSON, else YAML; raise `InputError`."""
    text = read_text(path, "sample")
    if not text.strip():
        raise _fault(path, "is empty", "give samples")
    if path.suffix.lower() == ".csv":
        return {"decode": _rows(text, path)}
    if path.suffix.lower() != ".json":
        return tuples(parse_yaml(text, str(path), "samples"))
    try:
        return tuples(json.loads(text))
    except (ValueError, RecursionError) as error:  # ValueError also for numbers of thousands of digits
        raise _fault(path, f"is not JSON ({error})", "give JSON, or name it .yaml") from None


def samples(raw: object, path: Path) -> Samples:
    """Return the samples in plain data; raise `InputError` with every fault, or if there is none."""
    found = Samples.build(raw, str(path))
    if not found.count:
        raise _fault(path, "has no samples", "give `decode`, `rollout`, `training`, `interference` or `sync`")
    return found


def _rows(text: str, path: Path) -> tuple[dict[str, object], ...]:
    """Return the rows of a CSV file; what is no number stays text, and is refused with the rest."""
    reader = csv.DictReader(StringIO(text), strict=True)
    try:
        if repeated := [name for name in COLUMNS if (reader.fieldnames or ()).count(name) > 1]:
            raise _fault(path, f"has the column {repeated[0]} twice", "keep one of them")
        if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise _fault(path, f"has no column {', '.join(missing)}", f"give the columns {', '.join(COLUMNS)}")
        rows = []
        for row in reader:
            if None in row:
                raise _fault(path, f"has more values in line {reader.line_num} than names in the header", "give each value a column")
            rows.append({name: _number(row[name]) for name in COLUMNS})
        return tuple(rows)
    except csv.Error as error:
        raise _fault(path, f"is not CSV ({error})", "write plain comma-separated numbers") from None


def _number(cell: str | None) -> object:
    try:
        value = float(cell or "")
    except ValueError:
        return cell
    return int(value) if isfinite(value) and value.is_integer() else value


def _fault(path: Path, problem: str, remedy: str) -> InputError:
    return InputError(str(path), [Finding(str(path), "", problem, remedy)])
