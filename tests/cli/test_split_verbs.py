"""The verbs for one job as users and scripts call them: `split`, `fit`, `dispatch`, `what-if`, and splits in the others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rollplan import Plan, Scenario
from rollplan.models.layout import Layout
from rollplan.planner.compose import plan_splits
from rollplan.planner.dispatch.job import dispatch_job
from rollplan.planner.fit import fit
from rollplan.planner.what_if import what_if

Call = Callable[..., Any]

SCENARIO, SEVERAL = (Path(__file__).with_name(f"split_{name}.yaml").read_text() for name in ("one", "several"))
NOTHING_FITS = SCENARIO.replace("Qwen3-0.6B", "Qwen2.5-72B")


@pytest.fixture
def one(folder: Path) -> Scenario:
    """One job with a model, in one.yaml."""
    (folder / "one.yaml").write_text(SCENARIO)
    return Scenario.from_yaml(SCENARIO)


@pytest.fixture
def several(folder: Path) -> Scenario:
    """Two jobs to be co-located, two splits from a model and one from tables, in several.yaml."""
    (folder / "several.yaml").write_text(SEVERAL)
    return Scenario.from_yaml(SEVERAL)


@pytest.fixture
def plan_file(cli: Call, one: Scenario) -> Path:
    """The plan of one.yaml in one.json."""
    assert cli("plan", "one.yaml", "-o", "one.json", "-q").code == 0
    return Path("one.json")


def in_json(value: Any) -> Any:
    """Return Python data as JSON has it."""
    return json.loads(json.dumps(value))


def told(outcome: Any) -> Any:
    """Return the JSON on stdout of a run that went well and said nothing else."""
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == json.dumps(json.loads(outcome.out), sort_keys=True, indent=1) + "\n"
    return json.loads(outcome.out)


# split


def test_split_says_who_binds_what_fits_and_what_comes_next(cli: Call, one: Scenario) -> None:
    """The first screen of one job."""
    outcome = cli("split", "one.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("split grpo   ")
    words = ("step", "cost", "binds", "this plan", "next best", "even split", "7+1", "colocated", "fewest GPUs", "front grpo", "numbers")
    assert [word for word in words if word not in outcome.out] == []
    assert "of 80 GiB" in outcome.out


def test_split_json_is_what_the_planner_returns(cli: Call, one: Scenario) -> None:
    """A list, because a scenario may have several splits; the same as in a plan."""
    found = told(cli("split", "one.yaml", "--json"))
    assert found == [in_json(split.model_dump(mode="json")) for split in plan_splits(one)]
    assert found == told(cli("plan", "one.yaml", "--json", "-q"))["splits"]


def test_split_shows_every_split_and_no_other_job(cli: Call, several: Scenario) -> None:
    """In the order of the scenario."""
    assert re.findall(r"^split (\S+)", cli("split", "several.yaml").out, re.MULTILINE) == ["grpo", "dapo", "tables"]
    assert [split["name"] for split in told(cli("split", "several.yaml", "--json"))] == ["grpo", "dapo", "tables"]


def test_split_job_shows_that_one_alone(cli: Call, several: Scenario) -> None:
    """With the same numbers as among the others."""
    everything = told(cli("split", "several.yaml", "--json"))
    assert told(cli("split", "several.yaml", "--job", "dapo", "--json")) == everything[1:2]
    assert re.findall(r"^split (\S+)", cli("split", "several.yaml", "--job", "tables").out, re.MULTILINE) == ["tables"]


def test_split_says_when_no_plan_keeps_the_target(cli: Call, folder: Path) -> None:
    """Silence would look like a target that is kept."""
    (folder / "one.yaml").write_text(SCENARIO.replace("target: 60 s", "target: 1 ms"))
    assert "no plan keeps 0.001 s per iteration, the fastest takes" in cli("split", "one.yaml").out


TABLES = """\
name: tables
pools:
  h20: {gpu: H20, price: 1.85 $/h, memory: 2 TB, nodes: 8}
  h800: {gpu: H800, price: 5.28 $/h, memory: 2 TB, nodes: 6}
jobs:
  - name: coder
    split:
      target: 60 s
      budget: {h20: 32, h800: 16}
      pipelining: [serial]
      rollout:
        h20: {8: 310 s, 16: 156 s, 32: 78 s}
      train:
        h800: {16: 100 s, 32: 52 s}
  - name: other
    split:
      budget: {h20: 32, h800: 32}
      rollout:
        h20: {32: 80 s}
      train:
        h800: {32: 50 s}
