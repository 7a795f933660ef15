"""One process of a job, as the driver sees it: a Ray actor around a `Host`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rollplan.executor.api import Pool
from rollplan.executor.core.runbook import JobRun
from rollplan.executor.shell import processes
from rollplan.executor.shell.host import Host
from rollplan.executor.shell.placement import Spot, seats
from rollplan.executor.shell.saved import file_name
from rollplan.executor.shell.seat import Seat

_WILLING_S, _GONE_S = 1.0, 10.0
"""How long a process may take to end itself, and how long one that is killed by force; after that it is given up."""
_THREADS = {"control": 4, "weights": 1, "leash": 1}
"""Beside the thread that runs the phases: for questions, for weights that travel, and for noticing the end."""


class LostError(Exception):
    """A process of the job is dead or failed. Arguments: the resource, the reason."""


@dataclass(slots=True, eq=False)
class Member:
    """One process. node: number of its plan node in the resource. pid: None if it is not seen from here.

    busy: a phase runs in it. ticket, interrupted_s: of its latest rollout.
    """

    actor: Any
    pool: Pool
    resource: str
    rank: int
    node: int
    spot: Spot
    pid: int | None = None
    busy: bool = False
    ticket: int = -1
    interrupted_s: float | None = None

    async def call(self, method: str, *arguments: Any, group: str | None = None) -> Any:
        """Return what a method of the host returns; `LostError` if it raises or the process dies."""
        handle = getattr(self.actor, method)
        try:
            return await (handle if group is None else handle.options(concurrency_group=group)).remote(*arguments)
        except RayError as error:
            raise self.lost(error) from error

    def lost(self, error: RayError) -> LostError:
        """Return what happened to the process, in one line for people."""
        if isinstance(error, RayTaskError):
            return LostError(self.resource, str(error.cause))
        if isinstance(error, RayActorError):
            failed = f"its process could not be made: {str(error).strip().splitlines()[-1]}"
            return LostError(self.resource, failed if error.actor_init_failed else "its process died")
        return LostError(self.resource, " ".join(str(error).split())[:300])

    async def introduce(self) -> int:
        """Return the process number, as its own machine counts."""
        pid, system = await self.call("process", group="control")
        if system == processes.this_system():
            self.pid = pid
        return int(pid)

    async def meeting_place(self) -> str:
        """Return `host:port` where others can meet this process."""
        return str(await self.call("meeting_place", group="control"))

    def kill(self) -> None:
        """Kill it at once and wait for nothing."""
        ray.kill(self.actor)
        if self.pid is not None:
            processes.kill(self.pid)

    async def end(self) -> None:
        """Kill it and wait until it is gone; one that is not seen from here is gone when Ray says so."""
        ray.kill(self.actor)
        if self.pid is None:
            with suppress(LostError, TimeoutError):
                await asyncio.wait_for(self.call("process", group="control"), _GONE_S)
            return
        for patience_s in (_WILLING_S, _GONE_S):
            until_s = monotonic() + patience_s
            while processes.alive(self.pid) and monotonic() < until_s:
                await asyncio.sleep(0.005)
            # Its children may still be there.
            processes.kill(self.pid)


def members_of(
    run: JobRun, spots: Mapping[str, tuple[Spot, ...]], program_folder: str, run_folder: Path, interface: str | None
) -> list[Member]:
    """Start all processes of a job where its resources lie: one per rollout resource in order, then the training ranks."""
    places: list[tuple[Pool, str, int, int, int, Spot]] = [
        ("rollout", name, rank, len(run.rollout), 0, spots[name][0]) for rank, name in enumerate(run.rollout)
    ]
    for rank, (node, spot) in enumerate(seats(run.train_ranks, spots[run.train])):
        places.append(("train", run.train, rank, run.train_ranks, node, spot))
    actor_class = ray.remote(concurrency_groups=_THREADS)(Host)
    members = []
    for pool, resource, rank, world, node, spot in places:
        name = f"{file_name(run.name)}-{resource.replace('/', '-')}"
        seat = Seat(
            job=run.name,
            pool=pool,
            rank=rank,
            world=world,
            gpus=spot.gpus,
            settings=dict(run.settings),
            samples=run.samples,
            seed=run.seed,
            module=run.module,
            folder=program_folder,
            address=spot.machine.address,
            interface=interface,
            log=str(run_folder / "logs" / f"{name}.log"),
        )
        there = NodeAffinitySchedulingStrategy(spot.machine.node, soft=False)
        actor = actor_class.options(num_cpus=0, max_restarts=0, scheduling_strategy=there).remote(seat)
        members.append(Member(actor, pool, resource, rank, node, spot))
    return members
