"""Groups of responses to one prompt, which arrive in any order: whole groups go on with their advantages, others wait.

Only the standard library is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from rollplan.executor.api import Sample

_SMALL = 1e-6


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """Return (reward - mean) / (standard deviation + 1e-6) of the responses to one prompt (GRPO, Shao et al. 2024, 4.1.2)."""
    mean, spread = fmean(rewards), pstdev(rewards)
    return [(reward - mean) / (spread + _SMALL) for reward in rewards]


def reward_of(sample: Sample) -> float:
    """Return the reward of a sample; ValueError if it has none."""
    if sample.reward is None:
        raise ValueError(f"sample {sample.number} of iteration {sample.iteration} has no reward; the program's rollout must give one")
    return sample.reward


class Groups:
    """The groups of one iteration of `total` samples: numbers k * size to (k + 1) * size - 1 answer prompt k; the last may be smaller."""

    def __init__(self, size: int, total: int) -> None:
        self._size, self._total = size, total
        self._waiting: dict[int, list[Sample]] = {}

    @property
    def waiting(self) -> int:
        """Return how many groups have begun and are not complete."""
        return len(self._waiting)

    def add(self, samples: Iterable[Sample]) -> list[tuple[Sample, float]]:
        """Return the samples of all groups that these ones complete, each with its advantage, in the order of their numbers."""
        ready: list[tuple[Sample, float]] = []
        for one in samples:
            number = one.number // self._size
            group = self._waiting.setdefault(number, [])
            group.append(one)
            if len(group) == min(self._size, self._total - number * self._size):
                del self._waiting[number]
                ready += zip(group, group_advantages([reward_of(member) for member in group]), strict=True)
        return sorted(ready, key=lambda pair: pair[0].number)
