"""What tests of a run are made of: a scenario with programs, its plan, and records as a driver would tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rollplan.executor.core.records import Record, RecordKind, Remark
from rollplan.executor.core.runbook import JobRun, Predicted, Resource, Runbook
from rollplan.executor.supervise import Ended
from rollplan.models.plan import Plan
from rollplan.models.scenario import Scenario
from rollplan.planner.compose import plan as compose

SCENARIO = """\
name: two
pools:
  r: {role: rollout, gpu: CPU, gpus_per_node: 1, price: 1 $/h, memory: 4 GiB, nodes: 2}
  t: {role: train, gpu: CPU, gpus_per_node: 1, price: 3 $/h, memory: 4 GiB, nodes: 2}
jobs:
  - name: a
    slo: 2
    responses: 64
    rollout: {time: {worst: 8 s, expected: 6 s}, memory: 1 GiB, switch: 1 s}
    train: {time: {worst: 4 s, expected: 3 s}, memory: 1.5 GiB, switch: 0.5 s}
    sync: 1 s
    program: {module: rollplan.executor.programs.sleep, iterations: 4, settings: {fake: FAKE}}
  - name: b
    slo: 2
    rollout: {time: {worst: 8 s, expected: 6 s}, memory: 1 GiB, switch: 1 s}
    train: {time: {worst: 4 s, expected: 3 s}, memory: 1.5 GiB, switch: 0.5 s}
    sync: 1 s
    program: {module: rollplan.executor.programs.sleep, iterations: 4, samples: 10, ranks: 2, fill: 5, hang_after: 2 min}
"""


def planned(text: str = SCENARIO, fake: str = "''") -> Plan:
    """Return the plan of a scenario."""
    return compose(Scenario.from_yaml(text.replace("FAKE", fake)))


PREDICTED = Predicted(6.0, 3.0, 1.0, 0.5, 1.0, 14.0, 11.5)


def a_job(name: str = "a", **changes: Any) -> JobRun:
    """Return a job on the one rollout node and the one training node of its group."""
    job = JobRun(name, "g1", "module", 4, 8, ("g1/rollout-0",), "g1/train", PREDICTED)
    return replace(job, **changes)


def a_runbook(*jobs: JobRun, **changes: Any) -> Runbook:
    """Return a runbook of one group."""
    jobs = jobs or (a_job(),)
    names = tuple(job.name for job in jobs)
    rollouts = dict.fromkeys(name for job in jobs for name in job.rollout)
    resources = (
        *(Resource(name, "r", "rollout", names, 1, 1, 4.0) for name in rollouts),
        Resource("g1/train", "t", "train", names, 1, 1, 4.0),
    )
    return replace(Runbook("0" * 64, "round-robin", resources, jobs), **changes)


def record(kind: RecordKind, start_s: float, end_s: float, iteration: int = 0, **changes: Any) -> Record:
    """Return a record of job a, where its kind belongs."""
    resource = changes.pop("resource", "g1/rollout-0" if kind == "rollout" else "g1/train")
    return Record(changes.pop("job", "a"), resource, kind, iteration, start_s, end_s, **changes)


def executed(iterations: int, period_s: float = 15.0, job: str = "a", from_s: float = 2.0) -> list[Record]:
    """Return serial iterations: load 0.5, rollout 6, off-load 0.5; load 0.25, train 3, save 0.5, off-load 0.25; sync 1 s."""
    found = [record("start", 0.0, from_s, resource=resource, job=job) for resource in ("g1/rollout-0", "g1/train")]
    phases: Sequence[tuple[RecordKind, float, str]] = (
        ("load", 0.5, "g1/rollout-0"), ("rollout", 6.0, "g1/rollout-0"), ("offload", 0.5, "g1/rollout-0"),
        ("load", 0.25, "g1/train"), ("train", 3.0, "g1/train"), ("save", 0.5, "g1/train"), ("offload", 0.25, "g1/train"),
        ("sync", 1.0, "g1/train"),
    )  # fmt: skip
    for number in range(iterations):
        now = from_s + number * period_s
        for kind, seconds, resource in phases:
            values = {"samples": 8.0, "tokens": 800.0} if kind == "rollout" else {"reward": 0.1 * number} if kind == "train" else {}
            found.append(record(kind, now, now + seconds, number, resource=resource, job=job, values=values))
            now += seconds
    return found


def ended(records: Iterable[Record], remarks: Sequence[Remark] = (), state: Mapping[str, Any] | None = None, **changes: Any) -> Ended:
    """Return a run that is over."""
    return replace(Ended(tuple(records), tuple(remarks), (), "finished", state or {}, 1), **changes)
