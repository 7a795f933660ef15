"""Wrong input: each is refused with the field, the value and the way out, and leaves nothing behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = yaml.safe_load(Path(__file__).with_name("malformed.yaml").read_text())
Refused = Callable[..., list[str]]


@pytest.fixture
def refused(cli: Callable[..., Any], folder: Path) -> Refused:
    """Run a command that must be refused; return the lines of stderr. No file may come, go or change."""

    def files() -> dict[str, bytes | None]:
        return {str(path): path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None for path in folder.rglob("*")}

    def attempt(*arguments: str, code: int = 2) -> list[str]:
        before = files()
        outcome = cli(*arguments)
        assert "Traceback" not in outcome.err
        assert (outcome.code, outcome.out) == (code, "")
        assert files() == before
        return [line.strip() for line in outcome.err.splitlines()]

    return attempt


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_wrong_scenario_is_refused_with_field_value_and_remedy(
    refused: Refused, scenario_file: Path, scenario_text: str, case: dict[str, Any]
) -> None:
    """One change of a good scenario; the cases stand in malformed.yaml."""
    assert scenario_text.count(case["old"]) == 1
    scenario_file.write_text(scenario_text.replace(case["old"], case["new"]))
    said = refused("plan", "scenario.yaml", "-o", "plan.json", code=case.get("code", 2))
    assert any(case["says"] in line for line in said), said


TEXTS = {
    "empty": ("", "scenario.yaml: is empty; write a scenario; `rollplan schema scenario` describes it"),
    "only comments": ("# nothing yet\n", "scenario.yaml: is empty; write a scenario; `rollplan schema scenario` describes it"),
    "a list": ("- 1\n- 2\n", "(top level) = [2 items]: is not a mapping; write keys and values: "),
    "a scalar": ("hello\n", "(top level) = `hello`: is not a mapping; write keys and values: "),
    "nested aliases": ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "line 1: sets the anchor `&a`; remove it; aliases are not read"),
    "deep lists": ("name: " + "[" * 100_000, "line 1, column 1006: is not YAML (exceeded maximum nesting depth); "),
    "deep mappings": ("".join(f"{' ' * depth}a:\n" for depth in range(200)), "line 33: is nested too deeply; use at most 32 levels"),
    "a zero byte": ("name: a\0b\n", "scenario.yaml: is a binary file; a scenario is a text file"),
    "binary": (bytes(range(256)), "scenario.yaml: is not UTF-8 text; a scenario is a text file"),
    "Latin-1": ("name: Köln\n".encode("latin-1"), "scenario.yaml: is not UTF-8 text; a scenario is a text file"),
    "UTF-16": ("name: small\n".encode("utf-16"), "scenario.yaml: is not UTF-8 text; a scenario is a text file"),
}


@pytest.mark.parametrize(("content", "says"), TEXTS.values(), ids=TEXTS)
def test_a_file_that_is_no_scenario_is_refused(refused: Refused, folder: Path, content: str | bytes, says: str) -> None:
    """Whatever stands in it, reading takes no time and runs no code."""
    (folder / "scenario.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refused("plan", "scenario.yaml", "-o", "plan.json")[1].startswith(says)


def test_all_faults_are_reported_at_once(refused: Refused, scenario_file: Path, scenario_text: str) -> None:
    """One run is enough to correct a file."""
    scenario_file.write_text(
        scenario_text.replace("1.85 $/h", "1.85").replace("133 s", "133").replace("slo: 1.5", "slo: 0.5").replace("size: 14B", "sise: 14B")
    )
    assert refused("plan", "scenario.yaml", "-o", "plan.json") == [
        "error: scenario.yaml: 4 faults",
        "pools.h20.price = `1.85`: has no unit; write `1.85 $/h`; accepted: $/h, USD/h, usd/h",
        "jobs[0].rollout.time.worst = `133`: has no unit; write `133 s`; accepted: s, ms, min, h",
        "jobs[2].slo = `0.5`: input should be greater than or equal to 1; raise it to the limit",
        "jobs[2].sise = `14B`: is an unknown key; did you mean `size`?",
    ]


def test_all_faults_across_the_parts_are_reported_at_once(refused: Refused, scenario_file: Path, scenario_text: str) -> None:
    """The rules between pools, links and jobs do not stop at the first fault either."""
    scenario_file.write_text(
        scenario_text.replace("name: code", "name: chat").replace("to: h20", "to: h21").replace("nodes: 2}", "pool: h800}")
    )
    assert refused("plan", "scenario.yaml") == [
        "error: scenario.yaml: 3 faults",
        "jobs[0].name = `chat`: is the name of 2 jobs (jobs[0], jobs[1]); give each job its own name",
        "links[0].to = `h21`: is not a pool; choose from h20, h800",
        "jobs[1].rollout.pool = `h800`: has the role train; choose a pool for rollout",
    ]


def test_every_job_that_fits_nowhere_is_named(refused: Refused, scenario_file: Path, scenario_text: str) -> None:
    """An infeasible scenario needs one run, too."""
    scenario_file.write_text(scenario_text.replace("memory: 900 GB, nodes: 8}\n  h800", "memory: 200 GB, nodes: 8}\n  h800"))
    said = refused("plan", "scenario.yaml", "-o", "plan.json", code=3)
    assert [line.split(":")[0] for line in said] == ["error", "because job chat", "because job code", "because job math"]


# Places that cannot be read.


def test_a_scenario_that_does_not_exist_is_refused(refused: Refused) -> None:
    """The commonest fault of all."""
    assert refused("plan", "scenario.yaml")[1] == "scenario.yaml: does not exist; give the path of a scenario file"


def test_a_directory_is_no_scenario(refused: Refused, folder: Path) -> None:
    """People give the folder of an example."""
    (folder / "scenario.yaml").mkdir()
    assert refused("plan", "scenario.yaml")[1] == "scenario.yaml: is a directory; give the scenario file inside it"


def test_a_pipe_is_refused_without_waiting_for_it(refused: Refused, folder: Path) -> None:
    """Opening a FIFO that nobody writes to would hang for ever."""
    os.mkfifo(folder / "scenario.yaml")
    assert refused("plan", "scenario.yaml")[1] == "scenario.yaml: is not a regular file; give the path of a scenario file"


def test_a_huge_file_is_refused_without_reading_it(refused: Refused, folder: Path) -> None:
    """A sparse file of 70 MB."""
    with (folder / "scenario.yaml").open("wb") as file:
        file.truncate(70 * 10**6)
    assert refused("plan", "scenario.yaml")[1] == "scenario.yaml: is larger than 64 MiB; a scenario is a small text file"


def test_a_file_without_permission_is_refused(refused: Refused, scenario_file: Path) -> None:
    """The reason is the operating system's, the words are ours."""
    scenario_file.chmod(0)
    if os.access(scenario_file, os.R_OK):
        pytest.skip("this user may read every file")
    assert refused("plan", "scenario.yaml")[1].startswith("scenario.yaml: cannot be read (Permission denied); check the path")


