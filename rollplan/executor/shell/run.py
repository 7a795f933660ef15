"""One run: asks the core what to do, lets it be done, tells the core what happened, until everything is over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TextIO

from rollplan.executor.core import events
from rollplan.executor.core.decide import Core
from rollplan.executor.core.records import Record, Remark
from rollplan.executor.core.runbook import Runbook
from rollplan.executor.shell import processes
from rollplan.executor.shell.cluster import Cluster
from rollplan.executor.shell.job import Around, JobProcesses
from rollplan.executor.shell.placement import Spot, TooFewError, place
from rollplan.executor.shell.saved import SavedStates

_TICK_S = 1.0
_LOOK_S = 0.25
_STATE_S = 0.1
RAY_DIED = 75
"""Exit code of a driver whose Ray is gone."""


class Run:
    """One run. request: see `driver`. say: takes one line for whoever started it."""

    def __init__(self, request: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> None:
        self.runbook = Runbook.from_dict(request["runbook"])
        self.folder = Path(request["folder"])
        self.say = say
        self.interface = request.get("interface")
        finished = request.get("finished")
        if finished is None:
            finished = {job.name: SavedStates(self.folder, job.name).finished() for job in self.runbook.jobs}
        self.core = Core(self.runbook, finished)
        self.cluster = Cluster(self.runbook, request.get("address"), Path(request["temp"]))
        self.spots: dict[str, tuple[Spot, ...]] = place(self.runbook.resources, self.cluster.machines())
        self.lost: set[str] = set()
        self.stop_asked = False
        self.queue: asyncio.Queue[events.Event] = asyncio.Queue()
        self.journal: TextIO = (self.folder / "journal.jsonl").open("a", encoding="utf-8")
        self.zero = monotonic()
        self.said_s = -1.0
        self.around = Around(
            self.folder,
            self.runbook.folder,
            "lo" if self.cluster.local and self.interface is None else self.interface,
            self.emit,
            self.record,
            self.remark,
            lambda process: self.say({"process": process}),
            self.now_s,
            lambda: self.spots,
            self._look_at_nodes,
        )
        self.jobs = {job.name: JobProcesses(job, self.around) for job in self.runbook.jobs}

    def now_s(self) -> float:
        """Return seconds since the run started."""
        return monotonic() - self.zero

    def emit(self, kind: type[events.Event], **values: Any) -> None:
        """Queue an event that happens now."""
        self.queue.put_nowait(kind(self.now_s(), **values))

    def record(self, record: Record) -> None:
        """Tell what was executed."""
        self.say({"record": record.to_dict()})

    def remark(self, job: str, text: str) -> None:
        """Tell what people should read."""
        self.say({"remark": Remark(self.now_s(), job, text).to_dict()})

    def stop(self) -> None:
        """Ask the core for an end, once."""
        if not self.stop_asked:
            self.stop_asked = True
            self.emit(events.StopAsked)

    async def run(self) -> str:
        """Carry out what the core says until it is finished; return why it ended."""
        self._listen()
        watchers = [asyncio.create_task(self._tick()), asyncio.create_task(self._look())]
        self.zero = monotonic()
        self._carry_out(self.core.start(self.now_s()))
        while not self.core.finished:
            event = await self.queue.get()
            self._journal(event)
            self._carry_out(self.core.handle(event))
            self._tell(isinstance(event, events.Tick))
        self._tell(True)
        for watcher in watchers:
            watcher.cancel()
        return "stopped" if self.stop_asked else "finished"

    def close(self) -> None:
        """Leave nothing behind."""
        for job in self.jobs.values():
            job.kill()
        self.cluster.close()
        self.journal.close()

    def _carry_out(self, instructions: list[events.Instruction]) -> None:
        for instruction in instructions:
            name = getattr(instruction, "job", None)
            if name is not None:
                self.jobs[name].carry_out(instruction)
        for remark in self.core.take_remarks():
            self.say({"remark": remark.to_dict()})

    def _journal(self, event: events.Event) -> None:
        raw = events.event_to_dict(event)
        self.say({"event": raw})
        self.journal.write(json.dumps(raw) + "\n")
        self.journal.flush()

    def _tell(self, in_any_case: bool) -> None:
        now_s = self.now_s()
        if in_any_case or now_s - self.said_s >= _STATE_S:
            self.said_s = now_s
            memory: dict[str, dict[str, int]] = {}
            for (resource, job), held in self.around.held.items():
                memory.setdefault(resource, {})[job] = held
            self.say({"state": {**self.core.status(), "at_s": now_s, "memory": memory}})

    def _listen(self) -> None:
        """Stop by a signal, or by a line of stdin, or at its end, which is the end of whoever wanted the run."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)

        def read() -> None:
            for line in sys.stdin:
                with suppress(ValueError, AttributeError):
                    if json.loads(line).get("stop"):
                        break
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.stop)

        threading.Thread(target=read, daemon=True).start()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.emit(events.Tick)

    async def _look(self) -> None:
        """Notice what Ray lost: its own servers, of which this process cannot do without, or nodes of a cluster."""
        servers = self._servers()
        while True:
            await asyncio.sleep(_LOOK_S if self.cluster.local else _TICK_S)
            for pid, kind in servers.items():
                if not processes.alive(pid):
                    print(f"Ray's {kind} (process {pid}) died", file=sys.stderr, flush=True)
                    os._exit(RAY_DIED)
            await self._look_at_nodes()

    def _servers(self) -> dict[int, str]:
        if not self.cluster.local:
            return {}
        names = ((pid, processes.program(pid)) for pid in processes.of_run(self.folder))
        servers = {pid: processes.SERVERS[name] for pid, name in names if name in processes.SERVERS}
        for pid, kind in servers.items():
            self.say({"process": {"pid": pid, "kind": kind, "job": None, "resource": None}})
        return servers

    async def _look_at_nodes(self) -> None:
        if self.cluster.local:
            return
        machines = await asyncio.to_thread(self.cluster.machines)
        nodes = {machine.node for machine in machines}
        for name, spots in self.spots.items():
            gone = [spot.machine.address for spot in spots if spot.machine.node not in nodes]
            if gone and name not in self.lost:
                self.lost.add(name)
                self.emit(events.ResourceLost, resource=name, reason=f"Ray lost its node on {', '.join(gone)}")
        if self.lost:
            kept = {name: spots for name, spots in self.spots.items() if name not in self.lost}
            with suppress(TooFewError):
                self.spots = place(self.runbook.resources, machines, kept)
                for name in sorted(self.lost):
                    self.emit(events.ResourceBack, resource=name)
                self.lost.clear()
