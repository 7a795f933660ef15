"""How the ranks of a transfer find each other and agree: a store at one address, what each says of itself, and the backend.

torch's own store listens on every network of the machine; here it is given a socket that is bound to one address.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from rollplan.executor.sync.errors import SyncError

_ANYWHERE = ("0.0.0.0", "::", "")
_SHORTEST_S = 0.001
"""torch takes a timeout of zero for none."""


def named(rank: int, train_ranks: int) -> str:
    """Return how people call a rank that is counted through."""
    return f"train rank {rank}" if rank < train_ranks else f"rollout rank {rank - train_ranks}"


def left(until: float) -> timedelta:
    """Return the time until a moment of `time.monotonic`."""
    return timedelta(seconds=max(until - time.monotonic(), _SHORTEST_S))


def host_store(address: str, timeout_s: float) -> tuple[dist.TCPStore, str]:
    """Open the store on exactly this `host:port` (port 0: any free one); return it with its address."""
    host, port = _parts(address)
    if host in _ANYWHERE:
        raise SyncError(f"store {address} would listen on every network; give the address that this machine has on the link")
    try:
        bound = socket.create_server((host, port))
    except OSError as error:
        raise SyncError(
            f"the store cannot listen on {address} ({error.strerror}); give an address of this machine and a free port"
        ) from None
    port = bound.getsockname()[1]
    wait = timedelta(seconds=timeout_s)
    store = dist.TCPStore(host, port, None, is_master=True, wait_for_workers=False, timeout=wait, master_listen_fd=bound.detach())
    return store, f"{host}:{port}"


def join_store(address: str, timeout_s: float) -> dist.TCPStore:
    """Connect to the store at `host:port`, waiting for it."""
    host, port = _parts(address)
    try:
        return dist.TCPStore(host, port, None, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except RuntimeError:
        raise SyncError(
            f"no store answers on {address} within {timeout_s:g} s; start the rank that hosts it, let its port through"
        ) from None


def own_address(store: str) -> str:
    """Return the address that this machine uses towards the store (IPv4)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_parts(store))
        except OSError as error:
            raise SyncError(f"store {store} cannot be reached from this machine ({error.strerror}); check the address") from None
        return str(probe.getsockname()[0])


def hello(common: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rank says of itself: what must be the same for all, and its GPU or why it has none for NCCL."""
    if not dist.is_nccl_available():
        return {"common": dict(common), "gpu": None, "why": "has a torch without NCCL"}
    if not torch.cuda.is_available():
        return {"common": dict(common), "gpu": None, "why": "has no GPU"}
    return {"common": dict(common), "gpu": str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid), "why": ""}


def meet(store: dist.Store, topic: str, me: int, said: Mapping[str, Any], names: Sequence[str], until: float) -> list[dict[str, Any]]:
    """Say something to all ranks; return what each of them says, in their order."""
    heard = []
    try:
        if store.add(f"{topic}/joined/{me}", 1) > 1:
            raise SyncError(f"{names[me]} has joined already; give every worker a rank of its own, and every transfer a store of its own")
        store.set(f"{topic}/{me}", json.dumps(said))
        for other, name in enumerate(names):
            heard.append(json.loads(wait_for(store, f"{topic}/{other}", name, until)))
    except RuntimeError as error:
        raise SyncError(f"{names[me]} has lost the store ({first_line(error)}); look at the rank that hosts it") from None
    return heard


def wait_for(store: dist.Store, key: str, whose: str, until: float) -> bytes:
    """Return what a rank has put into the store."""
    wait = left(until)
    try:
        store.wait([key], wait)
        return bytes(store.get(key))
    except RuntimeError:
        raise SyncError(f"{whose} did not say `{key}` within {wait.total_seconds():g} s, or the store is gone; see what it says") from None


def check_common(heard: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Raise `SyncError` if two ranks were made with different arguments."""
    for name, other in zip(names, heard, strict=True):
        for key, value in heard[0]["common"].items():
            if other["common"].get(key) != value:
                raise SyncError(f"{name} has {key} = {other['common'].get(key)}, {names[0]} has {value}; give all ranks the same")


def why_not_nccl(heard: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    """Return why these ranks cannot use NCCL, None if they may: each needs a GPU, and of its own."""
    owner: dict[str, str] = {}
    for name, other in zip(names, heard, strict=True):
        if other["gpu"] is None:
            return f"{name} {other['why']}"
        if other["gpu"] in owner:
            return f"{owner[other['gpu']]} and {name} share a GPU"
        owner[other["gpu"]] = name
    return None


def first_line(error: Exception) -> str:
    """Return what an error of torch says, without the place in its source."""
    line = str(error).strip().partition("\n")[0]
    return (line.rpartition("] ")[2].partition(". ")[0] if "[/" in line else line)[:200]


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise SyncError(f"store {address!r} is not host:port; give the address and the port of the store")
    return host, int(port)
