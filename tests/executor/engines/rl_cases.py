"""Runs the program `rl` alone, in an interpreter that has torch; prints what it saw as JSON. Called by `test_rl.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from rollplan.executor.api import RolloutTask
from rollplan.executor.core.runbook import Setting
from rollplan.executor.engines.solo import Solo

PROGRAM = "rollplan.executor.programs.rl"
SAMPLES = 72
"""Of the divided iteration: nine prompts."""
SHORT: dict[str, Setting] = {"median_tokens": 8, "max_tokens": 32, "lr": 0.005}


def rewards(iterations: int, seed: int = 0, slots: int = 64, chunks: int = 1, **settings: Setting) -> list[float]:
    run = Solo(PROGRAM, 64, SHORT | settings, seed, slots, chunks)
    return [values["reward"] for values in run.run(iterations)]


def rising() -> dict[str, Any]:
    """Rewards of both algorithms, with two seeds for GRPO; tokens that the model may end itself; and a model that does not learn."""
    return {
        "grpo": rewards(20),
        "grpo, seed 1": rewards(20, seed=1),
        "ppo": rewards(24, algorithm="ppo"),
        "eos": rewards(20, lengths="eos", kl=0.01),
        "still": rewards(3, lr=0.0),
    }


def same() -> dict[str, Any]:
    """The same job four times: again, in small batches, in chunks in the order of completion, and with forward passes done twice."""
    return {
        "first": rewards(8),
        "again": rewards(8),
        "batches": rewards(8, slots=7),
        "chunks": rewards(8, chunks=5),
        "repeated": rewards(8, repeat_rollout=2, repeat_train=2),
        "other": rewards(8, seed=2),
    }


def divided() -> dict[str, Any]:
    """One iteration by one worker, and by two of which the first is interrupted and the second goes on with newer weights."""
    whole, one, two = (Solo(PROGRAM, SAMPLES, SHORT) for _ in range(3))
    expected = {made.number: made for made in whole.generate(0)}
    rollout: Callable[..., Any] = whole._program.functions["rollout", "rollout"]
    estimate: Callable[..., Any] = whole._program.functions["rollout", "estimate"]
    steps = iter([False] * 6 + [True] * 100)
    one.rollout.interrupted = lambda: next(steps)  # type: ignore[method-assign]
    first = list(rollout(one.rollout, RolloutTask(0, 0, tuple(range(SAMPLES)), 40)))
    done = {made.number: made for made in first if made.finished}
    left = tuple(made for made in first if not made.finished)
    task = RolloutTask(0, 1, tuple(made.number for made in left), 40, left)
    second = {made.number: made for made in rollout(two.rollout, task)}
    same = {number: asdict(replace(made, log_probs=(), version=0)) for number, made in (done | second).items()}
    return {
        "once": len(first) == SAMPLES and done.keys().isdisjoint(second) and len(done) + len(second) == SAMPLES,
        "begun": sum(bool(made.tokens) for made in left),
        "fresh": sum(not made.tokens for made in left),
        "done": len(done),
        "same": same == {number: asdict(replace(made, log_probs=())) for number, made in expected.items()},
        "rewards": [made.reward for made in left],
        "versions": all(second[made.number].version == (0 if made.tokens else 1) for made in left),
        "estimates": estimate(whole.rollout, 0) == [float(len(expected[number].tokens)) for number in range(SAMPLES)],
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {"rising": rising, "same": same, "divided": divided}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]]()))
