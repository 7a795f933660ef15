"""What is measured, and how long it takes, on links that are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.profilers.link.measure import PING, measure
from rollplan.profilers.link.profile import profile_of

MB = 10**6


@dataclass
class MadeUpWire:
    """Ranks on a link that obeys its law; its clock runs only while something is sent."""

    latency_s: float
    stream_b_s: float
    total_b_s: float
    ranks: int = 3
    now_s: float = 0.0
    sent: list[tuple[str, int, int]] = field(default_factory=list)

    def send(self, size: int, streams: int) -> float:
        self.sent.append(("send", size, streams))
        return self._pass(2 * self.latency_s + size / min(streams * self.stream_b_s, self.total_b_s))

    def broadcast(self, size: int) -> float:
        self.sent.append(("broadcast", size, 1))
        return self._pass(2 * self.latency_s + 2 * size / self.stream_b_s)

    def clock(self) -> float:
        return self.now_s

    def _pass(self, seconds: float) -> float:
        self.now_s += seconds
        return seconds


@pytest.fixture
def silent() -> Callable[[str], None]:
    return lambda line: None


@given(st.floats(1e-5, 0.03), st.floats(2e6, 1e11), st.floats(30, 100))
def test_no_link_takes_much_longer_than_the_time_limit(latency_s: float, b_s: float, limit_s: float) -> None:
    """From 16 Mbit/s around the world to NVLink; enough of it for three repeats. A transfer that has begun is finished."""
    wire = MadeUpWire(latency_s, b_s, b_s)
    samples = measure(wire, [1, 2, 4], [], limit_s, wire.clock, say=lambda line: None)
    assert wire.now_s <= 1.1 * limit_s
    assert all(len(sample["seconds"]) >= 3 for sample in samples)


@given(st.floats(1e-5, 0.01), st.floats(2e6, 5e9), st.sampled_from(["shared", "per stream"]))
def test_the_law_of_a_made_up_link_is_recovered(latency_s: float, b_s: float, limited: str) -> None:
    """From the sizes that are chosen to the law that is fitted."""
    wire = MadeUpWire(latency_s, b_s, b_s if limited == "shared" else 10 * b_s)
    samples = measure(wire, [1, 2, 4], [], 60, wire.clock, say=lambda line: None)
    answer = {"rank": 0, "backend": "gloo", "interface": "eth0", "device": "CPU", "versions": {}, "samples": samples}
    link = profile_of(answer, 3).link
    assert link is not None
    assert link.law.limited == limited
    assert (link.law.latency_s, 1e9 * link.law.per_stream_gb_s) == pytest.approx((latency_s, b_s), rel=0.01)
    assert link.broadcast is not None
    assert (link.broadcast.start_s, 1e9 * link.broadcast.gb_s) == pytest.approx((latency_s, b_s / 2), rel=0.01)


def test_every_transfer_is_timed_on_streams_that_were_just_used(silent: Callable[[str], None]) -> None:
    """TCP begins anew with a small window after a pause, and a sync that takes minutes does not notice."""
    wire = MadeUpWire(1e-4, 1e9, 1e9)
    samples = measure(wire, [2], [64 * MB, 20 * MB], 1, wire.clock, silent)
    large = [sent for sent in wire.sent if sent[1] != PING]
    for warm, timed in zip(large[::2], large[1::2], strict=True):
        assert (warm[0], 4 * warm[1], warm[2]) == timed
    measured = {(sample["kind"], sample["bytes"], sample["streams"], sample["ranks"]) for sample in samples}
    one = {("point_to_point", size, 1, 2) for size in (PING, 20 * MB, 64 * MB)}
    assert measured == one | {("streams", size, 2, 2) for size in (20 * MB, 64 * MB)} | {("broadcast", s * MB, 1, 3) for s in (20, 64)}


def test_sizes_that_were_asked_for_are_measured_even_if_the_limit_is_too_short(silent: Callable[[str], None]) -> None:
    """Once, and the profile says so."""
    wire = MadeUpWire(1e-4, 1e6, 1e6)
    samples = measure(wire, [1], [16 * MB, 64 * MB], 1, wire.clock, silent)
    assert [len(sample["seconds"]) for sample in samples if sample["bytes"] != PING] == [1, 1, 1, 1]
