"""The decisions of a run: events in, instructions out. No clock, no socket, no thread: the same events give the same answers.

After every event each job says what it could do next (`jobs`), each resource grants its permit (`permits`), and what became
possible is instructed (`phases`). Here is the life of jobs: one at fault is stopped and started again from what it last
finished, and the others go on.

    starting -> running -> stopping -> starting     a fault, while restarts are left
                                    -> waiting      for a resource that was lost, then starting
                                    -> failed       too many faults in a row, or too much memory
                                    -> done         all iterations are finished
                                    -> stopped      somebody asked for it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rollplan.executor.core import faults
from rollplan.executor.core.board import Board, known
from rollplan.executor.core.events import (
    Event,
    Finish,
    Instruction,
    JobReady,
    JobStopped,
    MemoryMeasured,
    ResourceBack,
    ResourceLost,
    StartJob,
    StopAsked,
    StopJob,
    Tick,
    WorkerLost,
)
from rollplan.executor.core.jobs import ALIVE, AT_REST, Cause, Job
from rollplan.executor.core.permits import join_all
from rollplan.executor.core.phases import absorb, advance
from rollplan.executor.core.records import Remark
from rollplan.executor.core.runbook import Runbook


class Core:
    """Decides for all jobs of a runbook. finished: iterations that jobs have finished before, in an earlier run.

    Call `start` once, then `handle` with every event. Raises `ValueError` for a runbook that contradicts itself, and for
    events of jobs or resources that it does not have.
    """

    def __init__(self, runbook: Runbook, finished: Mapping[str, int] | None = None) -> None:
        self._board = Board(runbook, finished or {})
        self._ending = False
        self._finished = False

    @property
    def finished(self) -> bool:
        """Whether everything is over."""
        return self._finished

    def start(self, at_s: float) -> list[Instruction]:
        """Return what to do first: start the workers of all jobs, side by side."""
        self._board.now_s = at_s
        for job in self._board.jobs.values():
            if job.left:
                self._start(job)
            else:
                job.state = "done"
        return self._answer()

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event and return what to do now, in this order. After `Finish` there is no answer but nothing."""
        board = self._board
        job_name, resource_name = getattr(event, "job", None), getattr(event, "resource", None)
        if job_name is not None:
            known(job_name, board.jobs, "job")
        if resource_name is not None:
            known(resource_name, board.permits, "resource")
        if self._finished:
            return []
        board.now_s = event.at_s
        if job_name is None:
            self._of_all(event)
        else:
            self._of_job(board.jobs[job_name], event)
        return self._answer()

    def take_remarks(self) -> list[Remark]:
        """Return what people should read, since this was last asked."""
        taken, self._board.remarks = self._board.remarks, []
        return taken

    def status(self) -> dict[str, Any]:
        """Return plain data for screens.

        `resources`: by name, `holder` and what it `does` (None: idle), `queue` of jobs that ask, `lost`. `jobs`: by name,
        `state`, `reason`, `iteration` (finished), `iterations`, `version`, `restarts`, `samples`, `samples_done`.
        """
        return self._board.status()

    def _of_all(self, event: Event) -> None:
        match event:
            case ResourceLost():
                self._resource_lost(event)
            case ResourceBack():
                self._board.lost.discard(event.resource)
                self._revive()
            case StopAsked():
                self._end()
            case Tick():
                for job in self._board.jobs.values():
                    if job.state in ALIVE and (reason := faults.hung(job, event.at_s)):
                        self._stop(job, "fault", reason)

    def _of_job(self, job: Job, event: Event) -> None:
        """Take an event of a job; those of a job that is being stopped come too late, but for the end of it."""
        match event:
            case JobStopped():
                self._stopped(job, event.finished)
            case JobReady() if job.state == "starting":
                job.begin(event.iteration)
                join_all(self._board.permits_of(job), job.run.name, job.left)
            case WorkerLost() if job.state in ALIVE:
                self._stop(job, "fault", f"worker on {event.resource} lost: {event.reason}")
            case MemoryMeasured() if job.state in ALIVE:
                self._measured(job, event)
            case _ if job.state == "running":
                if wrong := absorb(self._board, job, event):
                    self._stop(job, "fault", wrong)
        if job.state == "running" and not job.left:
            self._stop(job, "done", f"all {job.run.iterations} iterations are finished")

    def _measured(self, job: Job, event: MemoryMeasured) -> None:
        resource = self._board.resources[event.resource]
        job.held[event.resource] = event.held_bytes
        if reason := faults.over_declared(job, resource):
            self._stop(job, "memory", reason)
            return
        alive = (job for job in self._board.jobs.values() if job.state in ALIVE)
        if over := faults.over_node(alive, resource):
            self._stop(over[0], "memory", over[1])

    def _resource_lost(self, event: ResourceLost) -> None:
        self._board.lost.add(event.resource)
        for job in self._board.jobs.values():
            if event.resource in job.resources:
                if job.state in ALIVE:
                    self._stop(job, "resource", f"{event.resource} lost: {event.reason}")
                elif job.state == "stopping" and job.cause == "fault":
                    # Its workers died with the node, and that was noticed first.
                    job.cause = "resource"

    def _end(self) -> None:
        self._ending = True
        for job in self._board.jobs.values():
            if job.state in ALIVE:
                self._stop(job, "asked", "the run was asked to end")
            elif job.state == "waiting":
                job.state = "stopped"

    def _start(self, job: Job) -> None:
        job.state, job.since_s = "starting", self._board.now_s
        self._board.out.append(StartJob(job.run.name, job.finished))

    def _stop(self, job: Job, cause: Cause, reason: str) -> None:
        job.end(cause, reason)
        for permit in self._board.permits_of(job):
            permit.leave(job.run.name)
        self._board.out.append(StopJob(job.run.name, reason))

    def _stopped(self, job: Job, finished: int) -> None:
        """Free what a job held: until now its processes may have used it. Then decide what becomes of it."""
        if job.state not in (*ALIVE, "stopping"):
            return
        if job.state in ALIVE:
            job.end("fault", "its processes ended")
        for permit in self._board.permits_of(job):
            permit.leave(job.run.name)
            permit.release(job.run.name)
        if finished > job.finished:
            job.restarts = 0
        if job.cause != "done":
            job.finished = finished
        if not job.left:
            job.state = "done"
        elif job.cause == "memory":
            self._fail(job, job.reason)
        elif self._ending:
            job.state = "stopped"
            self._board.remark(job, f"stopped with {job.finished} of {job.run.iterations} iterations finished")
        elif job.cause == "fault" and job.restarts >= job.run.restarts:
            self._fail(job, f"{job.reason}; given up after {job.restarts} restarts without a finished iteration")
        else:
            self._again(job)

    def _again(self, job: Job) -> None:
        text = job.reason
        if job.cause == "fault":
            job.restarts += 1
            text = f"{text}; restart {job.restarts} of {job.run.restarts}"
        if lost := [name for name in job.resources if name in self._board.lost]:
            job.state = "waiting"
            self._board.remark(job, f"{text}; waits for {', '.join(lost)} with {job.finished} iterations finished")
        else:
            self._board.remark(job, f"{text}; goes on from iteration {job.finished}")
            self._start(job)

    def _revive(self) -> None:
        for job in self._board.jobs.values():
            if job.state == "waiting" and not self._board.lost.intersection(job.resources):
                self._board.remark(job, f"its resources are back; goes on from iteration {job.finished}")
                self._start(job)

    def _fail(self, job: Job, reason: str) -> None:
        job.state, job.reason = "failed", reason
        self._board.remark(job, f"failed: {reason}")

    def _answer(self) -> list[Instruction]:
        board = self._board
        advance(board)
        if not self._finished and all(job.state in AT_REST for job in board.jobs.values()):
            self._finished = True
            board.out.append(Finish())
        answer, board.out = board.out, []
        return answer


def replay(
    runbook: Runbook, events: Iterable[Event], finished: Mapping[str, int] | None = None, start_s: float = 0.0
) -> list[tuple[Event | None, list[Instruction]]]:
    """Return what a core answers to each event of a journal; first, with None, what it answers to the start."""
    core = Core(runbook, finished)
    return [(None, core.start(start_s)), *((event, core.handle(event)) for event in events)]
