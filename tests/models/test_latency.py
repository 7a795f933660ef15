"""Per-token latency: closed forms of stretches, bilinear tables, and what holds outside of what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.latency import AffineLatency, DecodeLatency, TableLatency, ptl_ms

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
FIG_6 = {1: 8.40, 2: 8.75, 4: 8.95, 8: 9.05, 16: 9.45, 32: 10.3, 64: 11.7, 128: 15.25, 256: 21.4, 512: 36.85}
"""StreamRL (arXiv 2504.15930) Fig. 6, digitised: milliseconds of a decode step by batch size."""


def quarters(low: float, high: float) -> st.SearchStrategy[float]:
    return st.integers(int(4 * low), int(4 * high)).map(lambda number: number / 4)


@st.composite
def tables(draw: st.DrawFn) -> TableLatency:
    """Any grid, also one whose measured values fall."""
    batches = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=4)))
    contexts = sorted(draw(st.sets(st.integers(0, 400), min_size=1, max_size=4)))
    ms = draw(st.lists(quarters(1, 50), min_size=len(batches) * len(contexts), max_size=len(batches) * len(contexts)))
    return TableLatency(np.array(batches), np.array(contexts), np.array(ms).reshape(len(batches), len(contexts)))


affine = st.builds(AffineLatency, quarters(1, 20), quarters(0, 2), quarters(0, 4))


def stretch_s(latency: DecodeLatency, batch: int, kv_tokens: int, steps: int) -> float:
    return float(latency.seconds(np.array([batch]), np.array([float(kv_tokens)]), np.array([steps]))[0])


@REPEATABLE
@given(st.one_of(affine, tables()), st.integers(1, 60), st.integers(1, 3000), st.integers(0, 700))
def test_a_stretch_takes_what_its_steps_take_one_by_one(latency: DecodeLatency, batch: int, kv_tokens: int, steps: int) -> None:
    """The closed form is the sum, across every kink of a table and beyond both its ends."""
    one_by_one = sum(ptl_ms(latency, batch, kv_tokens + batch * step) for step in range(steps)) / 1000
    assert stretch_s(latency, batch, kv_tokens, steps) == pytest.approx(one_by_one, rel=1e-9, abs=1e-9)


def test_the_affine_law_is_its_formula() -> None:
    """8 + 0.5 * 4 + 2 * 3000 / 1000 ms."""
    assert ptl_ms(AffineLatency(8, 0.5, 2), 4, 3000) == pytest.approx(16)


@REPEATABLE
@given(tables(), st.floats(0, 1), st.floats(0, 1))
def test_a_table_is_bilinear_between_its_points(table: TableLatency, down: float, across: float) -> None:
    """Along contexts at both neighbouring batches, then between these."""
    batch = round(table.batches[0] + down * (table.batches[-1] - table.batches[0]))
    context = table.contexts[0] + across * (table.contexts[-1] - table.contexts[0])
    rows = [np.interp(context, table.contexts, row) for row in table.ms]
    assert ptl_ms(table, batch, batch * context) == pytest.approx(np.interp(batch, table.batches, rows), rel=1e-9)


@REPEATABLE
@given(tables())
def test_the_envelope_is_the_least_table_that_never_falls_and_is_nowhere_below_the_measured_one(table: TableLatency) -> None:
    """Taken again from the definition: the largest value at no larger batch and context."""
    again = TableLatency(table.batches, table.contexts, table.ms)
    assert np.array_equal(again.ms, table.ms)
    assert np.all(np.diff(table.ms, axis=0) >= 0)
    assert np.all(np.diff(table.ms, axis=1) >= 0)


def test_a_measured_value_that_falls_is_lifted_and_no_other_is_touched() -> None:
    """5.6 % of neighbours in measured tables go down, because kernels switch tiles."""
    table = TableLatency(np.array([1, 2, 4]), np.array([0, 512]), np.array([[8.0, 9.0], [7.0, 9.5], [8.5, 8.0]]))
    assert table.ms.tolist() == [[8.0, 9.0], [8.0, 9.5], [8.5, 9.5]]


@REPEATABLE
@given(tables(), st.integers(1, 80), st.integers(0, 800), st.integers(0, 80), st.integers(0, 800))
def test_more_context_never_takes_less_time_nor_do_more_sequences_up_to_the_last_measured_context(
    table: TableLatency, batch: int, context: int, more_batch: int, more_context: int
) -> None:
    """Beyond the last context each batch goes on with its own slope, and two such lines may cross."""
    here = ptl_ms(table, batch, batch * context)
    assert here <= ptl_ms(table, batch, batch * (context + more_context)) * (1 + 1e-9)
    if context <= table.contexts[-1]:
        assert here <= ptl_ms(table, batch + more_batch, (batch + more_batch) * context) * (1 + 1e-9)


@REPEATABLE
@given(tables(), st.integers(1, 80), st.integers(1, 800))
def test_every_step_takes_some_time(table: TableLatency, batch: int, context: int) -> None:
    """A steep first slope that went on below the first measured batch or context would end in negative seconds."""
    assert ptl_ms(table, batch, batch * context) > 0


def test_a_small_batch_takes_at_least_its_share_of_the_first_measured_one() -> None:
    """From 1 ms at 4 to 10 ms at 8 the slope leads to -5.75 ms at batch 1; a quarter of 1 ms is what is left."""
    table = TableLatency(np.array([4, 8]), np.zeros(1), np.array([[1.0], [10.0]]))
    assert [ptl_ms(table, batch, 0) for batch in (1, 2, 4, 6, 8)] == pytest.approx([0.25, 0.5, 1.0, 5.5, 10.0])


def test_outside_of_the_table_the_last_slope_goes_on() -> None:
    """In batch and in context, on all four sides."""
    table = TableLatency(np.array([2, 4]), np.array([100, 200]), np.array([[10.0, 12.0], [11.0, 13.0]]))
    assert ptl_ms(table, 6, 6 * 100) == pytest.approx(12)
    assert ptl_ms(table, 1, 1 * 100) == pytest.approx(9.5)
    assert ptl_ms(table, 2, 2 * 400) == pytest.approx(16)
    assert ptl_ms(table, 2, 2 * 50) == pytest.approx(9)


@pytest.mark.parametrize(("batch", "context", "outside"), [(2, 100, False), (3, 150, False), (1, 150, True), (5, 150, True), (3, 99, True)])
def test_a_table_says_where_it_was_not_measured(batch: int, context: float, outside: bool) -> None:
    """The plan warns of it."""
    table = TableLatency(np.array([2, 4]), np.array([100, 200]), np.ones((2, 2)))
    assert table.outside(batch, context) is outside


def test_a_table_in_batch_alone_knows_every_context() -> None:
    """StreamRL Fig. 6 gives no context; 61.75 ms follows from the last slope, (36.85 - 21.4) / 256."""
    table = TableLatency.of_batch(FIG_6)
    assert [ptl_ms(table, batch, tokens) for batch, tokens in ((1, 1), (128, 10**6), (96, 0))] == pytest.approx([8.4, 15.25, 13.475])
    assert ptl_ms(table, 512 + 256, 0) == pytest.approx(36.85 + 15.45)
    assert [table.outside(batch, 10**6) for batch in (512, 513)] == [False, True]


@REPEATABLE
@given(st.one_of(affine, tables()), quarters(0.25, 4), quarters(0, 10), st.integers(1, 40), st.integers(1, 400))
def test_calibration_scales_a_step_and_adds_to_it(
    latency: AffineLatency | TableLatency, scale: float, overhead_ms: float, batch: int, context: int
) -> None:
    """Inside a table; towards zero an overhead changes where the slope is held."""
    if isinstance(latency, TableLatency):
        batch, context = max(batch, int(latency.batches[0])), max(context, int(latency.contexts[0]))
    tokens = batch * context
    expected = scale * ptl_ms(latency, batch, tokens) + overhead_ms
    assert ptl_ms(latency.calibrated(scale, overhead_ms), batch, tokens) == pytest.approx(expected, rel=1e-9)


TWO, NONE = np.array([1, 2]), np.zeros(1)


@pytest.mark.parametrize(
    ("batches", "contexts", "ms", "message"),
    [
        (TWO, NONE, np.ones((1, 2)), r"ms must have shape \(2, 1\)"),
        (np.array([], dtype=np.int64), NONE, np.ones((0, 1)), "ms must have shape"),
        (np.array([0, 2]), NONE, np.ones((2, 1)), "batches must be at least 1"),
        (np.array([2, 2]), NONE, np.ones((2, 1)), "batches must be at least 1 and ascending"),
        (TWO, np.array([-1.0]), np.ones((2, 1)), "contexts must be at least 0"),
        (TWO, NONE, np.array([[1.0], [0.0]]), "ms must be finite and above 0"),
        (TWO, NONE, np.array([[1.0], [np.nan]]), "ms must be finite and above 0"),
    ],
)
def test_a_table_that_cannot_be_is_refused(batches: np.ndarray, contexts: np.ndarray, ms: np.ndarray, message: str) -> None:
    """With the field and its limit."""
    with pytest.raises(ValueError, match=message):
        TableLatency(batches, contexts, ms)


@pytest.mark.parametrize("values", [(0.0, 0.0, 1.0), (-1.0, 2.0, 0.0), (1.0, float("nan"), 0.0), (1.0, 0.0, float("inf"))])
def test_an_affine_law_that_cannot_be_is_refused(values: tuple[float, float, float]) -> None:
    """A step that takes no time, negative coefficients, no numbers."""
    with pytest.raises(ValueError, match="must"):
        AffineLatency(*values)


@pytest.mark.parametrize("latency", [AffineLatency(1.0), TableLatency.of_batch({1: 1.0})])
@pytest.mark.parametrize(("scale", "overhead_ms"), [(-1.0, 5.0), (1.0, -0.5), (float("nan"), 0.0)])
def test_a_calibration_that_cannot_be_is_refused(latency: AffineLatency | TableLatency, scale: float, overhead_ms: float) -> None:
    """Also where the result would have been positive."""
    with pytest.raises(ValueError, match="must be finite and at least 0"):
        latency.calibrated(scale, overhead_ms)
