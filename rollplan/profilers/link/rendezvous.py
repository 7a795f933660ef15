"""How ranks find each other: a store at an address of the user's choice, and the interface that leads there.

torch's own store listens on every network of the machine; here it is given a socket that is bound to one address.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from rollplan.profilers.worker import WorkerError

_SIOCGIFADDR = 0x8915
_ANYWHERE = ("0.0.0.0", "::", "")


def listen(host: str, port: int, wait_s: float) -> tuple[dist.TCPStore, int]:
    """Open the store on exactly this address (port 0: any free one); return it with its port."""
    if host in _ANYWHERE:
        raise WorkerError(f"--address {host}:{port} would listen on every network; give the address that this machine has on the link")
    try:
        bound = socket.create_server((host, port))
    except OSError as error:
        raise WorkerError(
            f"rank 0 cannot listen on {host}:{port} ({error.strerror}); give an address of this machine and a free port"
        ) from None
    found = bound.getsockname()[1]
    options = {"is_master": True, "wait_for_workers": False, "timeout": timedelta(seconds=wait_s)}
    return dist.TCPStore(host, found, None, master_listen_fd=bound.detach(), **options), found


def join(host: str, port: int, wait_s: float) -> dist.TCPStore:
    """Connect to the store of rank 0, waiting for it."""
    try:
        return dist.TCPStore(host, port, None, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=wait_s))
    except RuntimeError:
        raise WorkerError(f"nobody answers on {host}:{port} within {wait_s:g} s; start rank 0 there, and let the port through") from None


def meet(store: dist.TCPStore, rank: int, ranks: int, hello: dict[str, Any], wait_s: float) -> list[dict[str, Any]]:
    """Wait for all ranks; return what each says of itself, in their order."""
    if store.add(f"joined/{rank}", 1) > 1:
        raise WorkerError(f"rank {rank} has joined already; give every process another --rank")
    store.set(f"hello/{rank}", json.dumps({**hello, "ranks": ranks}))
    told = []
    for other in range(ranks):
        try:
            store.wait([f"hello/{other}"], timedelta(seconds=wait_s))
        except RuntimeError:
            raise WorkerError(f"rank {other} did not come within {wait_s:g} s; start it with --rank {other} --ranks {ranks}") from None
        told.append(json.loads(store.get(f"hello/{other}")))
        if told[-1]["ranks"] != ranks:
            raise WorkerError(f"rank {rank} was started with --ranks {ranks}, rank {other} with {told[-1]['ranks']}; give all the same")
    return told


def interface_to(host: str, port: int) -> str:
    """Return the name of the network interface whose address this machine uses towards `host` (IPv4)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port or 1))
        except OSError as error:
            raise WorkerError(f"{host} cannot be reached from this machine ({error.strerror}); check --address") from None
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address(probe, name) == own:
                return name
    raise WorkerError(f"no interface has {own} as its first address; name the interface of the link with --interface")


def _address(any_socket: socket.socket, interface: str) -> str | None:
    """Return the first IPv4 address of an interface, None if it has none."""
    try:
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])
