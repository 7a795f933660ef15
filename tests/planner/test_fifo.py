"""FIFO service: the rates of RollMux Fig. 10b, what it has in common with round robin, and why it guarantees nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.round_robin import period
from rollplan.planner.fifo import fifo, fifo_regime
from rollplan.planner.simulate import simulate

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
seconds = st.integers(1, 30)


def test_fig_10b_runs_each_short_job_twice_per_long_one_under_fifo_and_once_under_round_robin() -> None:
    """RollMux Fig. 10b: D at 435 s and E at 870 s explain the measured 458 to 474 s and 937 s; round robin has 870 s for all."""
    rollout_s, train_s, pinning = [746, 314, 314], [124, 118, 118], [(0,), (1,), (2,)]
    regime = fifo_regime(rollout_s, train_s, pinning)
    assert regime is not None
    assert [regime.iteration_s(job) for job in range(3)] == [870, 435, 435]
    assert simulate(rollout_s, train_s, pinning, 60).steady_period_s == 870


@REPEATABLE
@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=5))
def test_on_one_node_and_one_trainer_fifo_is_round_robin(jobs: list[tuple[int, int]]) -> None:
    """No job can overtake another there, whatever the first order (RollMux 4.3 in its one-pair form)."""
    rollout_s, train_s = [job[0] for job in jobs], [job[1] for job in jobs]
    regime = fifo_regime(rollout_s, train_s, [(0,)] * len(jobs), order=list(reversed(range(len(jobs)))))
    assert regime is not None
    expected = period(rollout_s, train_s, [(0,)] * len(jobs)).seconds
    assert [regime.iteration_s(job) for job in range(len(jobs))] == pytest.approx([expected] * len(jobs))


def test_a_shorter_rollout_of_one_job_makes_another_three_times_slower() -> None:
    """A = (1, 1), B = (11, 6) on nodes of their own: A takes 2.83 s on average; when B's rollout takes 1.9 s, A takes 7.9 s.

    At 2 s sharp both rollouts end together, and the tie decides between 8 s and 4.5 s.
    """
    plan = fifo_regime([1, 11], [1, 6], [(0,), (1,)])
    shorter = fifo_regime([1, 1.9], [1, 6], [(0,), (1,)])
    assert plan is not None
    assert shorter is not None
    assert [plan.iteration_s(job) for job in range(2)] == pytest.approx([17 / 6, 17])
    assert [shorter.iteration_s(job) for job in range(2)] == pytest.approx([7.9, 7.9])


@REPEATABLE
@given(st.data())
def test_the_regime_is_the_same_with_and_without_the_compiler(data: st.DataObject) -> None:
    """And no resource does more than its period holds; jobs on several nodes wait for all of them."""
    jobs, nodes = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    pinning = [data.draw(st.lists(st.integers(0, nodes - 1), min_size=1, unique=True)) for _ in range(jobs)]
    rollout_s, train_s = ([data.draw(seconds) for _ in range(jobs)] for _ in range(2))
    regime = fifo_regime(rollout_s, train_s, pinning)
    assert regime is not None
    pinned = np.zeros((jobs, 1 + max(max(some) for some in pinning)), dtype=bool)
    for job, some in enumerate(pinning):
        pinned[job, some] = True
    runs = np.zeros(jobs, dtype=np.int64)
    rollout, train = np.array(rollout_s, dtype=np.int64), np.array(train_s, dtype=np.int64)
    ticks = fifo(rollout, train, pinned, np.arange(jobs), 100_000, runs)
    assert (ticks, tuple(runs)) == (regime.period_s, regime.runs)
    assert (runs * train).sum() <= ticks
    assert all((runs * rollout)[pinned[:, node]].sum() <= ticks for node in range(pinned.shape[1]))
    assert all(runs * (rollout + train) <= ticks)


def test_no_answer_within_the_steps_is_no_answer() -> None:
    """A regime that was not reached must not be taken for one."""
    assert fifo_regime([7, 11], [3, 5], [(0,), (1,)], most_steps=3) is None
