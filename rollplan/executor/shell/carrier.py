"""Weights beside the phases of a process: snapshots that wait to be sent, and received versions that wait to be used.

Programs whose states have neither `weights` nor `update` move only the number of the version.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rollplan.executor.api import Pool
from rollplan.executor.shell.program import ProgramError


class Carrier:
    """What one process sends or receives. Only `connect`, `send`, and `receive` take time of the network."""

    def __init__(self) -> None:
        self._transfer: Any = None
        self._travels = False
        self._outgoing: dict[int, Mapping[str, Any]] = {}
        self._received: dict[int, Mapping[str, Any] | None] = {}
        self._used = 0
        # Weights come in one thread and are used in another.
        self._lock = threading.Lock()

    def adopt(self, pool: Pool, kept: Any, version: int) -> bool:
        """Look at what the process keeps, as `version`; return whether its weights can travel."""
        self._travels = hasattr(kept, "weights" if pool == "train" else "update")
        self._used = version
        if pool == "train":
            self.snapshot(kept, version)
        return self._travels

    def connect(self, transfer: Mapping[str, Any]) -> str | None:
        """Open the transfer; every process of the job does so at the same time. Return its remark; its library is imported only here."""
        from rollplan.executor.sync.transfer import Transfer

        opened = Transfer(**transfer)
        opened.connect()
        self._transfer = opened
        return opened.remark

    def snapshot(self, kept: Any, version: int) -> None:
        """Copy a trainer's weights to host memory, so that training may go on before they are sent."""
        if self._travels:
            copied = {name: tensor.detach().to("cpu", copy=True) for name, tensor in kept.weights().items()}
            with self._lock:
                self._outgoing[version] = copied

    def send(self, version: int) -> dict[str, float]:
        """Send a snapshot and forget it and those before it."""
        if self._transfer is None:
            return {}
        weights = self._outgoing[version]
        stats: dict[str, float] = self._transfer.send(weights, version)
        with self._lock:
            self._outgoing = {one: later for one, later in self._outgoing.items() if one > version}
        return stats

    def receive(self, version: int) -> dict[str, float]:
        """Wait for weights; `ProgramError` if they are of another version than expected."""
        weights: Mapping[str, Any] | None = None
        stats: Mapping[str, float] = {}
        if self._transfer is not None:
            came, weights, stats = self._transfer.receive()
            if came != version:
                raise ProgramError(f"weights of version {came} came, {version} was expected")
        with self._lock:
            self._received[version] = weights
        return dict(stats)

    def apply(self, kept: Any, version: int) -> None:
        """Let an engine use `version` from now on; `ProgramError` if it was never received or newer ones are in use."""
        with self._lock:
            came = version in self._received
            weights = self._received.get(version)
            self._received = {one: later for one, later in self._received.items() if one > version}
        if weights is not None:
            kept.update(weights, version)
        if came:
            self._used = version
        if self._used != version:
            raise ProgramError(f"weights of version {version} are wanted, {self._used} are in use")
