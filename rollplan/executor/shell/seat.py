"""Which process of which job this is, and what a process of its kind needs around it: a log, devices, an address."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rollplan.executor.api import Pool
from rollplan.executor.core.runbook import Setting

_GET_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One process of a job. See `api.Worker` for the first eight fields.

    module, folder: of the program, see `program.load_program`. address: of its node. interface: network for weights and
    meetings, None: the one with that address. log: file that takes whatever the process prints.
    """

    job: str
    pool: Pool
    rank: int
    world: int
    gpus: tuple[int, ...]
    settings: Mapping[str, Setting]
    samples: int
    seed: int
    module: str
    folder: str
    address: str
    interface: str | None
    log: str


def print_to(log: Path) -> None:
    """Send what this process and its children print to the end of a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def see_only(gpus: tuple[int, ...]) -> None:
    """Let CUDA show this process and its children these devices; must come before the first use of CUDA.

    Jobs share devices in turns, so Ray, which gives a device to one actor at a time, must not hand them out.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))


def stay_on(address: str, interface: str | None) -> str:
    """Let gloo and NCCL use one network alone, unless the environment names one; return this process's address there.

    Without that gloo takes the network that this machine's name leads to.
    """
    name = interface or _interface_of(address)
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")
    return address if interface is None else address_of(interface)


def _interface_of(address: str) -> str | None:
    for _, name in socket.if_nameindex():
        with suppress(ValueError):
            if address_of(name) == address:
                return name
    return None


def address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface; `ValueError` if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            raise ValueError(f"network interface {interface} has no IPv4 address ({error.strerror}); `ip address` lists them") from error
    return socket.inet_ntoa(answer[20:24])


def free_port(address: str) -> int:
    """Return a free TCP port of an address of this machine."""
    with socket.create_server((address, 0)) as taken:
        return int(taken.getsockname()[1])
