"""Adaptive back-pressure: when it acts, on which side, and that it does not flutter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.dataflow.graph import Edge, Graph, Node
from rollplan.executor.dataflow.policy import BackPressure, Change, Controller

from .virtual import echo

NODES = tuple(Node(name, echo, gpus=1, parallelism=2, max_parallelism=4) for name in "abc")
EDGES = (Edge("a", "b"), Edge("b", "c"))
CHAIN = Graph(NODES, EDGES)
PAIR = Graph(NODES[:2], EDGES[:1])


def watch(queues: Sequence[int], room: bool = True, settings: BackPressure | None = None, **workers: int) -> list[tuple[int, Change]]:
    """Show queue lengths to the controller of a -> b; return its changes with the number of the observation."""
    controller, now = Controller(PAIR, settings or BackPressure()), {"a": 2, "b": 2, **workers}
    found = []
    for number, length in enumerate(queues, start=1):
        for change in controller.observe({EDGES[0]: length}, now, lambda name: room):
            now[change.node] = change.target
            found.append((number, change))
    return found


def test_a_queue_of_80_never_triggers() -> None:
    """The article's own example, threshold 100."""
    assert watch([80] * 500) == []


def test_a_queue_of_105_triggers_if_it_stays() -> None:
    """The article's log has 105; how long is ours: three observations."""
    number, change = watch([105] * 3)[0]
    assert (number, change.node, change.before, change.target) == (3, "b", 2, 3)
    assert change.reason == "a -> b: 105 items wait, more than 100 for 3 observations; devices are free for one more b"
    assert watch([105, 105, 100] * 100) == [], "interrupted each time"


def test_without_free_devices_the_producer_is_slowed_down() -> None:
    """The other side of the article's rule."""
    ((_, change),) = watch([105] * 3, room=False)
    assert (change.node, change.target) == ("a", 1)
    assert change.reason.endswith("no device is free for b, so a is slowed down")


def test_limits_hold() -> None:
    """b up to four, then a down to one, then nothing."""
    assert [(change.node, change.target) for _, change in watch([500] * 300)] == [("b", 3), ("b", 4), ("a", 1)]


def test_after_a_switch_the_edge_rests() -> None:
    """Cooldown: five observations in which the switch shows its effect."""
    assert [number for number, _ in watch([105] * 30)] == [3, 9, 15]


def test_a_short_queue_gives_back_what_was_taken() -> None:
    """One step at a time, after ten short observations; between release and threshold nothing happens."""
    taken = [105] * 3
    assert watch(taken + [51] * 200)[1:] == []
    ((number, change),) = watch(taken + [50] * 200)[1:]
    assert (number, change.node, change.before, change.target) == (13, "b", 3, 2)


def test_a_consumer_that_is_stuck_itself_is_not_raised() -> None:
    """More of b would only fill the next queue: the pressure goes on to a."""
    controller = Controller(CHAIN, BackPressure())
    queues, workers = {EDGES[0]: 105, EDGES[1]: 60}, {"a": 2, "b": 2, "c": 4}
    found = [change for _ in range(3) for change in controller.observe(queues, workers, lambda name: True)]
    assert [(change.node, change.target) for change in found] == [("a", 1)]
    assert "b -> c has 60 items waiting itself" in found[0].reason


def test_what_an_operator_asked_for_is_what_is_returned_to() -> None:
    """Otherwise the next short queue would undo it."""
    controller = Controller(PAIR, BackPressure())
    controller.wish("b", 4)
    assert [change for _ in range(99) for change in controller.observe({EDGES[0]: 0}, {"a": 2, "b": 4}, lambda name: True)] == []


@pytest.mark.parametrize("wrong", [{"release": 100}, {"release": -1}, {"observations": 0}, {"cooldown": 0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    """Release at or above the threshold has no hysteresis."""
    with pytest.raises(ValueError, match="must be"):
        BackPressure(**wrong)


SETTINGS = BackPressure(threshold=10, release=5, observations=2, release_observations=4, cooldown=1)


def check_no_flutter(changes: Sequence[Change], observations: int) -> None:
    """Assert the law of the controller's docstring, node by node."""
    for name in "abc":
        steps = [change.target - change.before for change in changes if change.node == name]
        turns = sum(one != other for one, other in pairwise(steps))
        assert turns <= 1 + log2(1 + 3 * observations / SETTINGS.release_observations)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 12), st.booleans()), max_size=150),
)
def test_under_any_load_nothing_flutters_and_limits_hold(load: list[tuple[int, int, int, bool]]) -> None:
    """Queues that stay for some observations and jump, devices that come and go: few changes of direction, each with a reason."""
    controller, workers = Controller(CHAIN, SETTINGS), {"a": 2, "b": 2, "c": 2}
    changes: list[Change] = []
    total = 0
    for first, second, times, room in load:
        for _ in range(times):
            total += 1
            queues = dict(zip(EDGES, (first, second), strict=True))
            for change in controller.observe(queues, workers, lambda name, room=room: room):
                assert change.before == workers[change.node]
                assert abs(change.target - change.before) == 1
                assert CHAIN.node(change.node).min_parallelism <= change.target <= 4
                assert change.reason
                workers[change.node] = change.target
                changes.append(change)
    check_no_flutter(changes, total)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 4))
def test_in_a_closed_loop_switches_become_rare(a: int, b: int, c: int, spare: int) -> None:
    """Queues that follow from the rates and the controller's own doing: the worst case for flutter, since undoing brings it back."""
    controller, workers = Controller(CHAIN, SETTINGS), {"a": 2, "b": 2, "c": 2}
    first = second = 0
    changes: list[Change] = []
    for _ in range(2000):
        made = min(first + workers["a"] * a, workers["b"] * b)
        first, second = first + workers["a"] * a - made, max(0, second + made - workers["c"] * c)
        first, second = min(first, 60), min(second, 60)
        room = sum(workers.values()) < 6 + spare
        for change in controller.observe(dict(zip(EDGES, (first, second), strict=True)), workers, lambda name, room=room: room):
            workers[change.node] = change.target
            changes.append(change)
    check_no_flutter(changes, 2000)
    assert len(changes) <= 60
