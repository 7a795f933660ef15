"""Items under every interleaving that hypothesis finds: none lost, none doubled, order and consistency as promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.dataflow.compile import compile_graph
from rollplan.executor.dataflow.graph import Batch, Edge, Graph, Node
from rollplan.executor.dataflow.policy import BackPressure
from rollplan.executor.dataflow.run import Execution

from .virtual import VirtualRuntime, echo

DEVICES = (2, 2)


def tracing(name: str, poisoned: set[tuple[int, int]]) -> Callable[[Batch], list[Any]]:
    """Return a function that wraps what it gets and fails for some (iteration, number)."""

    def function(batch: Batch) -> list[Any]:
        found = zip(batch.numbers, batch.values, strict=True)
        return [ValueError("poison") if (batch.iteration, number) in poisoned else (name, value) for number, value in found]

    return function


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[str, set[tuple[int, int]]]]:
    """Return a graph of up to five nodes, and which items fail at which node."""
    names = "abcde"[: draw(st.integers(1, 5))]
    poison = {name: draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=2)) for name in names}
    nodes = tuple(
        Node(
            name,
            tracing(name, poison[name]),
            gpus=draw(st.sampled_from([0, 0.25, 0.5])),
            parallelism=draw(st.integers(1, 2)),
            max_parallelism=draw(st.sampled_from([None, 4])),
            batch_size=draw(st.sampled_from([1, 2, 4, None])),
        )
        for name in names
    )
    pairs = st.sets(st.tuples(st.sampled_from(names), st.sampled_from(names)))
    edges = [Edge(*sorted(pair)) for pair in {tuple(sorted(pair)) for pair in draw(pairs)} if pair[0] != pair[1]]
    consistency = st.sampled_from(["strong", "eventual"])
    edges += [Edge(source, target, control=True, consistency=draw(consistency)) for source, target in sorted(draw(pairs))]
    return Graph(nodes, tuple(edges)), poison


def expected(graph: Graph, poison: dict[str, set[tuple[int, int]]], iteration: int, size: int) -> dict[str, list[Any]]:
    """Return what every node must give, by plain recursion over the levels."""
    found: dict[str, list[Any]] = {}
    for name in (name for names in graph.levels for name in names):
        sources = [edge.source for edge in graph.sources(name)]
        found[name] = []
        for number in range(size):
            inputs = {source: found[source][number] for source in sources}
            if None in inputs.values() or (iteration, number) in poison[name]:
                found[name].append(None)
            else:
                value: Any = inputs if len(inputs) > 1 else next(iter(inputs.values()), 100 * iteration + number)
                found[name].append((name, value))
    return found


@given(graphs(), st.lists(st.integers(0, 6), max_size=4), st.integers(1, 3), st.integers(0, 2**32), st.booleans())
def test_nothing_is_lost_or_doubled_whatever_parallelism_does(
    drawn: tuple[Graph, dict[str, set[tuple[int, int]]]], sizes: list[int], in_flight: int, seed: int, pressed: bool
) -> None:
    """Random graphs, durations, failures, and adjustments between any two events; results compared with plain recursion."""
    graph, poison = drawn
    random = Random(seed)
    runtime = VirtualRuntime(lambda task: Random(f"{seed} {task}").random() * 3, random=random)
    execution = Execution(
        compile_graph(graph, DEVICES),
        runtime,
        lambda iteration: [100 * iteration + number for number in range(sizes[iteration])],
        len(sizes),
        in_flight=in_flight,
        back_pressure=BackPressure(threshold=2, release=0, observations=1, release_observations=2, cooldown=1) if pressed else None,
        observe_s=0.5,
        keep=[node.name for node in graph.nodes],
    )

    def meddle() -> None:
        if random.random() < 0.3:
            node = random.choice(graph.nodes)
            target = random.randint(1, 4)
            before = execution.status()[node.name]
            try:
                execution.adjust_parallelism(node.name, target, "a whim")
            except ValueError:
                assert execution.status()[node.name] == before, "a refusal changes nothing"
            else:
                assert execution.status()[node.name].workers == target

    runtime.meddle = meddle
    outcome = execution.run()

    wanted = [expected(graph, poison, iteration, size) for iteration, size in enumerate(sizes)]
    assert outcome.iterations == len(sizes)
    assert outcome.outputs == {node.name: tuple(tuple(one[node.name]) for one in wanted) for node in graph.nodes}
    calls = Counter((name, iteration, number) for name, iteration, numbers, _, _ in runtime.calls for number in numbers)
    assert set(calls.values()) <= {1}
    failed = {(failure.node, failure.iteration, failure.number) for failure in outcome.failures}
    done = {(n, i, k) for i, one in enumerate(wanted) for n, values in one.items() for k, value in enumerate(values) if value is not None}
    assert set(calls) == done | failed
    assert not done & failed
    assert len(failed) == len(outcome.failures)
    for node in graph.nodes:
        status = outcome.nodes[node.name]
        assert status.done + status.failed + status.skipped == sum(sizes)
        assert (status.queue_len, status.busy) == (0, 0)
    assert all(edge.waiting == 0 for edge in outcome.edges.values())
    assert all(list(numbers) == sorted(numbers) for _, _, numbers, _, _ in runtime.calls)
    for places in runtime.held:
        used = Counter[tuple[int | None, int]]()
        for place in places:
            used.update({(place.machine, device): round(100 * place.gpus) for device in place.devices})
        assert max(used.values(), default=0) <= 100, "a device was promised twice"
    assert runtime.closed
    check_gates(graph, runtime)


def check_gates(graph: Graph, runtime: VirtualRuntime) -> None:
    """Assert: with `strong`, the target's iteration k starts after the source's iteration k-1 has ended."""
    starts, ends = {}, {}
    for name, iteration, _, start_s, end_s in runtime.calls:
        starts[name, iteration] = min(start_s, starts.get((name, iteration), start_s))
        ends[name, iteration] = max(end_s, ends.get((name, iteration), end_s))
    for edge in (edge for edge in graph.edges if edge.control and edge.consistency == "strong"):
        for (name, iteration), start_s in starts.items():
            if name == edge.target:
                assert start_s >= ends.get((edge.source, iteration - 1), 0) - 1e-9


def loop(consistency: str) -> tuple[VirtualRuntime, list[tuple[int, int | None]]]:
    """Run actor -> critic ~> actor with a slow critic; return what the actor saw: (its iteration, that of its feedback)."""
    seen: list[tuple[int, int | None]] = []

    def actor(batch: Batch) -> list[Any]:
        seen.append((batch.iteration, batch.feedback["critic"].iteration))
        return list(batch.values)

    edges = (Edge("actor", "critic"), Edge("critic", "actor", control=True, consistency=consistency))  # type: ignore[arg-type]
    graph = Graph((Node("actor", actor), Node("critic", echo, batch_size=None)), edges)
    runtime = VirtualRuntime(lambda task: 10 if task.node == "critic" else 1)
    Execution(compile_graph(graph, (0,)), runtime, lambda iteration: [0, 1], 4, in_flight=3).run()
    return runtime, seen


def test_strong_feedback_is_of_the_iteration_before() -> None:
    """On-policy: the actor waits for the critic."""
    runtime, seen = loop("strong")
    assert sorted(set(seen)) == [(0, None), (1, 0), (2, 1), (3, 2)]
    assert runtime.clock_s >= 4 * 12


def test_eventual_feedback_may_be_older_and_the_actor_does_not_wait() -> None:
    """The actor is ahead by as many iterations as may be in flight, never more."""
    runtime, seen = loop("eventual")
    assert sorted(set(seen))[:3] == [(0, None), (1, None), (2, None)]
    assert all(got is None or got < iteration for iteration, got in seen)
    assert max(iteration - (-1 if got is None else got) for iteration, got in seen) <= 3
    assert runtime.clock_s < 4 * 12


def test_feedback_is_never_of_the_same_or_a_later_iteration() -> None:
    """Although a source that is ahead has newer results: a control edge brings those of iterations before."""
    seen = []

    def late(batch: Batch) -> list[Any]:
        seen.append((batch.iteration, batch.feedback["quick"].iteration))
        return list(batch.values)

    edges = (Edge("quick", "late", control=True, consistency="eventual"),)
    graph = Graph((Node("quick", echo), Node("late", late)), edges)
    runtime = VirtualRuntime(lambda task: 10 if task.node == "late" else 1)
    Execution(compile_graph(graph, (0,)), runtime, lambda iteration: [0], 4, in_flight=4).run()
    assert seen == [(0, None), (1, 0), (2, 1), (3, 2)]


def test_feedback_has_every_number_and_none_where_one_failed() -> None:
    """So that a function may find its own item of the iteration before."""
    seen = []

    def actor(batch: Batch) -> list[Any]:
        seen.append(batch.feedback["actor"])
        return [number if number else KeyError("first") for number in batch.numbers]

    graph = Graph((Node("actor", actor, batch_size=None),), (Edge("actor", "actor", control=True),))
    Execution(compile_graph(graph, (0,)), VirtualRuntime(lambda task: 1), lambda iteration: range(3), 2).run()
    assert (seen[0].iteration, seen[0].values, seen[1].iteration, seen[1].values) == (None, (), 0, (None, 1, 2))


def test_a_poisoned_item_stops_nothing_unless_asked() -> None:
    """The article says nothing of failures; items behind a failed one are skipped and counted."""
    graph = Graph((Node("a", tracing("a", {(0, 1)})), Node("b", echo)), (Edge("a", "b"),))
    compiled = compile_graph(graph, (0,))
    outcome = Execution(compiled, VirtualRuntime(lambda task: 1), lambda iteration: range(4), 3).run()
    assert [(one.node, one.iteration, one.number, one.error) for one in outcome.failures] == [("a", 0, 1, "ValueError: poison")]
    assert (outcome.nodes["b"].done, outcome.nodes["b"].skipped, outcome.iterations) == (11, 1, 3)
    stopped = Execution(compiled, VirtualRuntime(lambda task: 1), lambda iteration: range(4), 3, stop_on_failure=True).run()
    assert (len(stopped.failures), stopped.iterations, stopped.nodes["a"].done) == (1, 0, 1)


def test_back_pressure_raises_the_consumer_while_items_flow() -> None:
    """Queue, trigger, switch, and the shorter run that follows."""
    nodes = (Node("a", echo, gpus=1), Node("b", echo, gpus=1, max_parallelism=3))
    compiled = compile_graph(Graph(nodes, (Edge("a", "b"),)), (4,))

    def run(settings: BackPressure | None) -> tuple[float, list[tuple[str, str, int]]]:
        runtime = VirtualRuntime(lambda task: 0.1 if task.node == "a" else 1)
        done = Execution(compiled, runtime, lambda iteration: range(200), 2, back_pressure=settings).run()
        return runtime.clock_s, [(switch.by, switch.node, switch.after) for switch in done.switches]

    alone, nothing = run(None)
    helped, switches = run(BackPressure(threshold=20, release=5))
    assert nothing == []
    assert switches[:2] == [("adaptive back-pressure", "b", 2), ("adaptive back-pressure", "b", 3)]
    assert helped < alone / 2


def test_stages_take_batches_in_turn() -> None:
    """Eight workers, two stages: batch n belongs to stage n mod 2, and who has nothing of his own helps."""
    seen: list[tuple[int, int]] = []

    def work(batch: Batch) -> list[Any]:
        seen.append((batch.numbers[0], batch.worker))
        return list(batch.values)

    compiled = compile_graph(Graph((Node("a", work, gpus=1, parallelism=8),)), (8,))
    Execution(compiled, VirtualRuntime(lambda task: 1), lambda iteration: range(16), 1).run()
    own = [number % 2 == worker // 4 for number, worker in seen]
    assert (len(own), sum(own) >= 12) == (16, True)


def test_status_names_workers_gpus_and_queue() -> None:
    """The fields of the article's get_status, and what else there is to see."""
    compiled = compile_graph(Graph((Node("a", echo, gpus=0.5, parallelism=2), Node("b", echo)), (Edge("a", "b"),)), (1,))
    runtime = VirtualRuntime(lambda task: 1)
    execution = Execution(compiled, runtime, lambda iteration: ["x" * 10] * 9, 1)
    statuses = []
    runtime.meddle = lambda: statuses.append((execution.status(), execution.edges()))
    outcome = execution.run()
    nodes, edges = next(one for one in statuses if one[0]["a"].busy == 2)
    a = nodes["a"]
    assert (a.workers, a.gpus, a.devices, a.queue_len + a.busy + a.done) == (2, 1, ((0, 0),), 9)
    assert edges["a -> b"].latency_mean_s is None
    seen = outcome.edges["a -> b"]
    assert (seen.items, seen.bytes_moved, seen.oversized, seen.meant, seen.really) == (9, 90, 0, "object store", "by reference")
    assert seen.latency_mean_s is not None
    assert seen.latency_p95_s is not None
    assert 0 < seen.latency_mean_s <= seen.latency_p95_s


