"""Rehearses a runbook: the very core that runs it, driven by the seconds that the plan promises.

What comes out is the predicted track of a trace, and the prediction beside executed numbers: nothing is planned twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, groupby

from rollplan.executor.core.decide import Core
from rollplan.executor.core.events import (
    Estimate,
    Estimated,
    Event,
    Instruction,
    Interrupt,
    JobReady,
    JobStopped,
    Rollout,
    RolloutEnded,
    SamplesDone,
    StartJob,
    StopJob,
    Sync,
    SyncEnded,
    Train,
    TrainEnded,
)
from rollplan.executor.core.records import Record, RecordKind
from rollplan.executor.core.runbook import JobRun, Runbook

Durations = Callable[[Instruction], float]
Finish = Callable[[Rollout], Sequence[float]]
Journal = list[tuple[Event | None, list[Instruction]]]
_STREAMS = ("mini-batch", "dynamic-batch", "async-streamed")


def rehearse(
    runbook: Runbook, durations: Durations | None = None, finish: Finish | None = None, iterations: int | None = None
) -> tuple[list[Record], Journal]:
    """Return what would be executed (`rollout`, `train`, `sync`, in order of their start), and the journal of the core.

    durations: seconds of a `Rollout`, `Train` or `Sync`; absent: those of the plan, a chunk its share of the training.
    finish: seconds from the start of a `Rollout` to the end of each of its samples, in their order; absent: evenly, the last
    at the end. The rest of a migrated sample takes as long as it would have taken. iterations: of every job; absent: as the
    runbook says. Start-up takes no time, jobs start in the order of their ring, and programs do not estimate.
    """
    if iterations is not None:
        runbook = replace(runbook, jobs=tuple(replace(run, iterations=iterations) for run in runbook.jobs))
    play = _Play(runbook, durations or _as_planned(runbook), finish)
    play.run()
    return sorted(play.records, key=lambda record: (record.start_s, record.end_s)), play.journal


def streams(run: JobRun) -> bool:
    """Return whether somebody waits for single samples of a job; else one event reports all of a node."""
    return run.way in _STREAMS or run.migrate_at is not None


def _as_planned(runbook: Runbook) -> Durations:
    runs = {run.name: run for run in runbook.jobs}

    def seconds(instruction: Instruction) -> float:
        match instruction:
            case Rollout():
                promised = runs[instruction.job].predicted
                return promised.rollout_switch_s + promised.rollout_s
            case Train():
                promised = runs[instruction.job].predicted
                share = len(instruction.samples) / runs[instruction.job].samples
                return (promised.train_switch_s if instruction.chunk == 0 else 0.0) + promised.train_s * share
            case Sync():
                return runs[instruction.job].predicted.sync_s
        raise ValueError(f"{instruction} takes no time")

    return seconds


@dataclass(slots=True)
class _Running:
    """A rollout that runs. end_s: of each sample; open: those that are not reported; record: its place in the records."""

    task: Rollout
    end_s: dict[int, float]
    open: set[int]
    record: int
    cut: bool = False


class _Play:
    """Events to come, soonest first; of equal ones, those that were foreseen first. With a rollout, if it may be cut."""

    def __init__(self, runbook: Runbook, durations: Durations, finish: Finish | None) -> None:
        self.core = Core(runbook)
        self.runs: dict[str, JobRun] = {run.name: run for run in runbook.jobs}
        self.rings = {resource.name: resource.jobs for resource in runbook.resources}
        self.durations, self.finish = durations, finish
        self.now_s = 0.0
        self.numbers = count()
        self.coming: list[tuple[float, int, Event, _Running | None]] = []
        self.rollouts: dict[str, _Running] = {}
        self.rest_s: dict[tuple[str, int], float] = {}
        self.trained = dict.fromkeys(self.runs, 0)
        self.records: list[Record] = []
        self.journal: Journal = []

    def run(self) -> None:
        """Play everything."""
        begin = self.core.start(0.0)
        self.journal.append((None, begin))
        for instruction in sorted(begin, key=self._place):
            self._follow(instruction)
        while self.coming:
            self.now_s, _, event, rollout = heappop(self.coming)
            if rollout is None or not rollout.cut:
                if rollout is not None and isinstance(event, SamplesDone):
                    rollout.open.difference_update(event.samples)
                answer = self.core.handle(event)
                self.journal.append((event, answer))
                for instruction in answer:
                    self._follow(instruction)

    def _place(self, instruction: Instruction) -> int:
        """Jobs are ready in the order of their ring, so that the first turns are in that order, too."""
        if not isinstance(instruction, StartJob):
            return 0
        return self.rings[self.runs[instruction.job].train].index(instruction.job)

    def _follow(self, instruction: Instruction) -> None:
        match instruction:
            case StartJob():
                self._foresee(JobReady(self.now_s, instruction.job, instruction.iteration))
            case Estimate():
                self._foresee(Estimated(self.now_s, instruction.job, instruction.iteration, ()))
            case Rollout():
                self._roll(instruction)
            case Interrupt():
                self._interrupt(instruction)
            case Train():
                end_s = self.now_s + self.durations(instruction)
                self._record(instruction.job, self.runs[instruction.job].train, "train", instruction.iteration, end_s)
                self._foresee(TrainEnded(end_s, instruction.job, instruction.iteration, instruction.chunk))
                self.trained[instruction.job] += instruction.last
            case Sync():
                end_s = self.now_s + self.durations(instruction)
                self._record(instruction.job, self.runs[instruction.job].train, "sync", instruction.version - 1, end_s)
                self._foresee(SyncEnded(end_s, instruction.job, instruction.version))
            case StopJob():
                self._foresee(JobStopped(self.now_s, instruction.job, self.trained[instruction.job]))

    def _roll(self, task: Rollout) -> None:
        end_s = self._ends(task)
        last_s = max(end_s.values())
        running = self.rollouts[task.node] = _Running(task, end_s, set(task.samples), len(self.records))
        self._record(task.job, task.node, "rollout", task.iteration, last_s)
        run = self.runs[task.job]
        by_time = groupby(sorted(end_s, key=end_s.__getitem__), key=lambda sample: end_s[sample] if streams(run) else last_s)
        for at_s, samples in by_time:
            self._foresee(SamplesDone(at_s, task.job, task.iteration, task.node, tuple(samples)), running)
        self._foresee(RolloutEnded(last_s, task.job, task.iteration, task.node, ()), running)

    def _ends(self, task: Rollout) -> dict[int, float]:
        """Return when each sample will be done."""
        if task.resumed:
            return {sample: self.now_s + self.rest_s[task.job, sample] for sample in task.samples}
        if self.finish is not None:
            return {sample: self.now_s + after_s for sample, after_s in zip(task.samples, self.finish(task), strict=True)}
        seconds, samples = self.durations(task), len(task.samples)
        return {sample: self.now_s + seconds * ((place + 1) / samples) for place, sample in enumerate(task.samples)}

    def _interrupt(self, instruction: Interrupt) -> None:
        running = self.rollouts[instruction.node]
        running.cut = True
        self.records[running.record] = replace(self.records[running.record], end_s=self.now_s)
        task = running.task
        left = tuple(sample for sample in task.samples if sample in running.open)
        for sample in left:
            self.rest_s[task.job, sample] = running.end_s[sample] - self.now_s
        self._foresee(RolloutEnded(self.now_s, task.job, task.iteration, task.node, left))

    def _foresee(self, event: Event, rollout: _Running | None = None) -> None:
        heappush(self.coming, (event.at_s, next(self.numbers), event, rollout))

    def _record(self, job: str, resource: str, kind: RecordKind, iteration: int, end_s: float) -> None:
        self.records.append(Record(job, resource, kind, iteration, self.now_s, end_s))
