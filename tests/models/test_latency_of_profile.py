"""A scenario takes its latency from a profile file as it takes it from a CSV file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan.models.errors import InputError
from rollplan.models.latency import ptl_ms
from rollplan.models.latency_given import inline_latency
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.recipe import EngineSettings
from rollplan.models.strict import tuples

ORIGIN = Origin(kind="measured", by="rollplan", date="2026-01-01T00:00:00+00:00", source="a test")
MS = {(1, 100): 7.0, (1, 1000): 7.5, (8, 100): 9.0}


def curve(tp: int) -> DecodeCurve:
    points = [
        DecodePoint(
            batch=batch, context_tokens=context, attended_tokens=context, ms=Spread(median=ms / tp, low=ms / tp, high=ms, repeats=5)
        )
        for (batch, context), ms in MS.items()
    ]
    return DecodeCurve(tp=tp, points=tuple(points), max_num_seqs=8, max_model_len=1024)


def test_a_profile_becomes_one_table_for_each_tp(tmp_path: Path) -> None:
    """The medians; the cell that did not fit follows from the growth of attention: 9 + 0.5 x 8."""
    section = DecodeProfile(model="m", curves=(curve(2), curve(1)))
    Profile(name="m", origin=ORIGIN, decode=section).save(tmp_path / "profile.json")
    settings = EngineSettings.build(tuples({"latency": inline_latency({"file": "profile.json"}, tmp_path)}), "engine")
    assert settings.latency is not None
    assert list(settings.latency) == [1, 2]
    law = settings.latency[1].law()
    assert [ptl_ms(law, batch, batch * context) for batch, context in MS] == pytest.approx(list(MS.values()))
    assert ptl_ms(law, 8, 8000) == pytest.approx(13.0)
    assert ptl_ms(settings.latency[2].law(), 1, 100) == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is missing: the profile holds no decode latency; give one that `rollplan profile rollout` wrote"),
        ('{"format": "rollplan/plan/1"}', "is not `rollplan/profile/1`; give a profile file"),
        ("{", "is not JSON"),
    ],
)
def test_another_json_file_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    """A profile of something else, a plan, half a file."""
    path = tmp_path / "profile.json"
    if text is None:
        Profile(name="m", origin=ORIGIN).save(path)
    else:
        path.write_text(text)
    with pytest.raises(InputError) as refused:
        inline_latency({"file": "profile.json"}, tmp_path)
    assert says in str(refused.value)
