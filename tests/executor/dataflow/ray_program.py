"""What test_ray.py asks of the Ray runtime, in an interpreter that has Ray: one JSON object on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from typing import Any

import ray
from ray.cluster_utils import Cluster

from rollplan.executor.dataflow.compile import compile_graph
from rollplan.executor.dataflow.graph import Batch, Edge, Graph, Node
from rollplan.executor.dataflow.outcome import Outcome
from rollplan.executor.dataflow.ray_runtime import RayRuntime
from rollplan.executor.dataflow.run import Execution


def double(batch: Batch) -> list[int]:
    return [2 * value for value in batch.values]


def slow(batch: Batch) -> list[int]:
    time.sleep(0.01)
    return list(batch.values)


def large(batch: Batch) -> list[bytes]:
    return [b"x" * value for value in batch.values]


def deadly(batch: Batch) -> list[int]:
    if batch.values[0] == 5 and batch.iteration == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return list(batch.values)


def identity(batch: Batch) -> list[tuple[str, tuple[int, ...], str]]:
    machine = ray.get_runtime_context().get_node_id()
    return [(machine, batch.devices, os.environ.get("CUDA_VISIBLE_DEVICES", "")) for _ in batch.values]


class Broken:
    def __init__(self) -> None:
        raise OSError("no such model")

    def __call__(self, batch: Batch) -> list[int]:
        return []


def run(nodes: tuple[Node, ...], edges: tuple[Edge, ...] = (), items: int = 12, iterations: int = 2, start_s: float = 60) -> Outcome:
    runtime = RayRuntime(start_s)
    return Execution(compile_graph(Graph(nodes, edges), runtime.devices), runtime, lambda iteration: range(items), iterations).run()


def refusal(node: Node, start_s: float = 60) -> str:
    try:
        run((node,), start_s=start_s)
    except RuntimeError as error:
        return str(error)
    return "ran"


def adjusted() -> dict[str, Any]:
    """Change parallelism while items flow."""
    runtime = RayRuntime()
    graph = Graph((Node("a", slow, cpus=0.1), Node("b", double, cpus=0.1, batch_size=3)), (Edge("a", "b"),))
    execution = Execution(compile_graph(graph, runtime.devices), runtime, lambda iteration: range(60), 4)
    found: list[Outcome] = []
    thread = threading.Thread(target=lambda: found.append(execution.run()))
    thread.start()
    for target in (3, 1, 4, 2):
        time.sleep(1)
        if thread.is_alive():
            execution.adjust_parallelism("a", target, "a whim")
    thread.join()
    return {"outputs": found[0].outputs["b"], "workers": found[0].nodes["a"].workers, "switches": len(found[0].switches)}


def identities(co_locate: bool) -> dict[str, list[Any]]:
    """Return who ran where: (machine, devices as torch numbers them, devices as the machine numbers them)."""
    nodes = (
        Node("a", identity, gpus=0.5, parallelism=4, cpus=0.1),
        Node("b", identity, gpus=2, cpus=0.1),
        Node("c", identity, gpus=4, cpus=0.1),
    )
    runtime = RayRuntime()
    graph = Graph(nodes, (Edge("a", "c", co_locate=co_locate),))
    found = Execution(compile_graph(graph, runtime.devices), runtime, lambda iteration: range(40), 1, keep="abc").run()
    return {name: sorted({json.dumps(one) for one in values[0]}) for name, values in found.outputs.items()}


def main(example: str) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 16, "num_gpus": 6, "include_dashboard": False})
    cluster.add_node(num_cpus=16, num_gpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    answer: dict[str, Any] = {}
    moved = run((Node("a", large), Node("b", lambda batch: [len(v) for v in batch.values])), (Edge("a", "b", max_size_bytes=10),), items=20)
    answer["moved"] = (moved.outputs["b"][0], moved.edges["a -> b"].bytes_moved, moved.edges["a -> b"].oversized)
    killed = run((Node("a", deadly, parallelism=2),), items=12)
    answer["killed"] = ([(one.iteration, one.number, one.error) for one in killed.failures], killed.outputs["a"], killed.nodes["a"].workers)
    answer["apart"], answer["together"] = identities(False), identities(True)
    with contextlib.redirect_stdout(sys.stderr):
        answer["example"] = runpy.run_path(example)["main"](True)
    answer["broken"] = refusal(Node("a", Broken))
    answer["starved"] = refusal(Node("a", double, cpus=99), start_s=2)
    answer["adjusted"] = adjusted()
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
