"""The asynchronous run: agreement with the exact models where those apply, the frameworks' rules, and laws of the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.decode import Admission, Requests, simulate
from rollplan.models.latency import AffineLatency, TableLatency
from rollplan.models.pipelining.asynchronous import simulate_async
from rollplan.models.pipelining.iteration import iteration
from rollplan.models.pipelining.modes import Pipelining
from rollplan.models.pipelining.pool import RolloutPool
from rollplan.models.pipelining.rules import Asynchrony, in_flight_limit
from rollplan.models.pipelining.series import steady_state
from rollplan.models.pipelining.stages import Stages, TrainingLaw

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=60)
CONSTANT = AffineLatency(1000.0)
"""A step takes one second whatever the batch."""
CURVE = TableLatency.of_batch({1: 8.4, 16: 9.45, 64: 11.7, 256: 21.4})
LENGTHS = np.random.default_rng(1).lognormal(7, 0.8, 512).astype(np.int64) + 1


def drawn(tokens: np.ndarray, count: int, seed: int = 0) -> list[int]:
    """Return the lengths in the order in which a run draws them."""
    lengths: list[int] = np.random.default_rng(seed).choice(tokens, 4096).tolist()
    return lengths[:count]


# Agreement with the exact models.


@pytest.mark.parametrize("slots", [4, 40, 200])
def test_without_staleness_a_run_is_serial_and_its_rollout_continuous_batching(slots: int) -> None:
    """One version: the rollout of `decode`, which knows all requests beforehand, then training, then the transfer."""
    lengths = drawn(LENGTHS, 150)
    requests = Requests(np.zeros(150, dtype=np.int64), np.array(lengths))
    rollout_s = simulate([requests], Admission(slots), CURVE).seconds
    run = simulate_async(
        RolloutPool(1, slots, CURVE, LENGTHS), TrainingLaw(0.1, 0.001, 7.0), Asynchrony(150, 0.0, transfer_s=3.0), versions=1, warmup=0
    )
    assert run.train_waits_rollout_s == pytest.approx(rollout_s, rel=1e-9)
    assert run.train_s == pytest.approx(7 + 15 + 0.001 * sum(lengths))
    assert run.period_s == pytest.approx(rollout_s + run.train_s + 3)
    assert (run.mean_staleness, run.max_staleness, run.discarded) == (0, 0, 0)


def test_a_free_pool_deals_its_samples_in_turn() -> None:
    """With a slot for everybody, instance i gets samples i, i + 3, i + 6, ..."""
    lengths = np.array(drawn(LENGTHS, 90))
    requests = [Requests(np.zeros(30, dtype=np.int64), lengths[start::3]) for start in range(3)]
    run = simulate_async(RolloutPool(3, 30, CURVE, LENGTHS), TrainingLaw(), Asynchrony(90, 0.0), versions=1, warmup=0)
    assert run.period_s == pytest.approx(simulate(requests, Admission(30), CURVE).seconds, rel=1e-9)


def test_latency_is_taken_at_the_mean_context_of_all_steps() -> None:
    """One sequence of 3 tokens after a prompt of 10 attends to 11, 12 and 13 tokens: with a latency linear in context, exact."""
    pool = RolloutPool(1, 2, AffineLatency(0.0001, 0.0, 1000.0), np.array([3]), prompt_tokens=10)
    assert pool.step_s()[0] == pytest.approx(12 / 1000, rel=1e-4)
    run = simulate_async(pool, TrainingLaw(), Asynchrony(1, 0.0), versions=1, warmup=0)
    assert run.period_s == pytest.approx(36 / 1000, rel=1e-4)


@pytest.mark.parametrize(("fixed_s", "token_s"), [(0.0, 1.0), (30.0, 0.5), (100.0, 1.0)])
def test_one_sample_at_a_time_with_staleness_one_is_variant_b(fixed_s: float, token_s: float) -> None:
    """Rollout i needs the weights of training i - 2 and a whole batch: the recurrence of mode (d) B, on fluctuating lengths."""
    tokens = np.arange(1, 100)
    lengths = drawn(tokens, 50)
    run = simulate_async(RolloutPool(1, 1, CONSTANT, tokens), TrainingLaw(0.0, token_s, fixed_s), Asynchrony(1, 1.0), versions=50, warmup=0)
    train_s = [fixed_s + token_s * length for length in lengths]
    series = steady_state(Pipelining("async", variant="batch"), [float(length) for length in lengths], train_s)
    assert 50 * run.period_s == pytest.approx(series.train_end_s[-1])
    assert run.max_staleness == 1


@pytest.mark.parametrize(("train_s", "slow_rollout", "slow_train"), [(10.0, 1.5, 1.25), (25.0, 2.0, 1.5), (4.0, 1.25, 2.0)])
def test_interference_agrees_with_the_closed_form(train_s: float, slow_rollout: float, slow_train: float) -> None:
    """Rollout of 10 s; one side binds, so the overlap is the other side's time."""
    rules = Asynchrony(1, 1.0, rollout_slowdown=slow_rollout, train_slowdown=slow_train)
    run = simulate_async(RolloutPool(1, 1, CONSTANT, np.array([10])), TrainingLaw(train_s), rules)
    stages = replace(Stages.of_phases(10.0, train_s), rollout_slowdown=slow_rollout, train_slowdown=slow_train)
    assert run.period_s == pytest.approx(iteration(Pipelining("async", variant="batch"), stages).iteration_s)


