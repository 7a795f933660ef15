"""The runtime that is always there, with real threads; and the example."""

from __future__ import annotations

import runpy
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor.dataflow.compile import compile_graph
from rollplan.executor.dataflow.graph import Batch, Edge, Function, Graph, Node
from rollplan.executor.dataflow.outcome import Outcome
from rollplan.executor.dataflow.run import Execution
from rollplan.executor.dataflow.runtime import ThreadRuntime, size_of

from .virtual import echo

EXAMPLE = Path(__file__).parents[3] / "examples" / "dataflow" / "ppo.py"


def execution(nodes: tuple[Node, ...], edges: tuple[Edge, ...] = (), items: int = 40, iterations: int = 3) -> Execution:
    return Execution(compile_graph(Graph(nodes, edges), (0,)), ThreadRuntime(), lambda iteration: range(items), iterations)


def test_items_survive_adjustments_from_another_thread() -> None:
    """Threads of the system in the place of the virtual clock."""

    def slow(batch: Batch) -> list[Any]:
        time.sleep(0.002)
        return list(batch.values)

    runner = execution((Node("a", slow, parallelism=2), Node("b", slow, batch_size=3)), (Edge("a", "b"),))
    found: list[Outcome] = []
    thread = threading.Thread(target=lambda: found.append(runner.run()))
    thread.start()
    for turn in range(400):
        runner.adjust_parallelism("ab"[turn % 2], 1 + turn % 5, "a whim")
        if not thread.is_alive():
            break
    thread.join(60)
    assert found[0].outputs["b"] == (tuple(range(40)),) * 3
    assert len(found[0].switches) > 4


def raises(batch: Batch) -> list[Any]:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda batch: [1], "ValueError: a returned 1 results for 2 items; return one for each"),
        (raises, "SystemExit: 3"),
        (lambda batch: [KeyError("x")] * 2, "KeyError: 'x'"),
        (lambda batch: 5, "TypeError: 'int' object is not iterable"),
    ],
)
def test_every_way_to_fail_is_an_error_of_the_items(function: Function, error: str) -> None:
    """Not a thread that dies and a run that hangs."""
    outcome = execution((Node("a", function, batch_size=2),), items=2, iterations=1).run()
    assert [(one.number, one.error) for one in outcome.failures] == [(0, error), (1, error)]
    assert outcome.outputs["a"] == ((None, None),)


def test_a_class_has_an_instance_in_every_worker() -> None:
    """State of a worker, such as an engine, is its own."""
    made = []

    class Counting:
        def __init__(self) -> None:
            made.append(self)

        def __call__(self, batch: Batch) -> list[int]:
            return [id(self)]

    outcome = execution((Node("a", Counting, parallelism=3),)).run()
    assert len(made) == 3
    assert {number for numbers in outcome.outputs["a"] for number in numbers} <= {id(one) for one in made}


def test_a_worker_that_cannot_start_is_an_error_with_its_reason() -> None:
    """There is nobody to run the items."""

    class Broken:
        def __init__(self) -> None:
            raise OSError("no such model")

        def __call__(self, batch: Batch) -> list[int]:
            return []

    with pytest.raises(RuntimeError, match="a has no worker left: worker 0: OSError: no such model"):
        execution((Node("a", Broken),)).run()


def test_memory_is_measured_where_it_can_be() -> None:
    """Here: the host's, of this process; GPUs need torch."""
    outcome = execution((Node("a", echo),)).run()
    assert outcome.memory.keys() == {"host"}
    assert outcome.memory["host"] > 2**20


@pytest.mark.parametrize(
    ("value", "size"),
    [("abc", 3), (b"abcd", 4), (1, 8), (1.5, 8), ([1, 2.0, "a"], 17), ({"k": (1, 2)}, 17), (memoryview(bytearray(100)), 100)],
)
def test_sizes_are_those_of_the_content(value: object, size: int) -> None:
    """Counted, not pickled: a number for people must not cost a copy."""
    assert size_of(value) == size


def test_the_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """actor -> reward, actor -> critic, critic ~> actor: the reward rises because the control edge works."""
    means = runpy.run_path(str(EXAMPLE))["main"]()
    assert (len(means), means[0] < 0.5, min(means[-4:]) > 0.9) == (12, True, True)
    assert "co-location: reward -> critic: co_locate is set\n" in capsys.readouterr().out
