"""Length laws: the digitised figures of RollMux and StreamRL, means, the longest of many responses, jumps and limits."""

from __future__ import annotations

from math import isclose
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.lengths import REFERENCE_LENGTHS, QuantileLaw
from rollplan.models.lengths.reference import _STREAMRL_SHARES
from rollplan.models.lengths.sampling import stratified

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


def test_the_reference_laws_are_those_of_two_papers() -> None:
    """RollMux (arXiv 2512.11306) Fig. 11: two models, two token limits; StreamRL (arXiv 2504.15930) Fig. 7 at three limits."""
    rollmux = {"7B-4k": 4096, "7B-8k": 8192, "14B-8k": 8192}
    streamrl = {"streamrl-20k": 20_000, "streamrl-10k": 10_000, "streamrl-5k": 5_000}
    assert {name: law.limit_tokens for name, law in REFERENCE_LENGTHS.items()} == rollmux | streamrl


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


def test_fig_7_of_streamrl_comes_back() -> None:
    """StreamRL Fig. 7, digitised: 30 bins whose areas integrate to 1.000 before any scaling."""
    law = REFERENCE_LENGTHS["streamrl-20k"]
    published = {0.10: 1327, 0.40: 2645, 0.50: 3189, 0.80: 6925, 0.90: 12963, 0.95: 16314, 0.99: 19152}
    assert {q: round(law.quantile(q)) for q in published} == published
    assert law.mean() == pytest.approx(4920, abs=1)
    assert sum(_STREAMRL_SHARES) == pytest.approx(1, abs=0.001)


def test_the_longest_fifth_of_fig_7_holds_half_of_the_tokens() -> None:
    """StreamRL's long tail: mean of the longest 20 %, and what the longest 20, 10 and 5 % hold of all tokens."""
    lengths = stratified(REFERENCE_LENGTHS["streamrl-20k"], 10_000)
    assert lengths[-2000:].mean() == pytest.approx(12785, abs=1)
    assert [lengths[-longest:].sum() / lengths.sum() for longest in (2000, 1000, 500)] == pytest.approx([0.52, 0.33, 0.18], abs=0.005)


@pytest.mark.parametrize(("name", "scale"), [("streamrl-10k", 2), ("streamrl-5k", 4)])
def test_shorter_limits_scale_the_lengths_of_fig_7(name: str, scale: int) -> None:
    """StreamRL's experiments at 10K and 5K force one half and one quarter of the lengths."""
    whole, scaled = REFERENCE_LENGTHS["streamrl-20k"], REFERENCE_LENGTHS[name]
    assert [scale * scaled.quantile(q / 20) for q in range(21)] == pytest.approx([whole.quantile(q / 20) for q in range(21)])


@pytest.mark.parametrize(("name", "share"), [("7B-4k", 0.03), ("7B-8k", 0.01), ("14B-8k", 0.0), ("streamrl-20k", 0.0)])
def test_what_a_limit_cuts_off_is_a_share_of_its_own(name: str, share: float) -> None:
    """Fig. 11: at 4k the 97 % quantile is the limit, at 8k the 99 % quantile of 7B; StreamRL's last bin ends below 20,000."""
    assert REFERENCE_LENGTHS[name].share_at_limit == pytest.approx(share)


def test_a_jump_has_no_length_in_between() -> None:
    """Half of the responses 10 tokens, half 30: two quantiles of one share."""
    law = QuantileLaw(40.0, ((0.0, 10.0), (0.5, 10.0), (0.5, 30.0), (1.0, 30.0)))
    assert [law.quantile(q) for q in (0, 0.5, 0.5000001, 1)] == [10, 10, 30, 30]
    assert (law.mean(), law.share_at_limit) == (20, 0)
    assert [law.mean_longest(n) for n in (1, 2, 3)] == pytest.approx([20, 25, 27.5])


@pytest.mark.parametrize(
    ("limit", "quantiles"),
    [
        (100.0, ((0.5, 50.0), (0.4, 60.0))),
        (100.0, ((0.5, 50.0), (0.6, 40.0))),
        (100.0, ((0.5, 101.0),)),
        (100.0, ((0.5, 0.5),)),
        (100.0, ((-0.1, 5.0),)),
        (100.0, ((1.1, 5.0),)),
        (100.0, ((0.5, float("nan")),)),
        (0.5, ()),
        (float("inf"), ()),
    ],
)
def test_what_is_no_law_is_refused(limit: float, quantiles: tuple[tuple[float, float], ...]) -> None:
    """Falling shares or tokens, lengths outside 1 to the limit, no limit."""
    with pytest.raises(ValueError, match="must be"):
        QuantileLaw(limit, quantiles)


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(q: float) -> None:
    """It is no quantile."""
    with pytest.raises(ValueError, match="q must be in 0 to 1"):
        REFERENCE_LENGTHS["7B-4k"].quantile(q)


def test_the_longest_of_no_response_is_refused() -> None:
    """It has no length."""
    with pytest.raises(ValueError, match="responses must be at least 1, got 0"):
        REFERENCE_LENGTHS["7B-4k"].mean_longest(0)


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
