"""The program for tests: its tokens can be checked whatever happened, and its lengths follow its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor.api import Resident, RolloutTask, Sample, TrainTask
from rollplan.executor.programs import sleep


class Worker:
    job, pool, rank, world, gpus, samples, seed, rendezvous = "a", "rollout", 0, 1, (), 6, 3, None

    def __init__(self, **settings: Any) -> None:
        self.settings: Mapping[str, Any] = {"rollout_s": 0.02, "train_s": 0.0, "tokens": 12, "memory_mib": 1, **settings}
        self.state: dict[str, Any] = {}
        self.stop: Callable[[], bool] = lambda: False

    def keep(self, resident: Resident) -> None:
        self.kept = resident

    def progress(self) -> None:
        pass

    def interrupted(self) -> bool:
        return self.stop()


def roll(worker: Worker, *resumed: Sample, slots: int = 4, samples: tuple[int, ...] = tuple(range(6))) -> list[Sample]:
    return list(sleep.rollout(worker, RolloutTask(1, 1, samples, slots, resumed)))


def test_a_rollout_that_was_interrupted_and_resumed_has_the_same_tokens() -> None:
    """Token by token, wherever it was cut."""
    whole = {sample.number: sample.tokens for sample in roll(Worker(sigma=0.7))}
    for cut in range(1, 12):
        worker = Worker(sigma=0.7)
        steps = iter(range(100))
        worker.stop = lambda steps=steps, cut=cut: next(steps) >= cut
        first = roll(worker)
        left = [sample for sample in first if not sample.finished]
        second = roll(Worker(sigma=0.7), *left, samples=tuple(sample.number for sample in left))
        done = [sample for sample in (*first, *second) if sample.finished]
        assert {sample.number: sample.tokens for sample in done} == whole
        assert len(done) == 6


def test_lengths_follow_the_law_and_are_what_is_guessed() -> None:
    worker = Worker(sigma=0.7)
    lengths = [len(sample.tokens) for sample in sorted(roll(worker), key=lambda one: one.number)]
    assert lengths == sleep.estimate(worker, 1)
    assert len(set(lengths)) > 1
    assert set(map(len, (sample.tokens for sample in roll(Worker())))) == {12}


def test_a_trainer_refuses_a_wrong_token_and_a_lost_one() -> None:
    worker = Worker()
    sleep.init_train(worker)
    samples = tuple(sorted(roll(worker), key=lambda one: one.number))
    values = sleep.train(worker, TrainTask(1, 0, samples, 6, True))
    assert values == {"reward": pytest.approx(0.1), "tokens": 72.0}
    first = samples[0]
    for tokens in (first.tokens[:-1], (*first.tokens[:-1], first.tokens[-1] + 1)):
        wrong = Sample(0, 1, 1, (), tokens, first.log_probs)
        with pytest.raises(ValueError, match="sample 0 of iteration 1 has wrong tokens"):
            sleep.train(worker, TrainTask(1, 0, (wrong,), 6, True))


def test_what_was_trained_survives(tmp_path: Path) -> None:
    worker = Worker()
    sleep.init_train(worker)
    sleep.train(worker, TrainTask(0, 0, (), 6, True))
    worker.state["memory"].save(tmp_path)
    other = sleep.Memory(4096)
    other.restore(tmp_path)
    assert other.trained == [0]
    assert other.digest == worker.state["memory"].digest != ""


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="settings rolout_s are not known; use rollout_s, train_s"):
        sleep.init_rollout(Worker(rolout_s=1.0))
