"""Pipelining modes: laws that hold for all stages, and brute force on small cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.pipelining.iteration import iteration
from rollplan.models.pipelining.modes import Pipelining
from rollplan.models.pipelining.stages import Stages, TrainingLaw

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)
SERIAL, ONE_STEP = Pipelining("serial"), Pipelining("one-step")
STREAMED, BATCH = Pipelining("async", variant="streamed"), Pipelining("async", variant="batch")


def mini_batch(chunks: int) -> Pipelining:
    """Return mode (a)."""
    return Pipelining("mini-batch", chunks=chunks)


def dynamic(fill: int) -> Pipelining:
    """Return mode (b)."""
    return Pipelining("dynamic-batch", fill=fill)


def seconds(pipelining: Pipelining, stages: Stages) -> float:
    """Return the seconds of an iteration."""
    return iteration(pipelining, stages).iteration_s


times = st.integers(0, 400).map(lambda quarters: quarters / 4)
slow = st.sampled_from([1.0, 1.25, 1.5, 2.0])


@st.composite
def work(draw: st.DrawFn, fixed: bool = False, scored: bool = False, slowed: bool = False) -> Stages:
    """Any iteration of up to 24 samples; multiples of 1/4 keep sums exact."""
    finish = draw(st.lists(times, min_size=1, max_size=24))
    tokens = draw(st.lists(st.integers(1, 64).map(float), min_size=len(finish), max_size=len(finish)))
    law = TrainingLaw(draw(times), draw(st.sampled_from([0.0, 0.25, 1.0])), draw(times) if fixed else 0.0)
    return Stages(
        np.array(finish),
        law,
        np.array(tokens),
        score_s=draw(times) if scored else 0.0,
        transfer_s=draw(times),
        drain_s=draw(times),
        rollout_slowdown=draw(slow) if slowed else 1.0,
        train_slowdown=draw(slow) if slowed else 1.0,
    )


@REPEATABLE
@given(work(scored=True), st.data())
def test_serial_is_the_slowest_and_the_longer_stage_a_bound(stages: Stages, data: st.DataObject) -> None:
    """serial >= mini-batch >= max(g, t) + sync; without a fixed cost per chunk."""
    found = seconds(mini_batch(data.draw(st.integers(1, stages.samples))), stages)
    assert seconds(SERIAL, stages) >= found >= max(stages.finish_s[-1], stages.train_s) + stages.sync_s


@REPEATABLE
@given(work(fixed=True, scored=True))
def test_one_chunk_is_serial(stages: Stages) -> None:
    """Also with a fixed cost per chunk, since there is one."""
    assert seconds(mini_batch(1), stages) == seconds(SERIAL, stages)


@REPEATABLE
@given(work(fixed=True))
def test_a_fill_of_all_samples_is_serial(stages: Stages) -> None:
    """Without scoring, which dynamic-batch streams and serial does not."""
    assert seconds(dynamic(stages.samples), stages) == seconds(SERIAL, stages)


@REPEATABLE
@given(work(), st.data())
def test_cutting_every_chunk_again_is_never_worse(stages: Stages, data: st.DataObject) -> None:
    """Without a fixed cost. For chunks that are no multiple it may be: see the next test."""
    coarse = data.draw(st.integers(1, stages.samples))
    fine = coarse * data.draw(st.integers(1, stages.samples // coarse))
    assert seconds(mini_batch(fine), stages) <= seconds(mini_batch(coarse), stages)


def test_three_chunks_may_be_worse_than_two() -> None:
    """Samples at 0, 0, 0, 9, 9, 9 s: two chunks wait for the last at half of the training, three for two thirds of it."""
    stages = Stages(np.array([0.0, 0, 0, 9, 9, 9]), TrainingLaw(per_sample_s=1.0))
    assert (seconds(mini_batch(2), stages), seconds(mini_batch(3), stages)) == (12.0, 13.0)


@REPEATABLE
@given(work(fixed=True, scored=True, slowed=True))
def test_modes_that_overlap_iterations_are_ordered(stages: Stages) -> None:
    """one-step >= batch >= streamed >= the longer stage, also when the sides slow each other down."""
    one_step, batch, streamed = (seconds(mode, stages) for mode in (ONE_STEP, BATCH, STREAMED))
    longer_s = max(float(stages.ready_s()[-1]), stages.train_s)
    for greater, less in pairwise((one_step, batch, streamed, longer_s)):
        assert greater >= less - 1e-9 * (1 + less)


@REPEATABLE
@given(work(fixed=True, scored=True, slowed=True), st.data())
def test_busy_shares_are_shares_and_agree_with_the_timeline(stages: Stages, data: st.DataObject) -> None:
    """A side waits for something exactly when it is not busy all the time."""
    size = data.draw(st.integers(1, stages.samples))
    for mode in (SERIAL, mini_batch(size), dynamic(size), ONE_STEP, BATCH, STREAMED):
        found = iteration(mode, stages)
        for stage, busy, wait in (
            ("rollout", found.rollout_busy, found.rollout_waits_for),
            ("train", found.train_busy, found.train_waits_for),
        ):
            assert 0 <= busy <= 1
            assert (busy == 1) == (wait is None)
            drawn = sum(part.end_s - part.start_s for part in found.timeline if part.stage == stage)
            assert drawn == pytest.approx(busy * found.iteration_s, rel=1e-6, abs=1e-9)


@REPEATABLE
@given(work(slowed=True), st.data())
def test_slowing_down_never_helps(stages: Stages, data: st.DataObject) -> None:
    """A factor of 1 is no interference; a larger one costs, in the modes where both run."""
    size = data.draw(st.integers(1, stages.samples))
    free = replace(stages, rollout_slowdown=1.0, train_slowdown=1.0)
    for mode in (mini_batch(size), ONE_STEP, BATCH, STREAMED):
        assert seconds(mode, stages) >= seconds(mode, free) - 1e-9
    assert seconds(SERIAL, stages) == seconds(SERIAL, free)


# Brute force.


def by_the_tick(stages: Stages, fill: int, tick: float) -> float:
    """Play mode (b), tick by tick: the trainer takes what is ready, works on it, and both slow down while both work."""
    now, rolled, left, done, busy = 0.0, 0.0, 0.0, 0, False
    last = float(stages.finish_s[-1])
    while True:
        if busy and left <= 1e-9:
            busy = False
        ready = int((stages.finish_s <= rolled + 1e-9).sum())
        if not busy and done == stages.samples:
            return now + stages.sync_s
        if not busy and ready > done and (ready - done >= fill or ready == stages.samples):
            left, done, busy = stages.chunk_s(done, ready), ready, True
            continue
        rolling = rolled < last - 1e-9
        left -= tick / (stages.train_slowdown if rolling else 1) if busy else 0
        rolled += tick / (stages.rollout_slowdown if busy else 1)
        now += tick


@REPEATABLE
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 4), st.data())
def test_dynamic_batches_agree_with_a_clock_that_ticks(finish: list[int], per_sample: int, data: st.DataObject) -> None:
    """Whole seconds and slowdowns of 2 make half a second the largest tick that misses nothing."""
    stages = Stages(
        np.array(finish, dtype=float),
        TrainingLaw(per_sample_s=2.0 * per_sample),
        rollout_slowdown=data.draw(st.sampled_from([1.0, 2.0])),
        train_slowdown=data.draw(st.sampled_from([1.0, 2.0])),
    )
    fill = data.draw(st.integers(1, len(finish)))
    assert seconds(dynamic(fill), stages) == pytest.approx(by_the_tick(stages, fill, 1 / 64))


def played(rollout_s: float, train_s: float, sync_s: float, slow_rollout: float, slow_train: float, batches: int) -> float:
    """Play variant (B) by events with weights that travel on their own; return the time between the last trainings, averaged."""
    now, rolled, trained = 0.0, 0, 0
    rolling = training = 0.0
    ends: list[float] = []
    while trained < batches:
        weights_s = ends[rolled - 2] + sync_s if 2 <= rolled < len(ends) + 2 else 0.0
        may_roll = rolling == 0 and rolled - trained < 2 and weights_s <= now + 1e-12
        if may_roll and rolled < batches + 2:
            rolling = rollout_s
            rolled += 1
        finished = rolled - (rolling > 0)
        if training == 0 and finished > trained:
            training = train_s
        both = rolling > 0 and training > 0
        waits = [weights_s - now] if weights_s > now + 1e-12 and rolling == 0 else []
        steps = (
            [rolling * (slow_rollout if both else 1)] * (rolling > 0) + [training * (slow_train if both else 1)] * (training > 0) + waits
        )
        step = min(steps)
        now += step
        if rolling > 0:
            rolling -= step / (slow_rollout if both else 1)
            rolling = 0.0 if rolling < 1e-12 else rolling
        if training > 0:
            training -= step / (slow_train if both else 1)
            if training < 1e-12:
                training, trained = 0.0, trained + 1
                ends.append(now)
    return (ends[-1] - ends[batches // 2 - 1]) / (batches - batches // 2)


@settings(REPEATABLE, max_examples=60)
@given(st.integers(4, 40), st.integers(4, 40), st.integers(0, 60), slow, slow)
def test_variant_b_agrees_with_play(rollout: int, train: int, sync: int, slow_rollout: float, slow_train: float) -> None:
    """Exactly where one side binds or nobody slows down; else the two chains of batches drift, and ours is an upper limit."""
    stages = replace(Stages.of_phases(rollout / 4, train / 4, sync / 4), rollout_slowdown=slow_rollout, train_slowdown=slow_train)
    found, ours = played(rollout / 4, train / 4, sync / 4, slow_rollout, slow_train, 240), iteration(BATCH, stages)
    if slow_rollout == slow_train == 1 or max(ours.rollout_busy, ours.train_busy) == 1:
        assert found == pytest.approx(ours.iteration_s)
    assert found <= ours.iteration_s * (1 + 1e-9)
