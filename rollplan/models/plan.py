"""The plan: every decision with its predicted numbers and its certificate, in one JSON file.

The file is canonical (sorted keys, fixed layout, no clock, no host), so equal plans are equal bytes. `seal` is the
hash of everything else in it: an accidental change is seen at once, and a deliberate one is found by `check`,
which computes every number again from the scenario.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rollplan.models.certified import Stopped
from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text, write_whole
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.plan_witness import PlannedWitness
from rollplan.models.strict import Strict, refusal, tuples


class Tool(Strict):
    """What made the plan."""

    name: Literal["rollplan"] = "rollplan"
    version: str


class Origin(Strict):
    """The scenario a plan belongs to, and all of it: a plan can be asked what-if questions without the file."""

    name: str
    sha256: str
    content: dict[str, Any]


class Settings(Strict):
    """What the plan was asked for."""

    method: str
    guarantee: str
    max_group_size: int
    max_rate: int
    seed: int
    node_limit: int
    target_gap: float


class PlannedRun(Strict):
    """One iteration of a job in its group's timetable, in seconds of the period: the rollout on each of its nodes, the training."""

    rollout_at_s: tuple[float, ...]
    train_at_s: float


class PlannedJob(Strict):
    """One job in its group. Seconds are per iteration; slowdowns are iteration time / solo time.

    runs: its iterations in one period of the timetable, in order; empty for strict round robin, where it is one.

    rollout_nodes: nodes of the group the rollout is pinned to. train_nodes: how many it asks for. rollout_s, train_s:
    seconds its nodes are busy, switch and sync included. The expected numbers use expected times on both sides.
    """

    name: str
    slo: float
    rollout_nodes: tuple[int, ...]
    train_nodes: int
    rollout_s: float
    train_s: float
    solo_s: float
    slowdown: float
    expected_rollout_s: float
    expected_train_s: float
    expected_solo_s: float
    expected_slowdown: float
    expected_known: bool
    rollout_memory_gib: float
    train_memory_gib: float
    runs: tuple[PlannedRun, ...] = ()

    @property
    def iterations(self) -> int:
        """Iterations in one period of the group."""
        return max(1, len(self.runs))


class Busy(Strict):
    """Share of the time that the nodes of a group or pool work, 0 to 1, at worst-case and at expected times."""

    worst: float
    expected: float


class PlannedGroup(Strict):
    """Jobs that share nodes, in round-robin order or by a timetable (`runs` of the jobs), whose order every node keeps.

    binds: what sets the period (a job alone, the training pool, a rollout node, or the order of the phases). tightest: the job whose SLO
    leaves least room, and headroom: by which factor the period could grow before that SLO breaks.
    """

    name: str
    rollout_pool: str
    train_pool: str
    rollout_nodes: int
    train_nodes: int
    jobs: tuple[PlannedJob, ...]
    period_s: float
    expected_period_s: float
    binds: str
    tightest: str
    headroom: float
    rollout_busy: Busy
    train_busy: Busy
    cost_per_h: float
    solo_cost_per_h: float


class PoolUse(Strict):
    """What a plan takes of one pool."""

    gpu: str
    nodes: int
    gpus: int
    price_per_node_h: float
    memory_gib_per_node: float
    cost_per_h: float
    busy: Busy | None


class Comparison(Strict):
    """Dollars per hour of other policies on the same jobs; None where a policy found no room."""

    solo: float
    paper_admission: float | None


class Certificate(Strict):
    """How far the co-location cost can be from the optimum. `claimed`: what the solver says; `check` proves its own.

    witness_bound: what the witness proves, the part of the claim that `check` can prove again.
    """

    value: float
    claimed_bound: float
    claimed_gap: float
    claimed_proof: str
    witness_bound: float
    stopped: Stopped
    witness: PlannedWitness | None


class Plan(Strict):
    """A whole plan. Costs are $/h of all nodes in use."""

    format: Literal["rollplan/plan/3"] = "rollplan/plan/3"
    tool: Tool
    scenario: Origin
    settings: Settings
    groups: tuple[PlannedGroup, ...]
    splits: tuple[PlannedSplit, ...]
    pools: dict[str, PoolUse]
    cost_per_h: float
    comparison: Comparison | None
    certificate: Certificate | None
    provenance: dict[str, int]
    warnings: tuple[str, ...]
    seal: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")

    @model_validator(mode="after")
    def _refers_to_itself(self) -> Self:
        """Every name that the plan uses is in the plan, and every period is one; whether they are right `check` says."""
        for number, group in enumerate(self.groups):
            if not group.jobs or group.tightest not in {job.name for job in group.jobs}:
                raise refusal(f"names a job in groups[{number}].tightest that the group does not have", "plan again")
            if not {group.rollout_pool, group.train_pool} <= self.pools.keys():
                raise refusal(f"names a pool in groups[{number}] that it does not have", "plan again")
            if group.period_s <= 0 or group.expected_period_s <= 0 or any(min(job.solo_s, job.expected_solo_s) <= 0 for job in group.jobs):
                raise refusal(f"has a time in groups[{number}] that is not positive", "plan again")
            if any(len(run.rollout_at_s) != len(job.rollout_nodes) for job in group.jobs for run in job.runs):
                raise refusal(f"has a run in groups[{number}] without one start for each of the job's rollout nodes", "plan again")
            if group.binds.split(" ")[0] not in ("job", "training", "rollout", "order"):
                raise refusal(f"does not say in groups[{number}].binds what binds", "plan again")
        for number, split in enumerate(self.splits):
            if any(choice.iteration_s <= 0 for choice in split.shown):
                raise refusal(f"has a time in splits[{number}] that is not positive", "plan again")
        return self

    def sealed(self) -> Self:
        """Return the plan with the hash of its content."""
        return self.model_copy(update={"seal": self.content_hash()})

    def content_hash(self) -> str:
        """Return the hash of everything but the seal."""
        return hashlib.sha256(canonical(self.model_dump(mode="json", exclude={"seal"})).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the file's text."""
        return canonical(self.model_dump(mode="json"))

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all; raise `InputError` if it cannot be written."""
        write_whole(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan file; raise `InputError` for anything else. The seal is not judged here: `check` does."""
        text = read_text(Path(path), "plan")
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise InputError(
                str(path), [Finding(str(path), "", f"is not JSON ({error})", "give a plan written by `rollplan plan -o`")]
            ) from None
        except RecursionError:
            raise InputError(
                str(path), [Finding(str(path), "", "is nested too deeply", "give a plan written by `rollplan plan -o`")]
            ) from None
        if not isinstance(raw, dict) or not str(raw.get("format", "")).startswith("rollplan/plan/"):
            raise InputError(str(path), [Finding(str(path), "", "is not a plan", "give a plan written by `rollplan plan -o`")])
        origin = raw.get("scenario")
        content = origin.get("content") if isinstance(origin, dict) else None
        read = tuples(raw)
        if isinstance(read, dict) and isinstance(origin, dict):
            # The scenario inside is plain data for a reader of its own.
            read = {**read, "scenario": {**read["scenario"], **({"content": content} if "content" in origin else {})}}
        return cls.build(read, str(path))


def canonical(data: object) -> str:
    """Return the one text of plain data: keys sorted, fixed layout."""
    return json.dumps(data, sort_keys=True, indent=1, allow_nan=False) + "\n"
