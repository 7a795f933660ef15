"""Fifty processes of every kind killed at random moments: nothing hangs, nothing is left, no iteration is lost or done twice."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest

from rollplan.executor.core.runbook import JobRun
from rollplan.executor.programs import sleep as program
from rollplan.executor.shell import processes
from rollplan.executor.shell.saved import SavedStates
from tests.executor.shell.sleepers import PYTHON, SAMPLES, Driven, book, sleeper

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray (make test-vllm)"),
]
KILLS = 50
HOSTS, SERVERS = ("rollout-0", "train"), ("raylet", "gcs", "driver")
SERVERS_SHARE = 0.25
"""Of the kills; each costs a new driver and Ray, some ten times as long as a new job."""
LATER_S = 20.0


def jobs(iterations: int) -> tuple[JobRun, ...]:
    settings = {"rollout_s": 0.15, "train_s": 0.1, "sigma": 0.5}
    return tuple(sleeper(name, iterations=iterations, restarts=KILLS, settings=settings, seed=seed) for seed, name in enumerate("ab"))


def undisturbed(job: JobRun, iterations: int) -> str:
    """Return the digest of all tokens that training leaves if nothing is ever killed."""
    digest = ""
    for iteration in range(iterations):
        step = hashlib.blake2b(digest.encode(), digest_size=8)
        for number in range(SAMPLES):
            long = program.length(job.settings, job.seed, iteration, number)
            step.update(json.dumps(tuple(program.token(job.seed, iteration, number, at) for at in range(long))).encode())
        digest = step.hexdigest()
    return digest


class Killer:
    """Kills at moments drawn with a seed, and counts what it did."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = [*SERVERS * round(KILLS * SERVERS_SHARE / len(SERVERS))]
        self.left += ["host"] * (KILLS - len(self.left))
        self.random.shuffle(self.left)
        self.did: Counter[str] = Counter()

    def until_the_driver_dies(self, run: Driven) -> None:
        """Kill hosts at random moments, until a server's turn comes or all is done."""
        hosts: Counter[str] = Counter()
        while self.left:
            kind = self.left.pop()
            run.wait_for(lambda: run.events("JobReady") or run.all("process"))
            sleep(self.random.uniform(0.0, 1.5))
            if kind == "host":
                job, resource = self.random.choice("ab"), self.random.choice(HOSTS)
                run.wait_for(lambda job=job, resource=resource: _alive(run, job, resource))
                os.kill(_alive(run, job, resource), signal.SIGKILL)
                hosts[job] += 1
                self.did[resource] += 1
                continue
            run.wait_for(lambda kind=kind: run.pids(kind))
            os.kill(run.pids(kind)[-1], signal.SIGKILL)
            self.did[kind] += 1
            assert run.end(LATER_S) != 0, "a driver without its Ray says that it did not end well"
            break
        for job in "ab":
            # A kill while the job is stopped anyway is no further loss.
            assert len(run.events("WorkerLost", job)) <= hosts[job], f"{job} was disturbed by what was done to the other"


def _alive(run: Driven, job: str, resource: str) -> int:
    pids = [one["pid"] for one in run.all("process") if (one["job"], one["resource"]) == (job, resource)]
    return pids[-1] if pids and processes.alive(pids[-1]) else 0


def test_fifty_kills_lose_nothing_double_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """Whoever started the driver starts it again when it dies, as `rollplan run` does."""
    killer = Killer(seed=20)
    begun = monotonic()
    while killer.left:
        with Driven(book(*jobs(10_000)), tmp_path) as run:
            killer.until_the_driver_dies(run)
            if killer.left:
                _nothing_stays(tmp_path, Path(run.temp.name))
    finished = [SavedStates(tmp_path, job).finished() for job in "ab"]
    last = max(finished) + 2
    with Driven(book(*jobs(last)), tmp_path) as run:
        assert run.end() == 0
        assert processes.of_run(tmp_path) == []
    for job in jobs(last):
        state = json.loads((SavedStates(tmp_path, job.name).of(last) / "trained.json").read_text())
        assert state["trained"] == list(range(last)), "every iteration exactly once"
        assert state["digest"] == undisturbed(job, last), "on exactly the tokens of an undisturbed run"
    assert sum(killer.did.values()) == KILLS
    assert set(killer.did) == {*HOSTS, *SERVERS}
    print(f"{dict(killer.did)}, {finished} iterations meanwhile, {monotonic() - begun:.0f} s")


def _nothing_stays(folder: Path, temp: Path) -> None:
    """Even before anybody cleans up after a dead driver, its processes end by themselves, and their files go."""
    until = monotonic() + LATER_S
    while (left := processes.of_run(folder)) and monotonic() < until:
        sleep(0.05)
    assert not left, [processes.program(pid) for pid in left]
    assert not temp.exists(), [*temp.rglob("*")][:9]