def test_latency_is_the_wait_for_a_worker() -> None:
    """Two items come at the same time, the one worker takes a second for each: they wait 0 and 1 s."""
    nodes = (Node("a", echo, batch_size=2), Node("b", echo))
    runtime = VirtualRuntime(lambda task: 1)
    execution = Execution(compile_graph(Graph(nodes, (Edge("a", "b"),)), (0,)), runtime, lambda iteration: range(2), 1, observe_s=9)
    edge = execution.run().edges["a -> b"]
    # The virtual clock runs inside of a call, which the report does not know: a second of "way" for each.
    assert edge.latency_mean_s == pytest.approx(1.5, abs=0.01)
    assert edge.latency_p95_s == pytest.approx(2, abs=0.01)


def test_items_above_the_declared_size_are_counted() -> None:
    """They move all the same."""
    graph = Graph((Node("a", echo), Node("b", echo)), (Edge("a", "b", max_size_bytes=5),))
    outcome = Execution(compile_graph(graph, (0,)), VirtualRuntime(lambda task: 1), lambda iteration: ["short", "longer"], 1).run()
    assert (outcome.edges["a -> b"].oversized, outcome.outputs["b"]) == (1, (("short", "longer"),))


@pytest.mark.parametrize(
    ("node", "target", "reason", "message"),
    [
        ("judge", 1, "latency_spike", "no node 'judge'; choose from reward, other"),
        ("reward", 0, "latency_spike", "parallelism 0 is outside of its limits, 1 to 24"),
        ("reward", 25, "latency_spike", "parallelism 25 is outside of its limits, 1 to 24"),
        ("reward", 24, " ", "reason must not be empty"),
        ("reward", 24, "latency_spike", "parallelism 24 does not fit, 16 would; lower another node first"),
    ],
)
def test_an_adjustment_that_cannot_be_is_refused(node: str, target: int, reason: str, message: str) -> None:
    """The article's example call: reward 24, "latency_spike"; on its 8 GPUs sixteen halves fit."""
    nodes = (Node("reward", echo, gpus=0.5, parallelism=4, max_parallelism=24), Node("other", echo))
    execution = Execution(compile_graph(Graph(nodes), (8,)), VirtualRuntime(lambda task: 1), lambda iteration: [], 0)
    with pytest.raises(ValueError, match=message):
        execution.adjust_parallelism(node, target, reason)
    assert execution.status()["reward"].workers == 4


