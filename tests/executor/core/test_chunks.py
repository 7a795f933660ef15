"""Which samples train when, in each way."""

from __future__ import annotations

from typing import Any

import pytest

from rollplan.executor.core.chunks import next_chunk, staleness_bound

from .books import job


def chunk(ready: list[int], trained: int = 0, **settings: Any) -> tuple[int, ...]:
    """What a job of eight samples hands to a free trainer."""
    return next_chunk(job("A", ["n"], samples=8, **settings), ready, trained)


@pytest.mark.parametrize("way", ["serial", "one-step", "async-batch"])
def test_whole_batches_train_when_all_is_there_in_the_order_of_numbers(way: str) -> None:
    """Sums of floating point numbers depend on their order, so it must not depend on who finished first."""
    assert chunk([7, 6, 5, 4, 3, 2, 1], way=way) == ()
    assert chunk([7, 6, 5, 4, 3, 2, 1, 0], way=way) == tuple(range(8))


def test_mini_batches_are_equal_shares_in_the_order_of_finishing() -> None:
    """8 samples in 3 chunks: ends at 2, 5, 8, as `rollplan.models.pipelining` cuts them."""
    assert chunk([7], way="mini-batch", chunks=3) == ()
    assert chunk([7, 3, 1, 0], way="mini-batch", chunks=3) == (3, 7)
    assert chunk([1, 0], 2, way="mini-batch", chunks=3) == ()
    assert chunk([1, 0, 6, 5], 2, way="mini-batch", chunks=3) == (0, 1, 6)
    assert chunk([5, 4, 2], 5, way="mini-batch", chunks=3) == (2, 4, 5)


@pytest.mark.parametrize("way", ["dynamic-batch", "async-streamed"])
def test_streams_take_all_that_is_ready_if_it_fills_the_trainer_or_is_the_rest(way: str) -> None:
    """StreamRL Fig. 5 b: too small a chunk would not pay, the last one has to be taken."""
    assert chunk([4, 2], way=way, fill=3) == ()
    assert chunk([4, 2, 1, 7], way=way, fill=3) == (1, 2, 4, 7)
    assert chunk([4, 2], 6, way=way, fill=3) == (2, 4)
    assert chunk([], 8, way=way, fill=3) == ()


def test_only_ways_that_overlap_iterations_may_be_stale() -> None:
    """A staleness that somebody wrote beside a way of the other kind means nothing."""
    ways = ("serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed")
    assert [staleness_bound(job("A", ["n"], way=way, staleness=2)) for way in ways] == [0, 0, 0, 1, 2, 2]
