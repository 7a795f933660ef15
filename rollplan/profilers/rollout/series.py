"""One quantity measured again and again, and what its runs say; part of the worker, standard library only.

Two kinds of disturbance are told apart. A single step that something else delayed is outvoted: by the same step of other
rounds, and by the other steps of its own run. A whole round that was slower (clock rate, a neighbour on the machine) is
kept, because that is the spread a reader must know about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Protocol

from rollplan.profilers.repeat import half_width
from rollplan.profilers.rollout.plan import LENGTH, WARM_UP, Point
from rollplan.profilers.worker import WorkerError

DISTURBED = 1.5
"""A step that took so many times its typical time was disturbed."""


@dataclass(frozen=True)
class Run:
    """One run of an engine: seconds of each step; after how many steps each request was finished."""

    step_s: list[float]
    finish_step: list[int]


class NoRoomError(Exception):
    """The engine has no memory for this run."""


class Engine(Protocol):
    """What is measured."""

    slots: int
    max_model_len: int
    kv_tokens: int | None
    queues: bool
    """Whether a waiting request enters as soon as another is finished (continuous batching)."""

    def generate(self, prompt_tokens: Sequence[int], output_tokens: Sequence[int], at_once: int | None = None) -> Run:
        """Generate so many tokens after prompts of so many tokens; raise `NoRoomError` if memory does not do.

        at_once: how many requests are inside at the same time at most; absent, as many as the engine has slots.
        """
        ...


def typical(runs: Sequence[Sequence[float]]) -> list[float]:
    """Return the median of every step over the rounds."""
    if len({len(run) for run in runs}) > 1:
        counts = ", ".join(str(len(run)) for run in runs)
        raise WorkerError(f"the engine took different numbers of steps for the same work ({counts}); its KV cache may be too small")
    return [median(step) for step in zip(*runs, strict=True)]


def rounds_s(runs: Sequence[Sequence[float]]) -> list[float]:
    """Return the seconds of one step in each round: the mean typical step times the round's own usual ratio to it.

    The mean keeps what is periodic (a new KV block every 16 steps). The ratio is the mean of the middle half of the steps':
    blind to single disturbed steps, but unlike a median not the same for every round that sets some of the typical steps.
    """
    usual = typical(runs)
    mean = fmean(usual)
    return [mean * _midmean([step / other for step, other in zip(run, usual, strict=True)]) for run in runs]


def _midmean(values: Sequence[float]) -> float:
    """Return the mean of the middle half."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return fmean(ordered[cut : len(ordered) - cut])


@dataclass
class PointSeries:
    """A point of the grid; `prompt` and `length` are found by a rehearsal, which also warms up."""

    point: Point
    prompt: int
    length: int
    attended: float
    runs: list[list[float]] = field(default_factory=list)

    @classmethod
    def rehearsed(cls, engine: Engine, point: Point) -> PointSeries:
        """Run a point until its requests decode together around the asked context.

        Prompts that do not fit into one step enter one after the other. Then outputs must be longer, so that all decode
        at the same time for long enough, and the early ones have more context than the late ones.
        """
        length, shift = LENGTH, 0
        for _ in range(4):
            prompt = point.context - (WARM_UP + length) // 2 + shift
            if prompt < 1 or prompt + length > engine.max_model_len:
                raise NoRoomError(f"prompts enter over so many steps that sequences of {prompt + length} tokens would be needed")
            run = engine.generate([prompt] * point.batch, [length] * point.batch)
            first, last = _entries(run, length)
            late = max(first) - min(first)
            if late + LENGTH > length:
                length = late + LENGTH
                continue
            steps = _together(first, last)
            attended = prompt + fmean(steps) + 2 - fmean(first)
            shift += round(point.context - attended)
            if abs(attended - point.context) < 1:
                return cls(point, prompt, length, attended)
        raise NoRoomError("its requests never decode together around that context")

    def take(self, engine: Engine) -> None:
        """Measure once more."""
        run = engine.generate([self.prompt] * self.point.batch, [self.length] * self.point.batch)
        steps = _together(*_entries(run, self.length))
        self.runs.append(run.step_s[steps.start : steps.stop])

    @property
    def spread(self) -> float:
        """Quartile spread of the rounds so far."""
        return half_width(rounds_s(self.runs))

    def disturbed(self) -> tuple[int, int]:
        """Return how many steps were disturbed, of how many."""
        usual = typical(self.runs)
        late = sum(step > DISTURBED * other for run in self.runs for step, other in zip(run, usual, strict=True))
        return late, len(usual) * len(self.runs)

    def answer(self) -> dict[str, object]:
        """Return what is reported of the point."""
        ms = [1000 * value for value in rounds_s(self.runs)]
        return {"batch": self.point.batch, "context": self.point.context, "attended": self.attended, "ms": ms}


