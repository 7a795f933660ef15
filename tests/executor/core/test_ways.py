"""Ways of overlapping stages: the core against the recurrences of `rollplan.models.pipelining`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.core.events import Instruction, Rollout, Sync, Train
from rollplan.executor.core.records import Record
from rollplan.executor.core.rehearse import rehearse
from rollplan.models.pipelining.iteration import iteration
from rollplan.models.pipelining.modes import Pipelining
from rollplan.models.pipelining.series import steady_state
from rollplan.models.pipelining.stages import Stages, TrainingLaw

from .books import book, job

SECONDS = st.integers(1, 40).map(lambda tenths: tenths / 10)


@st.composite
def stages(draw: st.DrawFn) -> tuple[Stages, int]:
    """One iteration of up to 20 samples, and on how many nodes it runs."""
    finish = draw(st.lists(SECONDS, min_size=1, max_size=20, unique=True))
    law = TrainingLaw(per_sample_s=draw(SECONDS) / 10, fixed_per_chunk_s=draw(st.sampled_from([0.0, 0.3])))
    return Stages(np.array(finish), law, transfer_s=draw(st.sampled_from([0.0, 0.4, 5.0]))), draw(st.integers(1, 3))


def executed(one: Stages, nodes: int, way: str, **settings: Any) -> list[Record]:
    """Three iterations of a job whose samples finish as the stages say, on any number of nodes."""

    def seconds(task: Instruction) -> float:
        if isinstance(task, Train):
            return one.train.seconds(len(task.samples), 0)
        assert isinstance(task, Sync)
        return one.sync_s

    def finish(task: Rollout) -> Sequence[float]:
        return [float(one.finish_s[sample]) for sample in task.samples]

    run = job("A", [f"n{node}" for node in range(nodes)], samples=one.samples, way=way, **settings)
    return rehearse(book(run), seconds, finish)[0]


def starts(records: list[Record]) -> list[float]:
    """When each iteration begins to roll out."""
    return [min(one.start_s for one in records if (one.kind, one.iteration) == ("rollout", number)) for number in range(3)]


@given(stages())
def test_serial_takes_all_three_in_turn(given_stages: tuple[Stages, int]) -> None:
    """g + t + w (docs/modes.md)."""
    one, nodes = given_stages
    step_s = iteration(Pipelining("serial"), one).iteration_s
    assert starts(executed(one, nodes, "serial")) == pytest.approx([0.0, step_s, 2 * step_s])


@given(stages(), st.data())
def test_mini_batches_take_as_long_as_their_recurrence(given_stages: tuple[Stages, int], data: st.DataObject) -> None:
    """f_k = max(f_(k-1), g_k) + t_k, then the sync."""
    one, nodes = given_stages
    chunks = data.draw(st.integers(1, one.samples))
    step_s = iteration(Pipelining("mini-batch", chunks=chunks), one).iteration_s
    records = executed(one, nodes, "mini-batch", chunks=chunks)
    assert starts(records) == pytest.approx([0.0, step_s, 2 * step_s])
    assert sum(record.kind == "train" for record in records) == 3 * chunks


@given(stages(), st.data())
def test_dynamic_batches_take_as_long_as_their_recurrence(given_stages: tuple[Stages, int], data: st.DataObject) -> None:
    """A free trainer takes all that is ready, if at least `fill` or the rest.

    No two ends fall together, by distinct ends of samples and odd seconds of training: which comes first is chance in reality.
    """
    one, nodes = given_stages
    one = Stages(one.finish_s, TrainingLaw(one.train.per_sample_s + 0.000123, fixed_per_chunk_s=0.00017), transfer_s=one.transfer_s)
    fill = data.draw(st.integers(1, one.samples))
    step_s = iteration(Pipelining("dynamic-batch", fill=fill), one).iteration_s
    assert starts(executed(one, nodes, "dynamic-batch", fill=fill)) == pytest.approx([0.0, step_s, 2 * step_s])


def series(rollout_s: Sequence[float], train_s: Sequence[float], sync_s: float, way: str, **settings: Any) -> tuple[Any, Any]:
    """Ends of the rollouts and of the trainings (their last chunks), in seconds."""

    def seconds(task: Instruction) -> float:
        if isinstance(task, Rollout):
            return rollout_s[task.iteration]
        if isinstance(task, Train):
            return train_s[task.iteration] * len(task.samples) / 5
        return sync_s

    run = job("A", ["n0"], samples=5, iterations=len(rollout_s), way=way, staleness=1, **settings)
    records, _ = rehearse(book(run), seconds)
    trains = {one.iteration: one.end_s for one in records if one.kind == "train"}
    return np.array([one.end_s for one in records if one.kind == "rollout"]), np.array(list(trains.values()))


@st.composite
def fluctuating(draw: st.DrawFn) -> tuple[list[float], list[float], float]:
    """Rollouts and trainings of some iterations, and a sync that is over before the next training is."""
    size = draw(st.integers(2, 12))
    times = st.lists(SECONDS, min_size=size, max_size=size)
    rollout_s, train_s = draw(times), draw(times)
    return rollout_s, train_s, draw(st.floats(0.0, 1.0)) * min(train_s)


@given(fluctuating())
def test_one_step_follows_its_recurrence(one: tuple[list[float], list[float], float]) -> None:
    """S_(i+1) = S_i + max(g_i, t_(i-1)) + sync; the last training needs no sync before it, as no rollout follows."""
    rollout_s, train_s, sync_s = one
    expected = steady_state(Pipelining("one-step"), *one)
    rollout_end, train_end = series(rollout_s, train_s, sync_s, "one-step")
    saved_s = np.zeros(len(train_s))
    saved_s[-1] = sync_s if len(train_s) > 1 else 0.0
    assert rollout_end == pytest.approx(expected.rollout_end_s)
    assert train_end == pytest.approx(expected.train_end_s - saved_s)


@given(fluctuating())
def test_async_with_whole_batches_follows_its_recurrence(one: tuple[list[float], list[float], float]) -> None:
    """G_i = max(G_(i-1), Tr_(i-2) + sync) + g_i and Tr_i = max(Tr_(i-1), G_i) + t_i (variant B)."""
    expected = steady_state(Pipelining("async", variant="batch"), *one)
    rollout_end, train_end = series(*one, "async-batch")
    assert rollout_end == pytest.approx(expected.rollout_end_s)
    assert train_end == pytest.approx(expected.train_end_s)


@given(fluctuating(), st.integers(1, 5))
def test_async_streamed_lies_between_its_two_variants(one: tuple[list[float], list[float], float], fill: int) -> None:
    """No faster than A, whose training may end with its rollout, no slower than B, which waits for whole batches."""
    _, train_end = series(*one, "async-streamed", fill=fill)
    streamed, batch = (steady_state(Pipelining("async", variant=variant), *one).train_end_s for variant in ("streamed", "batch"))
    assert np.all(train_end >= streamed - 1e-9)
    assert np.all(train_end <= batch + 1e-9)


@pytest.mark.parametrize(("way", "step_s"), [("serial", 2.02), ("one-step", 1.02), ("async-batch", 1.01)])
def test_ways_of_a_balanced_job(way: str, step_s: float) -> None:
    """Rollout and training of 1 s, sync of 0.02 s: the first column of the table in docs/modes.md."""
    _, train_end = series([1.0] * 41, [1.0] * 41, 0.02, way)
    assert (train_end[38] - train_end[18]) / 20 == pytest.approx(step_s)
