"""What a graph is, and which graphs are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.dataflow.graph import Edge, Graph, Node

from .virtual import echo

ACTOR, REWARD, CRITIC = (Node(name, echo) for name in ("actor", "reward", "critic"))


def test_a_cycle_of_data_edges_is_refused_with_its_way_out() -> None:
    """The loop of RL, as one draws it at first; contradiction 5 of the article (a DAG that is a loop)."""
    with pytest.raises(ValueError, match="cycle of data edges") as refused:
        Graph((ACTOR, CRITIC), (Edge("actor", "critic"), Edge("critic", "actor")))
    assert "actor -> critic -> actor" in str(refused.value) or "critic -> actor -> critic" in str(refused.value)
    assert "set control=True" in str(refused.value)


def test_a_control_edge_closes_the_loop() -> None:
    """And is no part of the levels."""
    graph = Graph((ACTOR, REWARD, CRITIC), (Edge("actor", "reward"), Edge("actor", "critic"), Edge("critic", "actor", control=True)))
    assert graph.levels == (("actor",), ("reward", "critic"))


def test_all_faults_are_said_at_once() -> None:
    """Names, ends, doubles: one round of corrections."""
    with pytest.raises(ValueError, match="cannot be run") as refused:
        Graph((ACTOR, ACTOR), (Edge("actor", "judge"), Edge("critic", "actor"), Edge("critic", "actor")))
    text = str(refused.value)
    assert [part in text for part in ("2 nodes have this name", "no node 'judge'", "no node 'critic'", "is there twice")] == [True] * 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"gpus": 1.5}, "gpus must be whole or below 1, got 1.5"),
        ({"gpus": -1}, "gpus must be finite and at least 0, got -1"),
        ({"cpus": float("nan")}, "cpus must be finite and at least 0, got nan"),
        ({"parallelism": 0}, "does not hold"),
        ({"parallelism": 2, "max_parallelism": 1}, "parallelism 2 <= max_parallelism 1 does not hold"),
        ({"min_parallelism": 2}, "min_parallelism 2 <= parallelism 1"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0; None means the whole iteration"),
    ],
)
def test_a_node_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    """Field, value, limit."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Node(**{"name": "actor", "function": echo, **wrong})


def test_only_a_control_edge_may_be_eventual() -> None:
    """An item that has not come cannot be processed."""
    with pytest.raises(ValueError, match="only a control edge may be eventual"):
        Edge("actor", "reward", consistency="eventual")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12, unique=True))
def test_a_graph_is_accepted_exactly_if_its_data_edges_have_no_cycle(pairs: list[tuple[int, int]]) -> None:
    """Brute force: a cycle is what a walk of as many steps as nodes finds. Every edge goes from a lower to a higher level."""
    nodes = tuple(Node(str(number), echo) for number in range(6))
    ends = [{start} for start in range(6)]
    for _ in range(6):
        ends = [{target for source, target in pairs if source in reached} for reached in ends]
    edges = tuple(Edge(str(source), str(target)) for source, target in pairs)
    if any(ends):
        with pytest.raises(ValueError, match="cycle"):
            Graph(nodes, edges)
    else:
        level = {name: number for number, names in enumerate(Graph(nodes, edges).levels) for name in names}
        assert sorted(level) == [node.name for node in nodes]
        assert all(level[str(source)] < level[str(target)] for source, target in pairs)
