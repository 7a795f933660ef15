"""A job that only takes time: for trying a plan out, and for tests of the executor. Standard library only.

Every token is a function of (seed, iteration, sample, position), so whoever trains can check every one of them, whatever
happened on the way. Settings, with their defaults:

    rollout_s 1.0, train_s 0.5    what the phases of an iteration take; a rollout with all samples in slots takes just that
    tokens 64, sigma 0.0          longest response, and the spread of a log-normal law of lengths (0: all are the longest)
    memory_mib 8                  state, allocated in host memory, and once more while it is loaded
    reward 0.0, rise 0.1          reward of iteration 0, and by how much every iteration raises it
    guesses true                  whether lengths are told before
    fault "", fault_pool "train", fault_at 1, fault_once ""
                                  `raise`, `exit`, `hang`, or `overrun` (64 times the memory) in a phase of an iteration;
                                  fault_once: a file that is made by the fault and prevents it from then on
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollplan.executor.api import RolloutTask, Sample, TrainTask, Worker, phase

_VOCABULARY = 50_000
_SLICE_S = 0.005
_DEFAULTS: Mapping[str, Any] = {
    "rollout_s": 1.0,
    "train_s": 0.5,
    "tokens": 64,
    "sigma": 0.0,
    "memory_mib": 8,
    "reward": 0.0,
    "rise": 0.1,
    "guesses": True,
    "fault": "",
    "fault_pool": "train",
    "fault_at": 1,
    "fault_once": "",
}


def token(seed: int, iteration: int, sample: int, position: int) -> int:
    """Return the token at a position of a response."""
    key = f"{seed}/{iteration}/{sample}/{position}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest()) % _VOCABULARY


def length(settings: Mapping[str, Any], seed: int, iteration: int, sample: int) -> int:
    """Return the tokens of a response: log-normal around a quarter of the longest, cut there; the longest if there is no spread."""
    longest, sigma = int(_of(settings, "tokens")), float(_of(settings, "sigma"))
    if sigma == 0:
        return longest
    drawn = random.Random(f"{seed}/{iteration}/{sample}").lognormvariate(0.0, sigma) * longest / 4
    return max(1, min(longest, round(drawn)))


class Memory:
    """State of some size, and what training it leaves: the iterations, and a digest of all tokens in order."""

    def __init__(self, size: int) -> None:
        self.host: list[bytearray] = [bytearray(os.urandom(4096) * (size // 4096))]
        self.device: list[bytearray] = []
        self.trained: list[int] = []
        self.digest = ""

    def load(self) -> None:
        """Copy the state."""
        self.device = [bytearray(part) for part in self.host]

    def offload(self) -> None:
        """Forget the copy."""
        self.device = []

    def state_bytes(self) -> int:
        """Return the bytes of one copy."""
        return sum(len(part) for part in self.host)

    def save(self, folder: Path) -> None:
        """Write what was trained."""
        (folder / "trained.json").write_text(json.dumps({"trained": self.trained, "digest": self.digest}), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Read what was trained."""
        raw = json.loads((folder / "trained.json").read_text(encoding="utf-8"))
        self.trained, self.digest = raw["trained"], raw["digest"]


@phase(pool="rollout", kind="init")
def init_rollout(worker: Worker) -> None:
    """Allocate the state."""
    _allocate(worker)


@phase(pool="train", kind="init")
def init_train(worker: Worker) -> None:
    """Allocate the state."""
    _allocate(worker)


@phase(pool="rollout")
def estimate(worker: Worker, iteration: int) -> list[float]:
    """Return the very lengths."""
    if not _of(worker.settings, "guesses"):
        return []
    return [float(length(worker.settings, worker.seed, iteration, one)) for one in range(worker.samples)]


@dataclass(slots=True)
class _Growing:
    number: int
    version: int
    tokens: list[int]
    length: int


