"""Ranks of a transfer as processes on this machine, for tests; runs in an interpreter that has torch.

    python ranks.py '{"train": 2, "rollout": 3, "versions": [1, 2]}'

prints one line of JSON for each rank that ends by itself: what its calls gave. `mishap` names a function below that is
called on every rank, before it makes its transfer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rollplan.executor.sync import carry, wire
from rollplan.executor.sync.errors import SyncError
from rollplan.executor.sync.transfer import Transfer


def weights(version: int) -> dict[str, torch.Tensor]:
    """Return the weights of a version: of several types, one not in order in memory, one empty, one a number."""
    made = torch.Generator().manual_seed(version)
    return {
        "layers.10.weight": torch.randn(301, 257, generator=made),
        "layers.9.weight": torch.randn(64, 33, generator=made).to(torch.bfloat16).t(),
        "scale": torch.tensor(float(version), dtype=torch.float64),
        "bias": torch.randint(-128, 127, (12_345,), generator=made, dtype=torch.int8),
        "mask": torch.randint(0, 2, (77,), generator=made).to(torch.bool),
        "half": torch.randn(3, 5, 7, generator=made).half(),
        "nothing": torch.empty(0, 4),
        "parameter": torch.nn.Parameter(torch.randn(100_000, generator=made)),
    }


def same(got: dict[str, torch.Tensor], version: int) -> bool:
    """Return whether these are exactly the weights of a version."""
    expected = weights(version)
    return got.keys() == expected.keys() and all(
        got[name].dtype == tensor.dtype and torch.equal(got[name], tensor.detach()) for name, tensor in expected.items()
    )


def one_bit_flips(side: str, rank: int) -> None:
    """The second version's last shard is damaged in the memory of the first rollout rank, before it is passed on."""
    real = wire.GlooWire.exchange

    def exchange(self: Any, sends: Any, receives: Any, until: float) -> float:
        through = real(self, sends, receives, until)
        for peer, content in receives if (side, rank) == ("rollout", 0) else ():
            if peer == 0 and content.dtype == torch.uint8 and int(receives[0][1][0]) == 2:
                content[content.numel() // 2] ^= 4
        return through

    wire.GlooWire.exchange = exchange


def killed(side: str, rank: int) -> None:
    """The last rollout rank dies when the second version has begun to move."""
    real = carry.carry

    def carried(*given: Any) -> Any:
        if (side, rank) == ("rollout", 1) and killed.calls == 1:
            os.kill(os.getpid(), 9)
        killed.calls += 1
        return real(*given)

    killed.calls = 0
    carry.carry = carried


def stops(side: str, rank: int) -> None:
    """The first rollout rank does nothing for a while instead of its second call, as in a hung engine."""
    real = Transfer.receive

    def receive(self: Any) -> Any:
        if rank == 0 and self._version == 1:
            time.sleep(12)
            os._exit(0)
        return real(self)

    Transfer.receive = receive


def killed_between(side: str, rank: int) -> None:
    """The last rollout rank dies before its first call after connecting, when nobody waits for it; the others go on a second later."""
    real = Transfer._calling

    def calling(self: Any) -> Any:
        if self._wire is not None:
            if (side, rank) == ("rollout", 1):
                os.kill(os.getpid(), 9)
            time.sleep(1)
        return real(self)

    Transfer._calling = calling


def lost(side: str, rank: int) -> None:
    """The last rollout rank never comes."""
    if (side, rank) == ("rollout", 1):
        os._exit(0)


MISHAPS = {function.__name__: function for function in (one_bit_flips, killed, killed_between, stops, lost)}


def rank_of(request: dict[str, Any], side: str, rank: int, place: Path) -> dict[str, Any]:
    """Be one rank; return what happened."""
    if "mishap" in request:
        MISHAPS[request["mishap"]](side, rank)
    host = side == "train" and rank == 0
    store = "127.0.0.1:0"
    if not host:
        while not place.exists():
            time.sleep(0.01)
        store = place.read_text()
    counts = (request["train"], request["rollout"])
    transfer = Transfer(side, rank, *counts, store, host, timeout_s=request.get("timeout_s", 30.0), **request.get("options", {}))
    if host:
        place.with_suffix(".new").write_text(transfer.store)
        place.with_suffix(".new").replace(place)
    if request.get("connect"):
        transfer.connect()
    found: list[Any] = []
    began = time.monotonic()
    for version in request["versions"]:
        began = time.monotonic()
        try:
            if side == "train":
                numbers = transfer.send(weights(version), version)
                found.append(numbers)
            else:
                got, tensors, numbers = transfer.receive()
                found.append({**numbers, "version": got, "same": same(tensors, version)})
        except SyncError as error:
            found.append({"error": type(error).__name__, "says": str(error), "after_s": time.monotonic() - began})
    transfer.close()
    return {
        "side": side,
        "rank": rank,
        "found": found,
        "backend": transfer.backend,
        "remark": transfer.remark,
        "default_group": dist.is_initialized(),
    }


def main() -> None:
    """Start all ranks, and wait for them."""
    request, place = json.loads(sys.argv[1]), Path(sys.argv[2]) / "store"
    torch.set_num_threads(1)
    ranks = [("train", rank) for rank in range(request["train"])] + [("rollout", rank) for rank in range(request["rollout"])]
    children = []
    for side, rank in ranks:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                # In one piece: lines of several ranks must not mix.
                os.write(1, json.dumps(rank_of(request, side, rank, place)).encode() + b"\n")
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