# The frameworks' rules.


@pytest.mark.parametrize(
    ("batch", "staleness", "limit"),
    [(32, 0, 32), (32, 1, 64), (32, 4, 160), (512, 0.1, 563), (100, 0.1, 110), (100, 0.15, 115)],
)
def test_samples_in_flight_are_staleness_plus_one_batches(batch: int, staleness: float, limit: int) -> None:
    """TRL #5650: without the plus one, staleness 0 gives no work at all. Fractions as in verl, without float surprises."""
    assert in_flight_limit(batch, staleness) == limit


def test_verls_required_samples_come_out() -> None:
    """verl: max_required = int(required * (1 + staleness) * trigger_parameter_sync_step), required = mini_batch * require_batches."""
    assert in_flight_limit(32 * 4 * 4, 0.5) == int(32 * 4 * 1.5 * 4) == 768


@REPEATABLE
@given(st.integers(1, 6), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.integers(1, 3), st.booleans())
def test_the_mean_staleness_is_never_more_than_the_bound(batch: int, staleness: float, sync_every: int, partial: bool) -> None:
    """Samples that are started and not trained on are at most (staleness + 1) batches, so they wait that long on average.

    A single sample may lag more when later ones overtake it: order `finished`, long responses.
    """
    rules = Asynchrony(batch, staleness, sync_every, partial)
    run = simulate_async(RolloutPool(2, 8, CURVE, LENGTHS), TrainingLaw(0.5), rules, versions=30, warmup=0)
    assert run.mean_staleness <= staleness + 1e-9
    whole = simulate_async(RolloutPool(2, 8, CURVE, LENGTHS), TrainingLaw(0.5), replace(rules, order="submitted"), versions=30, warmup=0)
    assert whole.max_staleness <= np.ceil(staleness)


def test_a_long_response_may_be_staler_than_the_bound() -> None:
    """One of 20 responses takes 100 times as long; others are trained on meanwhile. Whole batches wait for it instead."""
    pool = RolloutPool(1, 64, CONSTANT, np.array([10] * 19 + [1000]))
    rules = Asynchrony(8, 1.0)
    first, whole = (simulate_async(pool, TrainingLaw(1.0), replace(rules, order=order)) for order in ("finished", "submitted"))
    assert (first.max_staleness > 1, whole.max_staleness) == (True, 1)
    assert first.period_s < whole.period_s