def test_a_path_that_is_too_long_is_refused(refused: Refused) -> None:
    """Not even asking whether it exists is safe."""
    assert "cannot be read (File name too long)" in refused("plan", "x" * 5000)[1]


# Places that cannot be written.

OUTPUTS = {
    "missing directory": (
        "nowhere/plan.json",
        "nowhere/plan.json: cannot be written (No such file or directory); choose another path for -o",
    ),
    "inside a file": (
        "scenario.yaml/plan.json",
        "scenario.yaml/plan.json: cannot be written (Not a directory); choose another path for -o",
    ),
    "directory": ("taken", "taken: is a directory; give the path of a file, such as plan.json"),
    "pipe": ("pipe", "pipe: is not a regular file; give the path of a file, such as plan.json"),
    "too long": ("x" * 300, f"{'x' * 300}: cannot be written (File name too long); choose another path for -o"),
    "scenario itself": ("scenario.yaml", "-o = `scenario.yaml`: exists and is not a plan; choose another path, or add --force"),
    "text": ("diary.txt", "-o = `diary.txt`: exists and is not a plan; choose another path, or add --force"),
    "other JSON": ("other.json", "-o = `other.json`: exists and is not a plan; choose another path, or add --force"),
}


@pytest.mark.parametrize(("output", "says"), OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_that_cannot_be_a_plan_is_refused_and_left_as_it_is(
    refused: Refused, scenario_file: Path, output: str, says: str
) -> None:
    """Before any work is done, so that an hour of search is not lost."""
    scenario_file.with_name("taken").mkdir()
    os.mkfifo(scenario_file.with_name("pipe"))
    scenario_file.with_name("diary.txt").write_text("dear diary\n")
    scenario_file.with_name("other.json").write_text('{"a": 1}\n')
    assert refused("plan", "scenario.yaml", "-o", output)[1] == says


def test_a_directory_without_permission_is_refused(refused: Refused, scenario_file: Path) -> None:
    """Known before the search, not after it."""
    locked = scenario_file.with_name("locked")
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    assert refused("plan", "scenario.yaml", "-o", "locked/plan.json")[1].startswith(
        "locked/plan.json: cannot be written (Permission denied)"
    )


def test_force_overwrites_text_but_never_a_device(cli: Callable[..., Any], scenario_file: Path) -> None:
    """Replacing /dev/null by a file would break the machine for everybody."""
    scenario_file.with_name("diary.txt").write_text("dear diary\n")
    assert cli("plan", "scenario.yaml", "-o", "diary.txt", "--force").code == 0
    assert json.loads(scenario_file.with_name("diary.txt").read_text())["format"] == "rollplan/plan/3"
    refusal = cli("plan", "scenario.yaml", "-o", "/dev/null", "--force")
    assert (refusal.code, Path("/dev/null").is_char_device()) == (2, True)
    assert "/dev/null: is not a regular file" in refusal.err


# Options.

OPTIONS = {
    "bare number as gap": (("check", "s", "p", "--max-gap", "2"), "--max-gap = `2`: could be a share or per cent; write 2%"),
    "text as gap": (("check", "s", "p", "--max-gap", "little"), "--max-gap = `little`: is not a share; write 2% or 0.02"),
    "negative gap": (("check", "s", "p", "--max-gap=-1%"), "--max-gap = `-1%`: is not a share; write 2% or 0.02"),
    "target gap": (("plan", "s", "--target-gap", "nan"), "--target-gap = `nan`: is not a share; write 2% or 0.02"),
    "unknown method": (("plan", "s", "--method", "best"), "Error: Invalid value for '--method'"),
    "negative time limit": (("plan", "s", "--time-limit", "-1"), "Error: Invalid value for '--time-limit'"),
    "time limit that is no number": (("plan", "s", "--time-limit", "nan"), "Error: Invalid value for '--time-limit'"),
    "time limit of an unknown unit": (
        ("check", "s", "p", "--time-limit", "60 x"),
        "Error: Invalid value for '--time-limit': `60 x` has the unit `x`, which is not a duration; accepted: s, ms, min, h",
    ),
    "time limit that is no time": (
        ("dispatch", "s", "--time-limit", "soon"),
        "Error: Invalid value for '--time-limit': `soon` is not a duration; write a number and a unit, such as `133 s`",
    ),
    "time limit that is too short": (
        ("profile", "link", "--time-limit", "500 ms"),
        "Error: Invalid value for '--time-limit': `500 ms` is not from 1 to 1e+06 s; write seconds, or a time with",
    ),
    "negative time limit with a unit": (("run", "p", "--time-limit", "-1 s"), "Error: Invalid value for '--time-limit'"),
    "no nodes to search": (("plan", "s", "--node-limit", "0"), "Error: Invalid value for '--node-limit'"),
    "seed beyond the solver": (("plan", "s", "--seed", "2147483648"), "Error: Invalid value for '--seed'"),
    "unknown file": (("schema", "trace"), "Error: Invalid value for 'file'"),
    "unknown verb": (("plann",), "Error: No such command 'plann'."),
    "unknown option": (("plan", "s", "--fast"), "Error: No such option: --fast"),
    "missing argument": (("check", "s"), "Error: Missing argument 'plan'"),
}


@pytest.mark.parametrize(("arguments", "says"), OPTIONS.values(), ids=OPTIONS)
def test_a_wrong_option_is_refused_with_its_name(refused: Refused, arguments: tuple[str, ...], says: str) -> None:
    """Before any file is looked at."""
    assert any(line.startswith(says) for line in refused(*arguments))


# Plan files.


@pytest.fixture
def plan_file(cli: Callable[..., Any], scenario_file: Path) -> Path:
    """A good plan of the small scenario."""
    assert cli("plan", "scenario.yaml", "-o", "plan.json").code == 0
    return scenario_file.with_name("plan.json")


def test_scenario_and_plan_in_the_wrong_order_are_told_apart(refused: Refused, plan_file: Path) -> None:
    """Two positional files are easily swapped."""
    assert refused("check", "plan.json", "scenario.yaml")[1:] == [
        "format = `rollplan/plan/3`: is not `rollplan/scenario/1`; give a scenario file"
    ]
    assert refused("explain", "scenario.yaml")[1].endswith("give a plan written by `rollplan plan -o`")


PLANS = {
    "truncated": (lambda text: text[: len(text) // 2], "plan.json: is not JSON ("),
    "empty": (lambda text: "", "plan.json: is not JSON ("),
    "other JSON": (lambda text: "[1, 2]", "plan.json: is not a plan; give a plan written by `rollplan plan -o`"),
    "deep": (lambda text: "[" * 100_000, "plan.json: is nested too deeply; give a plan written by `rollplan plan -o`"),
    "NaN": (lambda text: text.replace('"seed": 0', '"seed": NaN'), "settings.seed = `nan`: is not a whole number"),
    "infinite cost": (
        lambda text: text.replace('"target_gap": 0.0', '"target_gap": Infinity'),
        "settings.target_gap = `inf`: is not finite",
    ),
    "later format": (
        lambda text: text.replace("rollplan/plan/3", "rollplan/plan/4"),
        "format = `rollplan/plan/4`: is not `rollplan/plan/3`; this",
    ),
    "unknown key": (lambda text: text.replace('"seed"', '"sead"'), "settings.seed: is missing; add it"),
}


@pytest.mark.parametrize("verb", [("check", "scenario.yaml"), ("explain",), ("diff", "plan.json")], ids=lambda verb: verb[0])
@pytest.mark.parametrize(("damage", "says"), PLANS.values(), ids=PLANS)
def test_a_damaged_plan_is_refused(
    refused: Refused, plan_file: Path, verb: tuple[str, ...], damage: Callable[[str], str], says: str
) -> None:
    """Every verb reads plans through the same door."""
    plan_file.write_text(damage(plan_file.read_text()))
    assert refused(*verb, "plan.json")[1].startswith(says)


def test_a_job_that_the_plan_does_not_hold_cannot_be_explained(refused: Refused, plan_file: Path) -> None:
    """A split job has no group, so it is not offered."""
    assert refused("explain", "plan.json", "--job", "chad")[1] == (
        "--job = `chad`: is not a co-located job of the plan; choose from chat, code, math, tool"
    )
