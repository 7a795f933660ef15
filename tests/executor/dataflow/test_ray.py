"""The Ray runtime on two raylets, in the interpreter that has Ray. Needs ROLLPLAN_VLLM_PYTHON."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.process import kill_group

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "dataflow" / "ppo.py"
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name a Python with ray (make test-vllm)"),
]


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """One program asks everything, because a Ray cluster takes seconds to start."""
    assert PYTHON is not None
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": folder, "OMP_NUM_THREADS": "1"}
        program = [PYTHON, str(Path(__file__).parent / "ray_program.py"), str(EXAMPLE)]
        asked = subprocess.Popen(
            program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, err = asked.communicate(timeout=400)
        finally:
            kill_group(asked)
    assert asked.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_items_travel_through_the_object_store(answer: dict[str, Any]) -> None:
    """Each to its place; bytes and oversized ones (declared limit: 10) are counted, in two iterations."""
    assert answer["moved"] == [list(range(20)), 2 * sum(range(20)), 18]


def test_a_killed_worker_costs_its_items_and_is_replaced(answer: dict[str, Any]) -> None:
    """kill -9 in a call: one item failed, at most once called, all others are there, two workers at the end."""
    failures, outputs, workers = answer["killed"]
    assert [(iteration, number, error.split(":")[0]) for iteration, number, error in failures] == [(0, 5, "ActorDiedError")]
    assert outputs == [[*range(5), None, *range(6, 12)], list(range(12))]
    assert workers == 2


def machines(found: list[str]) -> set[str]:
    return {json.loads(one)[0] for one in found}


def test_ray_puts_workers_where_the_compiled_graph_says(answer: dict[str, Any]) -> None:
    """Six and two GPUs; two for b, four for c, four halves for a. a with c is six: b goes to the other machine."""
    together = answer["together"]
    assert machines(together["a"]) == machines(together["c"])
    assert machines(together["b"]).isdisjoint(machines(together["c"]))


def test_workers_see_their_own_gpus(answer: dict[str, Any]) -> None:
    """A share sees one GPU as number 0; two whole ones are 0 and 1; no GPU is seen by two nodes."""
    for where in ("apart", "together"):
        seen = {name: [json.loads(one) for one in found] for name, found in answer[where].items()}
        assert [{len(devices) for _, devices, _ in seen[name]} for name in "abc"] == [{1}, {2}, {4}]
        assert all(devices == list(range(len(devices))) for found in seen.values() for _, devices, _ in found)
        given = [{(machine, number) for machine, _, numbers in found for number in numbers.split(",")} for found in seen.values()]
        assert len(set.union(*given)) == sum(map(len, given)) <= 8


def test_what_cannot_start_says_why(answer: dict[str, Any]) -> None:
    """A constructor that raises, and a worker that Ray has no room for."""
    assert answer["broken"] == "a has no worker left: worker 0: ActorDiedError: OSError: no such model"
    assert answer["starved"] == "a has no worker left: worker 0: Ray did not start it within 2 s; are its GPUs and CPUs free?"


def test_items_survive_adjustments(answer: dict[str, Any]) -> None:
    """As on threads: nothing lost, nothing doubled."""
    found = answer["adjusted"]
    assert found["outputs"] == [[2 * number for number in range(60)]] * 4
    assert 1 <= found["switches"] <= 4


def test_the_example_gives_the_same_rewards_as_on_threads(answer: dict[str, Any]) -> None:
    """Batches do not depend on who runs them, or when."""
    assert answer["example"] == runpy.run_path(str(EXAMPLE))["main"]()
