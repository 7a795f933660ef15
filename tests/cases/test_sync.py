"""Users' questions about weight sync: what does it cost, and would fewer syncs help?

Cases: marin-community/marin 8936 (6), verl-project/verl 4896 (40). Seconds per sync that verl published are data
(tests/models/test_reference_data.py), not a formula.

Left out: how long stages of 4896 take, and how its late 1500 s part into drain and transfer. Both are varied here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rollplan import Plan
from rollplan.models.latency import AffineLatency
from rollplan.models.pipelining.asynchronous import simulate_async
from rollplan.models.pipelining.pool import RolloutPool
from rollplan.models.pipelining.rules import Asynchrony
from rollplan.models.pipelining.stages import TrainingLaw
from rollplan.models.plan_split import PlannedSplit
from rollplan.planner.what_if import what_if

# Case 6, marin 8936: the same 32 + 8 GPUs, three degrees of asynchrony.

SNOWBALL = "06_weights_every_second_update"
LONGER_S, SHORTER_S, SYNC_S = 29.464, 18.824, 17.824
STAGES = [(LONGER_S, SHORTER_S), (SHORTER_S, LONGER_S)]
"""Rollout and training: the three totals say how long the longer and the shorter one take, not which is which."""


@pytest.mark.parametrize(("rollout_s", "train_s"), STAGES)
@pytest.mark.parametrize(
    ("way", "sync_s", "total_s"), [("serial", SYNC_S, 1652.8), ("one-step", SYNC_S, 1182.2), ("one-step", SYNC_S / 2, 959.7)]
)
def test_three_degrees_of_asynchrony_on_the_same_gpus(
    split: Callable[..., PlannedSplit], rollout_s: float, train_s: float, way: str, sync_s: float, total_s: float
) -> None:
    """25 updates. Three totals, three unknowns: that they fit proves nothing, that both orders of the stages do is used below."""
    changes = {"rollout.h100": {8: f"{rollout_s} s"}, "train.h100": {32: f"{train_s} s"}, "pipelining": [way], "sync": f"{sync_s} s"}
    found = split(SNOWBALL, changes)
    assert 25 * found.choice.iteration_s == pytest.approx(total_s, abs=1.0)


def test_the_first_gain_is_overlap_and_the_second_is_sync_alone(split: Callable[..., PlannedSplit]) -> None:
    """Speed-ups of 1.40 and 1.72. From the first to the second asynchronous row nothing changes but the sync: the same busy
    seconds of both stages, the same staleness of 1, and half a sync less."""
    serial = split(SNOWBALL, {"pipelining": ["serial"]}).choice
    every, second = (split(SNOWBALL, {"sync": f"{seconds} s"}).choice for seconds in (SYNC_S, SYNC_S / 2))
    assert serial.iteration_s / every.iteration_s == pytest.approx(1.40, abs=0.005)
    assert serial.iteration_s / second.iteration_s == pytest.approx(1.72, abs=0.005)
    assert (every.rollout_s, every.train_s, every.staleness) == (second.rollout_s, second.train_s, second.staleness)
    assert every.iteration_s - second.iteration_s == pytest.approx(SYNC_S / 2)
    assert serial.iteration_s - every.iteration_s == pytest.approx(min(every.rollout_s, every.train_s))


def test_what_if_answers_the_question_of_fewer_syncs(made: Callable[..., Plan]) -> None:
    """`rollplan what-if plan.json sync=*0.5`: 8.9 s per update."""
    start = made(SNOWBALL)
    fewer = what_if(start, ["sync=*0.5"])[0].plan
    assert fewer is not None
    assert fewer.splits[0].choice.iteration_s == pytest.approx(959.7 / 25, abs=0.05)


# Case 40, verl 4896: a sync of 25 minutes.

MINUTES = "40_sync_of_minutes"


@pytest.mark.parametrize("sync_s", [5.0, 180.0, 1500.0])
@pytest.mark.parametrize("stage_s", [100.0, 600.0, 3000.0])
def test_a_measured_sync_counts_as_it_is(split: Callable[..., PlannedSplit], sync_s: float, stage_s: float) -> None:
    """Both sides wait for it, whatever the stages take; no formula replaces it."""
    changes = {"sync": f"{sync_s} s", "rollout.h200": {4: f"{stage_s} s"}, "train.h200": {2: f"{stage_s} s"}}
    found = split(MINUTES, changes).choice
    assert found.iteration_s == pytest.approx(stage_s + sync_s)
    assert found.rollout_busy == found.train_busy == pytest.approx(stage_s / (stage_s + sync_s))


@pytest.mark.parametrize("name", [SNOWBALL, MINUTES])
def test_a_sync_above_a_tenth_of_the_step_is_a_line_of_its_own(screen: Callable[[str], str], name: str) -> None:
    """38 % of the step of 6, 71 % of that of 40: both sides idle, and the screen says they wait for each other."""
    assert " sync " in screen(name)


@pytest.mark.parametrize("longest", [600, 3000])
def test_without_partial_rollout_the_drain_grows_with_the_longest_sample(longest: int) -> None:
    """The wait for running samples is inside the sync: transfer stays, drain follows the tail and dominates it. Mean 1,500 tokens."""
    lengths = np.array([1500 - longest // 10] * 60 + [1500 + longest] * 4)
    pool = RolloutPool(4, 16, AffineLatency(20.0), lengths)
    rules = Asynchrony(64, 0.5, sync_every=4, partial_rollout=False, transfer_s=5.0)
    run = simulate_async(pool, TrainingLaw(0.05), rules, versions=10, warmup=3)
    partial = simulate_async(pool, TrainingLaw(0.05), Asynchrony(64, 0.5, sync_every=4, transfer_s=5.0), versions=10, warmup=3)
    assert run.transfer_s == partial.transfer_s == pytest.approx(5.0)
    assert partial.drain_s == 0.0
    assert run.drain_s > 0.8 * 0.020 * longest > run.transfer_s


@pytest.mark.parametrize(("transfer_s", "warned"), [(5.0, False), (1500.0, True)])
def test_a_sync_above_a_tenth_of_the_time_is_warned_about_with_its_parts(transfer_s: float, warned: bool) -> None:
    """Staleness 0.5, a sync every 4 steps, mean 1,500 tokens; early 5 s, late 1500 s."""
    pool = RolloutPool(4, 64, AffineLatency(20.0), np.array([1000, 1500, 2000]))
    rules = Asynchrony(64, 0.5, sync_every=4, transfer_s=transfer_s)
    run = simulate_async(pool, TrainingLaw(2.0), rules, versions=5, warmup=3)
    sync = [warning for warning in run.warnings if "weight sync takes" in warning]
    assert bool(sync) is warned
    assert all("drain" in warning and "transfer" in warning for warning in sync)
