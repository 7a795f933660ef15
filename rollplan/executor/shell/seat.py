"""Which process of which job this is, and what a process of its kind needs around it: a log, devices, an address."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rollplan.executor.api import Pool
from rollplan.executor.core.runbook import Setting

_GET_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One process of a job. See `api.Worker` for the first seven fields.

    module, folder: of the program, see `program.load_program`. log: file that takes whatever the process prints.
    """

    job: str
    pool: Pool
    rank: int
    world: int
    gpus: tuple[int, ...]
    settings: Mapping[str, Setting]
    seed: int
    module: str
    folder: str
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


def address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface; `ValueError` if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            raise ValueError(f"network interface {interface} has no IPv4 address ({error.strerror}); `ip address` lists them") from error
    return socket.inet_ntoa(answer[20:24])


def free_ports(address: str, number: int) -> list[int]:
    """Return different free TCP ports of an address of this machine."""
    sockets = [socket.create_server((address, 0)) for _ in range(number)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
