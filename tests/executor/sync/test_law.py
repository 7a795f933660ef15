"""The law of a sync: what it shares with the one that plans use, and RollMux Fig. 12."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.sync.law import Limits, crossing_s, flat_s, rollmux, speed_up, two_stage_s
from rollplan.executor.sync.routes import flat, two_stage
from rollplan.models.overheads import SYNC_8_TO_8_S, SYNC_16_TO_16_S, WEIGHTS_GB, sync_time

VERL_S = {8: {7: 7.5, 14: 13.8, 32: 30.7}, 16: {7: 8.2, 14: 15.2, 32: 33.8}}
"""RollMux Fig. 12, flat all-gather of verl, seconds."""
ROLLMUX_S = {8: SYNC_8_TO_8_S, 16: SYNC_16_TO_16_S}
PARTS_S = {8: {7: (0.80, 0.06), 14: (1.53, 0.13), 32: (3.58, 0.26)}, 16: {7: (0.37, 2.68), 14: (0.79, 5.03), 32: (1.77, 10.5)}}
"""RollMux Fig. 12, digitised: point to point, and broadcast."""
SIZES = (7, 14, 32)
POSITIVE = st.floats(0.01, 1000)


def law_of(ranks: int) -> Limits:
    return rollmux(ranks // 8)


@given(size=st.floats(33, 500), nodes=st.integers(1, 4), gpus=st.integers(1, 64), stream=POSITIVE)
def test_plans_and_transfers_rest_on_the_same_law(size: float, nodes: int, gpus: int, stream: float) -> None:
    """`models.overheads.sync_time`, for sizes that were not measured; it takes one stream for each training GPU."""
    limits = Limits(stream, law_of(8 * nodes).broadcast_gb_s)
    assert two_stage_s(2 * size, gpus, max(gpus, 2), limits) == pytest.approx(sync_time(size, nodes, 1, gpus, stream).value)


@pytest.mark.parametrize("ranks", [8, 16])
@pytest.mark.parametrize("size", SIZES)
def test_each_part_of_fig_12_is_met_within_a_tenth(ranks: int, size: int) -> None:
    """Point to point and broadcast of all six columns; 20 Gbps limit a stream, so 16 take half of what 8 take. Flat: 16 to 16 GPUs
    take a tenth longer than 8 to 8, which one factor cannot say: 1.2 is right for 8 and 6 to 11 % too low for 16."""
    weights, limits = WEIGHTS_GB[size], law_of(ranks)
    crossing, broadcast = PARTS_S[ranks][size]
    assert crossing_s(weights, ranks, limits) == pytest.approx(crossing, rel=0.10)
    assert weights / limits.broadcast_gb_s == pytest.approx(broadcast, rel=0.10)
    assert flat_s(weights, ranks, limits) == pytest.approx(VERL_S[ranks][size], rel=0.04 if ranks == 8 else 0.12)


def test_the_published_speed_ups_are_those_of_the_published_seconds() -> None:
    """Fig. 12 states 7.87 to 8.33 and 2.62 to 2.75."""
    found = {ranks: [VERL_S[ranks][size] / ROLLMUX_S[ranks][size] for size in SIZES] for ranks in (8, 16)}
    assert found[8] == pytest.approx([8.33, 8.12, 7.87], abs=0.005)
    assert found[16] == pytest.approx([2.65, 2.62, 2.75], abs=0.005)
    of_parts = {ranks: [VERL_S[ranks][size] / sum(PARTS_S[ranks][size]) for size in SIZES] for ranks in (8, 16)}
    assert of_parts[8] == pytest.approx(found[8], rel=0.05), "0.80 s + 0.06 s are published as 0.9 s"
    assert of_parts[16] == pytest.approx(found[16], rel=0.02)


def test_the_speed_ups_of_the_law_are_near_the_published_ones() -> None:
    """8 to 8: 8.50 (published 7.87 to 8.33); 16 to 16: 2.45 (published 2.62 to 2.75), too low, since the law's flat transfer does
    not take longer with more ranks, and verl's does."""
    found = {ranks: {round(speed_up(WEIGHTS_GB[size], ranks, ranks, law_of(ranks)), 2) for size in SIZES} for ranks in (8, 16)}
    assert found == {8: {8.5}, 16: {2.45}}


@given(weights=POSITIVE, train=st.integers(1, 64), rollout=st.integers(1, 64), stream=POSITIVE, link=POSITIVE)
def test_the_law_charges_the_bytes_that_the_routes_send(weights: float, train: int, rollout: int, stream: float, link: float) -> None:
    """Largest stream by a stream's limit, all bytes that cross by the link's, whichever is more."""
    limits = Limits(stream, inf, link, stream_overhead=1, flat_overhead=1)
    size = 8 * 64 * 63 * 61
    for stage, seconds in (
        (two_stage(size, train, [1] * rollout)[0], two_stage_s(weights, train, rollout, limits)),
        (flat(size, train, rollout)[0], flat_s(weights, rollout, limits)),
    ):
        shares = [(hop.last - hop.first) / size for hop in stage if hop.source < train]
        assert seconds == pytest.approx(max(max(shares) * weights / stream, sum(shares) * weights / link), rel=1e-3)


@given(weights=POSITIVE, ranks=st.integers(2, 64), stream=POSITIVE, latency=st.floats(0, 1))
def test_two_stages_gain_as_many_times_as_there_are_ranks_if_spreading_is_free(
    weights: float, ranks: int, stream: float, latency: float
) -> None:
    """Under a limit per stream by N streams, under one of the link by one copy instead of N; latency can only take from it."""
    free = {"broadcast_gb_s": inf, "stream_overhead": 1.0, "flat_overhead": 1.0}
    assert speed_up(weights, ranks, ranks, Limits(stream, **free)) == pytest.approx(ranks)
    assert speed_up(weights, ranks, ranks, Limits(inf, link_gb_s=stream, **free)) == pytest.approx(ranks)
    assert speed_up(weights, ranks, ranks, Limits(stream, latency_s=latency, **free)) <= ranks * (1 + 1e-9)


@pytest.mark.parametrize("wrong", [{"stream_gb_s": 0}, {"link_gb_s": -1}, {"latency_s": -1}, {"flat_overhead": 0.9}, {"broadcast_gb_s": 0}])
def test_limits_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    """By name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**{"stream_gb_s": 1.0, "broadcast_gb_s": 1.0, **wrong})
