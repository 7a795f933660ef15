"""Which points are measured."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rollplan.profilers.rollout.plan import (
    CENTRE,
    LEAST_CONTEXT,
    LENGTH,
    WARM_UP,
    Limits,
    Point,
    default_batches,
    default_contexts,
    grid,
    model_length,
    room,
)

sizes = st.lists(st.integers(1, 300), min_size=1, max_size=8)
lengths = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


@given(sizes, lengths, st.integers(1, 256), st.integers(64, 8192), st.none() | st.integers(100, 10**6))
def test_the_grid_fits_and_has_no_holes(batches: list[int], contexts: list[int], slots: int, length: int, kv: int | None) -> None:
    """If a point fits, so does everything smaller that was asked for; what was asked for is measured or explained."""
    found = grid(batches, contexts, Limits(slots, length, kv))
    assert len(found.points) + len(found.dropped) == len(set(batches)) * len(set(contexts))
    for point in found.points:
        assert point.batch <= slots
        assert room(point.context) <= length
        assert kv is None or point.batch * room(point.context) <= kv
        for batch in batches:
            for context in contexts:
                smaller = batch <= point.batch and LEAST_CONTEXT <= context <= point.context
                assert not smaller or Point(batch, context) in found.points


def test_a_run_is_centred_on_its_context() -> None:
    """Steps 9 to 55 of 56 count; their mean, 32, is what the prompt is shorter by."""
    counted = range(WARM_UP + 1, LENGTH)
    assert sum(counted) / len(counted) == CENTRE == 32
    assert room(100) == 100 - CENTRE + LENGTH


@given(st.integers(1, 5000))
def test_default_batches_are_powers_of_two_and_all_slots(slots: int) -> None:
    """So the range that is measured is the one that the engine can use."""
    found = default_batches(slots)
    assert found[0] == 1
    assert found[-1] == slots
    assert found == sorted(set(found))
    assert all(larger <= 2 * smaller for smaller, larger in pairwise(found))


@given(st.integers(100, 200_000))
def test_default_contexts_reach_the_longest_that_the_engine_takes(max_model_len: int) -> None:
    """Or 4096, so that a model for long texts does not cost hours unasked."""
    found = default_contexts(max_model_len)
    assert found == sorted(set(found))
    assert found[-1] == min(4096, max_model_len - 24)
    assert room(found[-1]) <= max_model_len


def test_the_engine_is_started_for_the_contexts_and_no_longer_than_the_model_allows() -> None:
    """A longer limit would take KV cache and compile for nothing."""
    assert model_length([100, 2000], 32768) == 2512
    assert model_length([100, 2000], 2048) == 2048
    assert model_length(None, 32768) == 4608
