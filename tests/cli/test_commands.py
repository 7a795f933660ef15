"""The verbs as users and scripts call them: what they print, what they leave, with which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rollplan import Plan

Call = Callable[..., Any]


@pytest.fixture
def plan_file(cli: Call, scenario_file: Path) -> Path:
    """A plan of the small scenario in plan.json."""
    assert cli("plan", "scenario.yaml", "-o", "plan.json").code == 0
    return scenario_file.with_name("plan.json")


def files(folder: Path) -> set[str]:
    """Return the names in a folder, temporary files included."""
    return {entry.name for entry in folder.iterdir()}


# plan


def test_plan_prints_cost_bound_and_groups_and_keeps_progress_off_stdout(cli: Call, scenario_file: Path) -> None:
    """The first screen says what it costs, how good that is, and who shares nodes with whom."""
    outcome = cli("plan", "scenario.yaml")
    assert outcome.code == 0
    assert all(word in outcome.out for word in ("small", "242.96 $/h", "185.92 $/h", "proven optimal", "chat", "code", "split alone"))
    assert "incumbent" in outcome.err
    assert "incumbent" not in outcome.out
    assert files(scenario_file.parent) == {"scenario.yaml"}


def test_plan_json_is_the_plan_file_and_nothing_else(cli: Call, plan_file: Path) -> None:
    """`rollplan plan --json > plan.json` and `-o plan.json` write the same bytes."""
    outcome = cli("plan", "scenario.yaml", "--json")
    assert (outcome.code, outcome.out) == (0, plan_file.read_text())


def test_quiet_plan_says_nothing_on_stderr(cli: Call, scenario_file: Path) -> None:
    """For logs and pipes."""
    assert cli("plan", "scenario.yaml", "-q").err == ""


def test_saved_plan_is_announced_with_the_command_that_checks_it(cli: Call, folder: Path, scenario_text: str) -> None:
    """The line can be pasted into a shell, whatever the files are called."""
    (folder / "my scenario.yaml").write_text(scenario_text)
    outcome = cli("plan", "my scenario.yaml", "-o", "my plan.json")
    assert "(rollplan check 'my scenario.yaml' 'my plan.json')" in outcome.out
    assert files(folder) == {"my scenario.yaml", "my plan.json"}


def test_plan_overwrites_an_older_plan_but_not_the_link_to_it(cli: Call, plan_file: Path) -> None:
    """People keep `latest.json` as a link."""
    before = plan_file.read_text()
    link = plan_file.with_name("latest.json")
    link.symlink_to("plan.json")
    assert cli("plan", "scenario.yaml", "--method", "solo", "-o", "latest.json").code == 0
    assert link.is_symlink()
    assert plan_file.read_text() != before


@pytest.mark.parametrize("method", ["exact", "lossless", "paper", "greedy", "random", "solo"])
def test_every_method_makes_a_plan_that_check_accepts(cli: Call, scenario_file: Path, method: str) -> None:
    """A heuristic's plan is a plan, with a bound that says how good it is."""
    assert cli("plan", "scenario.yaml", "--method", method, "-o", "plan.json").code == 0
    assert cli("check", "scenario.yaml", "plan.json").code == 0


def test_no_time_at_all_still_gives_a_heuristic_plan(cli: Call, scenario_file: Path) -> None:
    """A time limit keeps the best plan found, and the heuristics need none."""
    assert cli("plan", "scenario.yaml", "--time-limit", "0", "-o", "plan.json").code == 0
    assert "the search was stopped by the time limit" in Plan.load("plan.json").warnings[-1]
    assert cli("check", "scenario.yaml", "plan.json").code == 0


def test_a_heuristic_that_finds_no_room_leaves_with_4(cli: Call, scenario_file: Path, scenario_text: str) -> None:
    """The exact search may still find a plan, so the scenario is not called infeasible."""
    scenario_file.write_text(scenario_text.replace("nodes: 8}", "nodes: 5}"))
    outcome = cli("plan", "scenario.yaml", "--method", "solo", "-o", "plan.json")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.startswith("error: method solo found no plan within the pools' nodes; method exact may find one")
    assert files(scenario_file.parent) == {"scenario.yaml"}


# check


