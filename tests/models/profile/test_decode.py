"""The decode section: what it holds, what it refuses, and what a batch will take by it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.decode import Admission, Requests, simulate
from rollplan.models.errors import InputError
from rollplan.models.fits.ptl import fit_ptl
from rollplan.models.latency import AffineLatency, ptl_ms
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile, PrefillCost, agree
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.profile.predict import predict_batch

LAW = AffineLatency(3.0, 0.1, 0.5)
ORIGIN = Origin(kind="measured", by="rollplan", date="2026-01-01T00:00:00+00:00", source="a test")


def exactly(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, repeats=5)


def point(batch: int, context: int, ms: float | None = None) -> DecodePoint:
    value = ptl_ms(LAW, batch, batch * context) if ms is None else ms
    return DecodePoint(batch=batch, context_tokens=context, attended_tokens=context, ms=exactly(value))


def curve(*left_out: tuple[int, int], **changes: object) -> DecodeCurve:
    """A curve of LAW at batches 1, 4, 16 and contexts 50, 100, 800."""
    points = tuple(point(b, c) for b in (1, 4, 16) for c in (50, 100, 800) if (b, c) not in left_out)
    prefill = PrefillCost(prompt_tokens=64, batch=16, s_per_token=exactly(2e-5))
    fields: dict[str, object] = {"tp": 1, "points": points, "prefill": prefill, "max_num_seqs": 16, "max_model_len": 1024}
    return DecodeCurve.build({**fields, "kv_tokens": 100_000, **changes}, "curve")


def test_a_step_between_measured_points_is_interpolated() -> None:
    """Bilinear in batch and context: batch 10 at 450 tokens is in the middle of four points."""
    corners = [ptl_ms(LAW, batch, batch * context) for batch in (4, 16) for context in (100, 800)]
    assert curve().ptl_ms(10, 450) == pytest.approx(np.mean(corners))
    assert curve().ptl_ms(16, 800) == pytest.approx(ptl_ms(LAW, 16, 16 * 800))


@pytest.mark.parametrize(
    ("batch", "context", "says"),
    [
        (17, 100, "batch 17: is outside of the measured range, 1 to 16; ask within it, or measure further with --batches"),
        (4, 801, "context 801: is outside of the measured range, 50 to 800"),
        (4, 49, "context 49: is outside of the measured range, 50 to 800"),
    ],
)
def test_nothing_is_said_outside_of_the_measured_range(batch: int, context: float, says: str) -> None:
    """The last slope would go on silently; a profile says what was measured and no more."""
    with pytest.raises(InputError) as refused:
        curve().ptl_ms(batch, context)
    assert says in str(refused.value)


def test_a_batch_that_did_not_fit_at_a_context_was_not_measured() -> None:
    """It lies within the box, but not below any measured point."""
    with pytest.raises(InputError, match="batch 16 at context 400: does not fit into the KV cache and was not measured"):
        curve((16, 800)).ptl_ms(16, 400)
    assert curve((16, 800)).ptl_ms(4, 400) > 0


def test_cells_beyond_the_cache_are_filled_in_for_laws() -> None:
    """Attention grows with batch times context: on this law the filled cell is exact."""
    filled = curve((16, 800))
    assert np.isnan(filled.ms()).sum() == 1
    assert filled.complete_ms()[2, 2] == pytest.approx(ptl_ms(LAW, 16, 16 * 800))
    assert ptl_ms(filled.law(), 16, 16 * 800) == pytest.approx(ptl_ms(LAW, 16, 16 * 800))


@pytest.mark.parametrize("missing", [(4, 100), (16, 50), (1, 800)])
def test_a_hole_in_the_grid_is_refused(missing: tuple[int, int]) -> None:
    """Only the corner of large batches at long contexts may be absent."""
    with pytest.raises(InputError, match=f"has no point for batch {missing[0]} at context {missing[1]}"):
        curve(missing)


def test_a_point_is_where_it_says() -> None:
    """One per cent, or a token."""
    with pytest.raises(InputError, match="was measured at 120 tokens, not at 100"):
        DecodePoint.build({"batch": 1, "context_tokens": 100, "attended_tokens": 120.0, "ms": exactly(3.0)}, "point")


def test_a_point_twice_and_a_tp_twice_are_refused() -> None:
    """Which of them counts would be a guess."""
    with pytest.raises(InputError, match="has a point twice"):
        curve(points=(point(1, 50), point(1, 50)))
    with pytest.raises(InputError, match="has two curves of the same tp"):
        DecodeProfile.build({"model": "m", "curves": (curve(), curve())}, "decode")


def test_a_tp_that_was_not_measured_is_refused() -> None:
    """Communication is in the measurement; it cannot be scaled away."""
    section = DecodeProfile(model="m", curves=(curve(),))
    assert section.curve(1) == curve()
    with pytest.raises(InputError, match="tp 2: was not measured; measured: tp 1; profile it with --tp 2"):
        section.curve(2)


def test_the_section_survives_the_file(tmp_path: Path) -> None:
    """What is written is read again, value for value."""
    profile = Profile(name="m on CPU", origin=ORIGIN, decode=DecodeProfile(model="m", curves=(curve((16, 800)),)))
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == profile


requests = st.lists(st.tuples(st.integers(60, 200), st.integers(1, 300)), min_size=1, max_size=60)


@given(requests)
def test_a_prediction_is_the_simulation_with_what_was_measured(lengths: list[tuple[int, int]]) -> None:
    """On a law that the table holds exactly in context and nearly in batch: the seconds are those of the law itself."""
    prompts, outputs = map(list, zip(*lengths, strict=True))
    dense = tuple(point(b, c) for b in range(1, 17) for c in (50, 800))
    predicted = predict_batch(curve(points=dense), prompts, outputs)
    expected = simulate([Requests(np.array(prompts), np.array(outputs))], Admission(16, 100_000, "preempt"), LAW, 2e-5)
    assert predicted.seconds == pytest.approx(expected.seconds)
    assert predicted.finish_s == pytest.approx(expected.finish_s)


def test_a_prediction_that_leaves_the_measured_range_is_refused() -> None:
    """A sequence that grows to 900 tokens, and a slot more than was measured."""
    with pytest.raises(InputError, match="context 900: is outside of the measured range, 50 to 800"):
        predict_batch(curve(), [100], [800])
    with pytest.raises(InputError, match="batch 17: is outside of the measured range, 1 to 16"):
        predict_batch(curve(max_num_seqs=17), [60] * 17, [10] * 17)


def test_without_a_measured_prefill_prompts_are_free() -> None:
    """10 ms of 500 prompt tokens, or nothing."""
    with_it, without = (predict_batch(curve(prefill=prefill), [500], [2]) for prefill in (curve().prefill, None))
    assert with_it.seconds - without.seconds == pytest.approx(500 * 2e-5)


@given(st.floats(1, 100), st.floats(0.001, 0.2), st.floats(-0.5, 0.5))
def test_two_measurements_agree_within_their_spread_and_the_floor(median: float, half: float, move: float) -> None:
    """Symmetric, true of a measurement and itself, and false beyond both half-widths and 3 %."""
    first = Spread(median=median, low=median * (1 - half), high=median * (1 + half), repeats=5)
    other = median * (1 + move)
    second = Spread(median=other, low=other * (1 - half), high=other * (1 + half), repeats=5)
    assert agree(first, first)
    assert agree(first, second) == agree(second, first)
    allowed = half * (median + other) + 0.03 * min(median, other)
    if abs(abs(other - median) - allowed) > 1e-9 * median:
        assert agree(first, second) == (abs(other - median) < allowed)


def test_a_fitted_grid_of_absurd_size_is_refused(tmp_path: Path) -> None:
    """A number that no array holds is a fault of the file, not of the program."""
    fits = fit_ptl((1, 4), (50.0, 100.0), np.array([[1.0, 2.0], [3.0, 4.0]])).model_dump()
    fits["convex"] = {
        "batches": [1, 10**30],
        "contexts": [50.0, 100.0],
        "ms": [[1.0, 2.0], [3.0, 4.0]],
        "median_error": 0.0,
        "worst_error": 0.0,
    }
    path = tmp_path / "profile.json"
    raw = json.loads(Profile(name="m", origin=ORIGIN, decode=DecodeProfile(model="m", curves=(curve(),))).to_json())
    raw["decode"]["curves"][0]["fits"] = fits
    path.write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"decode.curves\[0\].fits.convex.batches\[1\]"):
        Profile.load(path)


def test_the_floor_of_agreement_is_a_share_of_the_smaller_median() -> None:
    """3.05 % more than 1 is outside of 3 %, from whichever side it is seen."""
    assert not agree(exactly(1.0), exactly(1.0305))
    assert not agree(exactly(1.0305), exactly(1.0))
    assert agree(exactly(1.0), exactly(1.0295))