# What a run tells.


def test_old_samples_are_discarded_reported_and_warned_of() -> None:
    """tinker-cookbook PR 822, marin #8936: discard when too old, without pacing; 2.3 % of marin's tokens were lost.

    A rollout of 200 s against 16 s between syncs is never trained on.
    """
    pool = RolloutPool(1, 10, CONSTANT, np.array([10] * 19 + [200]))
    run = simulate_async(pool, TrainingLaw(2.0), Asynchrony(8, 20.0, discard_older_than=4), versions=80)
    assert run.max_staleness <= 4
    assert 0 < run.discarded < run.discarded_tokens < 1
    assert run.outlived == pytest.approx(0.05, abs=0.02)
    assert "longer than 4 x" in run.warnings[0]
    assert "thrown away: older than 4 versions" in run.warnings[1]


def test_pacing_admission_discards_nothing() -> None:
    """prime-rl #3313, tinker-cookbook PR 822: the bound on staleness already keeps whole batches young."""
    pool = RolloutPool(1, 64, CONSTANT, np.array([10] * 19 + [1000]))
    run = simulate_async(pool, TrainingLaw(2.0), Asynchrony(8, 4.0, order="submitted", discard_older_than=4))
    assert (run.discarded, run.max_staleness <= 4) == (0, True)


def test_discarded_samples_leave_their_place_to_others() -> None:
    """Whole batches are filled up, so that training never waits for a sample that is gone."""
    pool = RolloutPool(1, 64, CONSTANT, np.array([10] * 19 + [1000]))
    run = simulate_async(pool, TrainingLaw(2.0), Asynchrony(8, 6.0, order="submitted", discard_older_than=2), versions=60)
    assert run.discarded > 0
    assert run.max_staleness <= 2


def test_a_sync_without_partial_rollout_waits_for_the_longest_sample() -> None:
    """verl #4896: sync = drain + transfer; the drain is as long as the longest response, and dominates."""
    pool = RolloutPool(4, 16, CURVE, np.array([200] * 15 + [20000]))
    rules = Asynchrony(64, 1.0, partial_rollout=False, transfer_s=0.5)
    run = simulate_async(pool, TrainingLaw(0.05), rules)
    partial = simulate_async(pool, TrainingLaw(0.05), replace(rules, partial_rollout=True))
    assert run.drain_s > 20 * run.transfer_s
    assert partial.drain_s == 0
    assert "use partial rollout" in run.warnings[-1]
    assert run.transfer_s == partial.transfer_s == pytest.approx(0.5)


def test_nobody_starts_while_a_sync_drains() -> None:
    """Two slots, 10 s per sample, training 1 s: the second pair is waited for from 11 to 20 s, and not refilled meanwhile."""
    rules = Asynchrony(1, 4.0, partial_rollout=False)
    run = simulate_async(RolloutPool(1, 2, CONSTANT, np.array([10])), TrainingLaw(1.0), rules, versions=1, warmup=0)
    assert (run.period_s, run.drain_s) == (20.0, 9.0)


def test_fewer_syncs_cost_less() -> None:
    """marin #8936: the same bound, a sync every second update; training binds, so a transfer of 5 s is paid half as often."""
    pool = RolloutPool(2, 16, CURVE, LENGTHS)
    every, second = (simulate_async(pool, TrainingLaw(10.0), Asynchrony(16, 1.0, k, transfer_s=5.0)).period_s / k for k in (1, 2))
    assert every - second == pytest.approx(2.5)