def test_an_adjustment_before_the_run_holds_from_its_start() -> None:
    """And is in the log like any other."""
    execution = Execution(compile_graph(Graph((Node("a", echo),)), (0,)), VirtualRuntime(lambda task: 1), lambda iteration: range(6), 1)
    execution.adjust_parallelism("a", 3, "latency_spike")
    outcome = execution.run()
    assert [(one.by, one.node, one.before, one.after, one.reason) for one in outcome.switches] == [("operator", "a", 1, 3, "latency_spike")]
    assert outcome.nodes["a"].workers == 3


def test_a_worker_that_must_go_ends_what_it_does_and_takes_nothing_more() -> None:
    """Two workers, ten seconds a call, lowered to one in the middle of the first calls."""
    seen: list[tuple[int, int]] = []

    def work(batch: Batch) -> list[Any]:
        seen.append((batch.worker, batch.numbers[0]))
        return list(batch.values)

    runtime = VirtualRuntime(lambda task: 10)
    execution = Execution(
        compile_graph(Graph((Node("a", work, gpus=1, parallelism=2),)), (2,)), runtime, lambda iteration: range(6), 1, observe_s=5
    )

    def lower() -> None:
        if execution.status()["a"].busy == 2 and not execution.status()["a"].draining:
            execution.adjust_parallelism("a", 1, "make room")
            assert (execution.status()["a"].workers, execution.status()["a"].draining, execution.status()["a"].gpus) == (1, 1, 2)

    runtime.meddle = lower
    outcome = execution.run()
    assert sorted(number for _, number in seen) == list(range(6))
    assert [number for worker, number in seen if worker == 1] in ([0], [1])
    assert (outcome.nodes["a"].draining, outcome.nodes["a"].gpus, len(runtime.callers)) == (0, 1, 1)


def test_back_pressure_keeps_what_an_operator_asked_for() -> None:
    """The queue is short all the time, and still three workers stay three."""
    graph = Graph((Node("a", echo), Node("b", echo)), (Edge("a", "b"),))
    settings = BackPressure(threshold=5, release=4, release_observations=1)
    runtime = VirtualRuntime(lambda task: 1)
    execution = Execution(compile_graph(graph, (0,)), runtime, lambda iteration: range(50), 1, back_pressure=settings)
    execution.adjust_parallelism("b", 3, "latency_spike")
    outcome = execution.run()
    assert (len(outcome.switches), outcome.nodes["b"].workers) == (1, 3)


def test_a_run_that_breaks_ends_its_workers() -> None:
    """Whatever went wrong."""
    runtime = VirtualRuntime(lambda task: 1)
    execution = Execution(compile_graph(Graph((Node("a", echo),)), (0,)), runtime, lambda iteration: [][1], 1)
    with suppress(IndexError):
        execution.run()
    assert runtime.closed
