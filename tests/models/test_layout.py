"""Parallel layouts: divisors, every layout against brute force, published counts, and their text."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout, divisors, layouts, obstacle


def model(**changes: Any) -> Architecture:
    """A dense model whose layers every pipeline of up to 64 stages divides (192 = 64 * 3)."""
    values: dict[str, Any] = {
        "name": "dense",
        "layers": 192,
        "hidden": 8192,
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 128,
        "intermediate": 28672,
        "vocab": 128256,
        "params_b": 170.0,
        "active_params_b": 169.0,
    }
    return Architecture(**{**values, **changes})


def mixture(**changes: Any) -> Architecture:
    """The same with 24 experts, of which a token visits 4."""
    return model(**{"name": "moe", "experts": 24, "experts_per_token": 4, "expert_params_b": 100.0, "active_params_b": 60.0, **changes})


# Divisors.


@given(st.integers(1, 100_000))
def test_divisors_are_all_numbers_that_divide_ascending(number: int) -> None:
    """From the definition."""
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


@pytest.mark.parametrize(("number", "expected"), [(1, [1]), (36, [1, 2, 3, 4, 6, 9, 12, 18, 36]), (97, [1, 97])])
def test_divisors_of_squares_and_primes(number: int, expected: list[int]) -> None:
    """The root of a square is named once."""
    assert divisors(number) == expected


# Every layout.


@pytest.mark.parametrize(("gpus", "plans"), [(4, 6), (12, 12), (16, 14), (64, 22)])
def test_auto_parallel_has_as_many_plans_as_divisors_allow(gpus: int, plans: int) -> None:
    """HybridFlow Algorithm 2 on machines of 8 GPUs; the true plans are those with t | 8 and t * p * d = GPUs.

    The loops as printed are empty for 4 GPUs, and find 8 of the 14 plans of 16. Holds for a model whose layers every p
    divides, here 192, because a pipeline with uneven stages is no plan of ours: 36 layers leave 11 of 14.
    """
    assert len(list(layouts(model(), gpus, 8, cp=[1]))) == plans


def test_layers_that_pipelines_do_not_divide_leave_fewer_plans() -> None:
    """36 layers on 16 GPUs: p in 1, 2, 4 instead of up to 16."""
    found = list(layouts(model(layers=36), 16, 8, cp=[1]))
    assert [(layout.tp, layout.pp) for layout in found] == [
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
        (2, 4),
        (4, 1),
        (4, 2),
        (4, 4),
        (8, 1),
        (8, 2),
    ]


def brute_force(shape: Architecture, gpus: int, per_node: int) -> set[tuple[int, ...]]:
    """Every (tp, pp, cp, ep, dp) from the rules, without the code of the module."""
    degrees = range(1, gpus + 1)
    found = set()
    for t, p, c in product(degrees, repeat=3):
        if gpus % (t * p * c):
            continue
        d = gpus // (t * p * c)
        heads = shape.heads % t == 0 and (shape.kv_heads % t == 0 or t % shape.kv_heads == 0)
        node = per_node % t == 0
        context = c in (1, 2, 4, 8, 16, 32, 64)
        if heads and node and context and shape.layers % p == 0:
            for e in range(1, t * c * d + 1) if shape.experts else (1,):
                if (t * c * d) % e == 0 and (e == 1 or shape.experts % e == 0):
                    found.add((t, p, c, e, d))
    return found


shapes = st.builds(
    lambda experts, layers, heads, repeats: (mixture(experts=experts, experts_per_token=1) if experts else model()).model_copy(
        update={"layers": layers, "heads": heads * repeats, "kv_heads": heads}
    ),
    st.sampled_from([0, 6, 8, 24]),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from([1, 2, 4]),
)


@given(shapes, st.integers(1, 24), st.sampled_from([1, 3, 4, 7, 8]))
def test_layouts_are_those_of_brute_force_in_order_and_each_once(shape: Architecture, gpus: int, per_node: int) -> None:
    """Over all tuples, for heads, layers, experts and nodes of any size."""
    found = list(layouts(shape, gpus, per_node))
    assert found == sorted(found)
    assert [(x.tp, x.pp, x.cp, x.ep, x.dp) for x in found] == sorted(brute_force(shape, gpus, per_node))


degrees = st.one_of(st.none(), st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple))


@given(st.integers(1, 24), degrees, degrees, degrees, degrees)
def test_degrees_to_consider_only_choose_among_the_layouts(gpus: int, tp: Any, pp: Any, cp: Any, ep: Any) -> None:
    """What a user allows never adds a layout, and repeating a degree never repeats one."""

    def asked(layout: Layout) -> bool:
        return all(
            allowed is None or getattr(layout, name) in allowed for name, allowed in (("tp", tp), ("pp", pp), ("cp", cp), ("ep", ep))
        )

    every = layouts(mixture(), gpus, 8)
    assert list(layouts(mixture(), gpus, 8, tp, pp, cp, ep)) == [layout for layout in every if asked(layout)]


@given(shapes, st.integers(1, 24), st.sampled_from([1, 4, 8]))
def test_every_layout_uses_exactly_the_gpus_and_meets_no_obstacle(shape: Architecture, gpus: int, per_node: int) -> None:
    """Tensor, pipeline, context and data parallelism multiply; expert parallelism adds no GPUs."""
    for layout in layouts(shape, gpus, per_node):
        assert layout.gpus == gpus == layout.gpus_per_copy * layout.dp
        assert obstacle(shape, layout, per_node) is None


@pytest.mark.parametrize(
    ("shape", "layout", "per_node", "says"),
    [
        (model(), Layout(tp=3), 8, "tp 3 does not divide the 64 attention heads"),
        (model(heads=40, kv_heads=8, hidden=5120), Layout(tp=5), 5, "tp 5 neither divides nor repeats the 8 KV heads"),
        (model(), Layout(tp=16), 8, "tp 16 spans nodes of 8 GPUs"),
        (model(), Layout(tp=4), 6, "tp 4 does not divide a node of 6 GPUs"),
        (model(), Layout(pp=5), 8, "pp 5 does not divide the 192 layers"),
        (model(), Layout(ep=2, dp=2), 8, "ep 2 asks for experts, dense has none"),
        (mixture(), Layout(ep=5, dp=5), 8, "ep 5 does not divide the 24 experts"),
        (model(), Layout(tp=8, pp=3, cp=2, dp=5), 8, None),
    ],
)
def test_the_rule_that_a_layout_breaks_is_named(shape: Architecture, layout: Layout, per_node: int, says: str | None) -> None:
    """Degree, number, and what it does not divide."""
    assert obstacle(shape, layout, per_node) == says


# Text.

any_layout = st.builds(
    lambda tp, pp, cp, dp, place: Layout(tp, pp, cp, divisors(tp * cp * dp)[place % len(divisors(tp * cp * dp))], dp),
    *[st.integers(1, 12)] * 4,
    st.integers(0, 100),
)


@given(any_layout)
def test_parse_reads_what_str_writes(layout: Layout) -> None:
    """A plan file holds the text; the executor needs the degrees."""
    assert Layout.parse(str(layout)) == layout


def test_what_is_one_is_left_out_except_data_parallelism() -> None:
    """The usual way to say it."""
    assert str(Layout(tp=4, pp=2, dp=8)) == "tp4-pp2-dp8"
    assert str(Layout()) == "dp1"
    assert Layout.parse("tp4") == Layout(tp=4)


@pytest.mark.parametrize(
    "text", ["", "-", "tp", "4", "tp4-", "TP4-dp1", "tp4-tp2-dp1", "tp4,dp1", " tp4-dp1", "tp-4-dp1", "tp4.0-dp1", "xp2-dp1", "tp²"]
)
def test_other_text_is_refused(text: str) -> None:
    """With an example of what is meant."""
    with pytest.raises(ValueError, match="layout must look like tp4-pp2-dp8, got"):
        Layout.parse(text)


def test_digits_of_other_scripts_and_endless_numbers_are_no_degrees() -> None:
    """Arabic three looks like a digit to `int`, and 5,000 nines raise an error of their own."""
    for text in ("tp\u0663-dp1", "dp" + "9" * 5000):
        with pytest.raises(ValueError, match="layout must look like"):
            Layout.parse(text)


@pytest.mark.parametrize(
    ("degrees_given", "says"),
    [
        ({"tp": 0}, "tp must be at least 1, got 0"),
        ({"dp": -2}, "dp must be at least 1, got -2"),
        ({"tp": 2, "ep": 3}, "ep must divide tp * cp * dp = 2, got 3"),
        ({"pp": 3, "ep": 3}, "ep must divide tp * cp * dp = 1, got 3"),
    ],
)
def test_a_layout_cannot_be_built_wrong(degrees_given: dict[str, int], says: str) -> None:
    """Experts lie on the ranks of one pipeline stage, so stages do not count."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        Layout(**degrees_given)
    assert str(refused.value) == says
