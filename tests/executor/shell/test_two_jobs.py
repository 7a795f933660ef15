"""Two sleeping jobs on real Ray: the executed timetable is the round robin of the plan, and nothing is open or left afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rollplan.executor.shell import processes
from tests.executor.shell.sleepers import PYTHON, Driven, book, sleeper

CHECKOUT = Path(__file__).parents[3]

ITERATIONS = 4
ROLLOUT_S, TRAIN_S = 0.5, 0.4
CLOCK_S = 0.02
"""Of the readings of two processes, and of `sleep`."""

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray (make test-vllm)"),
]


def jobs() -> list[object]:
    changes = {"iterations": ITERATIONS, "settings": {"rollout_s": ROLLOUT_S, "train_s": TRAIN_S}}
    return [sleeper("a", **changes), sleeper("b", **changes)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    with Driven(book(*jobs()), tmp_path_factory.mktemp("run")) as driven:
        driven.listening = driven.wait_for(lambda: driven.events("TrainEnded") and _listening(driven.folder))
        driven.pids = processes.of_run(driven.folder)
        driven.code = driven.end()
        driven.left = processes.of_run(driven.folder)
        yield driven


def _listening(folder: Path) -> list[str]:
    """Return the addresses on which processes of the run listen, by the kernel's tables."""
    inodes = set()
    for pid in processes.of_run(folder):
        for one in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(str(one.readlink()))
            except OSError:
                continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(fields[1].rpartition(":")[0])
    return found


def test_the_run_ends_well_and_every_iteration_was_done_once(run: Driven) -> None:
    assert run.code == 0
    assert run.all("done") == [{"reason": "finished"}]
    for job in "ab":
        assert [one["iteration"] for one in run.events("TrainEnded", job)] == list(range(ITERATIONS))
        state = json.loads((run.folder / "jobs" / job / str(ITERATIONS) / "trained.json").read_text())
        assert state["trained"] == list(range(ITERATIONS))


def test_no_process_and_no_temporary_file_is_left(run: Driven) -> None:
    assert len(run.pids) > 5
    assert run.left == []
    assert not Path(run.temp.name).exists()


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1 in the kernel's tables, as itself or mapped into IPv6."""


def test_everything_listens_on_the_loopback_alone(run: Driven) -> None:
    """All of Ray's servers are there."""
    assert len(run.listening) >= 6
    assert set(run.listening) <= LOOPBACK


def test_ranks_that_train_together_listen_on_the_loopback_alone(tmp_path: Path) -> None:
    """The store at which they meet would listen on every network if torch opened it."""
    usual = sleeper("a", iterations=1000, samples=16, train_ranks=2)
    with Driven(book(replace(usual, module="rollplan.executor.programs.rl", settings={"layers": 1})), tmp_path) as driven:
        driven.wait_for(lambda: driven.events("TrainEnded"), 120)
        assert set(_listening(tmp_path)) <= LOOPBACK


def test_the_timetable_is_the_round_robin_of_the_plan(run: Driven) -> None:
    """Rollouts follow each other a, b, a, b, each is trained after it, and nothing takes less than it must.

    How late phases are depends on what else the machine does; `benchmarks/executor.py` measures it.
    """
    rollouts = sorted(run.records("rollout"), key=lambda one: one["start_s"])
    assert [one["job"] for one in rollouts] == ["a", "b"] * ITERATIONS
    for turn, one in enumerate(rollouts):
        assert one["start_s"] >= rollouts[0]["start_s"] + turn * ROLLOUT_S - CLOCK_S
        trained = next(two for two in run.records("train", one["job"]) if two["iteration"] == one["iteration"])
        assert trained["start_s"] >= one["start_s"] + ROLLOUT_S - CLOCK_S
        assert trained["end_s"] - trained["start_s"] >= TRAIN_S - CLOCK_S


def test_no_two_phases_overlap_on_a_resource(run: Driven) -> None:
    """Loading and off-loading belong to the phase: the permit is passed on after them."""
    for kinds, resource in ((("load", "rollout", "offload"), "rollout-0"), (("load", "train", "save", "offload"), "train")):
        stretches = sorted(
            (one["start_s"], one["end_s"], one["job"]) for one in run.all("record") if one["kind"] in kinds and one["resource"] == resource
        )
        for (_, end_s, job), (start_s, _, other) in pairwise(stretches):
            assert start_s >= end_s - 1e-6 or job == other


def test_memory_is_measured_and_told(run: Driven) -> None:
    measured = {(one["job"], one["resource"]): one["held_bytes"] for one in run.events("MemoryMeasured")}
    assert set(measured) == {(job, resource) for job in "ab" for resource in ("rollout-0", "train")}
    assert all(8 * 2**20 < held < 2**30 for held in measured.values())
    assert any(state["memory"].get("train") for state in run.all("state"))


def test_cold_and_warm_switches_are_recorded(run: Driven) -> None:
    cold = [one["end_s"] - one["start_s"] for one in run.records("start")]
    warm = [one["end_s"] - one["start_s"] for one in run.records("load")]
    assert len(cold) == 4
    assert min(cold) > max(warm)


def test_the_journal_holds_what_was_told(run: Driven) -> None:
    lines = [json.loads(line) for line in (run.folder / "journal.jsonl").read_text().splitlines()]
    assert lines == [dict(one) for one in run.all("event")]
    assert [one["at_s"] for one in lines] == sorted(one["at_s"] for one in lines)


def test_what_programs_print_is_in_their_logs(run: Driven) -> None:
    assert {one.name for one in (run.folder / "logs").iterdir()} == {
        f"{job}-{place}.log" for job in "ab" for place in ("rollout-0", "train")
    }


@pytest.mark.parametrize(
    ("request_line", "said"),
    [("no json", "the first line of stdin is no request"), ('{"folder": "FOLDER", "runbook": {}}', "the runbook is incomplete")],
)
def test_a_wrong_request_is_refused_without_a_traceback(tmp_path: Path, request_line: str, said: str) -> None:

    assert PYTHON is not None
    done = subprocess.run(
        [PYTHON, "-m", "rollplan.executor.shell.driver"],
        input=request_line.replace("FOLDER", str(tmp_path)) + "\n",
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert said in json.loads(done.stdout.splitlines()[-1])["error"]
    assert "Traceback" not in done.stderr
