"""A dataflow graph: nodes are functions with resources, edges carry items, control edges carry results into the next iteration.

The model is that of an article about a "HybridFlow scheduler"; nothing of it exists in verl (docs/dataflow.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any, Literal

Consistency = Literal["strong", "eventual"]
SMALL_BYTES = 10_000_000
"""The article's example: items of an edge below this size go through shared memory."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a control edge brings: results of its source, by item number, None where an item failed.

    iteration: whose results these are; None, with no values, as long as there are none.
    """

    iteration: int | None
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a node's function is called with: items of one iteration, ascending by number.

    values: one for each number. It is what the source's function returned for this item, or what was fed if the node has no
    source; with several sources it is a mapping by the source's name. feedback: by the name of a control edge's source.
    worker: number of the node's worker that runs it. devices: its GPUs, as torch numbers them in this process.
    """

    iteration: int
    numbers: tuple[int, ...]
    values: tuple[Any, ...]
    feedback: Mapping[str, Feedback]
    worker: int
    devices: tuple[int, ...]


Function = Callable[[Batch], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Node:
    """A function and what its workers need.

    function: called with a `Batch`, returns one result for each item, in their order. An exception in the place of a result
    fails that item; one that is raised fails all items of the call. A class is instantiated once per worker, and the instance
    is called. gpus: of one worker; whole, or a share of one GPU. cpus: of one worker; only Ray counts them. parallelism:
    workers at the start. min_parallelism, max_parallelism: limits of later adjustments, None: as many as fit. batch_size:
    items of a call, always the same ones; None: the whole iteration. Raises `ValueError`.
    """

    name: str
    function: Function | type[Function]
    gpus: float = 0
    cpus: float = 1
    parallelism: int = 1
    min_parallelism: int = 1
    max_parallelism: int | None = None
    batch_size: int | None = 1

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a node's name must not be empty")
        for field_name, amount in (("gpus", self.gpus), ("cpus", self.cpus)):
            if not (isfinite(amount) and amount >= 0):
                raise ValueError(f"{self.name}: {field_name} must be finite and at least 0, got {amount}")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"{self.name}: gpus must be whole or below 1, got {self.gpus}; a share is of one GPU, so round it up")
        top = self.parallelism if self.max_parallelism is None else self.max_parallelism
        if not 1 <= self.min_parallelism <= self.parallelism <= top:
            limits = f"1 <= min_parallelism {self.min_parallelism} <= parallelism {self.parallelism} <= max_parallelism {top}"
            raise ValueError(f"{self.name}: {limits} does not hold; correct one of them")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"{self.name}: batch_size must be at least 1, got {self.batch_size}; None means the whole iteration")


@dataclass(frozen=True, slots=True)
class Edge:
    """Every result of `source` is an input of `target`; with `control`, an input of the next iteration.

    data_type: a label, for people. co_locate: keep both ends on one machine. max_size_bytes: items up to this size are meant
    for shared memory, larger ones are counted as oversized. frequent: exchanged all the time, such as gradients or KL
    statistics. consistency, of a control edge: with `strong` the target's iteration k starts after the source's iteration
    k-1 has ended; with `eventual` it starts with the newest results there are. Raises `ValueError`.
    """

    source: str
    target: str
    data_type: str = "items"
    control: bool = False
    co_locate: bool = False
    max_size_bytes: int = SMALL_BYTES
    consistency: Consistency = "strong"
    frequent: bool = False

    def __post_init__(self) -> None:
        if self.max_size_bytes < 1:
            raise ValueError(f"{self}: max_size_bytes must be at least 1, got {self.max_size_bytes}")
        if self.consistency not in ("strong", "eventual"):
            raise ValueError(f"{self}: consistency is {self.consistency!r}; choose strong or eventual")
        if self.consistency == "eventual" and not self.control:
            raise ValueError(f"{self}: an item cannot be processed before it is there; only a control edge may be eventual")

    def __str__(self) -> str:
        return f"{self.source} {'~>' if self.control else '->'} {self.target}"


@dataclass(frozen=True)
class Graph:
    """Nodes and edges that can be run. Raises `ValueError` with every fault that it finds.

    Without its control edges the graph has no cycle: the loop of RL is closed by a control edge.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "edges", tuple(self.edges))
        if faults := list(self._faults()):
            raise ValueError("the graph cannot be run\n" + "\n".join(f"  {fault}" for fault in faults))

    def node(self, name: str) -> Node:
        """Return a node by name. Raises `ValueError` with the known names."""
        if name not in self._by_name:
            raise ValueError(f"there is no node {name!r}; choose from {', '.join(self._by_name)}")
        return self._by_name[name]

    def sources(self, name: str, control: bool = False) -> tuple[Edge, ...]:
        """Return the edges into a node: those of data, or those of control."""
        return self._into[name, control]

    def targets(self, name: str) -> tuple[Edge, ...]:
        """Return the data edges out of a node."""
        return self._out_of[name]

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Topological levels: the nodes of a level take data from earlier levels only; in the order in which they were given."""
        depth: dict[str, int] = {}
        for name in self._sorted():
            depth[name] = 1 + max((depth[edge.source] for edge in self.sources(name)), default=-1)
        return tuple(tuple(node.name for node in self.nodes if depth[node.name] == level) for level in range(max(depth.values()) + 1))

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _into(self) -> Mapping[tuple[str, bool], tuple[Edge, ...]]:
        kinds = ((name, control) for name in self._by_name for control in (False, True))
        return {(name, control): tuple(e for e in self.edges if (e.target, e.control) == (name, control)) for name, control in kinds}

    @cached_property
    def _out_of(self) -> Mapping[str, tuple[Edge, ...]]:
        return {name: tuple(edge for edge in self.edges if edge.source == name and not edge.control) for name in self._by_name}

    def _sorted(self) -> tuple[str, ...]:
        return tuple(TopologicalSorter({name: [edge.source for edge in self.sources(name)] for name in self._by_name}).static_order())

    def _faults(self) -> Iterator[str]:
        if not self.nodes:
            yield "it has no nodes; add one"
        names = [node.name for node in self.nodes]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{name}: {names.count(name)} nodes have this name; give each its own"
        keys = [(edge.source, edge.target, edge.control) for edge in self.edges]
        for number, edge in enumerate(self.edges):
            for end in dict.fromkeys((edge.source, edge.target)):
                if end not in names:
                    yield f"{edge}: there is no node {end!r}; choose from {', '.join(names)}"
            if keys[number] in keys[:number]:
                yield f"{edge}: is there twice; join them into one edge"
        try:
            self._sorted()
        except CycleError as error:
            cycle = [str(name) for name in error.args[1]]
            yield (
                f"{' -> '.join(cycle)}: a cycle of data edges, in which every node waits for the others; set control=True on the edge"
                f" whose data belongs to the next iteration"
            )
