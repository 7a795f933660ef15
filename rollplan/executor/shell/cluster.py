"""Ray: started on this machine and for loopback only, or an existing cluster; which of its nodes are there."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from rollplan.executor.core.runbook import Runbook
from rollplan.executor.shell import processes
from rollplan.executor.shell.environment import for_ray
from rollplan.executor.shell.placement import PREFIX, Machine, needed

_ANSWER_S = 5.0
_STORE_BYTES = 256 * 2**20
_PACKAGE = Path(__file__).resolve().parents[2]
_TOKEN = "RAY_AUTH_MODE"


class ClusterError(Exception):
    """Ray cannot be started or reached; the message says what to do."""


class Cluster:
    """A connection to Ray. local: started here, for this run alone; it ends with this process. temp: folder for its files."""

    def __init__(self, runbook: Runbook, address: str | None, temp: Path) -> None:
        self.local = address is None
        if address is None:
            self._start(runbook, temp)
        else:
            self._join(address)

    def machines(self) -> list[Machine]:
        """Return the living nodes."""
        found = []
        for one in ray.nodes():
            if one["Alive"]:
                resources: Mapping[str, float] = one["Resources"]
                stands_for = {name.removeprefix(PREFIX): int(number) for name, number in resources.items() if name.startswith(PREFIX)}
                found.append(Machine(one["NodeID"], one["NodeManagerAddress"], stands_for, int(resources.get("GPU", 0))))
        return found

    def close(self) -> None:
        """Leave Ray; if it was started here, it ends."""
        ray.shutdown()

    def _start(self, runbook: Runbook, temp: Path) -> None:
        pools = {f"{PREFIX}{pool}": number for pool, number in needed(runbook.resources).items()}
        # Without an address Ray joins whatever cluster was last started on this machine.
        self._init(address="local", include_dashboard=False, resources=pools, _temp_dir=str(temp), object_store_memory=_STORE_BYTES)

    def _join(self, address: str) -> None:
        """Ray itself ends the whole process where nobody listens, so that is found out before."""
        host, _, port = address.rpartition(":")
        if address != "auto":
            try:
                socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
            except (OSError, ValueError) as error:
                raise self._fault(address, error) from error
        marks = {mark: os.environ[mark] for mark in (processes.MARK, processes.DRIVER_MARK)}
        # Whoever started the nodes need not have this rollplan, nor know its marks.
        self._init(address=address, runtime_env={"py_modules": [str(_PACKAGE)], "env_vars": {**for_ray(address), **marks}})

    def _init(self, **options: Any) -> None:
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise self._fault(str(options.get("address")), error) from error

    def _fault(self, address: str, error: Exception) -> ClusterError:
        said = " ".join(str(error).split())[:300]
        if self.local:
            return ClusterError(f"a local Ray cannot be started ({said}); free memory and disk, or use an existing cluster with --address")
        remedy = "start one with `ray start --head`, of which a node must run on this machine, give its `host:port`, or leave --address out"
        token = "" if os.environ.get(_TOKEN) else f"; if it wants tokens, set {_TOKEN}=token"
        return ClusterError(f"no Ray cluster answers at {address} ({said}){token}; {remedy}")
