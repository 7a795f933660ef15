"""From a request to a profile of a link: the worker measures, this module asks it, fits the laws and says how far to trust them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from rollplan import __version__
from rollplan.models.errors import Finding, InputError
from rollplan.models.fits.link import fit_link
from rollplan.models.profile.file import Profile
from rollplan.models.profile.link import LinkProfile, LinkSample
from rollplan.models.profile.origin import Origin, Spread
from rollplan.profilers import worker

WORKER = "rollplan.profilers.link.worker"
MOST_RANKS, MOST_STREAMS = 1024, 64
_WAIT_HERE_S, _WAIT_ELSEWHERE_S = 120.0, 600.0
"""For the other ranks: processes that start with this one, or that somebody starts by hand."""
_NOISY, _ROUGH = 0.1, 0.1
_LONG = 20
"""A transfer says something about bandwidth if it takes so many latencies."""


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """What is to be measured. rank: which one this process is; None starts all of them on this machine, over loopback.

    ranks: how many there are. address: `HOST:PORT` of rank 0 on the link, the same for every rank. interface: of this machine;
    None, the one that leads to the address. backend: None takes NCCL where every rank has a GPU. Rank 0 decides for all:
    streams: numbers of streams at once; sizes: bytes, empty where the time limit decides; time_limit_s. Raises `InputError` for what
    cannot be measured.
    """

    rank: int | None = None
    ranks: int = 2
    address: str | None = None
    interface: str | None = None
    backend: Literal["gloo", "nccl"] | None = None
    streams: Sequence[int] = (1, 2, 4)
    sizes: Sequence[int] = ()
    time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        if findings := list(self._findings()):
            raise InputError("command line", findings)

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The address in two."""
        host, _, port = (self.address or "127.0.0.1:0").rpartition(":")
        return host, int(port)

    def _findings(self) -> Iterator[Finding]:
        if not 2 <= self.ranks <= MOST_RANKS:
            yield Finding("--ranks", str(self.ranks), f"is not 2 to {MOST_RANKS}", "a link has two ends; more ranks are for broadcast")
        if self.rank is not None and not 0 <= self.rank < self.ranks:
            yield Finding("--rank", str(self.rank), f"is not 0 to {self.ranks - 1}", "number the ranks from 0")
        if self.rank is not None and self.address is None:
            yield Finding("--address", "", "is missing", "give the address of rank 0 on the link, such as 10.0.0.1:29500")
        if self.rank is None:
            for option, value in (("--address", self.address), ("--interface", self.interface)):
                if value is not None:
                    remedy = "add --rank 0 here and start the other ranks on the other machines"
                    yield Finding(option, f"`{value}`", "is for ranks on several machines", remedy)
        if self.address is not None and not _is_address(self.address):
            yield Finding(
                "--address", f"`{self.address}`", "is not HOST:PORT", "write a name or an IPv4 address and a port: 10.0.0.1:29500"
            )
        if not self.streams or not all(1 <= count <= MOST_STREAMS for count in self.streams):
            yield Finding("--streams", ",".join(map(str, self.streams)), f"are not numbers from 1 to {MOST_STREAMS}", "write 1,2,4")
        if self.sizes and (len(set(self.sizes)) < 2 or min(self.sizes) < 10**5):
            sizes = ",".join(f"{size / 1e6:g}" for size in self.sizes)
            yield Finding("--megabytes", sizes, "are not two or more sizes of at least 0.1", "write 16,64,256")


@dataclass(frozen=True, slots=True)
class Joined:
    """What a rank other than 0 knows in the end; rank 0 has the profile."""

    rank: int
    backend: str
    interface: str


def profile_link(request: LinkRequest, python: str | None = None, on_line: Callable[[str], None] | None = None) -> Profile | Joined:
    """Be one rank, or start all of them here; return the profile, or, on ranks other than 0, that it is over.

    python: interpreter that has torch. Raises `InputError` if the ranks do not meet, or lose each other.
    """
    host, port = request.host_and_port
    answer = worker.ask(
        WORKER,
        {
            "rank": request.rank,
            "ranks": request.ranks,
            "host": host,
            "port": port,
            "interface": request.interface,
            "backend": request.backend,
            "streams": sorted({1, *request.streams}),
            "sizes": sorted(set(request.sizes)),
            "time_limit_s": request.time_limit_s,
            "wait_s": _WAIT_HERE_S if request.rank is None else _WAIT_ELSEWHERE_S,
        },
        python,
        on_line=on_line,
    )
    if answer["rank"] != 0:
        return Joined(answer["rank"], answer["backend"], answer["interface"])
    return profile_of(answer, request.ranks)


def profile_of(answer: dict[str, Any], ranks: int) -> Profile:
    """Return the profile that the answer of rank 0 makes; raise `InputError` if no law can be fitted to it."""
    samples = [LinkSample(**{**raw, "seconds": Spread.of(raw["seconds"])}) for raw in answer["samples"]]
    try:
        link = fit_link(answer["backend"], ranks, answer["interface"], answer["interface"] == "lo", samples)
    except ValueError as error:
        raise worker.failure(WORKER, str(error)) from None
    origin = Origin(
        kind="measured",
        by=f"rollplan {__version__}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        source="rollplan profile link",
        host=f"{platform.system()} {platform.machine()}",
        device=answer["device"],
        devices=ranks,
        engine=link.backend,
        versions=answer["versions"],
    )
    return Profile(name=f"link over {link.interface}", origin=origin, link=link, warnings=tuple(warnings(link)))


def warnings(link: LinkProfile) -> Iterator[str]:
    """Yield what a reader must know before trusting the numbers."""
    if link.loopback:
        yield "all ranks were on this machine: this is how fast it copies memory, not a network; start one rank on each machine"
    large = [sample for sample in link.samples if sample.bytes > 2**10]
    if noisy := [sample for sample in large if sample.seconds.relative > _NOISY]:
        yield f"{len(noisy)} of {len(large)} transfers vary by more than {_NOISY:.0%}: something else used the link or the machines"
    if few := [sample for sample in large if sample.seconds.repeats < 3]:
        yield f"{len(few)} of {len(large)} transfers were repeated less than three times; allow more with --time-limit"
    if link.broadcast is None and any(sample.kind == "broadcast" for sample in large):
        yield "broadcasts of more bytes do not take longer: no law was fitted to them; measure again, or longer with --time-limit"
    if link.law.error > _ROUGH:
        yield f"the law is off by {link.law.error:.0%} on average; trust the transfers, not the law"
    longest = max(sample.seconds.median for sample in large)
    if longest < _LONG * 2 * link.law.latency_s:
        yield f"the longest transfer took less than {_LONG} round trips: bandwidth is uncertain; allow more with --time-limit"


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(colon and host) and ":" not in host and port.isascii() and port.isdigit() and 1 <= int(port[:9]) < 2**16
