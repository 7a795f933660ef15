"""The rounds: laws are recovered, prefill stands apart, disturbances are told from spread, and it ends when it should."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.profilers.rollout.measure import LEAST_ROUNDS, Wanted, measure
from rollplan.profilers.rollout.series import PrefillSeries, Run, rounds_s, typical
from rollplan.profilers.worker import PROGRESS, WorkerError

from .fake import FakeEngine

BATCHES = [1, 2, 4, 8, 12, 16, 24, 32]


def silent(line: str) -> None:
    """Keep the progress to itself."""


def measured(engine: FakeEngine, **wanted: Any) -> dict[str, Any]:
    return measure(engine, Wanted(**wanted), engine.clock, silent)


def by_point(answer: dict[str, Any]) -> dict[tuple[int, int], list[float]]:
    return {(one["batch"], one["context"]): one["ms"] for one in answer["points"]}


@given(
    fixed=st.floats(1, 30),
    batch_ms=st.floats(0, 1),
    kv_ms=st.floats(0, 2),
    prefill_us=st.floats(0, 500),
    chunk=st.sampled_from([10**9, 2048, 700]),
)
@settings(max_examples=15)
def test_a_law_without_noise_is_recovered_exactly(fixed: float, batch_ms: float, kv_ms: float, prefill_us: float, chunk: int) -> None:
    """Every point and the prefill, also where prompts come in over several steps while others decode already.

    Prompts that come in late make sequences of different age: the mean context may miss by less than a token. Short
    requests leave less context behind than long ones: the prefill misses that part of the law, 4.5 tokens in 12 steps.
    """
    engine = FakeEngine(law=(fixed, batch_ms, kv_ms), prefill_s=prefill_us / 1e6, chunk=chunk)
    answer = measured(engine, batches=[1, 12, 32], contexts=[48, 200, 600], time_limit_s=1e6)
    for (batch, context), ms in by_point(answer).items():
        assert ms == pytest.approx([engine.ms(batch, batch * context)] * LEAST_ROUNDS, rel=1e-9, abs=kv_ms * batch / 1000 + 1e-9)
    assert len(answer["points"]) == 9
    assert answer["prefill"]["batch"] == 32
    assert answer["prefill"]["s_per_token"] == pytest.approx(
        [prefill_us / 1e6] * LEAST_ROUNDS, abs=kv_ms / 1e6 * 12 * 4.5 / (3 * 64) + 1e-9
    )
    assert (answer["rounds"], answer["unsettled"], answer["disturbed"]) == (LEAST_ROUNDS, 0, 0)


def test_the_contexts_are_met_to_the_token_where_prompts_enter_together() -> None:
    """Steps 9 to 55 of a request count: 32 tokens after its prompt on average."""
    answer = measured(FakeEngine(), batches=[3], contexts=[33, 500])
    assert [one["attended"] for one in answer["points"]] == [33, 500]


def test_without_a_queue_the_prefill_is_the_first_step_against_the_others() -> None:
    """A static batch admits nobody: 2e-5 s per token, and the growth of the context over half a run."""
    engine = FakeEngine(queues=False, law=(3, 0.1, 0))
    assert measured(engine, batches=[8], contexts=[100])["prefill"]["s_per_token"] == pytest.approx([2e-5] * LEAST_ROUNDS)


def test_points_take_turns() -> None:
    """The rehearsal, the warm-up of the prefill, then round after round: a slow minute meets all points alike."""
    engine = FakeEngine()
    measured(engine, batches=[1, 2], contexts=[100, 200], prompt_tokens=7)
    points = [(1, 68), (2, 68), (1, 168), (2, 168)]
    prefill = [(2 + 40, 7)]
    assert engine.asked == [*points, *prefill, *([*points, *prefill] * LEAST_ROUNDS)]


def test_it_goes_on_with_the_points_that_do_not_agree_until_they_do() -> None:
    """The batch of two is noisy in its first ten rounds; nobody else is measured again."""
    engine = FakeEngine()
    seen: list[int] = []

    def noise(run: int, step: int) -> float:
        batch = engine.asked[-1][0]
        if step == 0 and batch == 2:
            seen.append(run)
        return 1 + 0.2 * (len(seen) % 2) if batch == 2 and len(seen) < 10 else 1.0

    engine.noise = noise
    answer = measured(engine, batches=[1, 2], contexts=[100], time_limit_s=1e6)
    repeats = {batch: len(ms) for (batch, _), ms in by_point(answer).items()}
    assert repeats[1] == LEAST_ROUNDS
    assert repeats[2] > LEAST_ROUNDS
    assert answer["unsettled"] == 0
    low, middle, high = np.quantile(by_point(answer)[2, 100], [0.25, 0.5, 0.75])
    assert (high - low) / 2 <= 0.02 * middle


def test_the_time_limit_ends_what_never_agrees() -> None:
    """Two moods, round about: the spread stays wide, and the answer says so.

    Whether a round still fits is judged by the last one, which may have been a fast one.
    """
    engine = FakeEngine(noise=lambda run, step: 1.5 if run // 2 % 2 else 1.0)
    answer = measured(engine, batches=[1], contexts=[100], time_limit_s=40.0)
    assert answer["unsettled"] == 1
    assert answer["rounds"] > LEAST_ROUNDS
    assert answer["seconds"] <= 41.0


def test_too_little_time_for_five_rounds_is_refused_with_what_would_do() -> None:
    """Fewer have no quartiles: a profile without spread would look better than one with it."""
    with pytest.raises(WorkerError, match=r"5 rounds of .* do not fit into the time limit of 1 s; allow \d+ s, or ask for fewer"):
        measured(FakeEngine(), batches=BATCHES, contexts=[100], time_limit_s=1.0)


@given(seed=st.integers(0, 999), share=st.floats(0, 0.03))
@settings(max_examples=15)
def test_single_disturbed_steps_are_outvoted(seed: int, share: float) -> None:
    """Some steps take ten times as long, anywhere: no number moves by more than the rest of the noise."""
    random = Random(seed)
    engine = FakeEngine(noise=lambda run, step: 10.0 if random.random() < share else 1 + random.uniform(-0.004, 0.004))
    answer = measured(engine, batches=[1, 16], contexts=[100], time_limit_s=1e6)
    for (batch, context), ms in by_point(answer).items():
        assert np.median(ms) == pytest.approx(engine.ms(batch, batch * context), rel=0.02)
    assert answer["disturbed"] == pytest.approx(share, abs=0.03)


def test_a_slow_round_is_spread_not_a_disturbance() -> None:
    """Every second round takes 10 % longer in all steps; that is what a reader must know about, exactly."""
    engine = FakeEngine(noise=lambda run, step: 1.1 if run // 2 % 2 else 1.0)
    answer = measured(engine, batches=[4], contexts=[100], time_limit_s=15.0)
    assert set(np.round(np.array(by_point(answer)[4, 100]) / engine.ms(4, 400), 9)) == {1.0, 1.1}


def test_pure_noise_of_steps_does_not_hide_in_the_median() -> None:
    """By the median of their steps, rounds that set the typical steps themselves would show no spread at all."""
    random = Random(1)
    runs = [[1 + random.uniform(-0.1, 0.1) for _ in range(40)] for _ in range(5)]
    assert len(set(rounds_s(runs))) == 5


def test_one_round_is_its_own_mean() -> None:
    """There is nobody else to compare it with."""
    assert rounds_s([[1.0, 3.0]]) == [2.0]


def test_another_number_of_steps_for_the_same_work_is_refused() -> None:
    """Requests were thrown out and computed again: that is not a decode step."""
    with pytest.raises(WorkerError, match=r"different numbers of steps for the same work \(2, 3\)"):
        typical([[1.0, 1.0], [1.0, 1.0, 1.0]])


def test_what_memory_refuses_takes_everything_larger_with_it() -> None:
    """Out of memory at 8 x 268 tokens; 16 at the same context is not tried, and the grid has no holes."""
    engine = FakeEngine(memory_tokens=2000)
    answer = measured(engine, batches=[4, 8, 16], contexts=[100, 300])
    assert set(by_point(answer)) == {(4, 100), (8, 100), (16, 100), (4, 300)}
    assert answer["dropped"][:2] == ["batch 8 at context 300: out of memory", "batch 16 at context 300: a smaller point did not fit"]


def test_nothing_that_fits_is_refused() -> None:
    """Slots, length and KV cache each have their words."""
    with pytest.raises(WorkerError) as refused:
        measured(FakeEngine(slots=4, max_model_len=512, kv_tokens=300), batches=[2, 8], contexts=[16, 200, 600])
    for says in ("the shortest context that can be measured is 33", "the engine has 4 slots", "the engine takes 512", "the engine has 300"):
        assert says in str(refused.value)


def test_a_workload_is_generated_in_every_round() -> None:
    """Its steps, its seconds by the clock, and who finished when: three requests through two slots."""
    engine = FakeEngine(slots=2)
    answer = measured(engine, batches=[1, 2], contexts=[100], workloads=[([10, 10, 10], [1, 3, 1])])
    (one,) = answer["workloads"]
    assert one["finish_step"] == [[1, 3, 2]] * LEAST_ROUNDS
    assert one["round_s"] == pytest.approx([sum(one["step_s"])] * LEAST_ROUNDS)


def test_progress_is_told_in_lines_that_a_caller_can_pick_out() -> None:
    """Libraries print as well."""
    lines: list[str] = []
    engine = FakeEngine()
    measure(engine, Wanted(batches=[1], contexts=[100]), engine.clock, lines.append)
    assert all(line.startswith(PROGRESS) for line in lines)
    assert lines[-1].endswith("1 of 1 points within 2.0%, widest 0.0%")


def test_an_engine_that_idles_for_a_step_between_requests_is_understood() -> None:
    """With asynchronous scheduling a finished request leaves one step late; stretches are cut where requests end.

    Three sequences: two decode for long, admissions cost 7 ms, a step 4 ms; every request of the last slot takes one more step.
    """
    series = PrefillSeries(batch=3, prompt=100, queues=True)
    outputs = [PrefillSeries.tokens(0)] * 2 + ([12] + [3] * 4) * 8 + [12]
    step_s: list[float] = []
    finish = [0, 0]
    for output in outputs[2:]:
        step_s += [0.004 + 0.007, *([0.004] * output)]
        finish.append(len(step_s))
    series.runs.append(Run(step_s, finish))
    assert series.answer()["s_per_token"] == pytest.approx([0.007 / 100])
