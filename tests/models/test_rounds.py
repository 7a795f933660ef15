"""Equal rounds: Eq. 2 of StreamRL without its cliff."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.decode import Admission, Requests, simulate
from rollplan.models.latency import AffineLatency, TableLatency, ptl_ms
from rollplan.models.rounds import equalised_rounds, rounds_seconds

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
FIG_6 = {1: 8.40, 2: 8.75, 4: 8.95, 8: 9.05, 16: 9.45, 32: 10.3, 64: 11.7, 128: 15.25, 256: 21.4, 512: 36.85}
TABLE = TableLatency.of_batch(FIG_6)
SAMPLES = (127, 128, 129, 192, 256, 257)


def eq_2_s(latency: TableLatency | AffineLatency, tokens: float, samples: int, batch: int) -> float:
    """StreamRL (arXiv 2504.15930) Eq. 2 as printed."""
    return ptl_ms(latency, batch, 0) * tokens * ceil(samples / batch) / 1000


def test_129_samples_at_a_cap_of_128_are_two_rounds_of_65() -> None:
    """StreamRL Fig. 6 digitised, 1,000 tokens: 23.51 s, where full batches would take 30.50 s."""
    assert equalised_rounds(129, 128) == (2, 65)
    assert rounds_seconds(TABLE, 1000, 129, 128) == pytest.approx(23.51, abs=0.005)


def test_full_batches_make_a_cliff() -> None:
    """BS = min(M, cap): one sample more doubles the time."""
    assert [eq_2_s(TABLE, 1000, m, min(m, 128)) for m in SAMPLES] == pytest.approx([15.19, 15.25, 30.5, 30.5, 30.5, 45.75], abs=0.005)


def test_equal_rounds_do_not() -> None:
    """The same samples."""
    found = [rounds_seconds(TABLE, 1000, m, 128) for m in SAMPLES]
    assert found == pytest.approx([15.19, 15.25, 23.51, 26.95, 30.5, 38.76], abs=0.005)


def test_equal_rounds_are_within_1_percent_of_continuous_batching_of_equal_lengths() -> None:
    """The exact simulation of the same samples, every one of 1,000 tokens."""
    exact = [simulate([Requests(np.zeros(m, dtype=np.int64), np.full(m, 1000))], Admission(128), TABLE).seconds for m in SAMPLES]
    assert exact == pytest.approx([15.19, 15.25, 23.65, 26.95, 30.5, 38.9], abs=0.005)
    assert [rounds_seconds(TABLE, 1000, m, 128) for m in SAMPLES] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("latency", [TABLE, AffineLatency(8.44, 0.0544)], ids=["table", "affine"])
def test_no_batch_size_up_to_the_cap_is_faster_by_eq_2(latency: TableLatency | AffineLatency) -> None:
    """Exhaustive over all batch sizes, for the digitised curve of Fig. 6 and the affine law fitted to it."""
    ptl = {batch: ptl_ms(latency, batch, 0) for batch in range(1, 129)}
    for cap in (1, 2, 3, 7, 16, 33, 64, 100, 128):
        for samples in range(1, 3 * cap + 2):
            rounds, batch = equalised_rounds(samples, cap)
            best = min(ptl[other] * ceil(samples / other) for other in range(1, cap + 1))
            assert rounds * ptl[batch] <= best * (1 + 1e-12), (samples, cap)


def test_where_a_step_costs_little_beside_a_sequence_another_batch_size_can_be_faster() -> None:
    """So equal rounds are no theorem: with 0.1 + B ms, 5 samples at cap 4 are faster one by one than as 3 + 2."""
    latency = AffineLatency(0.1, 1.0)
    assert eq_2_s(latency, 1000, 5, 1) == pytest.approx(5.5)
    assert rounds_seconds(latency, 1000, 5, 4) == pytest.approx(6.2)


@REPEATABLE
@given(st.integers(1, 5000), st.integers(1, 600))
def test_rounds_hold_all_samples_within_the_cap_and_none_can_be_spared(samples: int, cap: int) -> None:
    """Fewest rounds, and of these the smallest batch."""
    rounds, batch = equalised_rounds(samples, cap)
    assert batch <= cap
    assert rounds * batch >= samples > rounds * (batch - 1)
    assert (rounds - 1) * cap < samples


def test_a_sequence_attends_to_its_prompt_and_half_its_output_on_average() -> None:
    """8 ms + 2 ms per 1,000 tokens: 3 sequences with (500 + 100) tokens, 200 steps; the exact sum differs by half a token per step."""
    latency = AffineLatency(8.0, 0.0, 2.0)
    assert rounds_seconds(latency, 200, 3, 4, prompt_tokens=500) == pytest.approx(200 * (8 + 2 * 1.8) / 1000)
    exact = simulate([Requests(np.full(3, 500), np.full(3, 200))], Admission(4), latency).seconds
    assert rounds_seconds(latency, 200, 3, 4, prompt_tokens=500) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("samples", "cap"), [(0, 4), (3, 0), (3, -1)])
def test_no_samples_and_no_room_are_refused(samples: int, cap: int) -> None:
    """A cap of 0 means that the cache holds no sequence: infeasible, not a division by zero."""
    with pytest.raises(ValueError, match="must be at least 1"):
        equalised_rounds(samples, cap)
