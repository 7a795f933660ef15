"""Arithmetic, rank lists and placement strings: small grammars with parsers of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.profilers.configs.arithmetic import whole
from rollplan.profilers.configs.backends import allocation, backend
from rollplan.profilers.configs.ranks import ranks

LEAF = st.integers(0, 50).map(str)
SUMS = st.recursive(
    LEAF, lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda three: f"({' '.join(three)})"), max_leaves=8
)


@given(SUMS)
def test_sums_and_products_agree_with_python(text: str) -> None:
    """The parser against the interpreter, on text that the test itself made."""
    assert whole(text) == eval(text)


@pytest.mark.parametrize(
    ("text", "value"), [("7 / 2", 3), ("-7 / 2", -3), ("-7 % 2", -1), ("2 + 3 * 4", 14), ("a * 2", 6), ("$a + ${a}", 6)]
)
def test_division_and_variables_are_a_shells(text: str, value: int) -> None:
    """Towards zero, with the sign of the dividend."""
    assert whole(text, {"a": 3}.get) == value


@pytest.mark.parametrize("text", ["", "1 +", "1 / 0", "b", "1 2", "(1", "2 ** 9", "9" * 30, "(" * 200 + "1" + ")" * 200, "1;2", "f(1)"])
def test_anything_else_is_not_a_number(text: str) -> None:
    """None, and no exception."""
    assert whole(text) is None


@given(st.integers(0, 64), st.integers(0, 64), st.integers(1, 8))
def test_a_range_of_ranks_is_pythons(start: int, stop: int, step: int) -> None:
    """`list(range(a,b,c))` and `range(a, b)`, with blanks."""
    assert ranks(f"list(range({start}, {stop},{step}))") == frozenset(range(start, stop, step))
    assert ranks(f" range({start},{stop}) ") == frozenset(range(start, stop))


def test_lists_and_sums_of_ranks() -> None:
    """Both forms, and both together."""
    assert ranks("[0, 1,2,] + list(range(8, 2 * 5))") == {0, 1, 2, 8, 9}
    assert ranks([3, 4]) == {3, 4}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "list(range(0,8)",
        "range(0,10**9)",
        "list(range(0,999999999))",
        "list(range(0,60000)) + list(range(60000,120000))",
        "[a]",
        "[0] * 8",
        "range(0,8,0)",
        "open('x')",
        [1.5],
        [-1],
        7,
    ],
)
def test_other_mappings_are_not_understood(text: object) -> None:
    """None: the reader says so instead of guessing; huge ranges cost nothing."""
    assert ranks(text) in (None, frozenset(range(8)))
    assert ranks("range(0,999999999)") is None


DEGREES = st.lists(st.tuples(st.sampled_from("dtpc"), st.integers(1, 16)), min_size=1, max_size=4, unique_by=lambda pair: pair[0])


@given(DEGREES)
def test_gpus_of_a_backend_are_the_product_of_its_degrees(degrees: list[tuple[str, int]]) -> None:
    """Expert parallelism uses the ranks of the others."""
    text = "".join(f"{letter}{size}" for letter, size in degrees)
    product = 1
    for _, size in degrees:
        product *= size
    side = backend(f"megatron:{text}e2")
    assert side is not None
    assert (side.engine, side.gpus, side.e) == ("megatron", product, 2)


def test_layouts_of_attention_and_experts() -> None:
    """GPUs by attention, expert degree by the feed-forward part."""
    side = backend("megatron:(attn:d4p2t2c2|ffn:d2p2t4e2)")
    assert side is not None
    assert (side.gpus, side.t, side.p, side.c, side.e, side.hybrid) == (32, 2, 2, 2, 2, True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sglang:d4p1t1+d4p1t1", ("sglang", 4, 4, False)),
        ("sglang.d24p1m1+d4m1p2", ("sglang", 24, 8, False)),
        ("vllm:d2t4+megatron:d2p2t4e4", ("vllm", 8, 16, False)),
        ("sglang[rollout]:d8|fsdp[actor]:d8", ("sglang", 8, 8, True)),
        ("sglang[r]:d2+fsdp[a]:d4|fsdp[c]:d4", ("sglang", 2, 4, False)),
        ("vllm:d4+megatron:(attn:d2t2|ffn:e4)", ("vllm", 4, 4, False)),
    ],
)
def test_allocation_modes(text: str, found: tuple[str, int, int, bool]) -> None:
    """Old and newer strings: engine, GPUs of both sides, whether they share them."""
    sides = allocation(text)
    assert sides is not None
    rollout, train, together = sides
    assert (rollout.engine, rollout.gpus, train.gpus, together) == found


@pytest.mark.parametrize("text", ["", "sglang", "sglang:x4", "sglang:d4d4", "fsdp:d0", "sglang:d4+", "fsdp:d8", "a:(attn:e2|ffn:d2)"])
def test_other_strings_are_not_understood(text: str) -> None:
    """None, and no exception."""
    assert allocation(text) is None
