"""Few measurements, two constants: what is recovered, what cannot be told, and how honest interval and errors are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.calibration.found import best, separable
from rollplan.models.calibration.robust import Constants, Fit, Observed, fit

DEFAULT = (1.07, 5.0)
CONSTANTS = Constants(DEFAULT, (0.1, 0.0), (10.0, 1000.0), (True, True))
OVERHEAD = CONSTANTS.fixed_at(DEFAULT, (False, True))


def observed(reference_ms: Sequence[float], measured_ms: Sequence[float]) -> list[Observed]:
    """Return steps of the law scale * reference + overhead, with what was measured of each."""
    return [
        Observed(f"step {place}", "notes.yaml", "measured", ms, lambda at, reference=reference: float(at[0] * reference + at[1]))
        for place, (reference, ms) in enumerate(zip(reference_ms, measured_ms, strict=True))
    ]


@given(
    scale=st.floats(0.3, 4.0),
    overhead=st.floats(0.0, 20.0),
    reference=st.lists(st.floats(3.0, 60.0), min_size=3, max_size=8),
    wider=st.floats(1.6, 5.0),
)
@settings(max_examples=40, deadline=None)
def test_samples_without_noise_give_back_the_constants_they_were_made_with(
    scale: float, overhead: float, reference: list[float], wider: float
) -> None:
    """Whatever the constants are, and whatever the defaults were."""
    steps = [*reference, wider * max(reference), wider * max(reference)]
    found = fit(observed(steps, [scale * step + overhead for step in steps]), CONSTANTS)
    assert found.values == pytest.approx((scale, overhead), rel=1e-3, abs=2e-3)
    assert found.after.worst < 1e-3
    assert found.unseen is not None
    assert found.unseen.worst < 5e-3


@given(
    reference=st.lists(st.floats(3.0, 60.0), min_size=1, max_size=9),
    seed=st.integers(0, 10_000),
    noise=st.floats(0.0, 0.3),
)
@settings(max_examples=60, deadline=None)
def test_what_is_used_is_never_worse_than_the_default(reference: list[float], seed: int, noise: float) -> None:
    """By the median on the fitted samples, and by the median on left-out ones where there are any."""
    rng = np.random.default_rng(seed)
    truth = np.array(reference) * rng.uniform(0.5, 2) + rng.uniform(0, 10)
    samples = observed(reference, list(truth * np.exp(noise * rng.standard_normal(truth.size))))
    found = fit(samples, CONSTANTS if separable(samples, CONSTANTS) else OVERHEAD)
    if found.better:
        assert found.after.median <= found.before.median + 1e-9
        assert found.unseen is None or found.unseen.median <= found.before.median + 1e-9
    else:
        assert max(found.after.median, 0 if found.unseen is None else found.unseen.median) > found.before.median


def test_a_sample_that_was_left_out_is_predicted_from_the_others_alone() -> None:
    """Recomputed here by fitting every subset anew; a fit that had seen the sample would be closer."""
    steps, measured = [6.0, 9.0, 14.0, 30.0, 50.0], [10.1, 12.2, 19.0, 36.0, 61.0]
    samples = observed(steps, measured)
    found = fit(samples, CONSTANTS)
    off = []
    for place in range(len(steps)):
        scale, overhead = fit([*samples[:place], *samples[place + 1 :]], CONSTANTS).values
        off.append(abs((scale * steps[place] + overhead) / measured[place] - 1))
    assert found.unseen is not None
    assert found.unseen.median == pytest.approx(np.median(off), rel=1e-6)
    assert found.unseen.worst == pytest.approx(max(off), rel=1e-6)
    assert found.unseen.worst_at == f"step {int(np.argmax(off))}"
    assert found.unseen.worst > found.after.worst


def test_one_wrong_measurement_does_not_carry_the_others_away() -> None:
    """Seven good samples and one that is three times too slow: plain squares would give 8 % less scale and 4 ms more."""
    steps = np.array([6.0, 8.0, 11.0, 15.0, 21.0, 30.0, 42.0, 60.0])
    measured = 1.2 * steps + 3.0
    measured[2] *= 3
    found = fit(observed(list(steps), list(measured)), CONSTANTS)
    relative = np.column_stack([steps, np.ones(8)]) / measured[:, None]
    squares = np.linalg.lstsq(relative, np.ones(8), rcond=None)[0]
    assert abs(found.values[1] - 3.0) < 0.5 < abs(squares[1] - 3.0)
    assert found.values[0] == pytest.approx(1.2, rel=0.02)
    assert found.after.worst_at == "step 2"


@pytest.mark.parametrize(
    ("reference", "told"),
    [([10.0, 10.0, 10.0], False), ([10.0, 12.0, 14.0], False), ([10.0, 20.0], False), ([10.0, 12.0, 15.1], True)],
)
def test_two_constants_need_three_samples_that_differ_by_half(reference: list[float], told: bool) -> None:
    """Alike steps allow any scale with the matching overhead; two samples allow any noise to look like a law."""
    assert separable(observed(reference, reference), CONSTANTS) is told


def test_samples_that_one_constant_has_no_part_in_cannot_tell_it() -> None:
    """Micro-batches know no overhead, however much they differ in size."""
    sizes = [10.0, 20.0, 40.0]
    samples = [Observed(f"{size}", "profile.json", "measured", size, lambda at, size=size: float(at[0] * size)) for size in sizes]
    assert not separable(samples, CONSTANTS)


def test_of_two_fits_the_one_that_foresees_more_is_taken() -> None:
    """With noise of 6 %, two constants follow these four steps more closely than one, and foresee them less."""
    samples = observed([10.0, 14.0, 20.0, 30.0], [21.3, 22.8, 33.4, 45.0])
    two, one = fit(samples, CONSTANTS), fit(samples, OVERHEAD)
    assert two.unseen is not None
    assert one.unseen is not None
    assert two.after.median < one.after.median
    assert two.unseen.median > one.unseen.median
    assert best(samples, [CONSTANTS, OVERHEAD], DEFAULT) == (one, (False, True))


def test_the_constants_are_where_the_sum_of_soft_l1_is_least() -> None:
    """Nelder-Mead on the formula itself finds no better place, outliers or not."""
    from scipy.optimize import minimize

    steps = np.array([6.0, 9.0, 20.0, 42.0, 60.0])
    measured = (1.3 * steps + 4.0) * np.array([1.0, 2.5, 0.97, 1.04, 0.6])

    def soft(at: Sequence[float]) -> float:
        off = ((at[0] * steps + at[1]) / measured - 1) / 0.05
        return float(np.sum(2 * (np.sqrt(1 + off**2) - 1)))

    found = fit(observed(list(steps), list(measured)), CONSTANTS)
    exact = minimize(soft, (1.0, 4.0), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000})
    assert soft(found.values) <= exact.fun + 1e-9
    assert found.values == pytest.approx(exact.x, rel=1e-4)


def test_what_is_not_fitted_does_not_move() -> None:
    """The overhead takes up all of the difference where the scale is held."""
    found = fit(observed([10.0, 10.0], [14.7, 14.7]), OVERHEAD)
    assert found.values == pytest.approx((1.07, 4.0))
    assert found.intervals[0] is None
    assert found.intervals[1] == pytest.approx((4.0, 4.0), abs=1e-3)


@pytest.mark.parametrize("samples", [1, 2])
def test_an_interval_and_an_unseen_error_need_more_samples_than_constants(samples: int) -> None:
    """One sample says nothing of its own error; two allow it, widely."""
    found = fit(observed([10.0, 11.0][:samples], [14.0, 15.0][:samples]), OVERHEAD)
    assert (found.unseen is None) == (found.intervals[1] is None) == (samples == 1)


def test_the_interval_is_the_jackknife_with_students_t() -> None:
    """Three samples, two constants: one degree of freedom, whose 95 % point is 6.314 (tables), and sqrt(2/3 sum of squares)."""
    steps, measured = [6.0, 14.0, 50.0], [10.5, 19.0, 61.0]
    samples = observed(steps, measured)
    without = [fit([*samples[:place], *samples[place + 1 :]], CONSTANTS).values[0] for place in range(3)]
    half = 6.3138 * np.sqrt(2 / 3 * np.sum((np.array(without) - np.mean(without)) ** 2))
    found = fit(samples, CONSTANTS)
    assert found.intervals[0] == pytest.approx((max(0.1, found.values[0] - half), min(10.0, found.values[0] + half)), rel=1e-4)


def intervals(samples: int, trials: int) -> list[Fit]:
    """Return fits of random samples with 3 % noise around scale 1.15 and 3 ms."""
    rng = np.random.default_rng(samples)
    found = []
    for _ in range(trials):
        steps = np.exp(rng.uniform(np.log(6), np.log(40), samples))
        measured = (1.15 * steps + 3) * (1 + 0.03 * rng.standard_normal(samples))
        found.append(fit(observed(list(steps), list(measured)), CONSTANTS))
    return found


@pytest.mark.parametrize("samples", [4, 8])
def test_intervals_hold_the_truth_about_as_often_as_they_say(samples: int) -> None:
    """Nine times in ten; the jackknife reached 85 to 97 % in larger trials, so 78 % of 60 is far below by chance alone."""
    held = [found.intervals[0] for found in intervals(samples, 60)]
    assert np.mean([bounds is not None and bounds[0] <= 1.15 <= bounds[1] for bounds in held]) >= 0.78
    assert np.median([bounds[1] - bounds[0] for bounds in held if bounds is not None]) < 0.6


def test_many_samples_are_left_out_in_groups() -> None:
    """Thirty fits at most, whatever a profile holds; the result is that of all samples."""
    rng = np.random.default_rng(3)
    steps = list(np.linspace(5, 60, 95))
    found = fit(observed(steps, [(1.3 * step + 2) * (1 + 0.02 * rng.standard_normal()) for step in steps]), CONSTANTS)
    assert found.values == pytest.approx((1.3, 2.0), rel=0.1)
    assert found.unseen is not None
    assert found.unseen.median == pytest.approx(found.after.median, rel=0.3)
