"""Measured decode latency in a scenario: tables by tp, and the CSV file they are read from."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.latency import ptl_ms
from rollplan.models.latency_given import LatencyTable, inline_latency, read_latency
from rollplan.models.recipe import EngineSettings
from rollplan.models.strict import tuples

ROWS = "tp,context,batch,ms\n1,512,1,7.1\n1,8192,1,7.3\n1,512,64,9\n1,8192,64,14.2\n2,512,1,4\n"


def test_a_file_becomes_one_table_for_each_tp(tmp_path: Path) -> None:
    """The order of rows says nothing; a law passes through the measured points."""
    path = tmp_path / "latency.csv"
    path.write_text(ROWS)
    settings = EngineSettings.build(tuples({"latency": inline_latency({"file": "latency.csv"}, tmp_path)}), "engine")
    assert settings.latency is not None
    assert list(settings.latency) == [1, 2]
    law = settings.latency[1].law()
    assert ptl_ms(law, 64, 64 * 8192) == pytest.approx(14.2)
    assert ptl_ms(law, 1, 512) == pytest.approx(7.1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tp,context,ms\n", "has no column batch; give the columns tp, context, batch, ms"),
        ("tp,context,batch,ms\n", "has no rows"),
        (ROWS.replace("1,8192,64,14.2\n", ""), "tp 1: has no row for batch 64 at context 8192; measure every pair"),
        (ROWS.replace("7.3", "fast"), "line 3: is not four numbers"),
        (ROWS.replace("7.3", "nan"), "line 3: is not four numbers"),
        (ROWS.replace("1,512,1,7.1", "0,512,1,7.1"), "line 2: is not four numbers"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    """Column, line or pair."""
    path = tmp_path / "latency.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_latency(path)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"file": "absent.csv"}, "does not exist"),
        ({"file": 3}, "is not text"),
        ({"file": "a\0b"}, "is not text"),
        ({"file": "latency.csv", "1": {}}, "gives more than `file`"),
    ],
)
def test_a_name_that_leads_to_no_file_is_refused(tmp_path: Path, raw: object, says: str) -> None:
    """Nothing is read that was not meant."""
    with pytest.raises(InputError, match=says):
        inline_latency(raw, tmp_path)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"contexts": [512], "batches": [1, 2], "ms": [[1.0]]}, "has 1 rows of 1 values; give 2 rows of 1: one row per batch"),
        ({"contexts": [512], "batches": [2, 1], "ms": [[1.0], [2.0]]}, "is not a table of latencies"),
        ({"contexts": [512], "batches": [1], "ms": [[0.0]]}, "ms"),
    ],
)
def test_a_table_that_is_no_grid_is_refused(raw: object, says: str) -> None:
    """With what is wrong."""
    with pytest.raises(InputError) as refused:
        LatencyTable.build(tuples(raw), "table")
    assert says in str(refused.value)


def test_what_was_measured_is_not_calibrated() -> None:
    """`scale` and `overhead` correct kernel measurements."""
    with pytest.raises(InputError, match="calibrates a latency that was measured"):
        EngineSettings.build(tuples({"ptl": {1: "8 ms"}, "scale": 1.1}), "engine")
    with pytest.raises(InputError, match="gives `ptl` and `latency`"):
        EngineSettings.build(tuples({"ptl": {1: "8 ms"}, "latency": {1: {"contexts": [1], "batches": [1], "ms": [[1.0]]}}}), "engine")


@given(st.text(max_size=60))
def test_no_text_ends_in_a_traceback(text: str) -> None:
    """Files come from anywhere."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "latency.csv"
        path.write_text("tp,context,batch,ms\n" + text, encoding="utf-8", errors="replace")
        with suppress(InputError):
            read_latency(path)
