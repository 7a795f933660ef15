"""A shell that obeys the core in random order, at random times, with random faults, and watches that its promises hold.

It keeps a truth of its own (who is on a node, what was saved, which samples exist) and shares no code with the core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from random import Random

from rollplan.executor.core.decide import Core
from rollplan.executor.core.events import (
    Estimate,
    Estimated,
    Event,
    Finish,
    Instruction,
    Interrupt,
    JobReady,
    JobStopped,
    MemoryMeasured,
    Progress,
    ResourceBack,
    ResourceLost,
    Rollout,
    RolloutEnded,
    SamplesDone,
    StartJob,
    StopAsked,
    StopJob,
    Sync,
    SyncEnded,
    Tick,
    Train,
    TrainEnded,
    WorkerLost,
)
from rollplan.executor.core.runbook import JobRun, Runbook

GIB = 2**30
SYNC_HOLDS = ("serial", "mini-batch", "dynamic-batch")


@dataclass
class Life:
    """The processes of one job, and what the shell was told to do with them. blamed: faults of its own since it last saved."""

    run: JobRun
    saved: int = 0
    up: bool = False
    stopping: bool = False
    doing: list[Instruction] = field(default_factory=list)
    left: dict[str, list[int]] = field(default_factory=dict)
    interrupted: set[str] = field(default_factory=set)
    done: Counter[tuple[int, int]] = field(default_factory=Counter)
    begun: dict[tuple[int, int], int] = field(default_factory=dict)
    trained: Counter[tuple[int, int]] = field(default_factory=Counter)
    version: int = 0
    hurt: bool = False
    blamed: int = 0
    doomed: bool = False


class Shell:
    """One run. turns: what each resource served, as (job, iteration), and `None` where somebody joined or left the ring."""

    def __init__(self, runbook: Runbook, random: Random, finished: dict[str, int] | None = None) -> None:
        self.runbook, self.random = runbook, random
        self.core = Core(runbook, finished)
        self.lives = {run.name: Life(run, (finished or {}).get(run.name, 0)) for run in runbook.jobs}
        self.on: dict[str, str] = {}
        self.turns: dict[str, list[tuple[str, int] | None]] = {resource.name: [] for resource in runbook.resources}
        self.lost: set[str] = set()
        self.now_s = 0.0
        self.asked = self.over = False
        self.events: list[Event] = []
        self.answers: list[list[Instruction]] = []

    def play(self, faults: int) -> None:
        """Run to the end, with about so many faults on the way."""
        self._obey(self.core.start(0.0))
        for _ in range(3000):
            if self.over:
                break
            if faults and self.random.random() < 0.15:
                faults -= 1
                self._harm()
            elif not self._go_on():
                assert self.lost, f"nothing is under way and the run is not over: {self.core.status()}"
                self._give_back()
        assert self.over, f"no end after many events: {self.core.status()}"
        assert self.core.finished
        assert self.core.handle(Tick(self.now_s)) == []

    # The world

    def _tell(self, event: Event) -> None:
        self.events.append(event)
        self._obey(self.core.handle(event))

    def _later(self) -> float:
        self.now_s += self.random.random()
        return self.now_s

    def _go_on(self) -> bool:
        """Let something that is under way come to its next event; False if nothing is."""
        ways: list[Callable[[], None]] = []
        for name, life in self.lives.items():
            if life.stopping:
                ways.append(partial(self._die, name))
            ways += [partial(self._proceed, name, task) for task in life.doing]
        if ways:
            self.random.choice(ways)()
        return bool(ways)

    def _proceed(self, name: str, task: Instruction) -> None:
        life = self.lives[name]
        at_s = self._later()
        match task:
            case StartJob():
                life.doing.remove(task)
                life.up, life.version = True, task.iteration
                self._mark(name)
                self._tell(JobReady(at_s, name, task.iteration))
            case Estimate():
                life.doing.remove(task)
                tokens = tuple(self.random.random() for _ in range(life.run.samples))
                self._tell(Estimated(at_s, name, task.iteration, self.random.choice([(), tokens, (1.0,)])))
            case Rollout():
                self._generate(life, task, at_s)
            case Train():
                life.doing.remove(task)
                life.trained.update((task.iteration, sample) for sample in task.samples)
                if task.last:
                    self._saved(life, task)
                    self._maybe_free(life, life.run.train)
                self._tell(TrainEnded(at_s, name, task.iteration, task.chunk))
            case Sync():
                life.doing.remove(task)
                life.version = task.version
                if life.run.way in SYNC_HOLDS:
                    self._maybe_free(life, life.run.train)
                self._tell(SyncEnded(at_s, name, task.version))

    def _generate(self, life: Life, task: Rollout, at_s: float) -> None:
        left = life.left[task.node]
        if task.node in life.interrupted or not left:
            life.doing.remove(task)
            life.interrupted.discard(task.node)
            self._maybe_free(life, task.node)
            self._tell(RolloutEnded(at_s, life.run.name, task.iteration, task.node, tuple(left)))
            return
        done = [left.pop(self.random.randrange(len(left))) for _ in range(self.random.randint(1, len(left)))]
        life.done.update((task.iteration, sample) for sample in done)
        self._tell(SamplesDone(at_s, life.run.name, task.iteration, task.node, tuple(done)))

    def _maybe_free(self, life: Life, resource: str) -> None:
        """The resource may be another's from now on; if this job goes on there, it is said in the answer."""
        if not life.stopping:
            del self.on[resource]

    def _saved(self, life: Life, task: Train) -> None:
        assert task.iteration == life.saved, "iterations are finished one after another, and none of them again"
        expected = {(task.iteration, sample): 1 for sample in range(life.run.samples)}
        assert {one: times for one, times in life.trained.items() if one[0] == task.iteration} == expected
        life.saved += 1
        life.blamed = int(life.stopping)

    def _die(self, name: str) -> None:
        life = self.lives[name]
        life.stopping = life.up = life.hurt = False
        for collection in (life.doing, life.left, life.interrupted, life.done, life.begun, life.trained):
            collection.clear()
        for resource in [resource for resource, holder in self.on.items() if holder == name]:
            del self.on[resource]
        self._mark(name)
        self._tell(JobStopped(self._later(), name, life.saved))

    def _mark(self, name: str) -> None:
        """Note that who takes part in the rings of a job has changed."""
        for resource in (*self.lives[name].run.rollout, self.lives[name].run.train):
            self.turns[resource].append(None)

    # Faults

    def _harm(self) -> None:
        self.random.choice(
            [self._kill, self._kill, self._lose, self._hang, self._overrun, self._give_back, self._chatter, self._ask_to_end]
        )()

    def _victim(self) -> Life | None:
        alive = [life for life in self.lives.values() if self._alive(life)]
        return self.random.choice(alive) if alive else None

    def _alive(self, life: Life) -> bool:
        return not life.stopping and (life.up or bool(life.doing))

    def _kill(self) -> None:
        if life := self._victim():
            life.hurt = True
            life.blamed += 1
            for _ in range(self.random.randint(1, 3)):
                self._tell(WorkerLost(self._later(), life.run.name, self.random.choice(life.run.rollout), "killed"))

    def _lose(self) -> None:
        resource = self.random.choice(self.runbook.resources)
        self.lost.add(resource.name)
        for name in resource.jobs:
            self.lives[name].hurt |= self._alive(self.lives[name])
        for _ in range(self.random.randint(1, 2)):
            self._tell(ResourceLost(self._later(), resource.name, "unplugged"))

    def _give_back(self) -> None:
        for name in sorted(self.lost):
            self.lost.discard(name)
            self._tell(ResourceBack(self._later(), name))

    def _hang(self) -> None:
        """One job shows no life for longer than it may; all others do."""
        life = self._victim()
        starting = any(self._alive(other) and not other.up for other in self.lives.values())
        if life is None or not life.doing or starting:
            return
        life.hurt = True
        life.blamed += 1
        for _ in range(3):
            self.now_s += 0.6 * life.run.hang_s
            for other in self.lives.values():
                if other is not life and other.up and not other.stopping:
                    for resource in (*other.run.rollout, other.run.train):
                        self._tell(Progress(self.now_s, other.run.name, resource))
            self._tell(Tick(self.now_s))
        assert life.stopping, "a hung job is stopped"

    def _overrun(self) -> None:
        if (life := self._victim()) and life.run.train_memory_gib is not None:
            life.hurt = life.doomed = True
            held = int((life.run.train_memory_gib + 1) * GIB)
            self._tell(MemoryMeasured(self._later(), life.run.name, life.run.train, held))

    def _chatter(self) -> None:
        """Late and doubled events, that mean nothing."""
        if self.events:
            old = self.random.choice(self.events)
            if isinstance(old, SamplesDone | TrainEnded | SyncEnded | Estimated | Progress | Tick):
                life = self.lives.get(getattr(old, "job", ""))
                if life is None or not life.up:
                    self._tell(type(old)(**{**_values(old), "at_s": self._later()}))

    def _ask_to_end(self) -> None:
        if self.random.random() < 0.1:
            self.asked = True
            self._tell(StopAsked(self._later()))

    # Instructions, and what must hold of them

    def _obey(self, answer: list[Instruction]) -> None:
        self.answers.append(answer)
        for task in answer:
            match task:
                case StartJob():
                    self._begin(task)
                case StopJob():
                    self._stop(task)
                case Rollout():
                    self._roll(task)
                case Interrupt():
                    assert self.on[task.node] == task.job
                    self.lives[task.job].interrupted.add(task.node)
                case Train():
                    self._train(task)
                case Sync():
                    self._sync(task)
                case Estimate():
                    self.lives[task.job].doing.append(task)
                case Finish():
                    self._end()

    def _begin(self, task: StartJob) -> None:
        life = self.lives[task.job]
        assert not life.up
        assert not life.stopping
        assert task.iteration == life.saved < life.run.iterations
        assert not self.asked
        assert not self.lost.intersection((*life.run.rollout, life.run.train)), "nothing starts on a lost node"
        life.doing.append(task)

    def _stop(self, task: StopJob) -> None:
        life = self.lives[task.job]
        assert life.hurt or self.asked or life.saved == life.run.iterations, f"{task.job} did no wrong: {task.reason}"
        assert not life.stopping, "stopped once"
        life.stopping = True
        self._mark(task.job)

    def _roll(self, task: Rollout) -> None:
        life = self.lives[task.job]
        assert life.up
        assert not life.stopping
        assert task.node not in self.on, f"{self.on[task.node]} is on {task.node}"
        assert life.saved <= task.iteration < life.run.iterations
        assert task.version == life.version, "the newest weights that its workers hold"
        for sample in task.samples:
            again = (task.iteration, sample) in life.begun
            assert again == bool(task.resumed), "a sample is begun once"
            assert not life.done[task.iteration, sample]
            life.begun.setdefault((task.iteration, sample), task.version)
        assert task.resumed in ((), task.samples)
        if not task.resumed:
            self.turns[task.node].append((task.job, task.iteration))
        self.on[task.node] = task.job
        life.left[task.node] = list(task.samples)
        life.doing.append(task)

    def _train(self, task: Train) -> None:
        life = self.lives[task.job]
        train = life.run.train
        assert life.up
        assert not life.stopping
        assert not any(isinstance(other, Train) for other in life.doing)
        if task.chunk == 0:
            assert train not in self.on, f"{self.on[train]} is on {train}"
            self.turns[train].append((task.job, task.iteration))
            self.on[train] = task.job
        assert self.on[train] == task.job
        assert task.samples == tuple(sorted(task.samples))
        assert all(life.done[task.iteration, sample] == 1 for sample in task.samples), "only what is finished, and once"
        assert task.versions == tuple(life.begun[task.iteration, sample] for sample in task.samples)
        bound = 0 if life.run.way in SYNC_HOLDS else 1 if life.run.way == "one-step" else life.run.staleness
        assert task.iteration - min(task.versions) <= bound
        life.doing.append(task)

    def _sync(self, task: Sync) -> None:
        life = self.lives[task.job]
        assert task.version == life.saved > life.version
        assert not any(isinstance(other, Sync) for other in life.doing)
        if life.run.way in SYNC_HOLDS:
            assert life.run.train not in self.on, "nobody gets the training resource before the sync has ended"
            self.on[life.run.train] = task.job
        if life.run.way == "one-step":
            assert not any(isinstance(other, Rollout | Train) for other in life.doing), "a barrier"
        life.doing.append(task)

    def _end(self) -> None:
        assert not any(life.up or life.stopping or life.doing for life in self.lives.values()), "no process is left"
        self.over = True
        for name, status in self.core.status()["jobs"].items():
            life = self.lives[name]
            assert status["iteration"] == life.saved
            assert (status["state"] == "done") == (life.saved == life.run.iterations)
            assert status["state"] != "failed" or life.doomed or life.blamed > life.run.restarts
            assert status["state"] != "stopped" or self.asked


def _values(event: Event) -> dict[str, object]:
    return {name: getattr(event, name) for name in (one.name for one in fields(event))}
