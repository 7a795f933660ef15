"""Length laws: the digitised quantiles of RollMux Fig. 11, their means, and the longest of many responses."""

from __future__ import annotations

from math import isclose
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.lengths import REFERENCE_LENGTHS, QuantileLaw

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)
LEVELS = (0.10, 0.25, 0.50, 0.70, 0.80, 0.85, 0.90, 0.95)
FIG_11 = {
    "7B-4k": (243, 495, 718, 975, 1316, 1543, 1854, 2957),
    "7B-8k": (217, 434, 668, 1013, 1343, 1764, 3204, 4982),
    "14B-8k": (233, 419, 748, 1120, 1918, 2435, 3112, 3975),
}
FIG_11_TOP = {"7B-4k": (4096, 4096), "7B-8k": (6304, 8192), "14B-8k": (4697, 5691)}
FIG_11_MEAN = {"7B-4k": 963, "7B-8k": 1206, "14B-8k": 1202}


@st.composite
def laws(draw: st.DrawFn) -> QuantileLaw:
    """Any increasing quantiles below a limit."""
    limit = draw(st.integers(10, 100_000))
    levels = sorted(draw(st.sets(st.integers(1, 99), min_size=1, max_size=6)))
    tokens = sorted(draw(st.lists(st.integers(1, limit), min_size=len(levels), max_size=len(levels))))
    return QuantileLaw(float(limit), tuple((level / 100, float(length)) for level, length in zip(levels, tokens, strict=True)))


def test_the_laws_are_those_of_fig_11() -> None:
    """RollMux (arXiv 2512.11306) Fig. 11: two models, two token limits."""
    assert {name: law.limit_tokens for name, law in REFERENCE_LENGTHS.items()} == {"7B-4k": 4096, "7B-8k": 8192, "14B-8k": 8192}


@pytest.mark.parametrize("name", FIG_11)
def test_published_quantiles_from_10_to_95_percent_come_back(name: str) -> None:
    """RollMux Fig. 11, digitised."""
    assert [REFERENCE_LENGTHS[name].quantile(q) for q in LEVELS] == pytest.approx(FIG_11[name])


@pytest.mark.parametrize("name", FIG_11)
def test_published_quantiles_of_the_long_tail_come_back(name: str) -> None:
    """The 97 % and 99 % quantiles of Fig. 11: at 4k the limit itself."""
    assert [REFERENCE_LENGTHS[name].quantile(q) for q in (0.97, 0.99)] == pytest.approx(FIG_11_TOP[name])


@pytest.mark.parametrize("name", FIG_11)
def test_quantiles_between_two_published_levels_lie_between_their_lengths(name: str) -> None:
    """Every whole percent from 10 to 95, the range of the figure that is dense enough."""
    law, points = REFERENCE_LENGTHS[name], list(zip(LEVELS, FIG_11[name], strict=True))
    wrong = []
    for percent in range(10, 96):
        q = percent / 100
        low, high = max(x for level, x in points if level <= q + 1e-12), min(x for level, x in points if level >= q - 1e-12)
        if not low - 1e-6 <= law.quantile(q) <= high + 1e-6:
            wrong.append((q, low, law.quantile(q), high))
    assert wrong == []


@pytest.mark.parametrize("name", FIG_11)
def test_means_are_within_3_percent_of_the_published_ones(name: str) -> None:
    """RollMux Fig. 11; they are 15 to 24 % of the limit, so worst-case planning reserves four to seven times too much."""
    assert REFERENCE_LENGTHS[name].mean() == pytest.approx(FIG_11_MEAN[name], rel=0.03)


@pytest.mark.parametrize("name", FIG_11)
def test_the_ends_are_one_token_and_the_limit(name: str) -> None:
    """No response is empty, none longer than the limit."""
    law = REFERENCE_LENGTHS[name]
    assert (law.quantile(0.0), law.quantile(1.0)) == (1.0, law.limit_tokens)


def test_a_flat_law_has_the_mean_and_longest_of_a_uniform_distribution() -> None:
    """From 1 to 101 tokens evenly: mean 51, longest of n on average 1 + 100 n / (n + 1)."""
    law = QuantileLaw(101.0, ((0.5, 51.0),))
    assert (law.mean(), law.mean_longest(1), law.mean_longest(9)) == pytest.approx((51.0, 51.0, 91.0))


@REPEATABLE
@given(laws(), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_never_fall(law: QuantileLaw, q: float, other: float) -> None:
    """A larger share of the responses ends below a larger length."""
    assert law.quantile(min(q, other)) <= law.quantile(max(q, other)) + 1e-9


@REPEATABLE
@given(laws())
def test_the_longest_of_one_response_is_the_mean(law: QuantileLaw) -> None:
    """Both integrals are exact on every linear piece."""
    assert law.mean_longest(1) == pytest.approx(law.mean())


@REPEATABLE
@given(laws(), st.integers(1, 2000))
def test_the_longest_of_more_responses_is_longer_and_within_the_limit(law: QuantileLaw, responses: int) -> None:
    """The tail that a rollout waits for."""
    longest, longer = law.mean_longest(responses), law.mean_longest(responses + 1)
    assert law.mean() <= longest * (1 + 1e-9)
    assert longest <= longer * (1 + 1e-9)
    assert longer <= law.limit_tokens * (1 + 1e-9)


@pytest.mark.parametrize(("name", "responses"), [("7B-4k", 4), ("7B-8k", 16), ("14B-8k", 64)])
def test_mean_longest_agrees_with_drawn_samples(name: str, responses: int) -> None:
    """Inverse transform sampling, 4000 batches: the standard error is below 1 %."""
    law, random = REFERENCE_LENGTHS[name], Random(0)
    longest = fmean(law.quantile(max(random.random() for _ in range(responses))) for _ in range(4000))
    assert isclose(law.mean_longest(responses), longest, rel_tol=0.04)
