"""The `lengths` section of a profile is a law, and scenarios plan with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.errors import InputError
from rollplan.models.lengths.given import LengthsInput, inline_trace
from rollplan.models.profile.file import Profile
from rollplan.models.profile.lengths import GroupCorrelation, LengthDrift, LengthsProfile, Ranker, RankerWeights, Recall, Tail
from rollplan.models.profile.origin import Origin


def section(**changes: Any) -> LengthsProfile:
    plain: dict[str, Any] = {
        "unit": "tokens",
        "samples": 1000,
        "mean": 1500.0,
        "limit": 4096.0,
        "limit_stated": True,
        "share_at_limit": 0.1,
        "quantiles": ((0.0, 20.0), (0.5, 900.0), (0.9, 3900.0), (0.900001, 4096.0), (1.0, 4096.0)),
        "tail": Tail(max_over_median=4.6, p99_over_median=4.6),
    }
    return LengthsProfile(**(plain | changes))


def saved(path: Path, lengths: LengthsProfile | None) -> Path:
    Profile(name="run", origin=Origin(kind="imported", by="rollplan", date="2026-01-01", source="x"), lengths=lengths).save(path)
    return path


def test_a_scenario_plans_with_the_law_of_a_profile(tmp_path: Path) -> None:
    """`lengths: {file: profile.json}`, read where the scenario is; the jump at the limit stays."""
    saved(tmp_path / "p.json", section())
    inlined = inline_trace({"file": "p.json"}, tmp_path)
    law = LengthsInput.build(inlined, "lengths").law()
    assert law == section().law()
    assert (law.limit_tokens, law.quantile(0.5), law.quantile(0.95)) == (4096, 900, 4096)
    assert law.share_at_limit == pytest.approx(0.1, abs=2e-6)


@pytest.mark.parametrize(
    ("lengths", "raw", "message"),
    [
        (section(unit="words"), {}, "lengths.unit = `words`: is not tokens"),
        (None, {}, "is missing: the profile holds no lengths"),
        (section(), {"column": "tokens"}, "has no effect on a profile"),
        (section(), {"quantiles": {0.5: 3}}, "gives `file` and `quantiles`"),
    ],
)
def test_what_is_no_law_of_tokens_is_refused(tmp_path: Path, lengths: LengthsProfile | None, raw: dict[str, object], message: str) -> None:
    """Words are not tokens, and nobody knows how many of them make one."""
    saved(tmp_path / "p.json", lengths)
    with pytest.raises(InputError, match=message):
        inline_trace({"file": "p.json", **raw}, tmp_path)


def test_a_profile_with_everything_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    recall = Recall(share=0.2, recall=0.5, low=0.4, high=0.6, chance=0.2, p_value=0.001)
    weights = RankerWeights(intercept=6.5, surface={"words": (3.0, 0.5, -0.1)}, terms={"é\u2028": (1.5, 0.25)})
    full = section(
        prompts=100,
        steps=10,
        share_truncated=0.1,
        drift=LengthDrift(steps=10, per_step=0.01, low=0.0, high=0.02),
        group_correlation=GroupCorrelation(groups=100, samples=1000, value=0.4, low=-0.1, high=0.5),
        ranker=Ranker(seed=1, training=70, validation=20, test=10, test_samples=100, penalty=3.0, recalls=(recall,), weights=weights),
        notes=("no limit was given",),
    )
    assert Profile.load(saved(tmp_path / "p.json", full)).lengths == full


@pytest.mark.parametrize(
    "quantiles",
    [((0.0, 20.0), (0.5, 10.0)), ((0.0, 20.0), (0.0, 30.0)), ((0.0, 20.0), (1.0, 5000.0)), ((0.5, 20.0), (0.1, 10.0))],
)
def test_quantiles_that_fall_or_exceed_the_limit_are_refused(tmp_path: Path, quantiles: tuple[tuple[float, float], ...]) -> None:
    """Profiles may have been edited by hand."""
    path = saved(tmp_path / "p.json", section())
    raw = json.loads(path.read_text())
    raw["lengths"]["quantiles"] = quantiles
    path.write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"quantiles|law of lengths"):
        Profile.load(path)


def test_words_have_no_law_of_tokens() -> None:
    with pytest.raises(ValueError, match="counted in words"):
        section(unit="words").law()


@pytest.mark.parametrize(("recall", "p_value", "better"), [(0.5, 0.001, True), (0.5, 0.011, False), (0.2, 0.001, False), (0.1, 0.0, False)])
def test_better_than_chance_takes_both_a_higher_recall_and_little_luck(recall: float, p_value: float, better: bool) -> None:
    assert Recall(share=0.2, recall=recall, low=0.0, high=1.0, chance=0.2, p_value=p_value).better_than_chance is better


@pytest.mark.parametrize(("low", "high", "significant"), [(-0.1, 0.1, False), (0.0, 0.1, False), (0.01, 0.1, True), (-0.2, -0.1, True)])
def test_drift_is_significant_where_its_interval_excludes_zero(low: float, high: float, significant: bool) -> None:
    assert LengthDrift(steps=9, per_step=low, low=low, high=high).significant is significant
