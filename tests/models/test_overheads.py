"""Sync, switch and residency: the published numbers, and the law between them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.overheads import (
    GB_PER_GIB,
    ROLLOUT_MEMORY_GB,
    ROLLOUT_SWITCH_S,
    TRAIN_MEMORY_GB,
    TRAIN_SWITCH_S,
    WEIGHTS_GB,
    Looked,
    broadcast_s,
    look_up,
    point_to_point_s,
    sync_time,
)

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
TABLES = {
    "rollout memory": ROLLOUT_MEMORY_GB,
    "train memory": TRAIN_MEMORY_GB,
    "rollout switch": ROLLOUT_SWITCH_S,
    "train switch": TRAIN_SWITCH_S,
}


def about(value: float, rel: float = 1e-6) -> Looked:
    """Return what an estimate near `value` equals."""
    return Looked(pytest.approx(value, rel=rel), "estimated")


@pytest.mark.parametrize(
    ("table", "published"),
    [
        (ROLLOUT_MEMORY_GB, [113.4, 275.7, 445.4, 490.3]),
        (TRAIN_MEMORY_GB, [156.2, 240.0, 456.1, 520.4]),
        (ROLLOUT_SWITCH_S, [0.8, 0.9, 1.8, 1.7]),
        (TRAIN_SWITCH_S, [1.9, 4.1, 4.7, 5.9]),
    ],
    ids=TABLES,
)
def test_tables_hold_the_published_values(table: dict[float, float], published: list[float]) -> None:
    """RollMux (arXiv 2512.11306) Table 2, GB to keep an actor resident on a node, and Fig. 4, warm-start seconds; 3B to 32B."""
    assert [look_up(table, size) for size in (3, 7, 14, 32)] == [Looked(value, "reference") for value in published]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("size_b", [0.0, 2.999, 32.001, 70.0])
def test_sizes_outside_a_table_are_refused(table: dict[float, float], size_b: float) -> None:
    """Memory and switch times do not follow a line (14B and 32B take almost the same), so nothing is extrapolated."""
    assert look_up(table, size_b) is None


@REPEATABLE
@given(size_b=st.floats(3, 32, exclude_min=True, exclude_max=True), name=st.sampled_from(sorted(TABLES)))
def test_sizes_between_two_measured_ones_lie_between_their_values(size_b: float, name: str) -> None:
    """Linear interpolation, marked as estimated."""
    table = TABLES[name]
    ends = [table[max(s for s in table if s <= size_b)], table[min(s for s in table if s >= size_b)]]
    found = look_up(table, size_b)
    assert found is not None
    assert min(ends) - 1e-9 <= found.value <= max(ends) + 1e-9
    assert found.provenance == ("reference" if size_b in table else "estimated")


def test_halfway_between_two_sizes_is_halfway_between_their_values() -> None:
    """8B is one seventh of the way from 7B to 14B."""
    assert look_up(ROLLOUT_MEMORY_GB, 8) == about(275.7 + (445.4 - 275.7) / 7)


@pytest.mark.parametrize(
    ("size_b", "streams", "published_s"), [(7, 8, 0.80), (14, 8, 1.53), (32, 8, 3.58), (7, 16, 0.37), (14, 16, 0.79), (32, 16, 1.77)]
)
def test_point_to_point_is_within_10_percent_of_all_published_values(size_b: float, streams: int, published_s: float) -> None:
    """RollMux Fig. 12, digitised: 20 Gbps limit each stream, not the link."""
    assert point_to_point_s(WEIGHTS_GB[size_b], streams) == pytest.approx(published_s, rel=0.10)


@pytest.mark.parametrize(
    ("size_b", "nodes", "published_s"), [(7, 1, 0.06), (14, 1, 0.13), (32, 1, 0.26), (7, 2, 2.68), (14, 2, 5.03), (32, 2, 10.5)]
)
def test_broadcast_is_within_10_percent_of_all_published_values(size_b: float, nodes: int, published_s: float) -> None:
    """RollMux Fig. 12, digitised: about 250 GB/s inside a node, about 5.9 GB/s across two."""
    assert broadcast_s(WEIGHTS_GB[size_b], nodes) == pytest.approx(published_s, rel=0.10)


@pytest.mark.parametrize(
    ("size_b", "nodes", "gpus", "published_s"),
    [(7, 1, 8, 0.9), (14, 1, 8, 1.7), (32, 1, 8, 3.9), (7, 2, 16, 3.1), (14, 2, 16, 5.8), (32, 2, 16, 12.3)],
)
def test_sync_is_the_published_value_where_there_is_one(size_b: float, nodes: int, gpus: int, published_s: float) -> None:
    """RollMux Fig. 12, 8 to 8 and 16 to 16 GPUs: measured values win over formulas."""
    assert sync_time(size_b, nodes, nodes, gpus, None) == Looked(published_s, "reference")


@pytest.mark.parametrize(
    ("size_b", "nodes", "gpus", "published_s"),
    [(7, 1, 8, 0.9), (14, 1, 8, 1.7), (32, 1, 8, 3.9), (7, 2, 16, 3.1), (14, 2, 16, 5.8), (32, 2, 16, 12.3)],
)
def test_the_two_stage_law_is_within_10_percent_of_the_published_sync(size_b: float, nodes: int, gpus: int, published_s: float) -> None:
    """The law is asked for by giving the link's speed; it must agree with Fig. 12 where that was measured."""
    assert sync_time(size_b, nodes, nodes, gpus, 2.5) == about(published_s, rel=0.10)


def test_sync_of_an_unmeasured_size_follows_the_law() -> None:
    """8B: 16 GB in bf16 over eight streams of 2.5 GB/s with 5 % overhead, then at 250 GB/s inside the node."""
    assert sync_time(8, 1, 1, 8, None) == about(16 / 20 * 1.05 + 16 / 250)


def test_sync_of_a_measured_size_on_other_nodes_follows_the_law() -> None:
    """7B from one training node to two rollout nodes was not measured."""
    assert sync_time(7, 2, 1, 8, None) == about(15.2 / 20 * 1.05 + 15.2 / 5.9)


@REPEATABLE
@given(weights_gb=st.floats(0.1, 1000), streams=st.integers(1, 512))
def test_twice_the_streams_take_half_the_time(weights_gb: float, streams: int) -> None:
    """Each stream carries its own shard of one model copy."""
    assert point_to_point_s(weights_gb, 2 * streams) == pytest.approx(point_to_point_s(weights_gb, streams) / 2)


def test_a_gib_is_2_to_the_30_bytes() -> None:
    """The tables are in GB (10^9), the program in GiB."""
    assert pytest.approx(1.073741824) == GB_PER_GIB
