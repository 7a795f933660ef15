"""`rollplan run` as people see it, with a driver that pretends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from time import monotonic, sleep

import pytest
from rich.console import Console

from rollplan.cli import run as run_module
from rollplan.cli.arguments import trace_path
from rollplan.cli.run_watch import Table, run_table
from rollplan.executor.core.records import Remark
from rollplan.executor.runbook_of_plan import runbook
from rollplan.executor.shell.processes import of_run
from rollplan.models.errors import InputError
from rollplan.models.files import MAX_BYTES
from rollplan.models.plan import Plan
from rollplan.models.profile.file import Profile

from ...conftest import Outcome
from .made import a_job, a_runbook, ended, executed, planned

Cli = Callable[..., Outcome]


@pytest.fixture
def run(folder: Path, cli: Cli, fake_python: str) -> Callable[..., Outcome]:
    """Return a function that plans two jobs whose driver does what it is told, and runs the plan."""

    def call(*arguments: object, fake: str = "''") -> Outcome:
        planned(fake=fake).save(folder / "plan.json")
        return cli("run", "plan.json", "--python", fake_python, *arguments)

    return call


def test_the_report_says_predicted_beside_executed(run: Callable[..., Outcome]) -> None:
    """For every job and phase; what sharing was worth; how long starts took and data waited."""
    done = run()
    assert done.code == 0, done.err
    assert re.search(r"^two   2 jobs, round-robin, [0-9.]+ s   all jobs done$", done.out, re.MULTILINE)
    assert re.search(r"^a +4 of 4 +0  predicted 14.0 s, executed 2[0-9.]+ s \(\+[0-9.]+ %\)", done.out, re.MULTILINE)
    assert re.search(r"^a    rollout +6.00 s +6.00 s +\+0.0 %", done.out, re.MULTILINE)
    assert re.search(r"^     train +3.00 s +3.50 s +\+16.7 %", done.out, re.MULTILINE)
    for words in ("g1/rollout-0", "cost efficiency predicted 1.64x", "cold start 2.00 s, warm switch 1.00 s: 2x", "rollout -> train: mean"):
        assert words in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_progress_is_a_line_for_each_iteration_on_stderr(run: Callable[..., Outcome]) -> None:
    """Where stderr is no terminal; `-q` says nothing."""
    lines = run().err.splitlines()
    assert [line for line in lines if line.startswith("b ")][-1].startswith("b   4 of 4   iteration 2")
    assert len([line for line in lines if line.startswith("a ")]) == 4
    assert run("--force", "-q").err == ""


def test_json_holds_the_whole_report(run: Callable[..., Outcome]) -> None:
    """And nothing else is on stdout."""
    data = json.loads(run("--json", "--job", "b", "--iterations", 2).out)
    assert (data["complete"], data["reason"], data["policy"]) == (True, "finished", "round-robin")
    assert [(job["name"], job["finished"], job["wanted"]) for job in data["jobs"]] == [("b", 2, 2)]
    assert data["jobs"][0]["phases"][0]["phase"] == "rollout"


def test_trace_and_profile_are_written(run: Callable[..., Outcome], folder: Path) -> None:
    """Both in one go; neither replaces a file of another kind unless it is forced to."""
    assert run("--trace", "t.json", "-o", "p.json").code == 0
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    assert [made.source for made in Profile.load(folder / "p.json").runs] == ["a", "b"]
    assert run("--trace", "t.json", "-o", "p.json", "--resume").code == 0, "they may be written again"
    for option in ("--trace", "-o"):
        refused = run(option, "plan.json", "--resume")
        assert refused.code == 2
        assert "exists and is not a" in refused.err
    Plan.load(folder / "plan.json")
    both = run("--trace", "both.json", "-o", "both.json", "--resume")
    assert (both.code, (folder / "both.json").exists()) == (2, False)
    assert "--trace = `both.json`: is the file of -o, too" in both.err


def test_a_long_trace_is_replaced_like_a_short_one(tmp_path: Path) -> None:
    """Longer than any plan or profile may be."""
    with (tmp_path / "t.json").open("wb") as file:
        file.write(b'{"traceEvents": [')
        file.truncate(MAX_BYTES + 1)
    trace_path(tmp_path / "t.json")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(InputError, match="exists and is not a trace"):
        trace_path(tmp_path / "t.json")


def test_a_prediction_takes_seconds_whatever_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streaming trainers are followed sample by sample, so with many samples fewer iterations are drawn."""
    monkeypatch.setattr(run_module, "_MOST_STREAMED", 100)
    records = executed(9)
    for way, count in (("serial", 9), ("async-streamed", 4)):
        book = a_runbook(a_job(way=way, staleness=1, iterations=20, samples=25))
        assert sum(one.kind == "train" and one.iteration < 20 for one in run_module._rehearsed(book, ended(records))) >= count
        assert max(one.iteration for one in run_module._rehearsed(book, ended(records))) == count - 1


def test_a_run_is_resumed_or_started_anew_but_never_by_accident(run: Callable[..., Outcome], folder: Path) -> None:
    """The folder stands beside the plan."""
    assert run("--iterations", 1).code == 0
    again = run("--iterations", 3)
    assert (again.code, again.out) == (2, "")
    assert "holds a run already; go on with it (--resume), start anew (--force)" in again.err
    done = run("--iterations", 3, "--resume")
    assert re.search(r"^a +3 of 3", done.out, re.MULTILINE)
    assert (folder / "plan.run" / "records.jsonl").read_text().count('"train"') >= 2 * 3
    assert run("--resume", "--force").code == 2