"""
MISSED = {
    "60 s": ["target: 60 s per iteration (target: 178 s would do)"],
    "80 s": ["budget.h800: 16 GPUs (no value alone is known to be enough)", "target: 80 s per iteration (target: 178 s would do)"],
    "150 s": [
        "pipelining: serial (one-step or async-batch or async-streamed would do)",
        "budget.h800: 16 GPUs (budget.h800: 32 would do, with nodes: 8 of pool h800)",
        "target: 150 s per iteration (target: 178 s would do)",
    ],
}


@pytest.mark.parametrize("target", MISSED)
def test_explain_says_what_is_in_the_way_of_a_target(cli: Call, folder: Path, target: str) -> None:
    """By hand: 78 + 100 s in turn, 78 + 52 s with more training GPUs, 78 s without waiting; the other job has 4 nodes. The plan is made."""
    (folder / "tables.yaml").write_text(TABLES.replace("60 s", target))
    outcome = cli("plan", "tables.yaml", "-o", "plan.json")
    assert (outcome.code, f"no plan keeps {target} per iteration, the fastest takes 178 s" in outcome.out) == (0, True)
    assert cli("check", "tables.yaml", "plan.json").code == 0
    because = told(cli("explain", "plan.json", "--json"))["targets"]["coder"]
    assert because[1:] == MISSED[target]
    assert "  because   target: " in cli("explain", "plan.json").out


# fit


def test_fit_shows_the_arithmetic_of_every_peak(cli: Call, one: Scenario) -> None:
    """Bytes per parameter times parameters, so that a reader can follow."""
    outcome = cli("fit", "one.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("grpo   fits\n")
    assert re.search(r"train +optimizer +\d+\.\d +\S+ parameters x 12 bytes", outcome.out)
    assert "rollout GPU: " in outcome.out
    assert "fewest" in outcome.out


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"colocated": True},
        {"rollout": Layout(tp=2, dp=4)},
        {"train": Layout(dp=4)},
        {"rollout": Layout(tp=2), "train": Layout(dp=2), "colocated": True},
    ],
    ids=str,
)
def test_fit_json_is_the_bill(cli: Call, one: Scenario, options: dict[str, Any]) -> None:
    """Every number of the Python object, for the layouts that were given."""
    arguments = [text for name, value in options.items() for text in ([f"--{name}"] if value is True else [f"--{name}", str(value)])]
    data, found = told(cli("fit", "one.yaml", "--json", *arguments)), fit(one, **options)
    keys = "explanation fits hopeless job layouts lines minimum options peaks pools reasons tight"
    assert sorted(data) == keys.split()
    assert (data["job"], data["fits"], data["tight"], data["explanation"]) == ("grpo", found.bill.fits, found.bill.tight, found.sentence)
    assert data["layouts"] == {role: str(model.layout) for role, model in found.setup.roles.items()}
    assert data["pools"] == dict(found.pools)
    assert [peak["gib"] for peak in data["peaks"]] == [peak.gib for peak in (*found.bill.peaks, *found.bill.host_peaks)]
    assert [line["formula"] for line in data["lines"]] == [line.formula for line in found.bill.lines]
    gpus = [None if setup is None else setup.gpus for setup in (found.minimum.separate, found.minimum.shared)]
    assert [data["minimum"]["separate"], data["minimum"]["shared"]] == gpus


def test_fit_leaves_with_3_if_it_does_not_fit_and_says_what_would(cli: Call, folder: Path) -> None:
    """The bill is on stdout all the same: it is the answer."""
    (folder / "one.yaml").write_text(NOTHING_FITS)
    outcome = cli("fit", "one.yaml")
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.out.startswith("grpo   does not fit\n")
    assert "GiB too much" in outcome.out
    assert "fits if" in outcome.out
    data = cli("fit", "one.yaml", "--json")
    assert data.code == 3
    assert json.loads(data.out)["fits"] is False
    assert json.loads(data.out)["reasons"]
    assert json.loads(data.out)["options"]


# dispatch


def test_dispatch_shows_every_method_beside_the_bound(cli: Call, one: Scenario) -> None:
    """What the naive dispatch takes, what the best takes, and what none can undercut."""
    outcome = cli("dispatch", "one.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.match(r"dispatch grpo   32 samples on (1 instance|\d+ instances) of ", outcome.out)
    assert "no dispatch takes less than" in outcome.out
    assert [word for word in ("even", "even+lpt", "snake", "contiguous", "improved") if word not in outcome.out] == []


def test_dispatch_json_is_the_dispatch(cli: Call, one: Scenario) -> None:
    """With the order of every instance, so that another program can follow it."""
    data = told(cli("dispatch", "one.yaml", "--instances", "2", "--recall", "0.5", "--seed", "4", "--json"))
    found = dispatch_job(one, instances=2, recall=0.5, seed=4)
    keys = "bound_s gap instances job kv_tokens layout makespan_s methods orders output_tokens pool proof recall slots stopped"
    assert sorted(data) == keys.split()
    assert data["orders"] == [list(order) for order in found.found.solution.orders]
    assert sorted(sample for order in data["orders"] for sample in order) == list(range(32))
    assert data["output_tokens"] == found.problem.output_tokens.tolist()
    assert (data["makespan_s"], data["bound_s"], data["gap"]) == (found.found.value, found.found.bound.value, found.found.gap)
    assert [(tried["name"], tried["expected_s"]) for tried in data["methods"]] == [
        (each.name, each.expected_s) for each in found.candidates
    ]


@pytest.mark.parametrize("options", ["--method exact", "--instances 33", "--instances 0", "--recall 1.1", "--recall nan", "--seed -1"])
def test_dispatch_refuses_what_cannot_be_had(cli: Call, one: Scenario, options: str) -> None:
    """Too large for exact search, more instances than samples, shares that are none."""
    outcome = cli("dispatch", "one.yaml", *options.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


# what-if


def test_what_if_puts_the_difference_beside_each_change(cli: Call, plan_file: Path) -> None:
    """One row for the plan, one for each change, one for all together."""
    outcome = cli("what-if", plan_file, "gpus=+4", "samples_per_prompt=*2")
    assert (outcome.code, outcome.err) == (0, "")
    rows = [line.split("  ")[0] for line in outcome.out.splitlines()]
    assert rows == ["deep", "", "split grpo", "as planned", "gpus=+4", "samples_per_prompt=*2", "all of these"]
    assert re.search(r"gpus=\+4 .* s \(-\d+\.\d %\)", outcome.out)


def test_what_if_json_holds_whole_plans(cli: Call, plan_file: Path) -> None:
    """The plan itself, and what the Python function returns for every variant."""
    data = told(cli("what-if", plan_file, "gpus=+4", "model=Qwen2.5-72B", "--json"))
    made = Plan.load(plan_file)
    assert data["plan"] == in_json(made.model_dump(mode="json"))
    found = what_if(made, ["gpus=+4", "model=Qwen2.5-72B"])
    assert data["variants"] == [
        {
            "change": variant.name,
            "plan": None if variant.plan is None else in_json(variant.plan.model_dump(mode="json")),
            "reasons": list(variant.reasons),
        }
        for variant in found
    ]


def test_what_if_nothing_fits_is_an_answer(cli: Call, plan_file: Path) -> None:
    """Exit code 0, with the reasons below the table."""
    outcome = cli("what-if", plan_file, "model=Qwen2.5-72B")
    assert outcome.code == 0
    assert re.search(r"model=Qwen2.5-72B +nothing fits", outcome.out)
    assert "no plan" in outcome.out


def test_what_if_shows_all_jobs_of_the_plan(cli: Call, several: Scenario) -> None:
    """A cheaper pool changes splits and groups alike; a key of one job changes that job."""
    assert cli("plan", "several.yaml", "-o", "several.json", "-q").code == 0
    outcome = cli("what-if", "several.json", "pools.h20.price=*0.5")
    assert [word for word in ("split grpo", "split dapo", "split tables", "plan  ", "groups") if word not in outcome.out] == []
    chosen = told(cli("what-if", "several.json", "--job", "dapo", "staleness=0", "--json"))
    before, after = (plan["splits"] for plan in (chosen["plan"], chosen["variants"][0]["plan"]))
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_what_if_leaves_no_file(cli: Call, plan_file: Path) -> None:
    """It answers; `plan -o` writes."""
    before = {entry.name: entry.read_bytes() for entry in Path().iterdir()}
    assert cli("what-if", plan_file, "prompts=16").code == 0
    assert {entry.name: entry.read_bytes() for entry in Path().iterdir()} == before


# Splits in plan, check, explain, diff, schema.


def test_a_plan_of_everything_is_valid_and_explained(cli: Call, several: Scenario) -> None:
    """Groups and splits of both kinds in one file."""
    assert cli("plan", "several.yaml", "-o", "several.json", "-q").code == 0
    assert cli("check", "several.yaml", "several.json", "--max-gap", "1%").code == 0
    outcome = cli("explain", "several.json")
    assert (outcome.code, outcome.err) == (0, "")
    assert [word for word in ("g1", "split grpo", "split dapo", "split tables") if word not in outcome.out] == []


def test_check_finds_a_slower_split(cli: Call, plan_file: Path) -> None:
    """With a new seal: exit code 1, and the fault says which job."""
    made = Plan.load(plan_file)
    (split,) = made.splits
    made.model_copy(update={"splits": (split.model_copy(update={"choice": split.next_best[0]}),)}).sealed().save(plan_file)
    outcome = cli("check", "one.yaml", plan_file)
    assert outcome.code == 1
    assert "NOT VALID" in outcome.out
    assert "split grpo: " in outcome.out


def test_diff_names_the_split_that_changed(cli: Call, several: Scenario, folder: Path) -> None:
    """And no other one."""
    assert cli("plan", "several.yaml", "-o", "old.json", "-q").code == 0
    (folder / "several.yaml").write_text(SEVERAL.replace("{h20: 4, h800: 2}", "{h20: 2, h800: 2}"))
    assert cli("plan", "several.yaml", "-o", "new.json", "-q").code == 0
    assert cli("diff", "old.json", "old.json", "--exit-code").code == 0
    outcome = cli("diff", "old.json", "new.json", "--exit-code")
    assert outcome.code == 1
    assert [line.split(":")[0] for line in outcome.out.splitlines() if line.startswith("split")] == ["split grpo"]


def test_diff_says_whether_a_target_is_kept(cli: Call, folder: Path) -> None:
    """The split may be the same, and only the target met no more."""
    for target in (50, 49):
        text = SEVERAL.replace("  - name: tables\n    split:\n", f"  - name: tables\n    split:\n      target: {target} s\n")
        (folder / f"{target}.yaml").write_text(text)
        assert cli("plan", f"{target}.yaml", "-o", f"{target}.json", "-q").code == 0
    changes = cli("diff", "50.json", "49.json").out.splitlines()
    assert [line for line in changes if line.startswith("split")] == [
        "split tables: separate h20 2 : h800 2, 50.000 s, target 50 s kept from separate h20 2 : h800 2"
        " -> separate h20 2 : h800 2, 50.000 s, target 49 s missed"
    ]


def test_explain_job_is_for_co_located_jobs(cli: Call, several: Scenario) -> None:
    """A split job shares no nodes; the error names those that do."""
    assert cli("plan", "several.yaml", "-o", "several.json", "-q").code == 0
    outcome = cli("explain", "several.json", "--job", "grpo")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--job = `grpo`: is not a co-located job of the plan; choose from " in outcome.err


@pytest.mark.parametrize(("text", "kind"), [(SCENARIO, "one"), (SEVERAL, "several")], ids=["one", "several"])
def test_scenario_and_plan_validate_against_the_printed_schemas(cli: Call, folder: Path, text: str, kind: str) -> None:
    """Editors and other tools read both."""
    (folder / "s.yaml").write_text(text)
    jsonschema.validate(in_json(yaml.safe_load(text)), json.loads(cli("schema", "scenario").out))
    jsonschema.validate(json.loads(cli("plan", "s.yaml", "--json", "-q").out), json.loads(cli("schema", "plan").out))


# Processes.


@pytest.mark.parametrize("text", [SCENARIO, SEVERAL], ids=["one", "several"])
def test_plans_of_derived_splits_are_equal_to_the_byte_in_every_process(run_cli: Call, folder: Path, text: str) -> None:
    """Neither the hash seed nor the zone gets into the file, nor into a dispatch."""
    (folder / "s.yaml").write_text(text)
    commands = ["plan s.yaml --json -q", "dispatch s.yaml --job grpo --recall 0.5 --json"]
    outputs = [
        [run_cli(*command.split(), PYTHONHASHSEED=hash_seed, TZ=zone).out for command in commands]
        for hash_seed, zone in (("0", "UTC"), ("4242", "Asia/Tokyo"))
    ]
    assert outputs[0] == outputs[1]
    assert all(outputs[0])
