"""Links that are made for a test: two network namespaces, a cable between them, and what slows it down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

RELAY = Path(__file__).parent / "relay.py"


@dataclass(frozen=True)
class Cable:
    """Two network namespaces that see nothing but each other."""

    namespaces: tuple[str, str]
    addresses: tuple[str, str] = ("10.77.0.1", "10.77.0.2")

    def inside(self, end: int, *command: str) -> list[str]:
        """Return a command to be run at one of the ends."""
        return ["ip", "netns", "exec", self.namespaces[end], *command]


@contextmanager
def laid(shape: str | None = None, delay_s: float | None = None) -> Iterator[Cable]:
    """Lay a cable and take it away; skip where this is not possible."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        pytest.skip(f"{' and '.join(missing)} missing (iproute2)")
    if delay_s is not None and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun is missing or not ours")
    name = uuid4().hex[:8]
    cable = Cable((f"rollplan-{name}-0", f"rollplan-{name}-1"))
    devices = (f"rp{name}-0", f"rp{name}-1")
    with ExitStack() as stack:
        for namespace in cable.namespaces:
            must(f"ip netns add {namespace}")
            stack.callback(subprocess.run, ["ip", "netns", "del", namespace], check=False)
        if delay_s is None:
            first, second = cable.namespaces
            must(f"ip -n {first} link add {devices[0]} type veth peer name {devices[1]} netns {second}")
        else:
            stack.enter_context(relayed(cable, devices, delay_s))
        for namespace, device, address in zip(cable.namespaces, devices, cable.addresses, strict=True):
            must(f"ip -n {namespace} address add {address}/24 dev {device}")
            must(f"ip -n {namespace} link set {device} up")
            must(f"ip -n {namespace} link set lo up")
        if shape is not None:
            must(f"tc -n {cable.namespaces[0]} qdisc add dev {devices[0]} root {shape}")
        yield cable


@contextmanager
def relayed(cable: Cable, devices: tuple[str, str], delay_s: float) -> Iterator[None]:
    """Let a process carry the packets, `delay_s` after they came."""
    ends = [word for pair in zip(devices, cable.namespaces, strict=True) for word in pair]
    with subprocess.Popen([sys.executable, str(RELAY), *ends, str(delay_s)], stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout is not None
        try:
            if relay.stdout.readline() != "ready\n":
                pytest.skip("TUN devices cannot be made here")
            yield
        finally:
            relay.kill()


def must(command: str) -> None:
    """Run a command, or skip the test if it is not permitted."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"`{command}` failed: {done.stderr.strip()}")