@REPEATABLE
@given(st.integers(1, 8), st.floats(0, 3), st.floats(0, 3), st.booleans(), st.sampled_from(["finished", "submitted"]))
def test_what_the_trainer_does_adds_up(batch: int, staleness: float, train_s: float, partial: bool, order: Any) -> None:
    """Training, waiting for samples, drain and transfer fill the time; idle rollout and samples in flight are within limits."""
    rules = Asynchrony(batch, staleness, 2, partial, transfer_s=0.25, order=order)
    run = simulate_async(RolloutPool(2, 4, CURVE, LENGTHS), TrainingLaw(train_s), rules, versions=10, warmup=2)
    assert run.period_s == pytest.approx(run.train_s + run.train_waits_rollout_s + run.drain_s + run.transfer_s)
    assert 0 <= run.rollout_idle_s <= run.period_s * (1 + 1e-9)
    assert 0 <= run.in_flight <= min(8, in_flight_limit(2 * batch, staleness))


# Laws, exact where latency does not depend on the batch (else samples that start earlier slow others down).


@REPEATABLE
@given(
    st.integers(1, 8), st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0]), min_size=2, max_size=2), st.integers(1, 3), st.data()
)
def test_more_staleness_is_never_slower(batch: int, levels: list[float], sync_every: int, data: st.DataObject) -> None:
    """Everybody starts no later, so everything ends no later."""
    pool = RolloutPool(
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 6)),
        CONSTANT,
        np.array(data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))),
    )
    train = TrainingLaw(data.draw(st.integers(0, 20)))
    rules = Asynchrony(
        batch,
        min(levels),
        sync_every,
        transfer_s=data.draw(st.sampled_from([0.0, 3.0])),
        order=data.draw(st.sampled_from(["finished", "submitted"])),
    )
    less, more = (simulate_async(pool, train, replace(rules, staleness=level), versions=12, warmup=0) for level in sorted(levels))
    assert more.period_s <= less.period_s + 1e-9


@REPEATABLE
@given(st.integers(1, 8), st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.integers(1, 3), st.data())
def test_partial_rollout_that_costs_nothing_is_never_slower(batch: int, staleness: float, sync_every: int, data: st.DataObject) -> None:
    """It spares the drain."""
    pool = RolloutPool(
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 6)),
        CONSTANT,
        np.array(data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))),
    )
    rules = Asynchrony(batch, staleness, sync_every, transfer_s=3.0)
    train = TrainingLaw(data.draw(st.integers(0, 20)))
    partial, drained = (simulate_async(pool, train, replace(rules, partial_rollout=kept), versions=12, warmup=0) for kept in (True, False))
    assert partial.period_s <= drained.period_s + 1e-9


def test_computing_tokens_again_is_paid_in_every_sync() -> None:
    """One sequence of 100 tokens, interrupted by every training of 10 s: 10, 20, ... tokens are computed again."""
    pool = RolloutPool(1, 1, CONSTANT, np.array([100]), prompt_tokens=50)
    free = simulate_async(pool, TrainingLaw(10.0), Asynchrony(1, 4.0))
    paid = simulate_async(pool, TrainingLaw(10.0), Asynchrony(1, 4.0, reprefill_s_per_token=0.01))
    assert free.transfer_s == 0
    # A sync comes 10 s after a sample ended, when the next one has a prompt of 50 tokens and 10 of its own.
    assert paid.transfer_s == pytest.approx(0.6)


# Refusals.


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("batch", 0, "batch must be at least 1"),
        ("staleness", -1.0, "staleness must be at least 0"),
        ("order", "random", "order must be one of finished, submitted, got random"),
        ("rollout_slowdown", 0.9, "rollout_slowdown must be at least 1"),
        ("discard_older_than", -1, "discard_older_than must be at least 0"),
    ],
)
def test_rules_out_of_range_are_refused(field: str, value: Any, message: str) -> None:
    """The message names the field and its limit."""
    with pytest.raises(ValueError, match=message):
        replace(Asynchrony(4, 1.0), **{field: value})


def test_only_partial_rollout_computes_tokens_again() -> None:
    """A parameter that does nothing is a mistake of the user."""
    with pytest.raises(ValueError, match="reprefill_s_per_token belongs to partial rollout"):
        Asynchrony(4, 1.0, partial_rollout=False, reprefill_s_per_token=0.1)
