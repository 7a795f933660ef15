"""What only a process of its own can show: signals, pipes, hash seeds, and a clean stdout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

Call = Callable[..., Any]
HANG_S = 240
"""Seconds after which a process counts as hanging; no test needs them."""


def many_jobs(count: int) -> str:
    """Return a scenario of random jobs, which the exact search does not finish quickly from about 100 on."""
    random = Random(1)
    jobs = [
        f"  - {{name: j{number}, slo: {random.uniform(1, 2):.2f}, "
        f"rollout: {{time: {random.randint(50, 600)} s, memory: {random.randint(50, 300)} GB, nodes: {random.choice([1, 1, 1, 2])}}}, "
        f"train: {{time: {random.randint(30, 400)} s, memory: {random.randint(50, 300)} GB, nodes: {random.choice([1, 1, 2])}}}}}"
        for number in range(count)
    ]
    pools = [
        "  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}",
        "  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}",
    ]
    return "\n".join(["name: many", "overheads: zero", "pools:", *pools, "jobs:", *jobs, ""])


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command line with pipes in place of a terminal."""
    command = [sys.executable, "-m", "rollplan", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 2], ids=["before the MILP", "in the MILP"])
def test_interrupted_plan_writes_the_best_plan_so_far(run_cli: Call, folder: Path, lines: int) -> None:
    """Ctrl-C after so many lines of progress ends with 130 and a plan that check accepts."""
    (folder / "scenario.yaml").write_text(many_jobs(150))
    with start(folder, "plan", "scenario.yaml", "-o", "plan.json", "--time-limit", "600") as process:
        assert process.stderr is not None
        for _ in range(lines):
            assert "incumbent" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted: this is the best plan so far")
    assert "(interrupted)" in out
    assert {entry.name for entry in folder.iterdir()} == {"scenario.yaml", "plan.json"}
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["certificate"]["stopped"] == "interrupted"
    assert "the search was stopped by the user" in plan["warnings"][-1]
    assert run_cli("check", "scenario.yaml", "plan.json").code == 0


@pytest.mark.slow
def test_sigterm_saves_the_plan_as_ctrl_c_does(run_cli: Call, folder: Path) -> None:
    """CI ends a job that takes too long with SIGTERM."""
    (folder / "scenario.yaml").write_text(many_jobs(150))
    with start(folder, "plan", "scenario.yaml", "-o", "plan.json", "--time-limit", "600") as process:
        assert process.stderr is not None
        assert "incumbent" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted: this is the best plan so far")
    assert run_cli("check", "scenario.yaml", "plan.json").code == 0


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_without_plan_or_traceback(folder: Path) -> None:
    """The solver may be deep in a sub-MIP that hears nobody; a KeyboardInterrupt inside its callback broke it once."""
    (folder / "scenario.yaml").write_text(many_jobs(150))
    with start(folder, "plan", "scenario.yaml", "-o", "plan.json", "--time-limit", "600") as process:
        assert process.stderr is not None
        for _ in range(2):
            assert "incumbent" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, "Traceback" in err) == (130, False)


def test_interrupt_before_there_is_a_plan_leaves_with_130_and_nothing_behind(scenario_file: Path) -> None:
    """Here Ctrl-C comes just before the verb listens to it."""
    program = """\
import os, signal, sys
from rollplan.cli import main

def interrupt(event, arguments):
    if event == "import" and arguments[0] == "rollplan.cli.interrupt":
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
sys.argv = ["rollplan", "plan", "scenario.yaml", "-o", "plan.json"]
main.run()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scenario_file.parent, timeout=HANG_S)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (130, "", False)
    assert [entry.name for entry in scenario_file.parent.iterdir()] == ["scenario.yaml"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("plan scenario.yaml", 0),
        ("plan scenario.yaml --json -q", 0),
        ("check scenario.yaml plan.json", 0),
        ("check scenario.yaml plan.json --max-gap 0.1%", 1),
        ("schema plan", 0),
    ],
)
def test_a_reader_that_goes_away_changes_neither_answer_nor_exit_code(run_cli: Call, scenario_file: Path, command: str, code: int) -> None:
    """`rollplan check ... | head -1` in a script with pipefail must not turn a yes into a no."""
    assert run_cli("plan", "scenario.yaml", "-o", "plan.json", "-q", "--method", "solo").code == 0
    with start(scenario_file.parent, *command.split()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert ("Traceback" in err, "Broken pipe" in err, process.returncode) == (False, False, code)


def test_a_reader_of_stderr_that_goes_away_does_not_cost_the_plan(folder: Path, scenario_file: Path) -> None:
    """Progress is a comfort, the plan is the work."""
    with start(folder, "plan", "scenario.yaml", "-o", "plan.json") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        process.stdout.read()
    assert process.returncode == 0
    assert (folder / "plan.json").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_stdout_is_said_in_one_line(scenario_file: Path) -> None:
    """No traceback, and not exit code 0 either: the answer did not arrive."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "rollplan", "plan", "scenario.yaml", "-q"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=scenario_file.parent)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "stdout: cannot be written (No space left on device)" in done.stderr


@pytest.mark.parametrize("count", [0, 30], ids=["small scenario", "30 jobs"])
def test_plans_are_equal_to_the_byte_in_every_process(run_cli: Call, scenario_file: Path, count: int) -> None:
    """Neither the hash seed nor the locale nor the clock gets into the file."""
    if count:
        scenario_file.write_text(many_jobs(count))
    plans = []
    for hash_seed, zone in (("0", "UTC"), ("4242", "Asia/Tokyo")):
        outcome = run_cli("plan", "scenario.yaml", "-o", f"{hash_seed}.json", PYTHONHASHSEED=hash_seed, TZ=zone, LC_ALL="C")
        assert outcome.code == 0
        plans.append(scenario_file.with_name(f"{hash_seed}.json").read_bytes())
    assert plans[0] == plans[1]


def test_json_on_stdout_is_whole_and_alone(run_cli: Call, scenario_file: Path) -> None:
    """Solvers print banners from C when they are not stopped; progress goes to stderr."""
    outcome = run_cli("plan", "scenario.yaml", "--json")
    assert outcome.out == json.dumps(json.loads(outcome.out), sort_keys=True, indent=1) + "\n"
    assert all("incumbent" in line for line in outcome.err.splitlines())
    assert outcome.err


def test_a_traceback_is_never_shown_for_wrong_input(run_cli: Call, folder: Path) -> None:
    """The same door in a real process."""
    outcome = run_cli("plan", "nowhere.yaml", "-o", "plan.json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: nowhere.yaml: 1 fault\n  nowhere.yaml: does not exist; give the path of a scenario file\n"
