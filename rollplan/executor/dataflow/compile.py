"""A graph on a cluster: stages, where workers are placed, and which of the policies apply, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rollplan.executor.dataflow.graph import SMALL_BYTES, Edge, Graph, Node
from rollplan.executor.dataflow.placement import Free, Place, pack
from rollplan.models.errors import InfeasibleError

Policy = Literal["co-location", "staged", "adaptive back-pressure"]


@dataclass(frozen=True, slots=True)
class Applied:
    """A policy and what it applies to: an edge or a node. applies: False where it was asked for and could not be."""

    policy: Policy
    subject: str
    reason: str
    applies: bool = True


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a runtime needs. devices: GPUs of each machine. groups: nodes that share a machine. gpus_per_stage: of a staged node."""

    graph: Graph
    devices: tuple[int, ...]
    groups: tuple[tuple[str, ...], ...]
    places: tuple[Place, ...]
    policies: tuple[Applied, ...]
    gpus_per_stage: int

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Nodes by topological level, without control edges."""
        return self.graph.levels

    def workers(self, node: str) -> tuple[Place, ...]:
        """Return where the workers of a node are."""
        return tuple(place for place in self.places if place.node == node)

    def transport(self, edge: Edge) -> str:
        """Return how items of an edge are meant to travel."""
        together = any({edge.source, edge.target} <= set(group) for group in self.groups)
        return f"shared memory up to {edge.max_size_bytes} bytes" if together else "object store"

    def lanes(self, node: str) -> tuple[tuple[int, ...], ...]:
        """Group the workers of a node into its stages of neighbouring GPUs; one lane of all workers if it is not staged."""
        places = sorted(self.workers(node), key=lambda place: (place.machine or 0, place.devices, place.worker))
        if not any(one.applies and (one.policy, one.subject) == ("staged", node) for one in self.policies):
            return (tuple(place.worker for place in places),)
        lanes: list[list[Place]] = []
        for place in places:
            room = lanes and sum(one.gpus for one in lanes[-1]) + place.gpus <= self.gpus_per_stage
            if not room or lanes[-1][0].machine != place.machine:
                lanes.append([])
            lanes[-1].append(place)
        return tuple(tuple(place.worker for place in lane) for lane in lanes)

    def with_one_more(self, name: str) -> Compiled | None:
        """Return the same with one more worker of a node on what is free, None if there is no room. Nobody is moved."""
        mates = {mate for group in self.groups if name in group for mate in group}
        machine = next((place.machine for place in self.places if place.node in mates), None)
        number = 1 + max((place.worker for place in self.workers(name)), default=-1)
        place = Free(self.devices, self.places).put(self.graph.node(name), number, machine)
        return replace(self, places=(*self.places, place)) if place else None

    def without(self, gone: Place) -> Compiled:
        """Return the same without one worker."""
        return replace(self, places=tuple(place for place in self.places if place != gone))


def compile_graph(graph: Graph, devices: Sequence[int], gpus_per_stage: int = 4) -> Compiled:
    """Place a graph on a cluster whose machines have `devices` GPUs.

    Co-location goes before staging. `co_locate` is a demand; what is only small and frequent is co-located if it fits.
    Raises `InfeasibleError` if the declared parallelism does not fit, saying who asks for what and what would fit.
    """
    devices = tuple(devices)
    if not devices or min(devices) < 0 or gpus_per_stage < 1:
        raise ValueError(f"devices {devices} must be GPUs of each machine, at least one machine, and gpus_per_stage {gpus_per_stage} >= 1")
    declared = {node.name: node.parallelism for node in graph.nodes}
    policies: list[Applied] = []
    asked = [edge for edge in graph.edges if edge.co_locate]
    if (places := pack(_groups(graph, asked), declared, devices)) is None:
        raise InfeasibleError([_over_demand(graph, asked, devices)])
    policies += [Applied("co-location", str(edge), "co_locate is set") for edge in asked]
    for edge in (edge for edge in graph.edges if edge.frequent and edge.max_size_bytes <= SMALL_BYTES and not edge.co_locate):
        why = f"{edge.data_type} is small (up to {edge.max_size_bytes} bytes) and frequent"
        if found := pack(_groups(graph, [*asked, edge]), declared, devices):
            places, asked = found, [*asked, edge]
            policies.append(Applied("co-location", str(edge), why))
        else:
            policies.append(Applied("co-location", str(edge), f"{why}, but both ends do not fit on one machine", applies=False))
    groups = tuple(tuple(node.name for node in group) for group in _groups(graph, asked) if len(group) > 1)
    together = {name for group in groups for name in group}
    policies += _staged(graph, together)
    return Compiled(graph, devices, groups, places, tuple(policies), gpus_per_stage)


def _staged(graph: Graph, together: set[str]) -> Iterator[Applied]:
    for node in graph.nodes:
        if node.parallelism > 1 and node.gpus >= 1:
            why = f"parallelism {node.parallelism} > 1 and whole GPUs ({node.gpus:g}) per worker"
            if node.name in together:
                yield Applied("staged", node.name, f"{why}, but co-location goes first", applies=False)
            else:
                yield Applied("staged", node.name, why)


def _groups(graph: Graph, edges: Sequence[Edge]) -> list[list[Node]]:
    """Return the nodes, those together that are joined by some of the edges."""
    group = {node.name: {node.name} for node in graph.nodes}
    for edge in edges:
        joined = group[edge.source] | group[edge.target]
        group.update(dict.fromkeys(joined, joined))
    distinct = {id(names): names for names in group.values()}
    return [[node for node in graph.nodes if node.name in names] for names in distinct.values()]


def _over_demand(graph: Graph, edges: Sequence[Edge], devices: Sequence[int]) -> str:
    declared = {node.name: node.parallelism for node in graph.nodes}
    users = [node for node in graph.nodes if node.gpus]
    each = ", ".join(f"{node.name} {node.gpus:g} x {node.parallelism} = {node.gpus * node.parallelism:g}" for node in users)
    total, there = sum(node.gpus * node.parallelism for node in users), sum(devices)
    text = f"the graph declares {total:g} GPUs ({each}), the cluster has {there} ({' + '.join(map(str, devices))})"
    if total <= there:
        text += ", but no packing was found"
        if together := ["+".join(node.name for node in group) for group in _groups(graph, edges) if len(group) > 1]:
            text += f" with {', '.join(together)} each on one machine: drop a co_locate, or lower parallelism"
    best = _largest(graph, edges, devices)
    if best is None:
        return f"{text}; even min_parallelism of every node does not fit: lower it or gpus, or add GPUs"
    alone = ", ".join(f"{node.name} {_alone(node, devices)}" for node in users if _alone(node, devices) < declared[node.name])
    fits = ", ".join(f"{node.name} {best[node.name]}" for node in users)
    return f"{text}; parallelism {fits} would fit, none of them can be raised" + (
        f"; alone on the cluster: at most {alone}" if alone else ""
    )


def _alone(node: Node, devices: Sequence[int]) -> int:
    return sum(count * int(1 / node.gpus + 1e-9) if node.gpus < 1 else int(count // node.gpus) for count in devices)


def _largest(graph: Graph, edges: Sequence[Edge], devices: Sequence[int]) -> Mapping[str, int] | None:
    """Return a parallelism that fits and cannot be raised anywhere: from the least, raise whoever has the least share of its wish."""
    groups = _groups(graph, edges)
    chosen = {node.name: node.min_parallelism for node in graph.nodes}
    if pack(groups, chosen, devices) is None:
        return None
    open_nodes = list(graph.nodes)
    while open_nodes := [node for node in open_nodes if chosen[node.name] < node.parallelism]:
        node = min(open_nodes, key=lambda node: chosen[node.name] / node.parallelism)
        raised = {**chosen, node.name: chosen[node.name] + 1}
        if pack(groups, raised, devices) is None:
            open_nodes.remove(node)
        else:
            chosen = raised
    return chosen