def test_check_shows_the_checked_bound_beside_the_claimed_one(cli: Call, plan_file: Path) -> None:
    """A claim of the solver is never shown as proven here."""
    outcome = cli("check", "scenario.yaml", "plan.json")
    assert outcome.code == 0
    assert all(f"\n  {word} " in outcome.out for word in ("value", "checked", "claimed", "gap"))
    assert outcome.err == ""


def test_check_json_holds_the_verdict(cli: Call, plan_file: Path) -> None:
    """CI reads keys, not sentences."""
    verdict = json.loads(cli("check", "scenario.yaml", "plan.json", "--max-gap", "50%", "--json").out)
    keys = {"checked", "checked_gap", "claimed_bound", "faults", "max_gap", "notes", "valid", "value", "within_max_gap"}
    assert verdict.keys() == keys
    assert (verdict["valid"], verdict["max_gap"], verdict["within_max_gap"], verdict["faults"]) == (True, 0.5, True, [])


@pytest.mark.parametrize(("allowed", "code"), [("1%", 1), ("0.01", 1), ("60%", 0), ("0.6", 0)])
def test_check_fails_when_the_checked_gap_is_too_large(cli: Call, scenario_file: Path, allowed: str, code: int) -> None:
    """The plan is valid, but the answer to `is it good enough?` is no."""
    assert cli("plan", "scenario.yaml", "--method", "solo", "-o", "plan.json").code == 0
    outcome = cli("check", "scenario.yaml", "plan.json", "--max-gap", allowed)
    assert outcome.code == code
    assert ("TOO LARGE" in outcome.out) == bool(code)


def test_check_without_time_proves_the_fluid_bound_only(cli: Call, scenario_file: Path, scenario_text: str) -> None:
    """The proof is cut short, the plan stays valid; few jobs would be searched in no time, so there are many."""
    more = "".join(f"  - {{name: j{number}, size: 7B, slo: 2, rollout: 133 s, train: 70 s}}\n" for number in range(20))
    scenario_file.write_text(scenario_text.replace("nodes: 8}", "nodes: 80}").replace("jobs:\n", f"jobs:\n{more}"))
    assert cli("plan", "scenario.yaml", "--method", "lossless", "-o", "plan.json").code == 0
    verdict = json.loads(cli("check", "scenario.yaml", "plan.json", "--time-limit", "0", "--json").out)
    assert (verdict["valid"], verdict["checked"]["proof"]) == (True, "fluid")
    assert "stopped" in verdict["checked"]["note"]


@pytest.mark.parametrize(
    ("old", "new"), [("133 s", "134 s"), ("1.85 $/h", "1.86 $/h"), ("slo: 1\n", "slo: 1.1\n"), ("name: small", "name: smaller")]
)
def test_check_refuses_the_plan_of_a_changed_scenario(cli: Call, plan_file: Path, scenario_text: str, old: str, new: str) -> None:
    """Whatever changed its meaning."""
    plan_file.with_name("scenario.yaml").write_text(scenario_text.replace(old, new))
    outcome = cli("check", "scenario.yaml", "plan.json")
    assert outcome.code == 1
    assert "NOT VALID" in outcome.out
    assert "the plan was made from another scenario" in outcome.out


def test_check_says_first_that_the_plan_is_of_another_scenario(cli: Call, plan_file: Path, scenario_text: str) -> None:
    """And does not list every number that is wrong then; scripts get all of them."""
    changed = scenario_text.replace("133 s", "134 s").replace("1.85 $/h", "1.86 $/h").replace("slo: 1\n", "slo: 1.1\n")
    plan_file.with_name("scenario.yaml").write_text(changed)
    outcome = cli("check", "scenario.yaml", "plan.json")
    data = cli("check", "scenario.yaml", "plan.json", "--json")
    faults = json.loads(data.out)["faults"]
    assert (outcome.code, data.code) == (1, 1)
    shown = [line for line in outcome.out.splitlines() if line.startswith("  fault")]
    assert len(faults) > len(shown) == 4
    assert "the plan was made from another scenario" in shown[0]
    assert outcome.out.splitlines()[-1].strip() == f"... and {len(faults) - 4} more (--json has all)"


def test_check_of_the_same_scenario_shows_every_fault(cli: Call, plan_file: Path) -> None:
    """Each of them may be the one that matters."""
    data = json.loads(plan_file.read_text())
    for pool in data["pools"].values():
        pool.update(cost_per_h=0.0, gpus=1, nodes=1, price_per_node_h=1.0)
    plan_file.write_text(json.dumps(data))
    outcome = cli("check", "scenario.yaml", "plan.json")
    assert outcome.code == 1
    assert sum(line.startswith("  fault") for line in outcome.out.splitlines()) == 9
    assert "more (--json" not in outcome.out


