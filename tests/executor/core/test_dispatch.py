"""Who generates which samples."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollplan.executor.core.dispatch import deal, slots
from rollplan.executor.core.runbook import Dispatch

NODES = ("a", "b", "c")
Deal = tuple[int, int, Dispatch, tuple[float, ...] | None]
"""Samples, nodes, and the estimates of the samples."""


def test_without_estimates_samples_go_round_in_the_order_of_their_numbers() -> None:
    """Neighbours are often answers to one prompt; so every node gets some of each."""
    assert deal(range(7), NODES, Dispatch()) == {"a": (0, 3, 6), "b": (1, 4), "c": (2, 5)}


def test_lpt_deals_the_sorted_list_and_starts_the_longest_first() -> None:
    """Longest first inside each instance (StreamRL 4.1); equal lengths keep their order."""
    assert deal(range(6), NODES, Dispatch("lpt"), (1, 9, 9, 2, 3, 7)) == {"a": (1, 4), "b": (2, 3), "c": (5, 0)}


def test_the_longest_fifth_goes_to_the_tail_instances() -> None:
    """StreamRL Algorithm 2: floor(0.2 * 11) = 2 samples on the last node, the others shared by the rest."""
    lengths = (1, 2, 3, 4, 5, 6, 70, 80, 9, 10, 11)
    dealt = deal(range(11), NODES, Dispatch("given", 0.2, tail_instances=1), lengths)
    assert dealt == {"a": (0, 2, 4, 8, 10), "b": (1, 3, 5, 9), "c": (6, 7)}


def test_a_tail_of_no_samples_leaves_no_instance_idle() -> None:
    """Rounded down, 0.2 of 4 samples are none; then the tail instance takes part in the rest."""
    assert deal(range(4), NODES, Dispatch("lpt", 0.2, tail_instances=1), (1, 2, 3, 4)) == {"a": (3, 0), "b": (2,), "c": (1,)}


@pytest.mark.parametrize("tail", [3, 4, -1])
def test_tail_instances_leave_a_regular_one(tail: int) -> None:
    """Otherwise the short samples had no place."""
    with pytest.raises(ValueError, match=f"tail_instances .* less than 3 .*got {tail}"):
        deal(range(4), NODES, Dispatch(tail_instances=tail))


def test_estimates_are_one_per_sample() -> None:
    """A missing estimate would silently lose a sample."""
    with pytest.raises(ValueError, match="one value for each of 4 samples, got 1"):
        deal(range(4), NODES, Dispatch("lpt"), (1.0,))


def test_tail_instances_have_slots_of_their_own() -> None:
    """Long samples need more memory each, so fewer fit."""
    assert slots(NODES, Dispatch(tail_instances=1, slots=64, tail_slots=8)) == {"a": 64, "b": 64, "c": 8}


@example((100, 29))
@given(st.integers(2, 2000).flatmap(lambda samples: st.tuples(st.just(samples), st.integers(1, samples - 1))))
def test_a_share_that_was_a_number_of_samples_is_that_number_again(one: tuple[int, int]) -> None:
    """A dispatch file gives a share, and 29 / 100 * 100 is less than 29 in binary."""
    samples, tail = one
    dealt = deal(range(samples), NODES, Dispatch("lpt", tail / samples, tail_instances=1), tuple(map(float, range(samples))))
    assert len(dealt["c"]) == tail


@st.composite
def deals(draw: st.DrawFn) -> Deal:
    samples, nodes = draw(st.integers(0, 40)), draw(st.integers(1, 6))
    order = draw(st.sampled_from(["given", "lpt"]))
    dispatch = Dispatch(order, draw(st.floats(0, 1)), draw(st.integers(0, nodes - 1)))  # type: ignore[arg-type]
    estimates = draw(st.none() | st.lists(st.floats(1, 1e6), min_size=samples, max_size=samples).map(tuple))
    return samples, nodes, dispatch, estimates


@given(deals())
def test_every_sample_is_dealt_exactly_once_and_evenly_in_its_class(one: Deal) -> None:
    """Nothing lost, nothing doubled, and no node of a class has two samples more than another."""
    samples, count, dispatch, estimates = one
    nodes = [f"n{number}" for number in range(count)]
    dealt = deal(range(samples), nodes, dispatch, estimates)
    assert list(dealt) == nodes
    assert sorted(sample for share in dealt.values() for sample in share) == list(range(samples))
    cut = count - dispatch.tail_instances
    sizes = [len(dealt[node]) for node in nodes]
    for part in (sizes[:cut], sizes[cut:]):
        assert not part or max(part) - min(part) <= 1


@given(deals())
def test_no_regular_instance_has_a_longer_sample_than_the_shortest_of_the_tail(one: Deal) -> None:
    """The separation of Algorithm 2, where both classes have samples."""
    samples, count, dispatch, estimates = one
    cut = int(dispatch.tail_share * samples + 1e-9)
    if estimates is None or not dispatch.tail_instances or not 0 < cut < samples:
        return
    nodes = [f"n{number}" for number in range(count)]
    dealt = deal(range(samples), nodes, dispatch, estimates)
    regular = [estimates[sample] for node in nodes[: count - dispatch.tail_instances] for sample in dealt[node]]
    tail = [estimates[sample] for node in nodes[count - dispatch.tail_instances :] for sample in dealt[node]]
    assert len(tail) == cut
    assert max(regular) <= min(tail)
