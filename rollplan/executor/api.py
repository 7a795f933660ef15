"""What a job's program is written with: functions marked by `phase`, and what they get and give.

A program is a Python module. Its functions run inside of the job's workers, one process per rollout node and one per
training rank; they may import torch, vLLM, whatever the interpreter has. rollplan decides when they run.

    @phase(pool="rollout")            @phase(pool="train")
    def init(worker): ...             def init(worker): ...
    def rollout(worker, task): ...    def train(worker, task): ...

Only the standard library is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from rollplan.executor.core.runbook import Setting

Pool = Literal["rollout", "train"]
Kind = Literal["init", "estimate", "rollout", "train"]
KINDS: Mapping[Pool, tuple[Kind, ...]] = {"rollout": ("init", "estimate", "rollout"), "train": ("init", "train")}
Function = TypeVar("Function", bound=Callable[..., Any])
MARK = "__rollplan_phase__"


def phase(pool: Pool, kind: Kind | None = None) -> Callable[[Function], Function]:
    """Mark a function as a phase of its program that runs on the nodes of a pool; `kind` defaults to the function's name.

    rollout pool: `init(worker)`, `rollout(worker, task) -> Iterator[Sample]`, and, if the program can guess,
    `estimate(worker, iteration) -> list[float]` (output tokens of each sample). train pool: `init(worker)`,
    `train(worker, task) -> Mapping[str, float]`. Raises `ValueError` for a name that is no such phase.
    """

    def mark(function: Function) -> Function:
        name = kind or function.__name__
        if name not in KINDS.get(pool, ()):
            known = ", ".join(f"{one}: {', '.join(kinds)}" for one, kinds in KINDS.items())
            raise ValueError(f"{function.__name__} is no phase of pool {pool!r}: name it, or give `kind`, as one of {known}")
        setattr(function, MARK, (pool, name))
        return function

    return mark


@dataclass(frozen=True, slots=True)
class Sample:
    """One response. number: in its iteration. version: of the weights that made its first token.

    log_probs: of each token under the weights that made it. A sample that was interrupted is not `finished`; whoever
    resumes it starts from its tokens. extra: what the program wants its trainer to know, plain data.
    """

    number: int
    iteration: int
    version: int
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    reward: float | None = None
    finished: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutTask:
    """Samples to generate, in this order, at most `slots` at once, with the weights of `version`, which the engine holds.

    resumed: samples of `samples` that were begun elsewhere; they go on where they were interrupted.
    """

    iteration: int
    version: int
    samples: tuple[int, ...]
    slots: int
    resumed: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainTask:
    """Samples of one chunk, ascending by number; every rank gets all of them and takes its share by `worker.rank`.

    last: the optimizer steps after this chunk; gradients of all chunks of an iteration are accumulated as if they were one
    batch, of `total` samples.
    """

    iteration: int
    chunk: int
    samples: tuple[Sample, ...]
    total: int
    last: bool


class Resident(Protocol):
    """State that stays in host memory between the phases of a job (RollMux 4.3): an engine or a trainer.

    Made by `init` and given to `worker.keep`. After `offload` it holds no device memory; on a CPU, device memory is
    memory that `offload` gives back to the system.
    """

    def load(self) -> None:
        """Bring the state from host memory onto the device."""

    def offload(self) -> None:
        """Move the state to host memory; process groups and environments stay alive."""

    def state_bytes(self) -> int:
        """Return the bytes of the state, wherever it is."""

    def save(self, folder: Path) -> None:
        """Write everything that a fresh process needs to go on; called after the last chunk of an iteration."""

    def restore(self, folder: Path) -> None:
        """Read what `save` wrote."""


class Weights(Resident, Protocol):
    """Resident state of a trainer that rollout workers follow."""

    def weights(self) -> Mapping[str, Any]:
        """Return the whole weights by name, as torch tensors on the CPU or the device; on every rank the same names."""


class Engine(Resident, Protocol):
    """An inference engine: generates in a stream, and takes new weights in place."""

    def update(self, weights: Mapping[str, Any], version: int) -> None:
        """Put new weights in the place of the old ones; names and shapes as the trainer's `weights` gives them."""


class Worker(Protocol):
    """What a program's function knows of the process it runs in.

    rank, world: among the workers of its pool. gpus: numbers of the devices that are its own. settings: of the job's
    program. samples: of every iteration. seed: of the job. state: for whatever the program wants to find again. rendezvous:
    `host:port` where the ranks of this pool may meet (`torch.distributed`), None if there is one rank.
    """

    job: str
    pool: Pool
    rank: int
    world: int
    gpus: tuple[int, ...]
    settings: Mapping[str, Setting]
    samples: int
    seed: int
    state: dict[str, Any]
    rendezvous: str | None

    def keep(self, resident: Resident) -> None:
        """Hand over resident state: loaded before every phase of this worker and off-loaded after it. One per worker.

        It is on the device then. With an `Engine` and `Weights` the trainer's weights move to the rollout workers, else nothing does.
        """

    def progress(self) -> None:
        """Say that the phase is alive; every sample that is yielded says so, too."""

    def interrupted(self) -> bool:
        """Return whether the rollout shall stop: yield what is unfinished with `finished=False`, then return."""


RolloutFunction = Callable[[Worker, RolloutTask], Iterator[Sample]]
TrainFunction = Callable[[Worker, TrainTask], Mapping[str, float]]