def test_a_job_that_is_not_finished_is_an_answer_of_no(run: Callable[..., Outcome]) -> None:
    """With what was said of it; exit code 1."""
    done = run(fake="fails")
    assert done.code == 1
    assert re.search(r"^a +0 of 4", done.out, re.MULTILINE)
    assert "failed    a: it used too much memory" in done.out
    assert "2 jobs NOT done" in done.out
    assert "go on with --resume" in done.err


def test_a_time_limit_stops_the_run(run: Callable[..., Outcome]) -> None:
    """What was finished stays."""
    done = run("--iterations", 100_000, "--time-limit", 1)
    assert done.code == 1
    assert "NOT done (stopped)" in done.out


def test_what_the_driver_refuses_is_an_error(run: Callable[..., Outcome]) -> None:
    """Exit code 2, no traceback."""
    done = run(fake="refuses")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: run: 1 fault\n  driver: the pool r stands for 1 GPU")


def test_a_dispatch_must_have_the_jobs_instances(run: Callable[..., Outcome], folder: Path) -> None:
    """It was made for another number."""
    deal = {"job": "a", "slots": 4, "output_tokens": [9, 1], "orders": [[0], [1]]}
    (folder / "d.json").write_text(json.dumps(deal))
    done = run("--dispatch", "d.json")
    assert done.code == 2
    assert "deals samples to 2 instances, job a has 1; use `rollplan dispatch --instances 1`" in done.err
    (folder / "d.json").write_text(json.dumps({**deal, "orders": [[0, 1]]}))
    assert run("--dispatch", "d.json").code == 0
    assert json.loads((folder / "plan.run" / "runbook.json").read_text())["jobs"][0]["dispatch"]["slots"] == 4
    twice = run("--dispatch", "d.json", "--dispatch", "d.json")
    assert twice.code == 2
    assert "--dispatch = `d.json`: is of job a, as `d.json` is; give one of them" in twice.err


def test_the_interpreter_comes_from_the_environment(folder: Path, cli: Cli, fake_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--python` wins; without both it is this one, which need not have Ray."""
    planned().save(folder / "plan.json")
    monkeypatch.setenv("ROLLPLAN_PYTHON", fake_python)
    assert cli("run", "plan.json").code == 0
    refused = cli("run", "plan.json", "--force", "--python", folder / "nothing")
    assert refused.code == 2
    assert "nothing cannot be started" in refused.err


def test_metrics_are_served_while_it_runs(run: Callable[..., Outcome], capfd: pytest.CaptureFixture[str]) -> None:
    """On a free port of loopback, which stderr names."""
    found: list[str] = []

    def ask() -> None:
        until = monotonic() + 20
        while not found and monotonic() < until:
            sleep(0.05)
            if port := re.search(r"http://127.0.0.1:([0-9]+)/metrics", capfd.readouterr().err):
                with urllib.request.urlopen(port[0], timeout=10) as answer:
                    found.append(answer.read().decode())

    asking = threading.Thread(target=ask)
    asking.start()
    run("--metrics-port", 0, "--iterations", 100_000, "--time-limit", 2)
    asking.join()
    assert "rollplan_remarks_total" in found[0]


@pytest.mark.parametrize(
    ("signals", "fake"), [((signal.SIGINT,), "''"), ((signal.SIGTERM,), "''"), ((signal.SIGINT, signal.SIGINT), "deaf")]
)
def test_ctrl_c_ends_the_run_and_leaves_no_process(folder: Path, fake_python: str, signals: tuple[int, ...], fake: str) -> None:
    """Once: the driver ends by itself, the report is shown; twice: it is killed, however deaf. Exit code 130."""
    planned(fake=fake).save(folder / "plan.json")
    command = [sys.executable, "-m", "rollplan", "run", "plan.json", "--python", fake_python, "--iterations", "100000"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert " of 100000" in process.stderr.readline()
        for number in signals:
            os.kill(process.pid, number)
            sleep(0.5)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert ("NOT done (stopped)" in out) == (len(signals) == 1)
    assert "--resume" in err
    assert of_run(folder / "plan.run") == []


def drawn(table: object) -> str:
    text = StringIO()
    Console(file=text, width=120).print(table)
    return text.getvalue()


def test_the_live_table_shows_who_does_what_and_who_waits() -> None:
    """Phase, queue and memory of every resource; progress of every job; the newest remarks."""
    seen = Table(runbook(planned()))
    assert "starting" in drawn(run_table(seen, 1.0))
    for one in executed(2):
        seen.record(one)
    seen.state(
        {
            "resources": {"g1/train": {"holder": "a", "does": "training 1", "queue": ["b"], "lost": False}, "g1/rollout-0": {"lost": True}},
            "jobs": {"a": {"state": "running", "iteration": 2, "restarts": 1, "samples_done": 32}},
            "memory": {"g1/train": {"a": 2**30, "b": 2**29}},
        }
    )
    for number in range(6):
        seen.remark(Remark(float(number), "a", f"remark {number}"))
    text = drawn(seen._draw())
    assert re.search(r"g1/train +a +training 1 +b +1.5 of 4 GiB", text)
    assert re.search(r"g1/rollout-0 +- +lost", text)
    assert re.search(r"a +running +2 of 4 +32 of 64 +1 +15.0 s, predicted 14.0 s", text)
    assert "remark 5" in text
    assert "remark 1" not in text


def test_a_terminal_that_is_gone_costs_no_report(folder: Path, fake_python: str) -> None:
    """Where nobody sends SIGHUP, the table fails to be drawn; the run ends as if it had been."""
    planned().save(folder / "plan.json")
    command = [sys.executable, "-m", "rollplan", "run", "plan.json", "--python", fake_python, "--iterations", "100000", "--time-limit", "2"]
    ours, theirs = os.openpty()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        assert os.read(ours, 1)
        os.close(ours)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "NOT done (stopped)" in out
