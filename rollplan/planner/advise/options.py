"""Every split and way of overlap on the same GPUs, with seconds per step as the log and the shape say."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rollplan.models.split.iteration import UnchunkedWay, period_s
from rollplan.models.split.problem import STALENESS
from rollplan.planner.advise.estimate import Estimate
from rollplan.planner.advise.present import Present
from rollplan.planner.advise.shape import Shape


@dataclass(frozen=True, slots=True)
class Option:
    """way: None if both sides take turns on the same GPUs. gpus: of rollout and training. step: seconds. gain: share of
    the present step that is saved, negative where it is slower, as (low, likely, high)."""

    way: UnchunkedWay | None
    gpus: tuple[int, int]
    step: Estimate
    gain: tuple[float, float, float]

    @property
    def staleness(self) -> int:
        """Versions by which weights may be older."""
        return 0 if self.way is None else STALENESS[self.way]


def options(present: Present, shape: Shape) -> list[Option]:
    """Return all options but the present one, the fastest first."""
    found = [option for option in _all(present, shape) if (option.way, option.gpus) != (present.way, present.gpus)]
    return sorted(found, key=lambda option: (option.step.likely, _moved(present, option)))


def nearest(present: Present, found: Sequence[Option], noise: float, node: int) -> Option:
    """Return, of the options within noise of the fastest, the one that breaks fewest nodes, then the one that moves fewest GPUs.

    found: not empty. node: GPUs of a node; a side breaks one if it is larger and no multiple of it.
    """
    least_s = min(option.step.likely for option in found)
    equal = [option for option in found if option.step.likely <= least_s * (1 + noise)]
    return min(equal, key=lambda option: (_broken(option, node), _moved(present, option), option.step.likely))


def _broken(option: Option, node: int) -> int:
    return sum(gpus > node and gpus % node > 0 for gpus in option.gpus)


def _moved(present: Present, option: Option) -> int:
    """Return how many GPUs change sides, and those that leave or join a shared pool."""
    return sum(abs(then - now) for now, then in zip(present.gpus, option.gpus, strict=True))


def _all(present: Present, shape: Shape) -> Iterator[Option]:
    total = present.total_gpus
    now = _predicted(present, shape, present.way, present.gpus)
    # What the law of the way does not explain of the present step (hiccups, other syncs) stays at the same ratio.
    ratio = present.step.median / now.likely if now is not None and now.likely > 0 else 1.0
    for way in _ways(present):
        for split in splits(total, shape.rollout_counts(), shape.train_counts()):
            yield from _option(present, shape, way, split, ratio if way == present.way else 1.0)
    for gpus in shape.shared_counts():
        if gpus <= total:
            yield from _option(present, shape, None, (gpus, gpus), ratio if present.way is None else 1.0)


def splits(total: int, rollout: Iterable[int], train: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the splits in which neither side could have more GPUs: others leave GPUs unused that are paid for."""
    trains, least = sorted(train), 0
    for x in sorted(rollout, reverse=True):
        place = bisect_right(trains, total - x)
        if place and trains[place - 1] > least:
            least = trains[place - 1]
            yield x, least


def _ways(present: Present) -> tuple[UnchunkedWay, ...]:
    """Return the ways worth comparing; who overlaps batches already has nothing to gain from overlapping them less."""
    match present.way:
        case None:
            return ("one-step", "async-batch")
        case "serial":
            return ("serial", "one-step", "async-batch")
        case "one-step":
            return ("one-step", "async-batch")
    return (present.way,)


def _option(present: Present, shape: Shape, way: UnchunkedWay | None, gpus: tuple[int, int], ratio: float) -> Iterator[Option]:
    step = _predicted(present, shape, way, gpus)
    if step is not None:
        step = step.map(lambda seconds: seconds * ratio)
        low, likely, high = (1 - seconds / present.step.median for seconds in reversed(step.ends))
        yield Option(way, gpus, step, (low, likely, high))


def _predicted(present: Present, shape: Shape, way: UnchunkedWay | None, gpus: tuple[int, int]) -> Estimate | None:
    """Return seconds of a step; None where the shape knows no layout for it."""
    moving = (present.way is None) != (way is None)
    try:
        rollout, train = shape.rollout(present.gpus[0], gpus[0]), shape.train(present.gpus[1], gpus[1], moving)
    except KeyError:
        return None
    alone, steady = present.rollout.times(rollout), present.steady.times(rollout)
    work = _training(present, way).times(train)
    switch_s = present.switch_s if way is None or present.way is not None else 0.0
    ends = [period_s(way or "serial", *times, present.sync_s) + switch_s for times in zip(alone.ends, steady.ends, work.ends, strict=True)]
    return Estimate(*ends)


def _training(present: Present, way: UnchunkedWay | None) -> Estimate:
    """Return the trainer's seconds on its present GPUs, without what an asynchronous one takes from rollout."""
    if present.way is None and way is not None:
        train, saved = present.train, present.passed_on
        return Estimate(train.low - saved.high, train.likely - saved.likely, train.high - saved.low)
    return present.train