@phase(pool="rollout")
def rollout(worker: Worker, task: RolloutTask) -> Iterator[Sample]:
    """Generate a token of every sample in a slot per step, until all have their length."""
    _fault(worker, task.iteration)
    begun = {sample.number: sample for sample in task.resumed}
    waiting = [
        _Growing(
            number,
            begun[number].version if number in begun else task.version,
            list(begun[number].tokens) if number in begun else [],
            length(worker.settings, worker.seed, task.iteration, number),
        )
        for number in task.samples
    ]
    step_s = float(_of(worker.settings, "rollout_s")) / int(_of(worker.settings, "tokens"))
    active: list[_Growing] = []
    now = time.monotonic()
    while waiting or active:
        while waiting and len(active) < task.slots:
            active.append(waiting.pop(0))
        now += step_s
        while (left_s := now - time.monotonic()) > 0:
            time.sleep(min(_SLICE_S, left_s))
            worker.progress()
        if worker.interrupted():
            yield from (_sample(one, task.iteration, worker, finished=False) for one in (*active, *waiting))
            return
        for one in active:
            one.tokens.append(token(worker.seed, task.iteration, one.number, len(one.tokens)))
        for one in [one for one in active if len(one.tokens) >= one.length]:
            active.remove(one)
            yield _sample(one, task.iteration, worker, finished=True)


@phase(pool="train")
def train(worker: Worker, task: TrainTask) -> Mapping[str, float]:
    """Check every token of every sample, and take the time of this share of the batch."""
    _fault(worker, task.iteration)
    until = time.monotonic() + float(_of(worker.settings, "train_s")) * len(task.samples) / task.total
    memory: Memory = worker.state["memory"]
    digest = hashlib.blake2b(memory.digest.encode(), digest_size=8)
    for sample in task.samples:
        right = length(worker.settings, worker.seed, task.iteration, sample.number)
        wanted = tuple(token(worker.seed, task.iteration, sample.number, position) for position in range(right))
        if sample.tokens != wanted or not sample.finished:
            raise ValueError(f"sample {sample.number} of iteration {task.iteration} has wrong tokens: {len(sample.tokens)} of {right}")
        digest.update(json.dumps(sample.tokens).encode())
    memory.digest = digest.hexdigest()
    if task.last:
        memory.trained.append(task.iteration)
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(min(_SLICE_S, left_s))
        worker.progress()
    rewards = [sample.reward for sample in task.samples if sample.reward is not None]
    return {"reward": sum(rewards) / max(1, len(rewards)), "tokens": float(sum(len(sample.tokens) for sample in task.samples))}


def _of(settings: Mapping[str, Any], name: str) -> Any:
    return settings.get(name, _DEFAULTS[name])


def _allocate(worker: Worker) -> None:
    if unknown := sorted(set(worker.settings) - set(_DEFAULTS)):
        raise ValueError(f"settings {', '.join(unknown)} are not known; use {', '.join(_DEFAULTS)}")
    memory = Memory(int(_of(worker.settings, "memory_mib")) * 2**20)
    memory.load()
    worker.state["memory"] = memory
    worker.keep(memory)


def _sample(one: _Growing, iteration: int, worker: Worker, finished: bool) -> Sample:
    reward = float(_of(worker.settings, "reward")) + float(_of(worker.settings, "rise")) * iteration
    log_probs = (-1.0,) * len(one.tokens)
    return Sample(one.number, iteration, one.version, (), tuple(one.tokens), log_probs, reward if finished else None, finished)


def _fault(worker: Worker, iteration: int) -> None:
    """Do what the settings want to go wrong here."""
    settings = worker.settings
    kind, once = _of(settings, "fault"), _of(settings, "fault_once")
    if not kind or _of(settings, "fault_pool") != worker.pool or int(_of(settings, "fault_at")) != iteration:
        return
    if once:
        if Path(str(once)).exists():
            return
        Path(str(once)).touch()
    if kind == "raise":
        raise RuntimeError("this was asked for")
    if kind == "exit":
        os._exit(1)
    while kind == "hang":
        time.sleep(1.0)
    memory: Memory = worker.state["memory"]
    memory.host += [bytearray(os.urandom(4096) * (memory.state_bytes() // 4096)) for _ in range(63)]
