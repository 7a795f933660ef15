"""Everything in the README is run: its commands, its scenario, its Python, its picture, its claims, its links."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from rollplan import Scenario, check, plan
from rollplan.models.profile.file import Profile

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ENGINES = os.environ.get("ROLLPLAN_VLLM_PYTHON")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", command], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=300
    )


def test_every_command_of_the_use_section_works_in_its_order(tmp_path: Path) -> None:
    """The commands are copied by readers as they stand."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    use = blocks("sh")[1]
    assert use.count("rollplan ") >= 7
    found = run(use, tmp_path)
    assert (found.returncode, "Traceback" in found.stderr) == (0, False), found.stderr


def test_every_command_about_one_job_works_in_its_order(tmp_path: Path) -> None:
    """The same job is fitted, dispatched, planned, checked and asked what if; `fit` would leave with 3 if it did not fit."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = blocks("sh")[2]
    assert [line.split()[1] for line in commands.splitlines()] == ["fit", "dispatch", "plan", "check", "what-if"]
    found = run(commands, tmp_path)
    assert (found.returncode, "Traceback" in found.stderr) == (0, False), found.stderr


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.skipif(
    ENGINES is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with Ray and torch (make test-vllm)"
)
def test_two_jobs_learn_side_by_side_as_the_readme_says(tmp_path: Path) -> None:
    """Both commands as they stand, but for the interpreter: every iteration is done, both jobs learn, trace and profile are there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = blocks("sh")[-1]
    assert [line.split()[1] for line in commands.splitlines()] == ["plan", "run"]
    found = run(commands.replace(".venv-vllm/bin/python", str(ENGINES)), tmp_path)
    assert (found.returncode, "Traceback" in found.stderr) == (0, False), found.stderr
    print(found.stdout)
    rewards = {name: [float(part) for part in re.findall(rf"^{name} .* reward ([\d.]+)", found.stderr, re.M)] for name in ("grpo", "ppo")}
    assert all(len(rise) == 12 and rise[-1] > rise[0] + 0.3 for rise in rewards.values()), rewards
    assert "predicted" in found.stdout
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {one.source for one in Profile.load(tmp_path / "measured.json").runs}


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    """CI runs both on a clean checkout; here only their recipes are resolved."""
    commands = [line.split("#")[0].strip() for line in blocks("sh")[0].splitlines()]
    assert commands == ["make plan", "make test"]
    for command in [*commands, "make run"]:
        assert run(f"{command} --dry-run", ROOT).returncode == 0


def test_the_scenario_of_the_readme_is_planned_and_checked() -> None:
    """A reader's first file."""
    scenario = Scenario.from_yaml(blocks("yaml")[0])
    made = plan(scenario)
    assert (made.cost_per_h, check(scenario, made).faults) == (57.04, ())


def test_the_python_of_the_readme_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected line is the comment at its end."""
    monkeypatch.chdir(ROOT)
    code = blocks("python")[0]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue().strip() == code.strip().splitlines()[-1].removeprefix("# ")


def test_the_picture_is_what_the_example_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ROLLPLAN_UPDATE_GOLDEN=1` draws it anew."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import picture

    golden = ROOT / "docs" / "images" / "plan.svg"
    if os.environ.get("ROLLPLAN_UPDATE_GOLDEN") == "1":
        golden.write_text(picture.draw())
    assert golden.read_text() == picture.draw(), "if intended, run with ROLLPLAN_UPDATE_GOLDEN=1"


def test_the_savings_claimed_are_those_of_the_plan() -> None:
    """41 % against each job alone, 21 % against RollMux admission."""
    made = plan(Scenario.load(ROOT / "examples/production_ten/paper_prices.yaml"))
    assert made.comparison is not None
    assert made.comparison.paper_admission is not None
    saved = [round(100 * (1 - made.cost_per_h / other)) for other in (made.comparison.solo, made.comparison.paper_admission)]
    assert [f"{share} %" in README for share in saved] == [True, True]
    assert saved == [41, 21]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))])
def test_relative_links_lead_somewhere(page: str) -> None:
    """A dead link is a promise not kept."""
    text = (ROOT / page).read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not ((ROOT / page).parent / target).exists()] == []
