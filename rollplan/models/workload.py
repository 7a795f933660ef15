"""Jobs: what one reinforcement-learning job does in every iteration, and what it asks for."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rollplan.models.lengths import REFERENCE_LENGTHS
from rollplan.models.program import Program
from rollplan.models.recipe import EngineSettings, Model, TrainerSettings, Workload
from rollplan.models.split.given import Split
from rollplan.models.strict import Strict, refusal
from rollplan.models.units import BillionParameters, GiB, Seconds

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$")]


class _Shorthand(Strict):
    """A mapping that may be written as its most important value alone."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string", "description": "the time alone, such as `133 s`"}]}


class Duration(_Shorthand):
    """Seconds of one phase in one iteration.

    worst_s: every response hits the token limit (RollMux 4.2). expected_s: what usually happens. One value alone, such
    as `133 s`, is the worst case; where nothing tells the expected time, it stands for that as well, with a warning.
    """

    worst_s: Seconds | None = Field(default=None, alias="worst")
    expected_s: Seconds | None = Field(default=None, alias="expected")

    @model_validator(mode="before")
    @classmethod
    def _one_value_is_the_worst_case(cls, raw: object) -> object:
        return raw if isinstance(raw, dict) else {"worst": raw}

    @model_validator(mode="after")
    def _values_make_sense(self) -> Self:
        if self.worst_s is None and self.expected_s is None:
            raise refusal("gives neither `worst` nor `expected`", "give at least one of them, such as `worst: 133 s`")
        if self.worst_s == 0 or self.expected_s == 0:
            raise refusal("is zero", "a phase takes some time; leave a job without rollout or training out")
        if self.worst_s is not None and self.expected_s is not None and self.expected_s > self.worst_s:
            raise refusal("expects more than the worst case", "`expected` is at most `worst`")
        return self


class Phase(_Shorthand):
    """One phase of a job on the nodes of one pool.

    nodes: nodes used at once. time: seconds per iteration. memory_gib: host memory that keeps the job resident on
    each of these nodes. switch_s: seconds to load the resident state onto the GPUs before the phase (warm start).
    """

    pool: str | None = None
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    time: Duration | None = None
    memory_gib: GiB | None = Field(default=None, alias="memory")
    switch_s: Seconds | None = Field(default=None, alias="switch")

    @model_validator(mode="before")
    @classmethod
    def _time_alone(cls, raw: object) -> object:
        return raw if isinstance(raw, dict) else {"time": raw}


def _known_lengths(name: str) -> str:
    if name not in REFERENCE_LENGTHS:
        raise refusal("is not a reference law of lengths", f"choose from {', '.join(REFERENCE_LENGTHS)}")
    return name


class Job(Strict):
    """One job: phases to be co-located with other jobs' (P3), or a split to be decided (P1).

    size_b: parameters in billions; where memory, switch or sync is absent, the measured reference of this size is used.
    slo: allowed iteration time / solo iteration time. gang: the rollout needs all its nodes at the same time.
    sync_s: seconds to send the new weights. lengths: a reference law of output lengths, from which expected times
    are derived when only the worst case is given; responses: responses per iteration.
    profile: name of a profile whose table gives the phase times at the job's GPU counts.
    model, workload, engine, trainer: what phase times are derived from that neither the phase nor a profile gives.
    program: what `rollplan run` executes; planning does not need it.
    """

    name: Name
    size_b: BillionParameters | None = Field(default=None, alias="size")
    slo: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    gang: bool = False
    rollout: Phase | None = None
    train: Phase | None = None
    sync_s: Seconds | None = Field(default=None, alias="sync")
    lengths: Annotated[str, AfterValidator(_known_lengths)] | None = None
    responses: Annotated[int, Field(ge=1, le=10_000_000)] = 256
    profile: str | None = None
    model: Model | None = None
    workload: Workload | None = None
    engine: EngineSettings = EngineSettings()
    trainer: TrainerSettings = TrainerSettings()
    split: Split | None = None
    program: Program | None = None

    @property
    def size_or_model_b(self) -> float | None:
        """Parameters in 10^9: the size, else the model's."""
        return self.size_b if self.size_b is not None or self.model is None else self.model.params_b
