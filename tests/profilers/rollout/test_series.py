"""What the runs of one point say."""

from __future__ import annotations

import pytest

from rollplan.profilers.rollout.series import rounds_s


def test_a_step_that_is_always_slower_counts_in_the_mean() -> None:
    """A new KV block every few steps is work, no disturbance: a median over the steps would lose it."""
    assert rounds_s([[1.0, 1.0, 1.0, 5.0]] * 3) == pytest.approx([2.0, 2.0, 2.0])
