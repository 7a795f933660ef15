"""Forward passes, training efficiency and weight sync by reference."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.reference.architectures import architecture
from rollplan.models.reference.forward import flops_per_token, forward_seconds
from rollplan.models.reference.sync import weight_sync_seconds
from rollplan.models.reference.training import train_mfu

QWEN3_8B = architecture("Qwen3-8B")


@pytest.mark.parametrize(("gpu", "share"), [("H100", 0.70), ("A100", 0.77), ("B200", 0.60), ("L40S", 0.51)])
def test_measured_forward_passes_reach_the_published_share_of_the_peak(gpu: str, share: float) -> None:
    """Medians over models at tp 1 are 0.70, 0.77, 0.60, 0.51; Qwen3-8B at 4096 tokens is within 0.06 of them."""
    peak = {"H100": 989e12, "A100": 312e12, "B200": 2250e12, "L40S": 362.05e12}[gpu]
    passed = forward_seconds("Qwen3-8B", gpu, 1, 1e6, 4096, logits="last")
    assert passed.provenance == "reference"
    assert 1e6 * flops_per_token(QWEN3_8B, 4096, "last") / passed.value / peak == pytest.approx(share, abs=0.06)


def test_operations_of_a_token_are_two_per_parameter_and_attention() -> None:
    """Qwen3-8B, 4096 tokens: 2 * 7.568e9 + 2 * 36 * 32 * 128 * 4096; without the head 2 * 151936 * 4096 less."""
    assert flops_per_token(QWEN3_8B, 4096) == pytest.approx(2 * 7.5684e9 + 2 * 36 * 32 * 128 * 4096, rel=1e-4)
    assert flops_per_token(QWEN3_8B, 4096) - flops_per_token(QWEN3_8B, 4096, "last") == 2 * 151936 * 4096


def test_log_probabilities_cost_the_output_head_on_top() -> None:
    """Qwen3-8B: 0.62 of 7.57e9 parameters, 7.5 % at 4096 tokens."""
    ratio = forward_seconds("Qwen3-8B", "H100", 1, 1e6, 4096).value / forward_seconds("Qwen3-8B", "H100", 1, 1e6, 4096, "last").value
    assert ratio == pytest.approx(flops_per_token(QWEN3_8B, 4096) / flops_per_token(QWEN3_8B, 4096, "last"))
    assert ratio == pytest.approx(1.077, abs=0.01)


@given(tokens=st.floats(1, 1e9), length=st.floats(1, 200_000))
def test_time_is_proportional_to_tokens(tokens: float, length: float) -> None:
    """Batches are of a good size, so only the amount counts."""
    one, two = (forward_seconds("Qwen3-8B", "H100", 2, n, length).value for n in (tokens, 2 * tokens))
    assert two == pytest.approx(2 * one)


@given(length=st.floats(1024, 200_000), more=st.floats(1.01, 3))
def test_longer_sequences_take_longer_per_token(length: float, more: float) -> None:
    """From 1024 tokens on; below, kernels of short sequences are less efficient."""
    short, long = (forward_seconds("Qwen3-8B", "H100", 1, 1e6, n, "last").value for n in (length, more * length))
    assert short < long


def test_beyond_the_table_the_last_slope_goes_on_and_is_said() -> None:
    """Nothing is extrapolated silently."""
    inside, outside = (forward_seconds("Qwen3-8B", "H100", 1, 1e6, n) for n in (32768, 65536))
    assert inside.provenance == "reference"
    assert outside.provenance == "estimated"
    assert "beyond 32768" in outside.note


def test_h800_computes_like_h100_and_says_so() -> None:
    """Same chip; only NVLink is slower."""
    found = forward_seconds("Qwen3-8B", "H800", 1, 1e6, 4096)
    assert found.value == forward_seconds("Qwen3-8B", "H100", 1, 1e6, 4096).value
    assert (found.provenance, "H100" in found.note) == ("estimated", True)


def test_h20_is_operations_over_three_quarters_of_its_peak() -> None:
    """No kernel of an H20 was published."""
    found = forward_seconds("Qwen3-8B", "H20", 4, 1e6, 4096)
    assert found.value == pytest.approx(1e6 * flops_per_token(QWEN3_8B, 4096) / (4 * 148e12 * 0.75))
    assert found.provenance == "estimated"


def test_an_unmeasured_model_is_scaled_by_operations() -> None:
    """Qwen3-0.6B from Qwen3-1.7B."""
    found = forward_seconds("Qwen3-0.6B", "H100", 1, 1e6, 4096)
    assert "scaled by operations from" in found.note
    assert 0 < found.value < forward_seconds("Qwen3-1.7B", "H100", 1, 1e6, 4096).value


@pytest.mark.parametrize("wrong", [{"tp": 0}, {"tokens": 0}, {"tokens": math.nan}, {"sequence_length": -1}, {"sequence_length": math.inf}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    """A negative or endless pass has no time."""
    with pytest.raises(ValueError, match="positive and finite"):
        forward_seconds(**({"model": "Qwen3-8B", "gpu_text": "H100", "tp": 1, "tokens": 1.0, "sequence_length": 1.0} | wrong))


@pytest.mark.parametrize(
    ("model", "gpu", "mfu", "provenance", "published"),
    [
        ("Qwen3-8B", "H100", 0.35, "reference", "0.23 to 0.35"),
        ("Qwen3-30B-A3B", "H100", 0.15, "reference", "0.15"),
        ("Qwen3-8B", "H20", 0.40, "estimated", "0.23 to 0.35"),
        ("Qwen3-30B-A3B", "GB200", 0.15, "estimated", "0.20 to 0.31"),
    ],
)
def test_training_efficiency_is_a_default_with_the_published_range(
    model: str, gpu: str, mfu: float, provenance: str, published: str
) -> None:
    """torchtitan, Llama-3.1-8B on 8 H100: 343 of 989 TFLOPS; Megatron-Bridge, GPT-OSS 120B on 64 H100: 153."""
    found = train_mfu(architecture(model), gpu)
    assert (found.value, found.provenance) == (mfu, provenance)
    assert published in found.note


@pytest.mark.parametrize(
    ("params_b", "transport", "seconds"),
    [
        (7.615, "nccl", 5.75),
        (32.763, "nccl", 16.05),
        (72.704, "nccl", 28.8),
        (235.044, "nccl", 256),
        (7, "delta", 4.4),
        (235, "delta", 13.15),
        (7, "checkpoint-engine", 0.02),
        (235, "checkpoint-engine", 23.7),
    ],
)
def test_published_sync_times_come_back(params_b: float, transport: str, seconds: float) -> None:
    """verl documentation, commit 1dda039b9; 32B: the median of 14.2 and 17.9 s."""
    found = weight_sync_seconds(params_b, transport)
    assert (found.value, found.provenance) == (pytest.approx(seconds), "reference")


def test_one_size_has_a_wide_range_and_the_note_shows_it() -> None:
    """Qwen3-30B-A3B on H100 with NCCL: 7 s and 32.2 s."""
    assert "7 to 32.2 s" in weight_sync_seconds(30.5).note


@given(params_b=st.floats(8.5, 27))
def test_sync_between_two_sizes_lies_between_their_times(params_b: float) -> None:
    """From 8.5B to 27B: between the 7.6B and the 30.5B values."""
    found = weight_sync_seconds(params_b)
    assert 5.75 <= found.value <= 19.6
    assert found.provenance == "estimated"


def test_sync_beyond_the_sizes_is_proportional() -> None:
    """At a constant speed of the largest size, and marked as estimated."""
    assert weight_sync_seconds(671.0).value == pytest.approx(256 * 671 / 235.044)


@pytest.mark.parametrize("params_b", [0.0, -1.0, math.nan, math.inf])
def test_sizes_that_make_no_sense_are_refused(params_b: float) -> None:
    """A model has parameters."""
    with pytest.raises(ValueError, match="positive"):
        weight_sync_seconds(params_b)