def test_check_accepts_the_plan_after_changes_that_mean_nothing(cli: Call, plan_file: Path, scenario_text: str) -> None:
    """Comments, units and the order of keys are spelling."""
    plan_file.with_name("scenario.yaml").write_text(
        "# ours\n" + scenario_text.replace("1.5 min", "90 s").replace("slo: 2, rollout: 133 s", "rollout: 133 s, slo: 2")
    )
    assert cli("check", "scenario.yaml", "plan.json").code == 0


# explain, diff, schema


def test_explain_says_what_binds_each_group(cli: Call, plan_file: Path) -> None:
    """As a screen, and by group for machines."""
    screen, data = cli("explain", "plan.json"), json.loads(cli("explain", "plan.json", "--json").out)
    assert (screen.code, screen.err) == (0, "")
    assert data["groups"].keys() == {group.name for group in Plan.load("plan.json").groups}
    assert all("sets the period of" in sentence for sentence in data["groups"].values())


def test_explain_job_names_company_and_alternatives(cli: Call, plan_file: Path) -> None:
    """Every other group is either possible at a price, or excluded by a named limit."""
    assert cli("explain", "plan.json", "--job", "tool").out.startswith("tool is in ")
    reason = json.loads(cli("explain", "plan.json", "--job", "tool", "--json").out)
    assert reason.keys() == {"alone_extra_per_h", "alternatives", "better", "group", "job", "proof"}
    assert len(reason["alternatives"]) == len(Plan.load("plan.json").groups) - 1


def test_diff_of_equal_plans_is_empty(cli: Call, plan_file: Path) -> None:
    """Also with --exit-code, which scripts use."""
    assert cli("diff", "plan.json", "plan.json", "--exit-code").out == "no differences\n"
    outcome = cli("diff", "plan.json", "plan.json", "--exit-code", "--json")
    assert (outcome.code, json.loads(outcome.out)) == (0, [])


def test_diff_names_what_changed_and_leaves_with_1_only_if_asked(cli: Call, plan_file: Path) -> None:
    """Both sides stand in the line."""
    assert cli("plan", "scenario.yaml", "--method", "solo", "-o", "solo.json").code == 0
    outcome = cli("diff", "plan.json", "solo.json")
    assert outcome.code == 0
    assert "cost total: 242.96 $/h -> 300.00 $/h" in outcome.out.splitlines()
    asked = cli("diff", "plan.json", "solo.json", "--exit-code", "--json")
    assert asked.code == 1
    assert {"kind": "cost", "name": "total", "new": "300.00 $/h", "old": "242.96 $/h"} in json.loads(asked.out)


def json_schema(cli: Call, file: str) -> Any:
    """Return the printed schema, itself valid."""
    schema = json.loads(cli("schema", file).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


def as_json(value: Any) -> Any:
    """Return YAML data as JSON has it: keys are text."""
    return json.loads(json.dumps(value))


def test_scenarios_validate_against_the_printed_schema(cli: Call, scenario_text: str) -> None:
    """Editors complete and check scenario files with it."""
    jsonschema.validate(as_json(yaml.safe_load(scenario_text)), json_schema(cli, "scenario"))


@pytest.mark.parametrize(
    ("old", "new"), [("133 s", "133"), ("size: 14B", "sise: 14B"), ("slo: 1.5", "slo: 0.5"), ("role: train", "role: both")]
)
def test_wrong_scenarios_fail_against_the_printed_schema(cli: Call, scenario_text: str, old: str, new: str) -> None:
    """A schema that accepts everything would be no help."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_json(yaml.safe_load(scenario_text.replace(old, new))), json_schema(cli, "scenario"))


EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").rglob("*.yaml") if "pools:" in path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_examples_validate_against_the_printed_schema(cli: Call, path: Path) -> None:
    """What the examples write, the schema must know."""
    jsonschema.validate(as_json(yaml.safe_load(path.read_text())), json_schema(cli, "scenario"))


def test_plans_validate_against_the_printed_schema(cli: Call, plan_file: Path) -> None:
    """Other tools read plans."""
    jsonschema.validate(json.loads(plan_file.read_text()), json_schema(cli, "plan"))
