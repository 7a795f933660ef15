"""The section of a link: how long transfers over it took, and the laws that follow from them. GB/s are 10^9 bytes per second."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rollplan.models.profile.origin import AtLeastZero, Positive, Spread, Text
from rollplan.models.strict import Strict, refusal

SampleKind = Literal["point_to_point", "streams", "broadcast"]
Bytes = Annotated[int, Field(ge=1, le=10**15)]
Streams = Annotated[int, Field(ge=1, le=1024)]
Ranks = Annotated[int, Field(ge=2, le=100_000)]


class LinkSample(Strict):
    """One size of transfer, repeated.

    kind: `point_to_point` from rank 0 to rank 1 over one stream, `streams` over several at once, `broadcast` from rank 0 to
    all. bytes: of user data, over all streams together. ranks: how many took part. seconds: on the clock of rank 0, until the
    answer of every receiver had come back; so a transfer and one latency.
    """

    kind: SampleKind
    bytes: Bytes
    streams: Streams = 1
    ranks: Ranks = 2
    seconds: Spread

    @property
    def gb_s(self) -> float:
        """Bytes by seconds: what this transfer got, latencies included."""
        return self.bytes / self.seconds.median / 1e9 if self.seconds.median > 0 else 0.0


class StreamLaw(Strict):
    """Point to point: seconds until the answer = 2 latency + bytes / rate(streams), rate = min(streams * per stream, total).

    limited: `per stream`: each has a limit of its own, and no number of streams that was measured fills the link; `shared`:
    one stream alone fills it; `both`: several do; `unknown`: one stream only was measured. total_gb_s, streams_to_fill: absent
    where the link was not filled. error, error_if_*: mean relative error of the law, and of the two simple ones, on the
    samples.
    """

    latency_s: AtLeastZero
    limited: Literal["per stream", "shared", "both", "unknown"]
    per_stream_gb_s: Positive
    total_gb_s: Positive | None = None
    streams_to_fill: Streams | None = None
    most_streams: Streams
    error: AtLeastZero
    error_if_per_stream: AtLeastZero
    error_if_shared: AtLeastZero

    @model_validator(mode="after")
    def _total_where_filled(self) -> Self:
        filled = self.limited in ("shared", "both")
        if filled != (self.total_gb_s is not None) or filled != (self.streams_to_fill is not None):
            raise refusal(f"is limited `{self.limited}`", "give total_gb_s and streams_to_fill where, and only where, the link was filled")
        return self

    def rate_gb_s(self, streams: int) -> float:
        """Return what so many streams get together; raise `ValueError` for more than were measured."""
        if not 1 <= streams <= self.most_streams:
            raise ValueError(f"streams = {streams}: 1 to {self.most_streams} were measured; measure more with --streams")
        alone = streams * self.per_stream_gb_s
        return alone if self.total_gb_s is None else min(alone, self.total_gb_s)


class BroadcastLaw(Strict):
    """Broadcast from one rank to all: seconds = start_s + bytes / (gb_s 10^9), for this number of ranks only."""

    ranks: Ranks
    start_s: AtLeastZero
    gb_s: Positive
    error: AtLeastZero

    def seconds(self, size: float) -> float:
        """Return the time of a broadcast of `size` bytes."""
        return self.start_s + size / (self.gb_s * 1e9)


class LinkProfile(Strict):
    """A link between two machines, or inside one.

    backend: what moved the bytes. ranks: how many processes took part. interface: of rank 0. loopback: whether all ranks were
    on one machine, so that no network was measured. law: point to point. broadcast: absent if it was not measured, or so
    disturbed that no law holds.
    """

    backend: Literal["gloo", "nccl"]
    ranks: Ranks
    interface: Text
    loopback: bool
    samples: Annotated[tuple[LinkSample, ...], Field(min_length=1, max_length=10_000)]
    law: StreamLaw
    broadcast: BroadcastLaw | None = None

    def transfer_s(self, size: float, streams: int = 1) -> float:
        """Return seconds until `size` bytes have arrived over so many streams; raise `ValueError` for more than were measured."""
        return self.law.latency_s + size / (self.law.rate_gb_s(streams) * 1e9)
