"""The process of a job on a rollout resource or of a training rank: keeps the resident state and runs the program's phases.

The class knows nothing of Ray; `member.members_of` makes actors of it. Phases run one at a time; `interrupt`, `progress_age`, and
`held_bytes` answer meanwhile, and weights travel beside the phases. Clock readings that are returned are this machine's own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollplan.executor.api import Resident, RolloutTask, Sample, TrainTask
from rollplan.executor.shell import memory
from rollplan.executor.shell.carrier import Carrier
from rollplan.executor.shell.processes import this_system
from rollplan.executor.shell.program import Program, ProgramError, load_program, where_it_failed
from rollplan.executor.shell.seat import Seat, free_port, print_to, see_only, stay_on


class Host:
    """One process of a job; implements `api.Worker`, which see for the public attributes."""

    def __init__(self, seat: Seat) -> None:
        self.job, self.pool, self.rank, self.world = seat.job, seat.pool, seat.rank, seat.world
        self.gpus, self.settings, self.samples, self.seed = seat.gpus, seat.settings, seat.samples, seat.seed
        self.state: dict[str, Any] = {}
        self.rendezvous: str | None = None
        self._seat = seat
        self._program: Program | None = None
        self._kept: Any = None
        self._loaded = False
        self._carrier = Carrier()
        self._seen = time.monotonic()
        self._ticket = self._stopped = -1
        print_to(Path(seat.log))
        see_only(seat.gpus)
        self._here = stay_on(seat.address, seat.interface)

    def keep(self, resident: Resident) -> None:
        """See `api.Worker.keep`."""
        if self._kept is not None and self._kept is not resident:
            raise ProgramError(f"{self._where()} keeps two resident states; put them behind one object")
        self._kept = resident

    def progress(self) -> None:
        """See `api.Worker.progress`."""
        self._seen = time.monotonic()

    def interrupted(self) -> bool:
        """See `api.Worker.interrupted`."""
        return self._stopped == self._ticket

    def process(self) -> tuple[int, str]:
        """Return the process number, and the system in which it is one."""
        return os.getpid(), this_system()

    def leash(self) -> None:
        """Never return: whoever waits for it learns that the process is gone."""
        threading.Event().wait()

    def progress_age(self) -> float:
        """Return seconds since the program last said that it is alive."""
        return time.monotonic() - self._seen

    def held_bytes(self) -> int | None:
        """Return the memory of this process while its state is off-loaded; None if the state was on the device meanwhile.

        On a CPU the device is the same memory, so what a loaded state takes there would count as resident.
        """
        measurable = not self._loaded
        ticket, held = self._ticket, memory.held_bytes()
        return held if measurable and not self._loaded and ticket == self._ticket else None

    def interrupt(self, ticket: int) -> None:
        """Let the rollout of this ticket stop, begun or not."""
        self._stopped = ticket

    def meeting_place(self) -> str:
        """Return `host:port` where others may meet this process."""
        return f"{self._here}:{free_port(self._here)}"

    def begin(self, rendezvous: str | None, restore: str | None, version: int) -> dict[str, Any]:
        """Load the program, make its state or restore it, and off-load it; the weights are now `version`.

        The state is taken to be on the device after `init`. Returns `seconds`, and whether weights can travel.
        """
        start = time.monotonic()
        self.rendezvous = rendezvous
        with self._told("cannot start"):
            self._program = load_program(self._seat.module, Path(self._seat.folder))
            self.progress()
            init = self._program.function(self.pool, "init")
            if init is not None:
                init(self)
            self._loaded = self._kept is not None
            if restore is not None and self._kept is not None:
                self._kept.restore(Path(restore))
            self.progress()
            travels = self._carrier.adopt(self.pool, self._kept, version)
            self._offload(keep=False)
        return {"seconds": time.monotonic() - start, "weights": travels}

    def estimate(self, iteration: int) -> list[float]:
        """Return the expected output tokens of each sample of an iteration; nothing if the program cannot guess."""
        with self._told(f"estimate of iteration {iteration}"):
            assert self._program is not None, "the host has begun"
            function = self._program.function("rollout", "estimate")
            return [] if function is None else [float(one) for one in function(self, iteration)]

    def rollout(self, ticket: int, task: RolloutTask, keep: bool, *resumed: Sample) -> Iterator[Sample | dict[str, Any]]:
        """Load, generate, off-load unless `keep`; yield samples as they come, unfinished ones too, at last what it took.

        The last item has `load_s`, `update_s` (new weights), `seconds`, `offload_s`, `remaining` (numbers not finished), and
        `ended`, the machine's clock when that was over.
        """
        self._ticket = ticket
        self.progress()
        with self._told(f"rollout of iteration {task.iteration}"):
            assert self._program is not None, "the host has begun"
            function = self._program.function("rollout", "rollout")
            assert function is not None, "a program without it is refused"
            load_s = self._load()
            start = time.monotonic()
            self._carrier.apply(self._kept, task.version)
            update_s = time.monotonic() - start
            self.progress()
            start = time.monotonic()
            waiting = set(task.samples)
            given = RolloutTask(task.iteration, task.version, task.samples, task.slots, tuple(resumed))
            unfinished: set[int] = set()
            for sample in function(self, given):
                self.progress()
                if sample.number not in waiting or sample.number in unfinished:
                    raise ProgramError(f"it yields sample {sample.number}, which was not asked for or came before")
                if sample.finished:
                    waiting.discard(sample.number)
                else:
                    unfinished.add(sample.number)
                yield sample
            if waiting and not self.interrupted():
                raise ProgramError(f"it ended without samples {sorted(waiting)[:5]} although nobody interrupted it")
            seconds = time.monotonic() - start
            offload_s = self._offload(keep)
        taken = {"load_s": load_s, "update_s": update_s, "seconds": seconds, "offload_s": offload_s, "ended": time.monotonic()}
        yield {**taken, "remaining": tuple(one for one in task.samples if one in waiting)}

    def train(self, task: TrainTask, keep: bool, save: str | None, *samples: Sample) -> dict[str, Any]:
        """Load, train a chunk; after the last one save into folder `save` and off-load, unless `keep`.

        Returns `load_s`, `seconds`, `save_s`, `offload_s`, `ended` (the machine's clock), and `values` of the program.
        """
        self.progress()
        with self._told(f"train of iteration {task.iteration}"):
            assert self._program is not None, "the host has begun"
            function = self._program.function("train", "train")
            assert function is not None, "a program without it is refused"
            load_s = self._load()
            start = time.monotonic()
            values = function(self, TrainTask(task.iteration, task.chunk, samples, task.total, task.last)) or {}
            numbers = {str(key): float(value) for key, value in values.items()}
            seconds = time.monotonic() - start
        save_s = offload_s = 0.0
        self.progress()
        if task.last:
            with self._told(f"saving iteration {task.iteration}"):
                self._carrier.snapshot(self._kept, task.iteration + 1)
                start = time.monotonic()
                if save is not None and self._kept is not None:
                    self._kept.save(Path(save))
                save_s = time.monotonic() - start
                self.progress()
                offload_s = self._offload(keep)
        taken = {"load_s": load_s, "seconds": seconds, "save_s": save_s, "offload_s": offload_s, "ended": time.monotonic()}
        return {**taken, "values": numbers}

    def connect(self, transfer: Mapping[str, Any]) -> str | None:
        """Join the processes that weights travel between; return why it is not the fastest way, if so. transfer: see `Transfer`."""
        with self._told("cannot join the weight transfer"):
            return self._carrier.connect(transfer)

    def send(self, version: int) -> dict[str, float]:
        """Send the weights of a version, as they were at the end of its training."""
        with self._told(f"sending weights {version}"):
            return self._carrier.send(version)

    def receive(self, version: int) -> dict[str, float]:
        """Take weights into host memory; the next rollout of that version uses them."""
        with self._told(f"receiving weights {version}"):
            return self._carrier.receive(version)

    def _load(self) -> float:
        start = time.monotonic()
        if self._kept is not None and not self._loaded:
            self._loaded = True
            self._kept.load()
        return time.monotonic() - start

    def _offload(self, keep: bool) -> float:
        start = time.monotonic()
        if self._kept is not None and not keep:
            self._kept.offload()
            self._loaded = False
        return time.monotonic() - start

    def _where(self) -> str:
        return f"job {self.job}, {self.pool} rank {self.rank}"

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Turn whatever goes wrong into one line for people; the log has the rest."""
        try:
            yield
        except (Exception, SystemExit) as error:
            traceback.print_exc(file=sys.stderr)
            text = str(error) if isinstance(error, ProgramError) else where_it_failed(error)
            raise ProgramError(f"{self._where()}: {what}: {text}") from None
