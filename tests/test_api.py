"""The library as Python code uses it: the same answers as the command line, and scenarios that mean what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollplan import InfeasibleError, InputError, Limits, NoSolutionError, Plan, RollplanError, Scenario, check, diff, plan
from rollplan.planner.colocation import METHODS, Method

Call = Callable[..., Any]


@pytest.fixture
def scenario(scenario_text: str) -> Scenario:
    """The small scenario."""
    return Scenario.from_yaml(scenario_text)


# The command line and the library.


@pytest.mark.parametrize("method", METHODS)
def test_command_line_and_library_make_the_same_plan(cli: Call, scenario_file: Path, method: Method) -> None:
    """To the byte, for every method."""
    assert cli("plan", "scenario.yaml", "--method", method, "--seed", "3", "-o", "plan.json").code == 0
    assert plan(Scenario.load("scenario.yaml"), method, seed=3).to_json() == Path("plan.json").read_text()


@pytest.mark.parametrize("method", METHODS)
def test_command_line_and_library_give_the_same_report(cli: Call, scenario_file: Path, method: Method) -> None:
    """Every field of it."""
    cli("plan", "scenario.yaml", "--method", method, "-o", "plan.json")
    report = check(Scenario.load("scenario.yaml"), Plan.load("plan.json"))
    shown = json.loads(cli("check", "scenario.yaml", "plan.json", "--json").out)
    assert report.valid
    assert {key: shown[key] for key in asdict(report)} == json.loads(json.dumps(asdict(report)))


def test_limits_reach_the_plan(scenario: Scenario) -> None:
    """Node limit and target gap are part of what makes a run repeatable, so the plan records them."""
    settings = plan(scenario, limits=Limits(node_limit=7, target_gap=0.25), seed=11).settings
    assert (settings.node_limit, settings.target_gap, settings.seed, settings.method) == (7, 0.25, 11, "exact")


def test_exact_is_never_dearer_than_a_heuristic(scenario: Scenario) -> None:
    """It starts from the best of them."""
    cost = {method: plan(scenario, method).cost_per_h for method in METHODS}
    assert cost["exact"] == min(cost.values())


def test_progress_is_reported_to_whoever_asks(scenario: Scenario) -> None:
    """Incumbent and bound in $/h; the bound never passes the incumbent."""
    seen: list[tuple[float, float | None]] = []
    made = plan(scenario, report=lambda value, bound: seen.append((value, bound)))
    assert made.certificate is not None
    assert min(value for value, _ in seen) == made.certificate.value
    assert all(bound is None or bound <= value * (1 + 1e-9) for value, bound in seen)


def test_every_error_is_a_rollplan_error() -> None:
    """One except clause is enough."""
    assert all(issubclass(error, RollplanError) for error in (InputError, InfeasibleError, NoSolutionError))


def test_input_error_carries_its_findings(scenario_text: str) -> None:
    """Programs read fields, people the message."""
    with pytest.raises(InputError) as caught:
        Scenario.from_yaml(scenario_text.replace("133 s", "133").replace("slo: 1.5", "slo: 0"), "ours.yaml")
    assert [finding.path for finding in caught.value.findings] == ["jobs[0].rollout.time.worst", "jobs[2].slo"]
    assert str(caught.value).startswith("ours.yaml: 2 faults\n  jobs[0].rollout.time.worst = `133`: has no unit; ")


def test_infeasible_error_carries_its_reasons(scenario_text: str) -> None:
    """In terms of the input."""
    with pytest.raises(InfeasibleError) as caught:
        plan(Scenario.from_yaml(scenario_text.replace("memory: 100 GB", "memory: 1 TB")))
    assert [reason.partition(":")[0] for reason in caught.value.reasons] == ["job tool"]


# Reading scenarios, saving plans.


def test_load_from_yaml_and_from_dict_agree(scenario_file: Path, scenario_text: str) -> None:
    """Three doors into the same room."""
    raw = yaml.safe_load(scenario_text)
    assert Scenario.load(scenario_file) == Scenario.from_yaml(scenario_text) == Scenario.from_dict(raw)


def test_a_scenario_may_come_from_json(scenario_text: str) -> None:
    """There the GPU counts of a split's tables are text."""
    raw = yaml.safe_load(scenario_text)
    assert Scenario.from_dict(json.loads(json.dumps(raw))) == Scenario.from_dict(raw)


def test_building_a_scenario_leaves_the_data_alone(scenario_text: str) -> None:
    """A dictionary of the caller stays the caller's."""
    raw = yaml.safe_load(scenario_text)
    Scenario.from_dict(raw)
    assert raw == yaml.safe_load(scenario_text)


SAME = {
    "comments": ("name: small", "# ours\nname: small  # of four jobs"),
    "another unit of time": ("1.5 min", "90 s"),
    "milliseconds": ("133 s", "133000 ms"),
    "another unit of bandwidth": ("20 Gbps", "2.5 GB/s"),
    "no space before the unit": ("133 s", "133s"),
    "order of keys": ("slo: 2, rollout: 133 s", "rollout: 133 s, slo: 2"),
    "a default written out": ("sync: 3 s", "sync: 3 s\n    gang: false"),
    "a time written out": ("rollout: 133 s", "rollout: {time: {worst: 133 s}, nodes: 1}"),
    "quotes": ("name: small", "'name': \"small\""),
}


@pytest.mark.parametrize(("old", "new"), SAME.values(), ids=SAME)
def test_the_hash_does_not_see_spelling(scenario_text: str, old: str, new: str) -> None:
    """A plan stays valid when somebody tidies the file."""
    assert Scenario.from_yaml(scenario_text.replace(old, new)).sha256() == Scenario.from_yaml(scenario_text).sha256()


DIFFERENT = {
    "a time": ("133 s", "133.001 s"),
    "an SLO": ("slo: 1.5", "slo: 1.51"),
    "a price": ("1.85 $/h", "1.86 $/h"),
    "a limit": ("900 GB, nodes: 8}\nlinks", "900 GB}\nlinks"),
    "memory in other bytes": ("memory: 100 GB", "memory: 100 GiB"),
    "a rule": ("name: small", "name: small\nmax_group_size: 4"),
    "which side the sync holds": ("name: small", "name: small\nsync_holds: rollout"),
    "a table": ("8: 55 s", "8: 56 s"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), DIFFERENT.values(), ids=DIFFERENT)
def test_the_hash_sees_meaning(scenario_text: str, old: str, new: str) -> None:
    """Whatever could change the plan."""
    assert scenario_text.count(old) == 1
    assert Scenario.from_yaml(scenario_text.replace(old, new)).sha256() != Scenario.from_yaml(scenario_text).sha256()


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_comes_back_from_its_file_as_it_was(scenario: Scenario, folder: Path, method: Method) -> None:
    """Equal as data and as bytes."""
    made = plan(scenario, method)
    made.save("plan.json")
    again = Plan.load("plan.json")
    assert again == made
    again.save("again.json")
    assert Path("again.json").read_bytes() == Path("plan.json").read_bytes()
    assert diff(made, again) == ()


def test_plans_and_scenarios_cannot_be_changed(scenario: Scenario) -> None:
    """A changed copy is a new object, so a checked plan stays checked."""
    made = plan(scenario, "lossless")
    with pytest.raises(ValueError, match="frozen"):
        made.cost_per_h = 0.0
    with pytest.raises(ValueError, match="frozen"):
        scenario.name = "other"
