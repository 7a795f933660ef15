"""The scenario: everything a plan is made from, in one file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from rollplan.models.consistency import findings
from rollplan.models.errors import InputError
from rollplan.models.hardware import Link, Pool
from rollplan.models.inline import inlined
from rollplan.models.phase_times import PhaseTimes
from rollplan.models.strict import Strict, tuples
from rollplan.models.workload import Job, Name
from rollplan.models.yaml_reader import parse_yaml, read_yaml


class Scenario(Strict):
    """Pools, links, jobs, profiles, and the rules of the plan.

    guarantee: `bound` holds the iteration time of worst-case phases within slo * worst-case solo time, cumulatively
    (RollMux 4.2). sync_holds: the pool that a weight transfer keeps busy; the other side receives into host memory.
    overheads: what stands for absent sync and switch times: `reference` measurements of the job's size, or `zero`.
    max_group_size: most jobs that share nodes (RollMux simulates 5). max_rate: how many iterations a short job may make
    while a longer one of its group makes one; 1 is strict round robin (docs/multi_rate.md).
    """

    format: Literal["rollplan/scenario/1"] = "rollplan/scenario/1"
    name: Name
    description: Annotated[str, Field(max_length=2000)] = ""
    pools: Annotated[dict[Name, Pool], Field(min_length=1)]
    links: tuple[Link, ...] = ()
    profiles: dict[Name, PhaseTimes] = Field(default_factory=dict)
    guarantee: Literal["bound"] = "bound"
    max_group_size: Annotated[int, Field(ge=1, le=8)] = 5
    max_rate: Annotated[int, Field(ge=1, le=4)] = 1
    sync_holds: Literal["train", "rollout"] = "train"
    overheads: Literal["reference", "zero"] = "reference"
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=20_000)]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file and the files it names; raise `InputError` with every fault of the file at once."""
        return cls.from_dict(inlined(read_yaml(Path(path)), Path(path)), str(path))

    @classmethod
    def from_yaml(cls, text: str, source: str = "scenario") -> Self:
        """Read YAML text."""
        return cls.from_dict(parse_yaml(text, source), source)

    @classmethod
    def from_dict(cls, raw: object, source: str = "scenario") -> Self:
        """Build from plain data, with the keys and units of the file."""
        scenario = cls.build(tuples(raw), source)
        if faults := list(findings(scenario.pools, scenario.links, scenario.profiles, scenario.jobs)):
            raise InputError(source, faults)
        return scenario

    def content(self) -> dict[str, Any]:
        """Return plain data that `from_dict` makes an equal scenario of; files are inlined, units written out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def sha256(self) -> str:
        """Return the hash of the meaning: comments, order of keys, spelling of units and defaults do not change it."""
        text = json.dumps(self.model_dump(mode="json", by_alias=True, exclude_defaults=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
