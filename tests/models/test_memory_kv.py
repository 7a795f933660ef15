"""The KV cap: published-style values, repeated heads, and how a refusal helps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.errors import InfeasibleError
from rollplan.models.layout import Layout
from rollplan.models.memory.kv import kv_cap, kv_obstacle, kv_room
from rollplan.models.memory.setup import RolloutSetup

GB = 1e9 / 2**30
H800, H20 = (
    Gpu(name=name, memory_gib=memory_gb * GB, peak_tflops=100.0, memory_tb_s=4.0, link_gb_s=200.0)
    for name, memory_gb in (("H800", 80), ("H20", 96))
)


def qwen(params_b: float, layers: int, hidden: int, heads: int, kv_heads: int) -> Architecture:
    """Return a model of StreamRL's Table 2, with the parameters of the public models."""
    return Architecture(
        name=f"Qwen2.5-{params_b:.0f}B",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        intermediate=4 * hidden,
        vocab=152064,
        params_b=params_b,
        active_params_b=params_b,
    )


B7, B7_PUBLIC = qwen(7.615, 28, 3584, 28, 8), qwen(7.615, 28, 3584, 28, 4)
B32, B72 = qwen(32.763, 64, 5120, 40, 8), qwen(72.704, 80, 8192, 64, 8)

STREAMRL = [
    (B7, H800, 1, (94, 47, 24)),
    (B7_PUBLIC, H800, 1, (188, 95, 48)),
    (B7, H800, 2, (213, 108, 55)),
    (B32, H800, 4, (161, 82, 41)),
    (B32, H800, 8, (370, 188, 95)),
    (B72, H800, 4, (82, 42, 21)),
    (B72, H800, 8, (250, 127, 64)),
    (B7, H20, 1, (118, 60, 30)),
    (B32, H20, 4, (203, 103, 52)),
    (B72, H20, 2, (15, 8, 4)),
    (B72, H20, 4, (116, 59, 30)),
    (B72, H20, 8, (317, 161, 81)),
]


@pytest.mark.parametrize(("model", "gpu", "tp", "published"), STREAMRL)
def test_batch_limits_of_streamrl(model: Architecture, gpu: Gpu, tp: int, published: tuple[int, ...]) -> None:
    """Derived from StreamRL's Tables 1 and 2 (GPUs, models) at 90 % of the memory; GB are 10^9, weights bf16.

    The contexts are said to be 5.25K, 10.3K and 20.3K. 5,250, 10,325 and 20,325 tokens round to these and give all 36
    values; 10,300 and 20,300 themselves give 31 of them, five are one too large.
    """
    engine = RolloutSetup(architecture=model, layout=Layout(tp=tp), context_tokens=1)
    assert tuple(kv_cap(replace(engine, context_tokens=tokens), gpu) for tokens in (5_250, 10_325, 20_325)) == published
    as_printed = [kv_cap(replace(engine, context_tokens=tokens), gpu) for tokens in (5_250, 10_300, 20_300)]
    assert all(0 <= ours - theirs <= 1 for ours, theirs in zip(as_printed, published, strict=True))


@pytest.mark.parametrize("tp", [1, 2])
def test_72b_does_not_fit_on_one_or_two_h800_and_the_refusal_says_what_would(tp: int) -> None:
    """StreamRL's models: 145 GB of weights in 72 or 144 GB. Never a division by zero."""
    engine = RolloutSetup(architecture=B72, layout=Layout(tp=tp), context_tokens=5_250)
    assert kv_room(engine, H800).sequences == 0
    with pytest.raises(InfeasibleError, match=r"do not hold .* of weights .* tp 4 \(82 sequences\) would fit"):
        kv_cap(engine, H800)


def test_a_context_that_is_too_long_is_told_how_long_it_may_be() -> None:
    """The remedy is exact: that context fits, one token more does not."""
    engine = RolloutSetup(architecture=B7_PUBLIC, layout=Layout(), context_tokens=2_000_000)
    tokens = kv_room(engine, H800).tokens
    assert f"a context of at most {tokens} tokens" in str(kv_obstacle(engine, H800))
    assert kv_cap(replace(engine, context_tokens=tokens), H800) == 1
    assert kv_obstacle(replace(engine, context_tokens=tokens + 1), H800) is not None


def test_tensor_parallelism_beyond_the_kv_heads_repeats_them() -> None:
    """With 8 KV heads, tp 16 stores each twice: per token as much on each GPU as with tp 8."""
    eight, sixteen = (kv_room(RolloutSetup(architecture=B72, layout=Layout(tp=tp), context_tokens=1), H800) for tp in (8, 16))
    assert sixteen.token_bytes == 2 * eight.token_bytes


def test_fp8_cache_holds_twice_as_many_tokens() -> None:
    """`kv_bytes` counts per number; the architecture gives bf16."""
    engine = RolloutSetup(architecture=B32, layout=Layout(tp=4), context_tokens=1)
    assert kv_cap(replace(engine, kv_bytes=1.0), H800) // 2 == kv_cap(engine, H800)


@given(tp=st.sampled_from([1, 2, 4, 8]), pp=st.integers(1, 4), context=st.integers(1, 300_000), claim=st.floats(0.05, 1.0))
def test_the_cap_is_the_largest_number_of_sequences_that_fits(tp: int, pp: int, context: int, claim: float) -> None:
    """From the definition: cap sequences fit beside the weights, cap + 1 do not."""
    engine = RolloutSetup(architecture=B32, layout=Layout(tp=tp, pp=pp), context_tokens=context, gpu_memory_utilization=claim)
    room = kv_room(engine, H20)
    free = (claim * H20.memory_gib - room.weights.gib) * 2**30 * tp * pp
    assert room.sequences * context * room.token_bytes <= max(0.0, free) * (1 + 1e-9)
    assert (room.sequences + 1) * context * room.token_bytes > free * (1 - 1e-9)
