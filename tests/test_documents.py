"""What the documents show is what the program prints, and the scenarios in them are planned."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rollplan import InputError, Plan, Scenario, check, plan
from rollplan.cli.main import app
from rollplan.models.hardware import Link, Pool
from rollplan.models.latency_given import LatencyTable
from rollplan.models.lengths.given import LengthsInput
from rollplan.models.phase_times import PhaseTimes
from rollplan.models.plan import Origin, PlannedGroup, PlannedJob, PoolUse, Settings
from rollplan.models.plan_split import MemoryTerm, MemoryUse, Part, PlannedSplit, RuleOfThumb, SplitChoice, Step
from rollplan.models.program import Program
from rollplan.models.recipe import EngineSettings, Interference, TrainerSettings, Workload
from rollplan.models.split.given import Split
from rollplan.models.workload import Duration, Job, Phase

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def sessions(page: Path) -> list[str]:
    """Return the blocks that show commands (`$ rollplan ...`) on the examples, and what they print."""
    return [text for text in blocks(page, "text") if text.startswith("$ rollplan") and " examples/" in text]


def replayed(text: str, folder: Path) -> str:
    """Return a session with what its commands print now, without spaces at the ends of lines."""
    shown = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")):
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        shown += [f"$ {command}", *(done.stdout + done.stderr).splitlines()]
    return "\n".join(line.rstrip() for line in shown).rstrip() + "\n"


SHOWING = [page for page in PAGES if sessions(page)]


@pytest.mark.parametrize("page", SHOWING, ids=[page.name for page in SHOWING])
def test_what_a_page_shows_is_what_the_program_prints(tmp_path: Path, page: Path) -> None:
    """`ROLLPLAN_UPDATE_GOLDEN=1` writes it anew."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for text in sessions(page):
        printed = replayed(text, tmp_path)
        if os.environ.get("ROLLPLAN_UPDATE_GOLDEN") == "1":
            page.write_text(page.read_text().replace(f"```text\n{text}```", f"```text\n{printed}```"))
        else:
            assert printed == text, "if intended, run with ROLLPLAN_UPDATE_GOLDEN=1"


WHOLE = [(page.name, text) for page in PAGES for text in blocks(page, "yaml") if "pools:" in text and "name: bad" not in text]


@pytest.mark.parametrize(("page", "text"), WHOLE, ids=[f"{page} {text.splitlines()[0]}" for page, text in WHOLE])
def test_every_whole_scenario_in_a_page_is_planned_and_checked(page: str, text: str) -> None:
    """Readers begin with a copy of one."""
    scenario = Scenario.from_yaml(text, page)
    assert check(scenario, plan(scenario)).faults == ()


@pytest.mark.parametrize(("name", "file"), [("bad", "bad.yaml"), ("bad_across", "across.yaml")])
def test_the_refusals_that_the_scenario_page_shows_are_those_given(name: str, file: str) -> None:
    """Wrong values, and values that are wrong together, with all faults."""
    page = ROOT / "docs" / "scenario.md"
    wrong = next(text for text in blocks(page, "yaml") if text.startswith(f"name: {name}\n"))
    shown = next(text for text in blocks(page, "text") if text.startswith(f"$ rollplan plan {file}"))
    with pytest.raises(InputError) as refused:
        plan(Scenario.from_yaml(wrong, file))
    assert f"error: {refused.value}".splitlines() == shown.splitlines()[1:]


def test_the_commands_of_the_page_on_fleets_work_in_their_order(tmp_path: Path) -> None:
    """On a small fleet whose optimum is proven long before the limit."""
    (tmp_path / "fleet.yaml").write_text((ROOT / "examples" / "production_ten" / "paper_prices.yaml").read_text())
    (commands,) = (text for text in blocks(ROOT / "docs" / "colocation_exact.md", "sh") if "fleet.yaml" in text)
    assert [line.split()[1] for line in commands.splitlines()] == ["plan", "check"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands.splitlines():
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr


def named(page: str) -> set[str]:
    """Return the words in code type, which is how pages write keys and options."""
    text = re.sub(r"^```.*?^```", "", (ROOT / "docs" / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[A-Za-z0-9_-]+", code)}


def test_every_key_of_a_scenario_stands_in_its_page() -> None:
    """A key that nobody can look up is guessed."""
    models = (
        Scenario,
        Pool,
        Link,
        PhaseTimes,
        Job,
        Phase,
        Duration,
        Split,
        Workload,
        EngineSettings,
        TrainerSettings,
        LengthsInput,
        LatencyTable,
        Interference,
        Program,
    )
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert keys - named("scenario.md") == set()


def test_every_key_of_a_plan_stands_in_its_page() -> None:
    """The same for those who read plans with programs of their own."""
    models = (
        Plan,
        Origin,
        Settings,
        PlannedGroup,
        PlannedJob,
        PlannedSplit,
        SplitChoice,
        Part,
        Step,
        RuleOfThumb,
        MemoryUse,
        MemoryTerm,
        PoolUse,
    )
    assert {name for model in models for name in model.model_fields} - named("plan.md") == set()


def test_every_verb_and_option_stands_in_its_page() -> None:
    """`--help` says it in a line; the page says what it means."""
    group: Any = get_command(app)
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [verb for verb in group.commands if f"## rollplan {verb}\n" not in page] == []
    for verb, command in group.commands.items():
        part = page.split(f"## rollplan {verb}\n")[1].split("\n## ")[0]
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        assert [option for option in options if option not in part] == [], verb


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), flags=re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


LINKING = [ROOT / "CONTRIBUTING.md", *PAGES, *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


@pytest.mark.parametrize("page", LINKING, ids=[str(page.relative_to(ROOT)) for page in LINKING])
def test_links_into_pages_lead_to_their_headings(page: Path) -> None:
    """A heading that was renamed takes its links with it."""
    links = re.findall(r"\]\(((?![a-z]+://)[^)\s#]*)#([^)\s]+)\)", page.read_text())
    assert [f"{target}#{anchor}" for target, anchor in links if anchor not in anchors((page.parent / target) if target else page)] == []
