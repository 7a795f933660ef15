"""Ctrl-C and time limits of `rollplan plan`, in processes of their own: whenever they come, there is a plan that `check` accepts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

Call = Callable[..., Any]
HANG_S = 300
"""Seconds after which a process counts as hanging; no test needs them."""


def fleet(count: int) -> str:
    """Return a scenario of random jobs, the same at every call."""
    random = Random(300)
    jobs = [
        f"  - {{name: j{number}, slo: {random.uniform(1, 2):.2f}, "
        f"rollout: {{time: {random.randint(50, 600)} s, memory: {random.randint(50, 300)} GB, nodes: {random.choice([1, 1, 2, 4])}}}, "
        f"train: {{time: {random.randint(30, 400)} s, memory: {random.randint(50, 300)} GB, nodes: {random.choice([1, 1, 2])}}}}}"
        for number in range(count)
    ]
    pools = [
        "  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}",
        "  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}",
    ]
    return "\n".join(["name: fleet", "overheads: zero", "pools:", *pools, "jobs:", *jobs, ""])


AT_EVENT = """\
import os, signal, sys
from rollplan.cli import main

left = {count}

def interrupt(event, arguments):
    global left
    if event == {event!r} and {what!r} in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
sys.argv = ["rollplan", "plan", "scenario.yaml", "-o", "plan.json", "-q"]
main.run()
"""
MOMENTS = [
    ("import", "rollplan.cli.progress", 1),
    ("import", "numpy", 1),
    ("open", "scenario.yaml", 1),
    ("import", "rollplan.planner.compose", 1),
    ("import", "scipy.optimize", 1),
    ("import", "rollplan.cli.screen", 1),
    ("tempfile.mkstemp", ".rollplan.", 1),
    ("tempfile.mkstemp", ".rollplan.", 2),
    ("os.rename", ".rollplan.", 1),
]
"""While the libraries are loaded, when the scenario is opened, in the search, while the plan is written, while it is shown."""


@pytest.mark.parametrize(("event", "what", "count"), MOMENTS, ids=[f"{event} {what} {count}" for event, what, count in MOMENTS])
def test_ctrl_c_at_any_moment_leaves_a_plan(run_cli: Call, scenario_file: Path, event: str, what: str, count: int) -> None:
    """Exit code 130, one whole file, and a plan that holds: that of a heuristic if the search had not begun."""
    command = [sys.executable, "-c", AT_EVENT.format(event=event, what=what, count=count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scenario_file.parent, timeout=HANG_S)
    assert (done.returncode, done.stderr) == (130, "interrupted: this is the best plan so far\n")
    assert sorted(entry.name for entry in scenario_file.parent.iterdir()) == ["plan.json", "scenario.yaml"]
    assert run_cli("check", "scenario.yaml", "plan.json").code == 0


def plan(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start `rollplan plan` on the scenario in a folder."""
    command = [sys.executable, "-m", "rollplan", "plan", "scenario.yaml", "-o", "plan.json", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **environment}
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_ctrl_c_in_the_search_for_300_jobs_leaves_a_plan(run_cli: Call, folder: Path, seed: int) -> None:
    """At random moments after the first line of progress: in heuristics, pricing, HiGHS, and while kernels are compiled."""
    (folder / "scenario.yaml").write_text(fleet(300))
    kept = {"NUMBA_CACHE_DIR": str(folder / "kernels")} if seed < 2 else {}
    with plan(folder, "--time-limit", "600", **kept) as process:
        assert process.stderr is not None
        assert "incumbent" in process.stderr.readline()
        time.sleep(Random(seed).choice([0.0, 0.3, 1.0, 3.0, 10.0, 20.0]) * Random(seed).uniform(0.5, 1.0))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted: this is the best plan so far")
    assert json.loads((folder / "plan.json").read_text())["certificate"]["stopped"] == "interrupted"
    assert run_cli("check", "scenario.yaml", "plan.json").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("limit_s", "compiled"), [(1, False), (2, True), (8, True), (8, False)])
def test_a_time_limit_is_kept(run_cli: Call, folder: Path, limit_s: int, compiled: bool) -> None:
    """On a quiet machine within a second; here only: not as long as the search would take, nor a compilation or a presolve."""
    (folder / "scenario.yaml").write_text(fleet(300))
    kept = {} if compiled else {"NUMBA_CACHE_DIR": str(folder / "kernels")}
    started = time.monotonic()
    with plan(folder, "-q", "--time-limit", str(limit_s), **kept) as process:
        process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert time.monotonic() - started < limit_s + 20
    assert run_cli("check", "scenario.yaml", "plan.json").code == 0


@pytest.mark.slow
def test_incumbent_and_bound_only_improve(folder: Path) -> None:
    """Progress shows both, and the plan has the last of them."""
    (folder / "scenario.yaml").write_text(fleet(120))
    with plan(folder, "--time-limit", "15") as process:
        _, err = process.communicate(timeout=HANG_S)
    shown = [line.split() for line in err.splitlines()]
    values, bounds = ([float(line[place]) for line in shown] for place in (3, 6))
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    certificate = json.loads((folder / "plan.json").read_text())["certificate"]
    assert (values[-1], bounds[-1]) == (
        pytest.approx(certificate["value"], abs=0.01),
        pytest.approx(certificate["claimed_bound"], abs=0.01),
    )
