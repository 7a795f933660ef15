"""The processes of one job as Ray actors, and what is done with them for each instruction of the core.

Every instruction becomes a coroutine; its end is an event. Whatever goes wrong in one becomes a `WorkerLost`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

from ray.exceptions import RayError

from rollplan.executor.api import RolloutTask, Sample, TrainTask
from rollplan.executor.core import events
from rollplan.executor.core.records import Record, RecordKind
from rollplan.executor.core.runbook import JobRun
from rollplan.executor.shell.member import LostError, Member, members_of
from rollplan.executor.shell.placement import Spot
from rollplan.executor.shell.saved import SavedStates

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Around:
    """What a job's processes need of the driver.

    emit: takes an event without its time. record, process: take what to tell the parent. now_s: of the run. spots: where
    resources lie now. look: tells of lost nodes at once. held: bytes by (resource, job), for the screen.
    """

    run_folder: Path
    program_folder: str
    interface: str | None
    emit: Callable[..., None]
    record: Callable[[Record], None]
    remark: Callable[[str, str], None]
    process: Callable[[Mapping[str, Any]], None]
    now_s: Callable[[], float]
    spots: Callable[[], Mapping[str, tuple[Spot, ...]]]
    look: Callable[[], Awaitable[None]]
    held: dict[tuple[str, str], int] = field(default_factory=dict)


class JobProcesses:
    """All processes of one job, from its start to its stop, and again."""

    def __init__(self, run: JobRun, around: Around) -> None:
        self.run, self.around = run, around
        self.saved = SavedStates(around.run_folder, run.name)
        self._members: list[Member] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._samples: dict[int, dict[int, Any]] = {}
        self._tickets = count()
        self._starts = 0
        self._lost = False
        self._stopping: asyncio.Task[None] | None = None

    def carry_out(self, instruction: events.Instruction) -> None:
        """Begin what an instruction says; it ends with an event."""
        match instruction:
            case events.StartJob():
                self._lost = False
                self._do(self._start(instruction.iteration))
            case events.Estimate():
                self._do(self._estimate(instruction.iteration))
            case events.Rollout():
                member = self._of(instruction.node)[0]
                # At once: an interrupt may follow before the coroutine begins.
                member.ticket, member.interrupted_s = next(self._tickets), None
                self._do(self._rollout(instruction, member))
            case events.Interrupt():
                self._do(self._interrupt(self._of(instruction.node)[0]))
            case events.Train():
                self._do(self._train(instruction))
            case events.Sync():
                self._do(self._sync(instruction.version))
            case events.StopJob():
                # Not one of the tasks that it ends.
                self._stopping = asyncio.create_task(self._stop())

    def kill(self) -> None:
        """Kill all processes at once and wait for nothing."""
        for member in self._members:
            member.kill()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._watched(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LostError as lost:
            # Perhaps the whole node is gone; then it is no fault of the job.
            await self.around.look()
            self._tell_lost(*lost.args)
        except Exception as error:
            # Ours, not the program's; the other jobs go on all the same.
            traceback.print_exc()
            self._tell_lost(self.run.train, f"fault of the driver: {error!r}")

    def _tell_lost(self, resource: str, reason: str) -> None:
        if not self._lost:
            self._lost = True
            self.around.emit(events.WorkerLost, job=self.run.name, resource=resource, reason=reason)

    def _of(self, resource: str) -> list[Member]:
        return [one for one in self._members if one.resource == resource]

    @property
    def _rollouts(self) -> list[Member]:
        return [one for one in self._members if one.pool == "rollout"]

    @property
    def _ranks(self) -> list[Member]:
        return [one for one in self._members if one.pool == "train"]

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def _start(self, iteration: int) -> None:
        start_s = self.around.now_s()
        if iteration and not self.saved.of(iteration).is_dir():
            raise LostError(self.run.train, f"the state after {iteration} iterations is not in {self.saved.folder}")
        self._samples.clear()
        self._members = members_of(self.run, self.around.spots(), self.around.program_folder, self.around.run_folder, self.around.interface)
        for member in self._members:
            self._do(self._hold(member))
        await asyncio.gather(*(self._introduce(one) for one in self._members))
        meet = {"rollout": await self._meeting_place(self._rollouts), "train": await self._meeting_place(self._ranks)}
        restore = str(self.saved.of(iteration)) if iteration else None
        begun = await asyncio.gather(
            *(self._begin(one, meet[one.pool], restore if one.pool == "train" else None, iteration, start_s) for one in self._members)
        )
        self._starts += 1
        if any(begun):
            await self._connect(begun, iteration)
        for resource in dict.fromkeys(one.resource for one in self._members):
            await self._measure(resource)
        self._do(self._poll())
        self.around.emit(events.JobReady, job=self.run.name, iteration=iteration)

    async def _hold(self, member: Member) -> None:
        """Wait for the death of a process."""
        await member.call("leash", group="leash")

    async def _introduce(self, member: Member) -> None:
        pid = await member.introduce()
        self.around.process({"pid": pid, "kind": "host", "job": self.run.name, "resource": member.resource, "worker": member.rank})

    async def _begin(self, member: Member, meet: str | None, restore: str | None, iteration: int, start_s: float) -> bool:
        """Let a process make its state; return whether its weights can travel."""
        answer = await member.call("begin", meet, restore, iteration)
        kind: RecordKind = "restart" if self._starts else "start"
        self._record(member, kind, iteration, start_s, self.around.now_s(), {"cold_s": answer["seconds"]})
        return bool(answer["weights"])

    async def _meeting_place(self, members: Sequence[Member]) -> str | None:
        return await members[0].meeting_place() if len(members) > 1 else None

    async def _connect(self, travels: Sequence[bool], version: int) -> None:
        for member, can in zip(self._members, travels, strict=True):
            if not can:
                lacks = "update" if member.pool == "rollout" else "weights"
                raise LostError(member.resource, f"what it keeps has no `{lacks}`, so weights cannot travel")
        common = {
            "train_ranks": len(self._ranks),
            "rollout_ranks": len(self._rollouts),
            "store": await self._ranks[0].meeting_place(),
            "plan": self.run.sync,
            "interface": self.around.interface,
            "timeout_s": self.run.hang_s,
        }
        fallbacks = await asyncio.gather(
            *(
                one.call(
                    "connect",
                    {**common, "side": one.pool, "rank": one.rank, "host_store": one.pool == "train" and one.rank == 0},
                    group="weights",
                )
                for one in self._members
            )
        )
        # Without a GPU nobody expects more.
        if fallbacks[0] and all(one.spot.gpus for one in self._members):
            self.around.remark(self.run.name, fallbacks[0])
        await self._move_weights(version)

    async def _stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        members, self._members = self._members, []
        await asyncio.gather(*(one.end() for one in members))
        self._samples.clear()
        for key in [key for key in self.around.held if key[1] == self.run.name]:
            del self.around.held[key]
        self.around.emit(events.JobStopped, job=self.run.name, finished=self.saved.finished())

    # Phases -----------------------------------------------------------------------------------------------------------

    async def _estimate(self, iteration: int) -> None:
        tokens = await self._rollouts[0].call("estimate", iteration)
        self.around.emit(events.Estimated, job=self.run.name, iteration=iteration, tokens=tuple(tokens))

    async def _rollout(self, order: events.Rollout, member: Member) -> None:
        member.busy = True
        samples = self._samples.setdefault(order.iteration, {})
        begun = [samples[number] for number in order.resumed if number in samples]
        task = RolloutTask(order.iteration, order.version, order.samples, order.slots)
        stream = member.actor.rollout.options(num_returns="streaming").remote(member.ticket, task, order.keep, *begun)
        sums = {"samples": 0.0, "tokens": 0.0}
        rewards: list[float] = []
        taken: Mapping[str, Any] = {}
        try:
            async for reference in stream:
                item = await reference
                if not isinstance(item, Sample):
                    taken = item
                    continue
                samples[item.number] = reference
                if item.finished:
                    sums["samples"] += 1
                    sums["tokens"] += len(item.tokens)
                    rewards += [] if item.reward is None else [item.reward]
                    self.around.emit(
                        events.SamplesDone, job=self.run.name, iteration=order.iteration, node=order.node, samples=(item.number,)
                    )
        except RayError as error:
            raise member.lost(error) from error
        end_s = self._end_s(member, taken)
        member.busy = False
        if rewards:
            sums["reward"] = sum(rewards) / len(rewards)
        parts: list[tuple[RecordKind, float, Mapping[str, float]]] = [
            ("load", taken["load_s"] + taken["update_s"], {"update_s": taken["update_s"]}),
            ("rollout", taken["seconds"], sums),
            ("offload", taken["offload_s"], {}),
        ]
        self._record_parts(member, order.iteration, end_s, parts)
        if member.interrupted_s is not None:
            self._record(member, "migrate", order.iteration, member.interrupted_s, end_s, {"samples": float(len(taken["remaining"]))})
        self.around.emit(
            events.RolloutEnded, job=self.run.name, iteration=order.iteration, node=order.node, remaining=tuple(taken["remaining"])
        )
        await self._measure(member.resource)

    async def _interrupt(self, member: Member) -> None:
        member.interrupted_s = self.around.now_s()
        await member.call("interrupt", member.ticket, group="control")

    async def _train(self, order: events.Train) -> None:
        samples = self._samples[order.iteration]
        references = [samples[number] for number in sorted(order.samples)]
        task = TrainTask(order.iteration, order.chunk, (), self.run.samples, order.last)
        count_after = order.iteration + 1
        folder = str(self.saved.begin(count_after)) if order.last else None
        await asyncio.gather(*(self._train_rank(one, order, task, folder, references) for one in self._ranks))
        if order.last:
            self.saved.finish(count_after)
            del self._samples[order.iteration]
        self.around.emit(events.TrainEnded, job=self.run.name, iteration=order.iteration, chunk=order.chunk)
        if order.last:
            await self._measure(self.run.train)

    async def _train_rank(
        self, member: Member, order: events.Train, task: TrainTask, folder: str | None, references: Sequence[Any]
    ) -> None:
        member.busy = True
        taken = await member.call("train", task, order.keep, folder, *references)
        end_s = self._end_s(member, taken)
        member.busy = False
        parts: list[tuple[RecordKind, float, Mapping[str, float]]] = [
            ("load", taken["load_s"], {}),
            ("train", taken["seconds"], {"samples": float(len(references)), "chunk": float(order.chunk), **taken["values"]}),
        ]
        if order.last:
            parts += [("save", taken["save_s"], {}), ("offload", taken["offload_s"], {})]
        self._record_parts(member, order.iteration, end_s, parts)

    async def _sync(self, version: int) -> None:
        start_s = self.around.now_s()
        values = await self._move_weights(version)
        self._record(self._ranks[0], "sync", version - 1, start_s, self.around.now_s(), values)
        self.around.emit(events.SyncEnded, job=self.run.name, version=version)

    async def _move_weights(self, version: int) -> Mapping[str, float]:
        """Move a version from all ranks to all rollout workers; return the numbers of the first rank."""
        moves = ((one, "send" if one.pool == "train" else "receive") for one in self._members)
        answers = await asyncio.gather(*(one.call(move, version, group="weights") for one, move in moves))
        values: Mapping[str, float] = answers[len(self._rollouts)]
        return values

    # What is told meanwhile -------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Ask busy processes again and again whether they are alive; one that does not answer is not asked twice."""
        every_s = min(_POLL_S, self.run.hang_s / 4)
        asked: dict[Member, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(every_s)
                for member in self._members:
                    if member.busy and (member not in asked or asked[member].done()):
                        asked[member] = asyncio.create_task(self._watched(self._ask(member, every_s)))
        finally:
            for task in asked.values():
                task.cancel()

    async def _ask(self, member: Member, every_s: float) -> None:
        if await member.call("progress_age", group="control") <= every_s and member.busy:
            self.around.emit(events.Progress, job=self.run.name, resource=member.resource)

    async def _measure(self, resource: str) -> None:
        """Tell what the job holds on the fullest node of a resource, unless a phase began meanwhile."""
        members = self._of(resource)
        answers = await asyncio.gather(*(one.call("held_bytes", group="control") for one in members))
        nodes: dict[int, int] = {}
        for member, held in zip(members, answers, strict=True):
            if held is None:
                return
            nodes[member.node] = nodes.get(member.node, 0) + held
        most = max(nodes.values())
        self.around.held[resource, self.run.name] = most
        self.around.emit(events.MemoryMeasured, job=self.run.name, resource=resource, held_bytes=most)

    def _end_s(self, member: Member, taken: Mapping[str, Any]) -> float:
        """Return when a phase ended: by the process's clock if it is this machine's, else now."""
        now_s = self.around.now_s()
        return now_s - (monotonic() - taken["ended"]) if member.pid is not None else now_s

    def _record_parts(
        self, member: Member, iteration: int, end_s: float, parts: Sequence[tuple[RecordKind, float, Mapping[str, float]]]
    ) -> None:
        """Record stretches that followed each other."""
        start_s = end_s - sum(seconds for _, seconds, _ in parts)
        for kind, seconds, values in parts:
            self._record(member, kind, iteration, start_s, start_s + seconds, values)
            start_s += seconds

    def _record(self, member: Member, kind: RecordKind, iteration: int, start_s: float, end_s: float, values: Mapping[str, float]) -> None:
        self.around.record(Record(self.run.name, member.resource, kind, iteration, start_s, end_s, member.rank, values))
