"""Two sites on one machine: network namespaces with a slow cable between them, limited per stream, per link, and inside one site.

Every rank gets an address of its own (an interface with a label, which gloo takes by name), so that tc can tell streams apart:
class i of the trainers' end holds what train rank i sends to rollout rank i. The kernel needs htb, u32 and tbf, not netem or fq.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import uuid4

PAYLOAD, FRAME = 1448, 1514
"""Bytes of user data in a full segment of TCP with time stamps, and in its Ethernet frame, which tc counts."""
_UNLIMITED_MBIT = 100_000
_GSO = "gso_max_size 16384 gso_max_segs 10"
"""Larger bundles of packets make a slow link bumpy."""


class NotPermittedError(Exception):
    """Namespaces cannot be made here; the message says why."""


@dataclass(frozen=True)
class Shape:
    """Limits in Mbit/s of the wire, headers included; None: as fast as the machine."""

    stream: float | None = None
    link: float | None = None
    inside: float | None = None


@dataclass(frozen=True)
class Sites:
    """The trainers' namespace and the workers'; their stores listen at `host`."""

    namespaces: tuple[str, str]
    host: str = "10.78.0.1"

    def inside(self, site: int, *command: str) -> list[str]:
        """Return a command to be run in a site."""
        return ["ip", "netns", "exec", self.namespaces[site], *command]

    def interfaces(self, site: int, ranks: int) -> list[str]:
        """Return the name of each rank's interface."""
        return [f"rps{site}:{rank}" for rank in range(ranks)]


@contextmanager
def two_sites(ranks: int, shape: Shape) -> Iterator[Sites]:
    """Lay the cable for so many ranks at each end, and take it away; raise `NotPermittedError`."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        raise NotPermittedError(f"{' and '.join(missing)} missing (iproute2)")
    name = uuid4().hex[:8]
    train, rollout = namespaces = (f"rollplan-{name}-train", f"rollplan-{name}-rollout")
    with ExitStack() as stack:
        for namespace in namespaces:
            _must(f"ip netns add {namespace}")
            stack.callback(subprocess.run, ["ip", "netns", "del", namespace], check=False)
        _must(f"ip -n {train} link add rps0 {_GSO} type veth peer name rps1 {_GSO} netns {rollout}")
        for site, namespace in enumerate(namespaces):
            _must(f"ip -n {namespace} link set lo up")
            _must(f"ip -n {namespace} address add 10.78.0.{site + 1}/16 dev rps{site}")
            for rank in range(ranks):
                _must(f"ip -n {namespace} address add 10.78.{site + 1}.{rank + 1}/16 dev rps{site} label rps{site}:{rank}")
            _must(f"ip -n {namespace} link set rps{site} up")
        _limit(train, ranks, shape)
        if shape.inside is not None:
            _must(f"tc -n {rollout} qdisc add dev lo root tbf rate {shape.inside}mbit burst 512kb limit 32mb")
        yield Sites(namespaces)


def _limit(train: str, ranks: int, shape: Shape) -> None:
    """Shape what leaves the trainers' end: a class for each stream below one for the link, and one for what is neither."""
    link, stream = shape.link or _UNLIMITED_MBIT, min(shape.stream or _UNLIMITED_MBIT, shape.link or _UNLIMITED_MBIT)
    _must(f"tc -n {train} qdisc add dev rps0 root handle 1: htb default 2")
    _must(f"tc -n {train} class add dev rps0 parent 1: classid 1:1 htb rate {link}mbit quantum 20000")
    _must(f"tc -n {train} class add dev rps0 parent 1: classid 1:2 htb rate {_UNLIMITED_MBIT}mbit quantum 20000")
    for rank in range(ranks):
        flow, own = f"1:{rank + 16:x}", min(stream, link / ranks)
        _must(f"tc -n {train} class add dev rps0 parent 1:1 classid {flow} htb rate {own}mbit ceil {stream}mbit quantum 20000")
        # Whoever connected, the other end is the one with the rank's address.
        for end in (f"src 10.78.1.{rank + 1}", f"dst 10.78.2.{rank + 1}"):
            _must(f"tc -n {train} filter add dev rps0 parent 1: protocol ip prio 1 u32 match ip {end}/32 flowid {flow}")


def _must(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPermittedError(f"`{command}` failed: {done.stderr.strip()}")
