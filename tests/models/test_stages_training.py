"""Seconds of training: published throughput, bubbles, passes, and what is measured wins over the law."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.layout import Layout
from rollplan.models.reference.architectures import architecture
from rollplan.models.stages.anchor import anchored, factors
from rollplan.models.stages.training import Passes, TrainingSpeed, obstacle, training_parts, update_flops
from rollplan.models.stages.work import Work

LLAMA_8B, QWEN_8B = architecture("Llama-3.1-8B"), architecture("Qwen3-8B")
H100_TFLOPS = 989.0


def packed(sequences: int, tokens: int, updates: int = 1) -> Work:
    """Equal sequences of so many tokens, prompt included, as in pre-training."""
    return Work(np.full(sequences, tokens - 1), 1, 1, updates)


# Published throughput.


@pytest.mark.parametrize(
    ("model", "tokens", "rate", "tflops"),
    [
        ("Llama-3.1-8B", 8192, 37556, 1933),
        ("Llama-3.1-70B", 8192, 4312, 1937),
        ("Qwen3-30B-A3B", 4096, 23766, 547),
        ("Qwen3-235B-A22B", 4096, 4916, 728),
    ],
)
def test_flops_of_a_token_are_those_that_nvidia_counts(model: str, tokens: int, rate: float, tflops: float) -> None:
    """Megatron-Bridge's performance summary gives tokens/s and model TFLOPS per GPU; their ratio is FLOPs per token.

    Dense models and mixtures of experts, causal attention, recomputation not counted; within 0.3 %.
    """
    work = packed(1, tokens)
    assert update_flops(architecture(model), work) / work.tokens * rate / 1e12 == pytest.approx(tflops, rel=0.003)


def test_llama_8b_trains_at_the_published_rate() -> None:
    """torchtitan, Llama-3.1-8B on 8 H100, bf16, FSDP2 and compile, 16 sequences of 8192: 6,667 tokens/s per GPU.

    That is 343 of 989 TFLOPS, the default MFU of 0.35 (0.9 % more); its selective checkpointing recomputes almost nothing.
    """
    work = packed(16, 8192)
    parts = training_parts(
        LLAMA_8B, Layout(dp=8), work, TrainingSpeed(H100_TFLOPS, 343 / H100_TFLOPS, 1.0), Passes(0), full_recompute=False
    )
    assert work.tokens / parts.seconds / 8 == pytest.approx(6667, rel=0.001)
    parts = training_parts(LLAMA_8B, Layout(dp=8), work, TrainingSpeed(H100_TFLOPS, 0.35, 1.0), Passes(0), full_recompute=False)
    assert work.tokens / parts.seconds / 8 == pytest.approx(6667, rel=0.01)


# Passes, recomputation, bubbles.

speeds = st.builds(TrainingSpeed, st.floats(100, 2500), st.floats(0.1, 0.6), st.floats(1e3, 1e5), st.floats(0.3, 1))
works = st.builds(
    lambda groups, updates, prompt: Work(np.array(groups * updates), prompt, 1, updates),
    st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 500),
)
layouts = st.builds(Layout, tp=st.sampled_from([1, 2, 4, 8]), pp=st.sampled_from([1, 2, 4]), cp=st.sampled_from([1, 2]))


@given(works, layouts, speeds, st.integers(0, 3), st.booleans(), st.booleans(), st.floats(0, 9))
def test_seconds_are_the_sum_of_passes(
    work: Work, layout: Layout, speed: TrainingSpeed, forward: int, critic: bool, full: bool, overhead_s: float
) -> None:
    """A critic costs one more update, each forward pass the same again, full recomputation a third of the updates."""

    def parts(passes: Passes, recompute: bool = full, overhead: float = overhead_s) -> float:
        return training_parts(QWEN_8B, layout, work, speed, passes, 1, recompute, overhead).seconds

    update = parts(Passes(0), overhead=0.0)
    one_forward = parts(Passes(1), overhead=0.0) - update
    total = update * (2 if critic else 1) + forward * one_forward + work.updates * overhead_s
    assert parts(Passes(forward, critic)) == pytest.approx(total, rel=1e-9)
    assert parts(Passes(0), True, 0.0) == pytest.approx(4 / 3 * parts(Passes(0), False, 0.0), rel=1e-12)


@pytest.mark.parametrize(("stages", "sequences", "micro", "bubble"), [(1, 8, 1, 1.0), (4, 8, 1, 1.375), (4, 8, 2, 1.75), (8, 8, 8, 8.0)])
def test_a_pipeline_idles_for_the_stages_less_one_over_the_micro_batches(stages: int, sequences: int, micro: int, bubble: float) -> None:
    """One forward, one backward (Narayanan et al. 2021, section 2.2): (p - 1) / m of the ideal time is lost."""
    work = packed(sequences, 4096)
    speed = TrainingSpeed(H100_TFLOPS, 0.4, 2e4)
    straight = training_parts(QWEN_8B, Layout(tp=stages), work, speed, Passes(1), micro).seconds
    pipelined = training_parts(QWEN_8B, Layout(pp=stages), work, speed, Passes(1), micro).seconds
    assert pipelined / straight == pytest.approx(bubble, rel=1e-12)


@given(works, layouts, speeds)
def test_twice_the_ranks_take_half_the_time_as_long_as_no_sequence_is_the_limit(work: Work, layout: Layout, speed: TrainingSpeed) -> None:
    """Without pipeline: tensor and context parallelism divide every sequence; data parallelism stops at the longest one."""
    narrow = Layout(tp=layout.tp, cp=layout.cp)
    alone = training_parts(QWEN_8B, narrow, work, speed, Passes(1)).seconds
    wider = training_parts(QWEN_8B, Layout(tp=layout.tp, cp=2 * layout.cp), work, speed, Passes(1)).seconds
    assert wider == pytest.approx(alone / 2, rel=1e-9)
    copies = [training_parts(QWEN_8B, Layout(tp=layout.tp, cp=layout.cp, dp=dp), work, speed, Passes(1)).seconds for dp in (1, 2, 4, 64)]
    for fewer, more in pairwise(copies):
        assert fewer / 2**6 <= more <= fewer * (1 + 1e-9)


def test_data_parallel_ranks_wait_for_the_one_with_the_longest_sequence() -> None:
    """One sequence of 8192 tokens and three of 1024 on 4 ranks take as long as the long one alone."""
    mixed = Work(np.array([8191, 1023, 1023, 1023]), 1, 1)
    speed = TrainingSpeed(H100_TFLOPS, 0.4, 2e4)
    alone = training_parts(QWEN_8B, Layout(), packed(1, 8192), speed, Passes(0)).seconds
    assert training_parts(QWEN_8B, Layout(dp=4), mixed, speed, Passes(0)).seconds == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(
    ("layout", "work", "micro", "says"),
    [
        (Layout(dp=8), packed(64, 10), 8, None),
        (Layout(dp=8), packed(64, 10, updates=2), 8, "dp 8 x micro batch 8 does not divide the 32 samples of an update"),
        (Layout(dp=3), packed(64, 10), 1, "dp 3 x micro batch 1 does not divide the 64 samples of an update"),
        (Layout(dp=2), packed(1, 10), 1, "dp 2 x micro batch 1 does not divide the 1 samples of an update"),
        (Layout(tp=8, pp=4, cp=2), packed(1, 10), 1, None),
    ],
)
def test_copies_share_the_samples_of_an_update_evenly(layout: Layout, work: Work, micro: int, says: str | None) -> None:
    """The other degrees do not matter for the batch."""
    assert obstacle(layout, work, micro) == says


# Measured times win.

tables = st.dictionaries(st.integers(1, 512), st.floats(0.01, 1e4), min_size=1, max_size=8)


@given(tables, tables)
def test_the_anchored_law_passes_through_every_measurement(law: dict[int, float], measured: dict[int, float]) -> None:
    """Exactly, whether or not the law knows the count; every count of either is there, ascending."""
    found = anchored(law, measured)
    assert {gpus: found[gpus] for gpus in measured} == measured
    assert list(found) == sorted(law.keys() | measured.keys())


@given(tables, st.floats(0.1, 10))
def test_one_measurement_scales_the_law(law: dict[int, float], factor: float) -> None:
    """The shape is the law's, the level the measurement's."""
    gpus = sorted(law)[len(law) // 2]
    found = anchored(law, {gpus: law[gpus] * factor})
    assert found == pytest.approx({count: seconds * factor for count, seconds in law.items()}, rel=1e-9)


@given(tables)
def test_without_measurement_the_law_stands(law: dict[int, float]) -> None:
    """And a measurement that agrees with it changes nothing."""
    assert anchored(law, {}) == law
    assert anchored(law, law) == law
    assert anchored({}, law) == law


@given(tables, st.integers(2, 256), st.integers(2, 4), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_factor_between_two_measurements_is_monotone(law: dict[int, float], low: int, times: int, first: float, last: float) -> None:
    """It goes from one to the other on logarithmic scales, half way at the geometric mean, and stays beyond them."""
    law = {**law, low: 7.0, low * times**2: 3.0}
    high = low * times**2
    counts = [1, low, low * times, high, 10**6]
    found = factors(law, {low: law[low] * first, high: law[high] * last}, counts)
    between = exp((log(first) + log(last)) / 2)
    assert list(found.values()) == pytest.approx([first, first, between, last, last], rel=1e-9)


@given(st.floats(1, 100), st.integers(1, 64), st.integers(2, 64), st.floats(0.1, 10))
def test_a_count_without_law_takes_the_nearest_law_perfectly_scaled(work: float, gpus: int, more: int, factor: float) -> None:
    """So one measurement beyond the table still sets the level of a law that scales."""
    law = {gpus: work / gpus}
    found = factors(law, {gpus * more: factor * work / (gpus * more)}, [gpus])
    assert found[gpus] == pytest.approx(factor, rel=1e-9)
