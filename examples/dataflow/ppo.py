"""The loop of PPO as a dataflow graph, with functions small enough to read.

    .venv/bin/python examples/dataflow/ppo.py                          # threads
    PYTHONPATH=. .venv-vllm/bin/python examples/dataflow/ppo.py --ray   # Ray actors

Shows: a policy over four answers learns which one is rewarded. actor -> reward and actor -> critic carry samples, reward ->
critic carries rewards, critic ~> actor is the control edge that carries the new policy into the next iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import exp
from random import Random

from rollplan.executor.dataflow.compile import compile_graph
from rollplan.executor.dataflow.graph import Batch, Edge, Graph, Node
from rollplan.executor.dataflow.run import Execution
from rollplan.executor.dataflow.runtime import Runtime, ThreadRuntime

REWARDS = (0.0, 0.2, 1.0, 0.1)
PROMPTS, ITERATIONS = 32, 12


def actor(batch: Batch) -> list[int]:
    """Answer every prompt, by the policy that the critic made of the iteration before."""
    policies = batch.feedback["critic"].values
    preferences = policies[-1] if policies else [0.0] * len(REWARDS)
    return [Random(seed).choices(range(len(REWARDS)), [exp(one) for one in preferences])[0] for seed in batch.values]


def reward(batch: Batch) -> list[float]:
    """Score answers."""
    return [REWARDS[answer] for answer in batch.values]


class Critic:
    """Holds the policy: one worker, called once per iteration with all samples."""

    def __init__(self) -> None:
        self.preferences = [0.0] * len(REWARDS)

    def __call__(self, batch: Batch) -> Sequence[list[float]]:
        """Raise what was better than the mean; return the policy after every sample."""
        mean = sum(one["reward"] for one in batch.values) / len(batch.values)
        after = []
        for one in batch.values:
            self.preferences[one["actor"]] += 0.3 * (one["reward"] - mean)
            after.append(list(self.preferences))
        return after


GRAPH = Graph(
    nodes=(
        Node("actor", actor, gpus=1, parallelism=4, batch_size=4),
        Node("reward", reward, gpus=0.5, parallelism=2, max_parallelism=4),
        Node("critic", Critic, gpus=1, max_parallelism=1, batch_size=None),
    ),
    edges=(
        Edge("actor", "reward", "samples"),
        Edge("actor", "critic", "samples"),
        Edge("reward", "critic", "rewards", co_locate=True),
        Edge("critic", "actor", "policy", control=True, consistency="strong"),
    ),
)


def main(ray: bool = False) -> list[float]:
    """Run the loop and print what happened; return the mean reward of each iteration."""
    runtime: Runtime = ThreadRuntime()
    devices: tuple[int, ...] = (8,)
    if ray:
        from rollplan.executor.dataflow.ray_runtime import RayRuntime

        runtime = on_ray = RayRuntime()
        devices = on_ray.devices
    compiled = compile_graph(GRAPH, devices)
    for one in compiled.policies:
        print(f"{one.policy}: {one.subject}: {one.reason}")
    for place in compiled.places:
        print(f"{place.node} {place.worker} on machine {place.machine}, GPU {', '.join(map(str, place.devices))}")
    done = Execution(
        compiled, runtime, lambda iteration: range(100 * iteration, 100 * iteration + PROMPTS), ITERATIONS, keep=["reward"]
    ).run()
    means = [sum(rewards) / len(rewards) for rewards in done.outputs["reward"]]
    print("mean reward:", " ".join(f"{mean:.2f}" for mean in means))
    for name, edge in done.edges.items():
        latency = f"{1e3 * (edge.latency_mean_s or 0):.1f} ms mean, {1e3 * (edge.latency_p95_s or 0):.1f} ms p95"
        print(f"{name}: {edge.items} items, {edge.bytes_moved} bytes, {latency}, {edge.really}")
    return means


if __name__ == "__main__":
    if "--ray" in sys.argv:
        import ray

        ray.init(num_cpus=16, num_gpus=8, include_dashboard=False)
    main("--ray" in sys.argv)
