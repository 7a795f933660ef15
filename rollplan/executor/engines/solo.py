"""Run a program alone, in this process, one phase after the other: the yardstick for what a co-executed job computes.

    python -m rollplan.executor.engines.solo rollplan.executor.programs.rl 40 64 lr=0.003 algorithm=ppo

runs 40 iterations of 64 samples and prints a line of JSON per iteration.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from rollplan.executor.api import Pool, RolloutTask, Sample, TrainTask
from rollplan.executor.core.runbook import Setting
from rollplan.executor.shell.program import ProgramError, load_program


@dataclass
class SoloWorker:
    """The only worker of its pool. See `api.Worker`."""

    pool: Pool
    settings: Mapping[str, Setting]
    samples: int
    seed: int
    job: str = "solo"
    rank: int = 0
    world: int = 1
    gpus: tuple[int, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    rendezvous: str | None = None
    kept: Any = None

    def keep(self, resident: Any) -> None:
        """See `api.Worker.keep`."""
        self.kept = resident

    def progress(self) -> None:
        """Nobody waits."""

    def interrupted(self) -> bool:
        """Nobody interrupts."""
        return False


class Solo:
    """A program with one rollout worker and one training rank. chunks: that an iteration is trained in."""

    def __init__(
        self, module: str, samples: int, settings: Mapping[str, Setting], seed: int = 0, slots: int = 256, chunks: int = 1,
        gpus: tuple[int, ...] = (), folder: Path = Path(),
    ) -> None:  # fmt: skip
        self._program = load_program(module, folder)
        self._slots, self._chunks = slots, chunks
        self.rollout = SoloWorker("rollout", settings, samples, seed, gpus=gpus)
        self.train = SoloWorker("train", settings, samples, seed, gpus=gpus)
        for worker in (self.rollout, self.train):
            if (init := self._program.function(worker.pool, "init")) is not None:
                init(worker)

    def generate(self, iteration: int) -> tuple[Sample, ...]:
        """Return the samples of an iteration, in the order in which they finished."""
        task = RolloutTask(iteration, iteration, tuple(range(self.rollout.samples)), self._slots)
        function = self._program.functions["rollout", "rollout"]
        return tuple(function(self.rollout, task))

    def learn(self, iteration: int, samples: tuple[Sample, ...]) -> dict[str, float]:
        """Train chunks of samples in the order given, each sorted by number, and send the weights; return what the last chunk says."""
        size = -(-len(samples) // self._chunks)
        parts = [samples[start : start + size] for start in range(0, len(samples), size)]
        function = self._program.functions["train", "train"]
        values: Mapping[str, float] = {}
        for chunk, part in enumerate(parts):
            ordered = tuple(sorted(part, key=lambda one: one.number))
            values = function(self.train, TrainTask(iteration, chunk, ordered, len(samples), chunk == len(parts) - 1))
        if self.train.kept is not None and self.rollout.kept is not None:
            self.rollout.kept.update(self.train.kept.weights(), iteration + 1)
        return dict(values)

    def run(self, iterations: int, first: int = 0) -> Iterator[dict[str, float]]:
        """Yield what each iteration says, with `rollout_s` and `train_s` (weights included)."""
        for iteration in range(first, first + iterations):
            start = perf_counter()
            samples = self.generate(iteration)
            between = perf_counter()
            values = self.learn(iteration, samples)
            yield {"iteration": iteration, **values, "rollout_s": between - start, "train_s": perf_counter() - between}


def setting(text: str) -> tuple[str, Setting]:
    """Return name and value of `name=value`; numbers, true and false are what they look like."""
    name, _, value = text.partition("=")
    try:
        read = json.loads(value)
    except ValueError:
        read = value
    return name, read if isinstance(read, bool | int | float) else value


def main() -> None:
    """Run what the command line says; `seed=`, `slots=` and `chunks=` are of the run, other settings of the program."""
    parser = argparse.ArgumentParser(description="Run a program in this process, without Ray and without a plan.")
    parser.add_argument("module", help="dotted name, or path of a .py file")
    parser.add_argument("iterations", type=int)
    parser.add_argument("samples", type=int, help="per iteration")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="seed, slots, chunks; all others are the program's")
    given = parser.parse_args()
    settings = dict(map(setting, given.settings))
    seed, slots, chunks = (int(settings.pop(name, default)) for name, default in (("seed", 0), ("slots", 256), ("chunks", 1)))
    try:
        solo = Solo(given.module, given.samples, settings, seed, slots, chunks)
    except (ProgramError, ValueError) as error:
        parser.error(str(error))
    for values in solo.run(given.iterations):
        print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
