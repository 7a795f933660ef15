"""The smallest staleness that pays, and the reading of idle ratios: users' questions with their answers."""

from __future__ import annotations

import numpy as np
import pytest

from rollplan.models.latency import AffineLatency, TableLatency
from rollplan.models.pipelining.pool import RolloutPool
from rollplan.models.pipelining.reading import explain_idle, idle_contradiction
from rollplan.models.pipelining.rules import Asynchrony
from rollplan.models.pipelining.stages import TrainingLaw
from rollplan.models.pipelining.staleness import flat_part, smallest_staleness

CURVE = TableLatency.of_batch({1: 8.4, 8: 9.05, 16: 9.45, 32: 10.3, 64: 11.7, 128: 15.25})
LONG_TAIL = np.random.default_rng(1).lognormal(7.5, 1.0, 2048).astype(np.int64) + 1
LEVELS = (0, 1, 2, 3, 4)


def test_a_measured_ladder_has_a_flat_part() -> None:
    """verl docs/advance/fully_async.md, 7B on 128 GPUs, seconds per step by staleness: 0.3 is enough, 0.5 is equal within noise."""
    flat = flat_part({0: 231.34, 0.1: 171.30, 0.3: 146.11, 0.5: 150.63})
    assert (flat.smallest, flat.levels) == (0.3, (0.3, 0.5))


def test_without_tolerance_only_the_fastest_level_is_left() -> None:
    """So a tool without noise would follow noise."""
    assert flat_part({0: 10.0, 1: 9.0, 2: 8.9}, tolerance=0).levels == (2,)
    assert flat_part({0: 10.0, 1: 9.0, 2: 8.9}).levels == (1, 2)


@pytest.mark.parametrize("train_s", [0.5, 1.0, 2.0])
def test_with_constant_times_one_level_is_enough(train_s: float) -> None:
    """prime-rl #391: the slower side binds whatever the level. Equal lengths, one batch fills the engines, latency is constant.

    Training takes half, all and twice of a rollout of 64 s; the period is the longer of both.
    """
    pool = RolloutPool(4, 16, AffineLatency(1000.0), np.array([64]))
    ladder = smallest_staleness(pool, TrainingLaw(train_s), Asynchrony(64, 0.0), LEVELS)
    assert ladder.flat.smallest == 1
    assert ladder.flat.levels == (1, 2, 3, 4)
    assert ladder.runs[1].period_s == pytest.approx(max(64.0, 64 * train_s), rel=0.04)
    assert ladder.runs[0].period_s == pytest.approx(64 + 64 * train_s)


def test_engines_that_gain_from_concurrency_want_more() -> None:
    """The same equal lengths, but a batch of 16 leaves the engines almost empty: more in flight costs them next to nothing."""
    pool = RolloutPool(4, 64, CURVE, np.array([2000]))
    ladder = smallest_staleness(pool, TrainingLaw(0.05), Asynchrony(16, 0.0), LEVELS)
    assert ladder.flat.smallest > 1
    assert ladder.runs[4].in_flight > 2 * ladder.runs[1].in_flight


def test_variance_wants_more() -> None:
    """prime-rl #391: the mean rollout of a batch is no longer than training, but its longest samples are."""
    equal = RolloutPool(4, 64, CURVE, np.array([round(LONG_TAIL.mean())]))
    tailed = RolloutPool(4, 64, CURVE, LONG_TAIL)
    train, rules = TrainingLaw(0.3), Asynchrony(128, 0.0, order="submitted")
    assert smallest_staleness(equal, train, rules, LEVELS).flat.smallest == 1
    assert smallest_staleness(tailed, train, rules, LEVELS).flat.smallest > 1


def test_fractions_help_at_once_and_saturate() -> None:
    """The shape of verl's ladder: most of the gain comes from the first fractions, and the rest of the ladder is flat.

    Inputs of the published run (lengths, engines, batch in samples) are not stated, so the numbers are not ours to predict.
    """
    pool = RolloutPool(8, 64, CURVE, LONG_TAIL)
    rules = Asynchrony(64, 0.0, sync_every=4, transfer_s=2.0)
    ladder = smallest_staleness(pool, TrainingLaw(0.4), rules, (0, 0.1, 0.3, 0.5, 1.0), versions=20)
    periods = [ladder.runs[level].period_s for level in (0, 0.1, 0.3, 0.5, 1.0)]
    assert periods[0] > 1.1 * periods[1] > periods[2]
    assert ladder.flat.smallest <= 0.5
    assert {0.5, 1.0} <= set(ladder.flat.levels)
    assert f"staleness {ladder.flat.smallest:g}: " in ladder.reason
    assert "training binds" in ladder.reason
    assert "equal within 4%" in ladder.reason


def test_a_ladder_needs_levels() -> None:
    """Nothing has no smallest."""
    with pytest.raises(ValueError, match="at least one level of staleness, got none"):
        flat_part({})


# Idle ratios.


@pytest.mark.parametrize(
    ("trainer", "rollout", "binding"), [(0.5, 0.02, "rollout"), (0.02, 0.5, "training"), (0.4, 0.5, "coordination"), (0.0, 0.0, "nothing")]
)
def test_idle_ratios_name_who_binds(trainer: float, rollout: float, binding: str) -> None:
    """verl #7601: the table that users asked for; both near 0 and still slow was #6693."""
    assert explain_idle(trainer, rollout).binding == binding


def test_the_reading_says_what_to_do() -> None:
    """verl fully_async, tool use: the trainer waits 40.6 of 221.4 s."""
    found = explain_idle(40.6 / 221.4, 0.0)
    assert found.text == "trainer idle 18%, rollout idle 0%: rollout binds; move GPUs to it, raise samples in flight, or shorten responses"


def test_an_idle_ratio_above_one_is_refused() -> None:
    """Percent instead of shares."""
    with pytest.raises(ValueError, match="trainer_idle must be from 0 to 1"):
        explain_idle(40.0, 0.0)


def test_work_that_does_not_fit_into_the_step_is_found() -> None:
    """verl docs/advance/fully_async.md, 32 GPUs: update 313.8 s in a step of 294.8 s; the cell is swapped with 269.8 s."""
    found = idle_contradiction("trainer", 21.3 / 294.8, 294.8, 313.8)
    assert found == "trainer: 313.8 s of work do not fit into a step of 294.8 s; values may be swapped, or summed over several steps"
    assert idle_contradiction("trainer", 21.3 / 294.8, 294.8, 269.8) is None


def test_a_ratio_that_the_update_alone_contradicts_is_not_trusted() -> None:
    """A trainer that updates for 80 % of the step cannot idle for half of it."""
    assert idle_contradiction("trainer", 0.5, 100.0, 80.0) == (
        "trainer: reported idle 50%, but work alone fills 80% of the step; it idles 20% at most"
    )


def test_a_ratio_of_zero_beside_little_work_is_not_trusted() -> None:
    """verl #6693: the ratio counted one pause only, and both sides read 0."""
    found = idle_contradiction("rollout", 0.0, 100.0, 40.0)
    assert found is not None
    assert "only 40% of the step is measured work; 60% of the step are neither" in found
