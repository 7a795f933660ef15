"""New weights from the training ranks of a job to its rollout workers: every rank of both makes one `Transfer`.

    train rank i       Transfer("train", i, 2, 4, "10.0.0.1:29511", host_store=i == 0).send(weights, version)
    rollout worker j   Transfer("rollout", j, 2, 4, "10.0.0.1:29511", host_store=False).receive()

All train ranks send the same weights, all rollout workers receive. Names, dtypes and shapes travel once, with the first
version; after that only bytes do. Waiting leaves the interpreter to other threads, so both may run beside compute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch

from rollplan.executor.sync import meeting
from rollplan.executor.sync.carry import Parcel, carry, carry_and_check
from rollplan.executor.sync.errors import DamagedError, SyncError, WrongWeightsError
from rollplan.executor.sync.flatten import Layout
from rollplan.executor.sync.routes import Routes, flat, two_stage
from rollplan.executor.sync.wire import GlooWire, Wire, try_nccl

Side = Literal["train", "rollout"]
Plan = Literal["two-stage", "flat"]
Backend = Literal["nccl", "gloo"]
Numbers = dict[str, float]
_LAYOUT = "layout"


class Transfer:
    """One rank's end. `backend` is what was asked for until ranks have met, then what is used; `remark` says why it is another."""

    def __init__(
        self,
        side: Side,
        rank: int,
        train_ranks: int,
        rollout_ranks: int,
        store: str,
        host_store: bool,
        plan: Plan = "two-stage",
        interface: str | None = None,
        timeout_s: float = 300.0,
        same_site: bool = False,
        backend: Backend = "nccl",
    ) -> None:
        """Open the store, if this rank hosts it; `connect` or the first transfer meets the others.

        rank: within its side. store: `host:port` at which all ranks meet, one for each transfer; with port 0 its host finds a
        free port, and `store` of this object says which. interface: network interface of the weights; absent, the one that
        leads to the store. timeout_s: for every single call, waiting for the others included. same_site: no slow link lies
        between the sides. backend: the one to try first; without a GPU for every rank it is gloo. Raises `SyncError`.
        """
        ranks = {"train": train_ranks, "rollout": rollout_ranks}
        if side not in ranks or not 0 <= rank < ranks[side]:
            raise SyncError(f"{side} rank {rank} is not one of {train_ranks} train and {rollout_ranks} rollout ranks, counted from 0")
        if plan not in ("two-stage", "flat") or backend not in ("nccl", "gloo"):
            raise SyncError(f"plan {plan!r}, backend {backend!r}: give `two-stage` or `flat`, and `nccl` or `gloo`")
        if timeout_s <= 0:
            raise SyncError(f"timeout_s must be positive, got {timeout_s}")
        self._side, self._train_ranks, self._rollout_ranks = side, train_ranks, rollout_ranks
        self._me = rank if side == "train" else train_ranks + rank
        self._names = [meeting.named(one, train_ranks) for one in range(train_ranks + rollout_ranks)]
        self._plan, self._same_site, self._interface, self._timeout_s = plan, same_site, interface, timeout_s
        self.backend: Backend = backend
        self.remark: str | None = None
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._wire: Wire | None = None
        self._layout: Layout | None = None
        self._buffer: torch.Tensor | None = None
        self._version: int | None = None
        self._store: Any = None
        self.store = store
        if host_store:
            self._store, self.store = meeting.host_store(store, timeout_s)

    def connect(self) -> None:
        """Meet all other ranks and connect; raise `SyncError` if one does not come, or was made with other arguments."""
        with self._calling():
            pass

    def send(self, weights: Mapping[str, torch.Tensor], version: int) -> Numbers:
        """Send weights, on a train rank; return when the rollout workers that it sends to have all of them, checked.

        Returns numbers: `seconds` since the first of them was ready to receive; `waited_s` until then; `flatten_s` before that,
        to gather the bytes and their checksums; `first_stage_s` and `second_stage_s`, which add up to `seconds`; `bytes` that
        this rank sent. Raises `WrongWeightsError` before anything is sent, `DamagedError` if a worker got other bytes, else
        `SyncError`.
        """
        self._must_be("train")
        with self._calling() as (wire, until):
            self._must_not_follow(version)
            layout = self._agreed(weights, until)
            routes = self._routes(layout.size)
            mine = [hop for stage in routes for hop in stage if hop.source == self._me]
            began = time.monotonic()
            # Without a hop of its own a rank still says that it has the same weights.
            first, last = min((hop.first for hop in mine), default=0), max((hop.last for hop in mine), default=0)
            buffer = self._room(last - first, wire)
            layout.write(weights, first, last, buffer)
            parcels = {
                shard: Parcel.packed(buffer[shard[0] - first : shard[1] - first], version, layout.digest)
                for shard in {(hop.first, hop.last) for hop in mine}
            }
            ready = time.monotonic()
            moments = carry(wire, self._me, routes, parcels, until)
            answers = {hop.target: torch.zeros(2, dtype=torch.int64, device=wire.device) for hop in mine}
            wire.exchange([], list(answers.items()), until)
            self._version = version
            for target, answer in answers.items():
                if answer.tolist() != [version, 1]:
                    raise DamagedError(f"{self._names[target]} did not get version {version} as it was sent; see why there, send again")
            size = sum(hop.last - hop.first for hop in mine)
            return self._numbers(ready, moments.started, moments.first_stage, size) | {"flatten_s": ready - began}

    def receive(self) -> tuple[int, dict[str, torch.Tensor], Numbers]:
        """Receive the next weights, on a rollout worker; return their version, themselves, and numbers.

        The tensors are parts of one piece of memory that is the caller's; on the GPU with NCCL, else on the CPU.
        Numbers: `seconds` since the first bytes came; `waited_s` until then; `first_stage_s` of that for what came from
        trainers, `second_stage_s` for what other workers passed on and the last checks; `bytes` that came. Raises
        `DamagedError` if a shard is not what was sent, else `SyncError`.
        """
        self._must_be("rollout")
        with self._calling() as (wire, until):
            called = time.monotonic()
            if self._layout is None:
                self._layout = Layout.from_json(meeting.wait_for(self._store, _LAYOUT, self._names[0], until).decode())
            layout = self._layout
            routes = self._routes(layout.size)
            # New memory each time: an engine may still be busy with the version before.
            buffer = torch.empty(layout.size, dtype=torch.uint8, device=wire.device)
            mine = [hop for stage in routes for hop in stage if hop.target == self._me]
            parcels = {(hop.first, hop.last): Parcel.empty(buffer[hop.first : hop.last]) for hop in mine}
            moments, damaged = carry_and_check(wire, self._me, routes, parcels, layout.digest, until)
            faults = [f"bytes {hop.first} to {hop.last} {fault}, from {self._names[hop.source]}" for hop, fault in damaged]
            versions = sorted({parcel.version for parcel in parcels.values()})
            if not damaged and len(versions) > 1:
                faults.append(f"the train ranks sent different versions at once: {', '.join(map(str, versions))}")
            answer = torch.tensor([versions[0], not faults], dtype=torch.int64, device=wire.device)
            givers = sorted({hop.source for hop in mine if hop.source < self._train_ranks})
            wire.exchange([(giver, answer) for giver in givers], [], until)
            if faults:
                raise DamagedError(f"{self._names[self._me]}, version {versions[0]}: {'; '.join(faults)}; send it again")
            self._version = versions[0]
            size = sum(hop.last - hop.first for hop in mine)
            return self._version, layout.read(buffer), self._numbers(called, moments.started, moments.first_stage, size)

    def close(self) -> None:
        """Break all connections, also under a call of another thread; the other ranks' calls fail from now on."""
        self._close("it was closed")
        self._store = None

    def _close(self, why: str) -> None:
        """Keep the store: the others may not have read yet why."""
        self._closed = self._closed or why
        if self._wire is not None:
            self._wire.close()
        self._wire = self._buffer = None

    @contextmanager
    def _calling(self) -> Iterator[tuple[Wire, float]]:
        """Yield the wire and the moment by which the call must be done; after an error that leaves bytes under way, close."""
        with self._lock:
            if self._closed is not None:
                raise SyncError(f"the transfer of {self._names[self._me]} is closed ({self._closed}); make a new one, on every rank")
            until = time.monotonic() + self._timeout_s
            try:
                self._wire = self._wire or self._connected(until)
                yield self._wire, until
            except (WrongWeightsError, DamagedError):
                raise
            except BaseException as error:
                # Whoever waits for this rank must not wait for its timeout.
                self._close(str(error) or type(error).__name__)
                raise

    def _connected(self, until: float) -> Wire:
        """Meet the others, agree on the backend, and connect."""
        self._store = self._store or meeting.join_store(self.store, self._timeout_s)
        ranks = {"train_ranks": self._train_ranks, "rollout_ranks": self._rollout_ranks}
        common = {**ranks, "plan": self._plan, "same_site": self._same_site, "backend": self.backend}
        heard = meeting.meet(self._store, "hello", self._me, meeting.hello(common), self._names, until)
        meeting.check_common(heard, self._names)
        if self.backend == "nccl":
            why = meeting.why_not_nccl(heard, self._names)
            if why is None:
                wire, why = try_nccl(self._store, self._me, self._names, self._interface, until)
                if wire is not None:
                    return wire
            self.backend, self.remark = "gloo", f"weights go over TCP with gloo, not NCCL: {why}"
        place = {"interface": self._interface} if self._interface else {"hostname": meeting.own_address(self.store)}
        self._wire = GlooWire(self._store, self._me, self._names, place, until)
        # A rank with nothing to send could be done and gone while others still connect to it.
        meeting.meet(self._store, "connected", self._me, {}, self._names, until)
        return self._wire

    def _agreed(self, weights: Mapping[str, torch.Tensor], until: float) -> Layout:
        """Return the layout of all versions; the first one's is made known by train rank 0."""
        if self._layout is not None:
            self._layout.check(weights)
            return self._layout
        layout = Layout.of(weights)
        if self._me == 0:
            self._store.set(_LAYOUT, layout.to_json())
        else:
            Layout.from_json(meeting.wait_for(self._store, _LAYOUT, self._names[0], until).decode()).check(weights)
        self._layout = layout
        return layout

    def _routes(self, size: int) -> Routes:
        if self._plan == "flat":
            return flat(size, self._train_ranks, self._rollout_ranks)
        return two_stage(size, self._train_ranks, [0 if self._same_site else 1] * self._rollout_ranks)

    def _room(self, size: int, wire: Wire) -> torch.Tensor:
        """Return the memory that a trainer sends from: of one size from the first version on."""
        if self._buffer is None or self._buffer.numel() != size:
            self._buffer = torch.empty(size, dtype=torch.uint8, device=wire.device)
        return self._buffer

    def _must_be(self, side: Side) -> None:
        if self._side != side:
            raise SyncError(f"{self._names[self._me]} cannot do that: train ranks send, rollout ranks receive")

    def _must_not_follow(self, version: int) -> None:
        if self._version is not None and version < self._version:
            raise WrongWeightsError(f"version {version} cannot follow version {self._version}; versions rise")

    def _numbers(self, called: float, started: float, first_stage: float, size: int) -> Numbers:
        done = time.monotonic()
        return {
            "seconds": done - started,
            "waited_s": started - called,
            "first_stage_s": first_stage - started,
            "second_stage_s": done - first_stage,
            "bytes": float(size),
        }
