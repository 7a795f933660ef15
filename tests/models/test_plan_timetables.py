"""Plans whose groups have timetables, from the scenario to `check`, and what `check` says of timetables that were changed."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from rollplan import InputError, Plan, Scenario, check, plan

POOLS = """\
overheads: zero
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 2 TB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 2 TB}
"""
LONG_AND_SHORT = f"""\
name: fig_10b
max_rate: 4
{POOLS}jobs:
  - {{name: E, slo: 1.1, sync: 0 s, rollout: {{time: 746 s, memory: 100 GB}}, train: {{time: 124 s, memory: 100 GB}}}}
  - {{name: D1, slo: 1.1, sync: 0 s, rollout: {{time: 314 s, memory: 100 GB}}, train: {{time: 118 s, memory: 100 GB}}}}
  - {{name: D2, slo: 1.1, sync: 0 s, rollout: {{time: 314 s, memory: 100 GB}}, train: {{time: 118 s, memory: 100 GB}}}}
"""
GANGS = f"""\
name: gangs
{POOLS}jobs:
  - {{name: a, gang: true, slo: 3, sync: 0 s, rollout: {{time: 100 s, nodes: 2, memory: 900 GB}}, train: {{time: 10 s, memory: 100 GB}}}}
  - {{name: b, gang: true, slo: 3, sync: 0 s, rollout: {{time: 100 s, nodes: 2, memory: 900 GB}}, train: {{time: 10 s, memory: 100 GB}}}}
  - {{name: c, gang: true, slo: 3, sync: 0 s, rollout: {{time: 100 s, nodes: 2, memory: 900 GB}}, train: {{time: 10 s, memory: 100 GB}}}}
"""


@cache
def made(text: str) -> tuple[Scenario, Plan]:
    scenario = Scenario.from_yaml(text)
    return scenario, plan(scenario)


def changed(whole: Plan, group: int = 0, **keys: Any) -> dict[str, Any]:
    """The plan as data, with other keys in one group."""
    content = deepcopy(whole.model_dump(mode="json"))
    content["groups"][group].update(keys)
    return content


def read(content: dict[str, Any]) -> Plan:
    from rollplan.models.strict import tuples

    original = content["scenario"]["content"]
    data = tuples(content)
    assert isinstance(data, dict)
    return Plan.build({**data, "scenario": {**data["scenario"], "content": original}}, "test").sealed()


def test_a_long_job_and_two_short_ones_share_a_trainer_at_different_rates() -> None:
    """RollMux's Fig. 10b with SLO 1.1: 86.64 $/h, one group, the short jobs twice per period of 870 s; 128.88 in strict round robin."""
    scenario, whole = made(LONG_AND_SHORT)
    assert whole.cost_per_h == 86.64
    (group,) = whole.groups
    assert {job.name: job.iterations for job in group.jobs} == {"E": 1, "D1": 2, "D2": 2}
    assert group.period_s == pytest.approx(870)
    assert {job.name: round(job.slowdown, 3) for job in group.jobs} == {"E": 1.0, "D1": 1.007, "D2": 1.007}
    report = check(scenario, whole)
    assert (report.faults, report.checked_gap) == ((), 0.0)
    strict = Scenario.from_yaml(LONG_AND_SHORT.replace("max_rate: 4", "max_rate: 1"))
    assert plan(strict).cost_per_h == 128.88


def test_gangs_that_share_nodes_have_a_timetable_that_check_accepts() -> None:
    """Memory lets two of three jobs share a node: three nodes would do by load, each gang starts on both of its nodes at once."""
    scenario, whole = made(GANGS)
    assert check(scenario, whole).faults == ()
    shared = [group for group in whole.groups if len(group.jobs) > 1]
    assert shared
    for group in shared:
        assert all(len(set(run.rollout_at_s)) == 1 for job in group.jobs for run in job.runs)
        assert all(job.runs for job in group.jobs)


@pytest.mark.parametrize(
    ("text", "change"),
    [(LONG_AND_SHORT, "late"), *((text, change) for text in (LONG_AND_SHORT, GANGS) for change in ("early", "twice", "none", "period"))],
)
def test_a_timetable_that_was_changed_is_found(text: str, change: str) -> None:
    """With a new seal: `check` replays it."""
    scenario, whole = made(text)
    number = next(i for i, group in enumerate(whole.groups) if len(group.jobs) > 1)
    content = changed(whole, number)
    group = content["groups"][number]
    runs = group["jobs"][1]["runs"]
    match change:
        case "early":
            runs[0]["rollout_at_s"][0] -= 1.0
        case "late":
            runs[0]["train_at_s"] += 1.0
        case "twice":
            runs.append(deepcopy(runs[0]))
        case "none":
            runs.clear()
        case _:
            group["period_s"] *= 0.9
    assert check(scenario, read(content)).faults


def test_a_run_without_a_start_for_each_node_is_refused_when_the_plan_is_read() -> None:
    """Whatever reads a plan may count on it."""
    _, whole = made(GANGS)
    number = next(i for i, group in enumerate(whole.groups) if len(group.jobs) > 1)
    content = changed(whole, number)
    content["groups"][number]["jobs"][0]["runs"][0]["rollout_at_s"].pop()
    with pytest.raises(InputError, match="without one start for each"):
        read(content)
