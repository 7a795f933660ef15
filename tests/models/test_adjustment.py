"""P7: when to add a rollout instance, and StreamRL's published trace of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.adjustment import add_instance, adjusted

FIG_11_GAPS_S = (
    *(-0.7, 1.4, -4.3, 4.1, 3.1, 9.9, 9.3, 17.8, 21.7, 29.3),
    *(-8.1, 1.3, 9.0, 11.9, 16.7, 21.2),
    *(-7.8, -2.2, 7.4, 5.5, 9.8, 15.3),
    -4.0,
)
"""StreamRL Fig. 11, digitised: T_rollout - T_train of iterations 1 to 23; 32 GPUs grow by 8 after 10, 16 and 22."""


@given(st.floats(1, 1e4), st.floats(0.05, 1.5), st.floats(0.1, 1e4), st.integers(1, 64))
def test_with_an_exact_prediction_the_gap_stays_at_least_zero(work_s: float, elasticity: float, train_s: float, instances: int) -> None:
    """So rollout is never made faster than training needs."""

    def rollout_s(count: int) -> float:
        return float(work_s * count**-elasticity)

    after = adjusted(rollout_s, instances, train_s, most=128)
    if after > instances:
        assert rollout_s(after) - train_s >= -1e-9 * train_s


@given(st.floats(1, 1e4), st.floats(0.05, 1.5), st.floats(0.1, 1e4))
def test_repeated_it_ends_where_one_more_would_leave_rollout_waiting(work_s: float, elasticity: float, train_s: float) -> None:
    """One instance per iteration, until the rule is quiet or there are no more."""

    def rollout_s(count: int) -> float:
        return float(work_s * count**-elasticity)

    count = 1
    while (more := adjusted(rollout_s, count, train_s, most=40)) > count:
        count = more
    assert count == 40 or rollout_s(count + 1) < train_s * (1 + 1e-9)


def test_the_published_trace_adds_after_iterations_10_16_and_22() -> None:
    """The gap fell by 37.4, 29.0 and 19.3 s. An estimate of 0.6 of each gives exactly these three additions.

    The paper's estimates are not printed; the exact gains would have added later, as they exceed the gaps at the triggers.
    """
    drops_s = iter([37.4, 29.0, 19.3, 19.3])
    gain_s, added = 0.6 * next(drops_s), []
    for iteration, gap_s in enumerate(FIG_11_GAPS_S, start=1):
        if add_instance(gap_s, gain_s):
            added.append(iteration)
            gain_s = 0.6 * next(drops_s)
    assert added == [10, 16, 22]
    assert not any(add_instance(gap_s, exact) for gap_s, exact in zip((29.3, 21.2, 15.3), (37.4, 29.0, 19.3), strict=True))


@pytest.mark.parametrize(("gap_s", "gain_s"), [(float("nan"), 1.0), (1.0, -1.0), (1.0, float("inf"))])
def test_numbers_that_are_none_are_refused(gap_s: float, gain_s: float) -> None:
    """A profiler that failed must not buy GPUs."""
    with pytest.raises(ValueError, match="must be finite"):
        add_instance(gap_s, gain_s)


def test_an_instance_that_gains_nothing_is_never_added() -> None:
    """Where the longest response sets the time, more instances do not help."""
    assert not add_instance(5.0, 0.0)
    assert adjusted(lambda count: 10.0, 3, 2.0, most=8) == 3
