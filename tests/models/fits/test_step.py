"""The law of a pass: a law without noise is found again, no constant is negative, and what cannot be told apart is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.fits.step import StepLaw, fit_step

POINTS = [(sequences * length, sequences * length**2) for sequences in (1, 2, 8) for length in (128, 512)]
TOKENS, SUM_SQ = [tokens for tokens, _ in POINTS], [sum_sq for _, sum_sq in POINTS]
MAGNITUDE = st.floats(1e-3, 1.0)


@given(MAGNITUDE, MAGNITUDE, MAGNITUDE)
def test_a_law_without_noise_is_found_again(a: float, b: float, c: float) -> None:
    """Whatever the sizes of the terms; and then a point left out is predicted exactly, too."""
    law = StepLaw(a, b / 100, c / 50_000)
    fit = fit_step(TOKENS, SUM_SQ, [law.seconds(*point) for point in POINTS])
    assert fit.terms == ("a", "b", "c")
    assert [fit.law.a_s, fit.law.b_s_per_token, fit.law.c_s_per_token2] == pytest.approx([a, b / 100, c / 50_000], rel=1e-6)
    assert fit.worst < 1e-9
    assert fit.worst_left_out == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(1e-4, 1e3), min_size=len(POINTS), max_size=len(POINTS)))
def test_no_constant_is_ever_negative(seconds: list[float]) -> None:
    """However wild the measurements; a pass over more tokens then never takes less time."""
    law = fit_step(TOKENS, SUM_SQ, seconds).law
    assert min(law.a_s, law.b_s_per_token, law.c_s_per_token2) >= 0


@given(st.lists(st.floats(0.1, 10.0), min_size=len(POINTS), max_size=len(POINTS)), st.integers(0, 2), st.sampled_from([0.9, 1.1]))
def test_no_other_law_has_smaller_relative_errors(seconds: list[float], term: int, factor: float) -> None:
    """The sum of squared relative errors grows, or stays, if a constant is changed by a tenth, or raised from 0."""
    law = fit_step(TOKENS, SUM_SQ, seconds).law
    constants = [law.a_s, law.b_s_per_token, law.c_s_per_token2]
    other = [*constants[:term], constants[term] * factor or (1e-2, 1e-5, 1e-8)[term], *constants[term + 1 :]]

    def squares(found: StepLaw) -> float:
        return sum((found.seconds(*point) / time - 1) ** 2 for point, time in zip(POINTS, seconds, strict=True))

    assert squares(law) <= squares(StepLaw(*other)) + 1e-9


@given(MAGNITUDE, st.floats(0.01, 100))
def test_slower_by_a_factor_is_the_same_law_times_the_factor(noise: float, factor: float) -> None:
    """Errors are relative, so the unit of time does not matter."""
    seconds = [1 + noise * index * 7 % 3 for index in range(len(POINTS))]
    one, other = (fit_step(TOKENS, SUM_SQ, [scale * value for value in seconds]) for scale in (1.0, factor))
    assert other.law.seconds(1000, 1e6) == pytest.approx(factor * one.law.seconds(1000, 1e6), rel=1e-6)
    assert other.errors == pytest.approx(one.errors, abs=1e-6)


def test_with_one_length_attention_cannot_be_told_from_the_rest() -> None:
    """Squares are then proportional to tokens: 2 s + 3 s per token of 10 tokens and 0.1 s per square are 4 s per token."""
    tokens = [10, 20, 40]
    fit = fit_step(tokens, [10 * total for total in tokens], [2 + 3 * total + 0.1 * 10 * total for total in tokens])
    assert fit.terms == ("a", "b")
    assert (fit.law.a_s, fit.law.b_s_per_token, fit.law.c_s_per_token2) == pytest.approx((2, 4, 0))


def test_with_one_amount_of_tokens_there_is_no_constant_term() -> None:
    """It could not be told from the tokens."""
    assert fit_step([64, 64, 64], [64 * 8, 64 * 16, 64 * 32], [3.0, 4.0, 6.0]).terms == ("b", "c")
    assert fit_step([64], [64 * 8], [3.0]).terms == ("b",)


def test_a_point_without_which_nothing_can_be_told_apart_is_not_left_out() -> None:
    """Three points and three terms: every one is needed, so no error of this kind is known."""
    fit = fit_step([100, 200, 100], [1000, 2000, 10_000], [1.0, 1.8, 1.2])
    assert fit.terms == ("a", "b", "c")
    assert fit.left_out == (None, None, None)
    assert fit.worst_left_out is None


def test_a_point_that_the_others_do_not_foresee_shows_in_its_leave_one_out_error() -> None:
    """Five points on a law and one of twice the time: without it the law predicts half of what was measured."""
    seconds = [0.1 + 0.001 * tokens for tokens in TOKENS]
    seconds[3] *= 2
    fit = fit_step(TOKENS, SUM_SQ, seconds)
    assert fit.left_out[3] == pytest.approx(-0.5)
    assert fit.worst < 0.5


@pytest.mark.parametrize(
    ("tokens", "sum_sq", "seconds"), [([], [], []), ([1], [1], [1, 2]), ([1], [1], [0.0]), ([1], [1], [float("inf")]), ([0], [1], [1])]
)
def test_senseless_measurements_are_refused(tokens: list[float], sum_sq: list[float], seconds: list[float]) -> None:
    """A relative error of a pass that takes no time does not exist."""
    with pytest.raises(ValueError, match="tokens, sum_sq and seconds must"):
        fit_step(tokens, sum_sq, seconds)
