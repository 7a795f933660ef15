"""Repeating until the quartiles agree, on values and clocks that tests make up."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.profile.origin import Spread
from rollplan.profilers.repeat import half_width, rounds, steady


def series(values: Iterable[float]) -> Callable[[], float]:
    iterator = iter(values)
    return lambda: next(iterator)


def test_equal_values_end_after_the_least_repeats() -> None:
    """A second look is not bought where it shows nothing."""
    assert steady(series([1.0] * 99), 0.05, least=3, most=50) == [1.0] * 3


def test_repeats_go_on_until_the_quartiles_are_close() -> None:
    """After 1, 2, 1 the half-width is 25 %; two more ones bring both quartiles to 1."""
    assert steady(series([1.0, 2.0, 1.0, 1.0, 1.0, 1.0]), 0.05, least=3, most=50) == [1.0, 2.0, 1.0, 1.0, 1.0]


def test_what_never_agrees_ends_after_the_most_repeats() -> None:
    """Whoever asks sees from the values that they do not agree."""
    assert len(steady(series([1.0, 9.0] * 50), 0.05, least=3, most=10)) == 10


def test_points_take_turns_and_those_that_agree_drop_out() -> None:
    """A disturbance then falls on all points alike, not on the last one."""
    order: list[str] = []

    def taking(name: str, values: list[float]) -> Callable[[], float]:
        following = series(values)
        return lambda: (order.append(name), following())[1]

    values = rounds({"calm": taking("calm", [1.0] * 9), "wild": taking("wild", [1.0, 2.0, 3.0, 2.0, 2.0, 2.0])}, 0.1, least=2, most=6)
    assert order[:6] == ["calm", "wild"] * 2 + ["wild", "wild"]
    assert len(values["calm"]) == 2
    assert len(values["wild"]) > 3


def test_points_that_belong_together_stay_until_all_agree() -> None:
    """A law through points of which one was measured in a calm minute and another in a busy one would be wrong."""
    values = rounds({"calm": lambda: 1.0, "wild": series([1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 2.0])}, 0.1, least=2, most=7, together=True)
    assert len(values["calm"]) == len(values["wild"]) > 3


def test_the_budget_ends_it_but_every_point_has_one_value() -> None:
    """Each value takes 4 s of a made-up clock; 10 s are over in the first round of four points, which is ended all the same."""
    now = [0.0]

    def sample() -> float:
        now[0] += 4
        return 1.0

    values = rounds(dict.fromkeys("abcd", sample), 0.05, budget_s=10, clock=lambda: now[0])
    assert {name: len(seen) for name, seen in values.items()} == dict.fromkeys("abcd", 1)
    now[0] = 0.0
    assert [len(seen) for seen in rounds(dict.fromkeys("abcd", sample), 0.0, 9, 9, 18, lambda: now[0]).values()] == [2, 1, 1, 1]


def test_senseless_counts_are_refused() -> None:
    """At least one value, and no more than the most."""
    for least, most in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="1 <= least <= most is needed"):
            steady(lambda: 1.0, 0.05, least, most)


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=30))
def test_the_half_width_is_that_of_the_profile_file(values: list[float]) -> None:
    """The worker has no numpy, the profile has: both must mean the same quartiles."""
    assert half_width(values) == pytest.approx(Spread.of(values).relative, abs=1e-9)


def test_one_value_says_nothing_about_its_spread() -> None:
    """So it never counts as steady; zeros agree, and values around zero do not."""
    assert [half_width(values) for values in ([1.0], [0.0, 0.0], [0.0, 0.0, 0.0, 5.0, 5.0])] == [float("inf"), 0.0, float("inf")]
