"""The program `rl` on real torch: it learns, and what it computes depends on its seed and on nothing else.

One process per case (`rl_cases.py`), and each test looks at what it saw. Needs ROLLPLAN_VLLM_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]


PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with torch (make test-vllm)"),
]


@pytest.fixture(scope="module")
def saw() -> Callable[[str], dict[str, Any]]:
    """What a case saw; each runs once."""
    known: dict[str, dict[str, Any]] = {}

    def of(case: str) -> dict[str, Any]:
        if case not in known:
            command = [str(PYTHON), str(Path(__file__).with_name("rl_cases.py")), case]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(CHECKOUT)}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
            assert done.returncode == 0, done.stderr[-3000:]
            known[case] = json.loads(done.stdout.splitlines()[-1])
        return known[case]

    return of


Saw = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("which", ["grpo", "grpo, seed 1", "ppo", "eos"])
def test_the_reward_rises(saw: Saw, which: str) -> None:
    """Means of the first and the last five of 20 to 24 iterations: 0.39 and 0.996 with GRPO, 0.27 and 0.87 with PPO, seed 0.

    `eos`: the model ends responses itself, with a little weight on the KL divergence.
    """
    rewards = saw("rising")[which]
    first, last = fmean(rewards[:5]), fmean(rewards[-5:])
    assert rewards[0] < 0.1
    assert first < 0.5
    assert last > 0.8


def test_the_reward_stays_without_learning(saw: Saw) -> None:
    """So it is the optimizer that raises it."""
    assert max(saw("rising")["still"]) < 0.1


def test_the_same_seed_gives_the_same_rewards_bit_for_bit(saw: Saw) -> None:
    """And another seed other ones."""
    seen = saw("same")
    assert seen["first"] == seen["again"]
    assert seen["first"] != seen["other"]


@pytest.mark.parametrize("how", ["batches", "chunks", "repeated"])
def test_rewards_depend_neither_on_batches_nor_on_chunks_nor_on_padding_work(saw: Saw, how: str) -> None:
    """Seven slots instead of 64, five chunks in the order of completion instead of one, and every pass done twice."""
    assert saw("same")[how] == saw("same")["first"]


def test_an_iteration_may_be_divided_among_workers_and_interrupted(saw: Saw) -> None:
    """No sample is lost or doubled, all are as if one worker had made them, and a resumed one keeps its first version."""
    seen = saw("divided")
    assert seen["once"]
    assert seen["same"]
    assert seen["versions"]
    assert min(seen["begun"], seen["fresh"], seen["done"]) > 0
    assert set(seen["rewards"]) == {None}


def test_drawn_lengths_are_known_in_advance(saw: Saw) -> None:
    """Nothing else ends a response, so the estimate is exact."""
    assert saw("divided")["estimates"]
