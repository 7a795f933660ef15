"""Groups of responses: whatever the chunks, every sample goes on once, with the advantage that its whole group gives it."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.api import Sample
from rollplan.executor.engines.groups import Groups, group_advantages, reward_of


def sample(number: int, reward: float | None) -> Sample:
    return Sample(number, 0, 0, (1,), (2,), (-0.5,), reward)


@given(st.data())
def test_any_chunks_in_any_order_give_the_advantages_of_the_whole_batch(data: st.DataObject) -> None:
    """Groups that are split over chunks wait for their last member."""
    rewards = data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    size = data.draw(st.integers(1, 6))
    order = data.draw(st.permutations(range(len(rewards))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rewards)), max_size=4)))
    groups = Groups(size, len(rewards))
    found: list[tuple[Sample, float]] = []
    for start, end in zip([0, *cuts], [*cuts, len(rewards)], strict=True):
        found += groups.add(sample(number, rewards[number]) for number in order[start:end])
    assert groups.waiting == 0
    expected = [one for first in range(0, len(rewards), size) for one in group_advantages(rewards[first : first + size])]
    assert len(found) == len(rewards)
    assert {one.number: advantage for one, advantage in found} == pytest.approx(dict(enumerate(expected)), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_advantages_of_a_group_are_around_zero_and_in_the_order_of_its_rewards(rewards: list[float]) -> None:
    """A response is better or worse than the others to its prompt, never than those to another."""
    found = group_advantages(rewards)
    assert fmean(found) == pytest.approx(0, abs=1e-6)
    assert all(found[a] <= found[b] for a in range(len(rewards)) for b in range(len(rewards)) if rewards[a] <= rewards[b])


def test_equal_rewards_teach_nothing() -> None:
    """Their spread is 0, which must not divide."""
    assert group_advantages([0.5, 0.5, 0.5]) == [0.0, 0.0, 0.0]


def test_the_advantage_is_the_distance_from_the_mean_in_standard_deviations() -> None:
    """Rewards 0 and 1: mean and deviation are 0.5."""
    assert group_advantages([0.0, 1.0]) == pytest.approx([-1, 1], abs=1e-5)


def test_a_sample_without_reward_is_refused() -> None:
    """A program that forgets the reward would train on nothing."""
    with pytest.raises(ValueError, match="sample 3 of iteration 0 has no reward"):
        reward_of(sample(3, None))
