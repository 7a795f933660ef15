"""Seconds of generation: one instance stands for all, a part for a long queue, a rate for batches that overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.decode import Admission, Generation, Requests, simulate
from rollplan.models.latency import AffineLatency, IntArray, TableLatency
from rollplan.models.lengths import REFERENCE_LENGTHS
from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.sampling import stratified
from rollplan.models.stages.rollout import SHARES, Dispatch, Engine, rollout_times
from rollplan.models.stages.work import Work

AFFINE = AffineLatency(8.44, 0.0544, 0.01)
TABLE = TableLatency(np.array([1, 32, 256]), np.array([512.0, 8192.0]), np.array([[8.4, 8.5], [10.3, 12.9], [21.4, 42.0]]))
LAWS = {
    "lognormal": lognormal_law(3000, 16384, 0.8),
    "fig. 7": REFERENCE_LENGTHS["streamrl-20k"],
    "equal": lognormal_law(3000, 16384, 0.01),
}
PROMPT_TOKENS = 500

slots_only = Engine(AFFINE, 64, 10**7, 1e-5)
cache_binds = Engine(AFFINE, 256, 80_000, 1e-5)
table_law = Engine(TABLE, 256, 200_000, 1e-5)
ENGINES = {"slots": slots_only, "cache": cache_binds, "table": table_law}


def typical(law: str, samples: int) -> Work:
    """One iteration of a law, 8 samples of each prompt of 500 tokens."""
    return Work(stratified(LAWS[law], samples), PROMPT_TOKENS, 8)


def simulated(work: Work, engine: Engine, parts: list[IntArray]) -> Generation:
    """All instances, event by event, each with its responses in the order given."""
    requests = [
        Requests(np.full(part.size, work.prompt_tokens), part, np.full(part.size, round(work.prefill_tokens)))
        for part in parts
        if part.size
    ]
    return simulate(requests, Admission(engine.slots, engine.kv_tokens, "preempt"), engine.latency, engine.prefill_s_per_token)


def all_instances(work: Work, engine: Engine, instances: int, dispatch: Dispatch, draws: int) -> list[Generation]:
    """What the short cut stands for: sorted and dealt out, or shuffled and dealt out, with several seeds."""
    if dispatch == "lpt":
        return [simulated(work, engine, [work.outputs[first::instances] for first in range(instances)])]
    shuffled = [np.random.default_rng(seed).permutation(work.outputs) for seed in range(draws)]
    return [simulated(work, engine, [order[first::instances] for first in range(instances)]) for order in shuffled]


# One instance for all.

CASES = [(256, 4), (256, 16), (1024, 4), (1024, 16), (1024, 300), (64, 64)]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("samples", "instances"), CASES)
def test_with_known_lengths_the_first_instance_is_the_last_to_end(law: str, samples: int, instances: int, engine: Engine) -> None:
    """It gets the longest of every deal. Exact but for equal lengths in a full cache, where order among equals matters."""
    work = typical(law, samples)
    found = rollout_times(work, engine, [instances], "lpt")[0]
    (right,) = all_instances(work, engine, instances, "lpt", 1)
    assert found.seconds == pytest.approx(right.seconds, rel=0.01 if law == "equal" else 1e-9)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("samples", "instances"), CASES)
def test_without_known_lengths_one_instance_stands_for_the_mean_over_shuffles(
    law: str, samples: int, instances: int, engine: Engine
) -> None:
    """Within 6 % (found: -1.6 to +5.2 %), of the same size as one standard deviation of the draws (0.3 to 11 %).

    A mean instance with the longest response was up to 15 % too short where slots or cache bind: with 16 instances one of
    them has many more tokens than the mean.
    """
    work = typical(law, samples)
    found = rollout_times(work, engine, [instances], "random")[0]
    right = np.mean([drawn.seconds for drawn in all_instances(work, engine, instances, "random", 6)])
    assert found.seconds == pytest.approx(right, rel=0.06)


@pytest.mark.parametrize("dispatch", ["lpt", "random"])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("samples", "instances"), CASES)
def test_shares_finish_when_they_do_in_all_instances(samples: int, instances: int, engine: Engine, dispatch: Dispatch) -> None:
    """The quarter, the half and three quarters of all samples, within 8 % of the whole time.

    One sample for each of 64 instances finishes at its own time, not with the longest: mini-batches overlap there, too.
    """
    work = typical("lognormal", samples)
    found = rollout_times(work, engine, [instances], dispatch)[0]
    draws = all_instances(work, engine, instances, dispatch, 4)
    for quarter in (1, 2, 3):
        right = np.mean([np.sort(drawn.finish_s)[samples * quarter // 4 - 1] for drawn in draws])
        assert abs(found.finish[SHARES * quarter // 4 - 1] - right) < 0.08 * found.seconds


# A part for a long queue.


@pytest.mark.parametrize("dispatch", ["lpt", "random"])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("law", "samples", "instances"), [("lognormal", 2048, 2), ("fig. 7", 1500, 1), ("equal", 4096, 3)])
def test_the_middle_of_a_long_queue_runs_at_the_steady_rate(
    law: str, samples: int, instances: int, engine: Engine, dispatch: Dispatch
) -> None:
    """Only start and end are simulated: within 7 % (found: -5.0 to +5.5 %); half of the samples within 13 %.

    With known lengths half of the samples were up to 12 % of the whole time too early where the cache binds, otherwise 5 %.
    """
    work = typical(law, samples)
    found = rollout_times(work, engine, [instances], dispatch)[0]
    draws = all_instances(work, engine, instances, dispatch, 2)
    assert found.seconds == pytest.approx(np.mean([drawn.seconds for drawn in draws]), rel=0.07)
    half = np.mean([np.sort(drawn.finish_s)[samples // 2 - 1] for drawn in draws])
    assert abs(found.finish[SHARES // 2 - 1] - half) < 0.13 * found.seconds


# A rate for batches that overlap.


@pytest.mark.parametrize(
    ("engine", "within"),
    [
        (Engine(AFFINE, 16, 10**7, 1e-5), 0.005),
        (slots_only, 0.005),
        (Engine(TABLE, 64, 10**7, 1e-5), 0.005),
        (cache_binds, 0.06),
        (table_law, 0.07),
    ],
)
@pytest.mark.parametrize("law", LAWS)
def test_overlapping_batches_run_at_the_rate_of_slots_that_are_always_filled(law: str, engine: Engine, within: float) -> None:
    """Against the middle of 5 batches in one queue: 0.3 % where slots bind, 6 % where a full cache throws sequences out."""
    work = typical(law, 1024)
    (found,) = rollout_times(work, engine, [1], "random", staleness=50.0)
    rng = np.random.default_rng(1)
    queue = simulated(work, engine, [np.concatenate([rng.permutation(work.outputs) for _ in range(5)])])
    ends = np.sort(queue.finish_s)
    low, high = ends.size // 5, 4 * ends.size // 5
    assert found.steady_s == pytest.approx((ends[high] - ends[low]) / (high - low) * work.samples, rel=within)


def test_the_longest_response_bounds_overlapping_batches() -> None:
    """On very many instances the time is that of 16384 tokens, spread over 1 + staleness iterations."""
    work = typical("lognormal", 1024)
    times = [rollout_times(work, Engine(AFFINE, 64, 10**7), [1024], "random", staleness)[0].steady_s for staleness in (0.0, 1.0, 3.0)]
    alone = work.longest - PROMPT_TOKENS
    floor = alone * AFFINE.seconds(np.array([1]), np.array([0.0]), np.array([1]))[0]
    assert times[0] > times[1] > times[2]
    for seconds, staleness in zip(times, (0.0, 1.0, 3.0), strict=True):
        assert seconds >= floor / (1 + staleness)


# Laws.

works = st.builds(
    lambda lengths, prompt, group: Work(np.array(lengths), prompt, group),
    st.lists(st.integers(1, 300), min_size=1, max_size=80),
    st.integers(0, 50),
    st.integers(1, 8),
)
engines = st.builds(
    lambda slots, cache, fixed, each, kilo: Engine(AffineLatency(fixed, each, kilo), slots, cache, 1e-4),
    st.integers(1, 40),
    st.integers(400, 4000),
    st.floats(1, 20),
    st.floats(0, 1),
    st.floats(0, 1),
)
dispatches = st.sampled_from(["lpt", "random"])


@given(works, engines, dispatches, st.floats(0, 4))
def test_shares_ascend_and_the_last_ends_the_rollout(work: Work, engine: Engine, dispatch: Dispatch, staleness: float) -> None:
    """As many as promised, whatever the number of samples; overlapping batches are no slower than one after the other."""
    counts = [1, 2, work.samples]
    for times in rollout_times(work, engine, counts, dispatch, staleness):
        assert len(times.finish) == SHARES
        assert all(earlier <= later for earlier, later in pairwise(times.finish))
        assert times.finish[0] > 0
        assert times.finish[-1] == times.seconds
        assert 0 < times.steady_s <= times.seconds
        assert times.preempted >= 0


@given(works, engines, dispatches)
def test_counts_asked_together_get_what_they_get_alone(work: Work, engine: Engine, dispatch: Dispatch) -> None:
    """All instances are simulated at once, and equal queues only once."""
    counts = list(range(1, work.samples + 1, 3))
    together = rollout_times(work, engine, counts, dispatch)
    for count, found in zip(counts, together, strict=True):
        (alone,) = rollout_times(work, engine, [count], dispatch)
        assert (found.seconds, found.steady_s) == pytest.approx((alone.seconds, alone.steady_s), rel=1e-9)
        assert found.finish == pytest.approx(alone.finish, rel=1e-9)


@given(works, st.integers(1, 40), st.floats(1, 20), st.floats(0, 1))
def test_with_known_lengths_more_instances_are_never_slower(work: Work, slots: int, fixed: float, each: float) -> None:
    """Each instance then has a part of the responses that it had, as long as memory is no matter."""
    engine = Engine(AffineLatency(fixed, each), slots, 10**9)
    times = rollout_times(work, engine, list(range(1, work.samples + 1)), "lpt")
    for fewer, more in pairwise(times):
        assert more.seconds <= fewer.seconds * (1 + 1e-9)
        assert more.steady_s <= fewer.steady_s * (1 + 1e-9)


@pytest.mark.parametrize("dispatch", ["lpt", "random"])
def test_a_sample_of_its_own_instance_takes_steps_times_latency(dispatch: Dispatch) -> None:
    """One response of one token, and one of 1000 tokens behind a prompt that costs 5 ms."""
    engine = Engine(AffineLatency(10.0), 8, 10**6, 1e-3)
    (token,) = rollout_times(Work(np.array([1]), 0, 1), engine, [1], dispatch)
    assert (token.seconds, token.finish) == (pytest.approx(0.010), pytest.approx([0.010] * SHARES))
    (long,) = rollout_times(Work(np.array([1000]), 5, 1), engine, [1], dispatch)
    assert long.seconds == pytest.approx(10.005)


def test_a_sequence_that_no_instance_can_hold_is_refused() -> None:
    """The caller leaves such engines out; here it is a fault."""
    with pytest.raises(ValueError, match="needs 1500 tokens of KV cache, the instance has 1499"):
        rollout_times(Work(np.array([1000, 3]), 500, 1), Engine(AFFINE, 8, 1499), [1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"outputs": []}, "outputs must hold at least one response of at least one token, got []"),
        ({"outputs": [3, 0]}, "outputs must hold at least one response of at least one token, got [3, 0]"),
        ({"prompt_tokens": -1}, "prompt_tokens must be at least 0, got -1"),
        ({"samples_per_prompt": 0}, "samples_per_prompt must be at least 1, got 0"),
        ({"updates": 2}, "updates must divide the 3 samples, got 2"),
    ],
)
def test_work_cannot_be_built_wrong(values: dict[str, object], message: str) -> None:
    """Field, rule, value."""
    given_values = {"outputs": [1, 2, 3], "prompt_tokens": 5, "samples_per_prompt": 1, **values}
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        Work(**given_values)
    assert str(refused.value) == message


def test_work_counts_tokens_as_training_and_prefill_see_them() -> None:
    """Responses 3 and 1 to one prompt of 10: 24 trained, 5 computed per sample, 13 the longest."""
    work = Work(np.array([1, 3]), 10, 2)
    assert work.outputs.tolist() == [3, 1]
    assert (work.samples, work.tokens, work.prefill_tokens, work.longest) == (2, 24, 5.0, 13)
    assert work.token_pairs == 13**2 + 11**2
    assert work.steady_context == pytest.approx(10 + (9 + 1) / 2 / (2 * 2))