def _entries(run: Run, length: int) -> tuple[list[int], list[int]]:
    """Return the steps, counted from 1, at which each request made its first and its last token."""
    return [finish - length + 1 for finish in run.finish_step], run.finish_step


def _together(first: Sequence[int], last: Sequence[int]) -> range:
    """Return the steps, counted from 0, in which all requests decode and are warm."""
    return range(max(first) + WARM_UP - 1, min(last) - 1)


@dataclass
class PrefillSeries:
    """What a token of a prompt costs everybody else, beyond the decode step that its request takes part in.

    With continuous batching: a full batch decodes, and through its last slot go in turn one request of `QUIET` tokens
    and several of `BUSY` tokens. Steps and batch stay the same, admissions do not; a busy stretch is compared with the mean
    of the quiet ones on both sides, so a context that grows cancels out. Steps after an admission are slower, too:
    that cost is in here. Without a queue: the first step of a batch against its others.
    """

    batch: int
    prompt: int
    queues: bool
    runs: list[Run] = field(default_factory=list)

    QUIET = 12
    BUSY = 3
    SHORT = QUIET // BUSY
    CYCLES = 8

    @classmethod
    def of(cls, engine: Engine, batch: int, prompt: int) -> PrefillSeries:
        """Return the series with its warm-up done."""
        series = cls(batch, prompt, engine.queues)
        series.take(engine)
        series.runs.clear()
        return series

    @classmethod
    def tokens(cls, prompt: int) -> int:
        """Return how long a sequence gets."""
        return prompt + cls.QUIET * (2 * cls.CYCLES + 1)

    def take(self, engine: Engine) -> None:
        """Measure once more."""
        if not self.queues:
            self.runs.append(engine.generate([self.prompt] * self.batch, [LENGTH] * self.batch))
            return
        cycle = [self.QUIET] + [self.BUSY] * self.SHORT
        outputs = [self.tokens(0)] * (self.batch - 1) + cycle * self.CYCLES + [self.QUIET]
        self.runs.append(engine.generate([self.prompt] * len(outputs), outputs, self.batch))

    def answer(self) -> dict[str, object]:
        """Return what is reported: seconds for each prompt token, one value per round, never below 0."""
        found = [max(0.0, self._of_queue(run) if self.queues else self._of_batch(run)) for run in self.runs]
        return {"batch": self.batch, "prompt_tokens": self.prompt, "s_per_token": found}

    def _of_batch(self, run: Run) -> float:
        return (run.step_s[0] - median(run.step_s[WARM_UP:])) / (self.batch * self.prompt)

    def _of_queue(self, run: Run) -> float:
        r"""Solve for the seconds a of one admission: a quiet stretch takes n d + a, a busy one m d + `SHORT` a."""
        done = run.finish_step[self.batch - 1 :]
        ends = [done[at] for cycle in range(self.CYCLES + 1) for at in self._ends(cycle)]
        stretches = [run.step_s[start:end] for start, end in pairwise([0, *ends])]
        found = []
        # The first quiet stretch holds the prompts of everybody.
        for at in range(3, len(stretches) - 1, 2):
            before, busy, after = stretches[at - 1 : at + 2]
            steps = 2 * len(busy) / (len(before) + len(after))
            found.append((sum(busy) - steps * (sum(before) + sum(after)) / 2) / (self.SHORT - steps))
        return median(found) / self.prompt

    def _ends(self, cycle: int) -> list[int]:
        """Return which requests of the last slot end a stretch: the long one of a cycle and its last short one."""
        start = cycle * (self.SHORT + 1)
        return [start, start + self.SHORT] if cycle < self.CYCLES else [start]


@dataclass
class WorkloadSeries:
    """A whole batch of requests, first come first served: what a prediction is compared with."""

    prompts: list[int]
    outputs: list[int]
    runs: list[Run] = field(default_factory=list)

    def take(self, engine: Engine) -> None:
        """Measure once more."""
        self.runs.append(engine.generate(self.prompts, self.outputs))

    def answer(self) -> dict[str, object]:
        """Return the typical seconds of all steps, those of every round by the clock, and who finished when."""
        return {
            "step_s": typical([run.step_s for run in self.runs]),
            "round_s": [sum(run.step_s) for run in self.runs],
            "finish_step": [run.finish_step for run in self.runs],
        }


def fits(engine: Engine, batch: int, tokens: int) -> bool:
    """Return whether so many sequences of so many tokens fit into the engine."""
    return tokens <= engine.max_model_len and (engine.kv_tokens is None or batch * (tokens + 16) <= engine.kv_tokens)
