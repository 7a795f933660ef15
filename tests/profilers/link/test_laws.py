"""The laws of a link: recovered from transfers that obey them, and told apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rollplan.models.fits.link import fit_affine, fit_link, fit_streams
from rollplan.models.profile.link import LinkSample, StreamLaw
from rollplan.models.profile.origin import Spread

SIZES = (8, 2**20, 2**23, 2**26)
Transfers = tuple[list[int], list[int], list[float]]

MOST = 8
links = st.tuples(st.floats(1e-4, 1), st.floats(1e-3, 400)).map(lambda drawn: (drawn[0] * SIZES[2] / MOST / drawn[1] / 1e9, drawn[1]))
"""Latency and bandwidth; a large transfer takes longer than a latency, even over `MOST` streams."""


def transfers(latency_s: float, stream_gb_s: float, total_gb_s: float, counts: Sequence[int], disturbed: int | None = None) -> Transfers:
    """Return sizes, streams and seconds of a link that obeys its law; one of them took three times as long."""
    points = [*((size, 1) for size in SIZES), *((size, count) for count in counts for size in SIZES[2:])]
    seconds = [2 * latency_s + size / (1e9 * min(count * stream_gb_s, total_gb_s)) for size, count in points]
    if disturbed is not None:
        seconds[disturbed] *= 3
    return [size for size, _ in points], [count for _, count in points], seconds


@given(links)
def test_an_undisturbed_law_is_recovered(link: tuple[float, float]) -> None:
    """Both of its numbers, over nine powers of ten."""
    start_s, gb_s = link
    found = fit_affine(SIZES, [start_s + size / gb_s / 1e9 for size in SIZES])
    assert (found.start_s, found.gb_s) == pytest.approx((start_s, gb_s), rel=1e-4)
    assert found.error < 1e-6


@given(links, st.integers(1, 7))
def test_one_disturbed_transfer_does_not_move_the_law(link: tuple[float, float], disturbed: int) -> None:
    """Errors count as they are, not squared. The smallest message alone fixes the latency: it is left as it is."""
    latency_s, gb_s = link
    found = fit_streams(*transfers(latency_s, gb_s, gb_s, (2, 4), disturbed))
    assert found.limited == "shared"
    assert found.total_gb_s == pytest.approx(gb_s, rel=0.05)


@given(links, st.sampled_from([(2,), (2, 4), (3, 8), (2, 3, 4, 8)]))
def test_streams_that_share_a_link_are_recovered_as_shared(link: tuple[float, float], counts: tuple[int, ...]) -> None:
    """More streams bring nothing, so one fills the link."""
    latency_s, gb_s = link
    found = fit_streams(*transfers(latency_s, 2 * gb_s, gb_s, counts))
    assert (found.limited, found.streams_to_fill) == ("shared", 1)
    assert (found.total_gb_s, found.latency_s) == pytest.approx((gb_s, latency_s), rel=1e-3)
    assert found.error_if_shared < 1e-3 < found.error_if_per_stream


@given(links, st.sampled_from([(2,), (2, 4), (3, 8), (2, 3, 4, 8)]))
def test_streams_with_limits_of_their_own_are_recovered_as_per_stream(link: tuple[float, float], counts: tuple[int, ...]) -> None:
    """The link was not filled, so nothing is said of its total (RollMux: 20 Gbps limit a stream, not the link)."""
    latency_s, gb_s = link
    found = fit_streams(*transfers(latency_s, gb_s, 1e6, counts))
    assert (found.limited, found.streams_to_fill, found.total_gb_s) == ("per stream", None, None)
    assert (found.per_stream_gb_s, found.latency_s) == pytest.approx((gb_s, latency_s), rel=1e-3)
    assert found.error_if_per_stream < 1e-3 < found.error_if_shared


@given(links, st.floats(1.3, 6))
def test_a_link_that_several_streams_fill_is_recovered_with_both_limits(link: tuple[float, float], corner: float) -> None:
    """The corner may lie between numbers of streams that were measured."""
    latency_s, gb_s = link
    counts = (1, 2, 4, 8)
    found = fit_streams(*transfers(latency_s, gb_s, corner * gb_s, counts[1:]))
    assert found.limited == "both"
    assert (found.per_stream_gb_s, found.total_gb_s) == pytest.approx((gb_s, corner * gb_s), rel=1e-3)
    assert found.streams_to_fill == next(count for count in counts if count >= 0.95 * corner)


def test_streams_that_get_a_little_less_than_their_limit_do_not_fill_the_link() -> None:
    """Four get 4 % less than four times what one gets, or 15 %: the one is noise, the other a limit, whatever the mean error."""
    size, streams, seconds = transfers(1e-4, 1, 100, (2, 4))
    for loss, limited in ((0.04, "per stream"), (0.15, "both")):
        slower = [spent / (1 - loss) if count == 4 else spent for count, spent in zip(streams, seconds, strict=True)]
        assert fit_streams(size, streams, slower).limited == limited


def test_one_number_of_streams_says_nothing_of_the_others() -> None:
    """Neither hypothesis can be told from the other, so none is claimed."""
    found = fit_streams(*transfers(1e-3, 2.5, 10, ()))
    assert (found.limited, found.total_gb_s, found.most_streams) == ("unknown", None, 1)
    with pytest.raises(ValueError, match="streams = 2: 1 to 1 were measured; measure more with --streams"):
        found.rate_gb_s(2)


def test_a_link_that_is_as_fast_for_any_size_has_no_bandwidth() -> None:
    """No law with an infinite bandwidth is invented."""
    with pytest.raises(ValueError, match="does not grow with the size; measure larger transfers with --megabytes"):
        fit_affine([8, 2**20, 2**26], [1.0, 0.9, 0.8])
    with pytest.raises(ValueError, match="1 size: two are needed"):
        fit_affine([8, 8], [1.0, 0.9])


def test_a_profile_predicts_the_way_there_and_refuses_what_was_not_measured() -> None:
    """10 GB at 2.5 GB/s per stream: 4 s and 1 s, and half of a round trip of 50 ms; broadcast without the answer's way."""
    seconds = transfers(0.025, 2.5, 100, (2, 4))
    samples = [
        LinkSample(kind="point_to_point" if streams == 1 else "streams", bytes=size, streams=streams, seconds=Spread.of([spent]))
        for size, streams, spent in zip(*seconds, strict=True)
    ]
    samples += [LinkSample(kind="broadcast", bytes=size, ranks=3, seconds=Spread.of([0.1 + size / 2e9])) for size in SIZES[1:]]
    link = fit_link("gloo", 3, "eth0", False, samples)
    assert link.transfer_s(10e9) == pytest.approx(4.025)
    assert link.transfer_s(10e9, 4) == pytest.approx(1.025)
    with pytest.raises(ValueError, match="streams = 8"):
        link.transfer_s(10e9, 8)
    assert link.broadcast is not None
    assert (link.broadcast.ranks, link.broadcast.seconds(2e9)) == (3, pytest.approx(1.075))
    disturbed = [LinkSample(kind="broadcast", bytes=size, ranks=3, seconds=Spread.of([0.2])) for size in SIZES[1:]]
    assert fit_link("gloo", 3, "eth0", False, samples[: -len(disturbed)] + disturbed).broadcast is None


def test_a_law_with_a_total_that_was_not_reached_cannot_be_built() -> None:
    """Files are read by the same rule."""
    law = {"latency_s": 0.0, "per_stream_gb_s": 1.0, "most_streams": 4, "error": 0.0, "error_if_per_stream": 0.0, "error_if_shared": 0.0}
    StreamLaw(limited="per stream", **law)
    for wrong in ({"limited": "per stream", "total_gb_s": 4.0, "streams_to_fill": 4}, {"limited": "shared"}):
        with pytest.raises(ValidationError, match="give total_gb_s and streams_to_fill"):
            StreamLaw(**law, **wrong)
