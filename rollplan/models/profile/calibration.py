"""What a job's own measurements say about the constants behind reference data: the `calibration` section of a profile.

decode step   ms = overhead + scale * reference(batch, context)         scale, overhead
update        s = FLOPs / (GPUs * peak * mfu) + updates * trainer_overhead
forward pass  s = forward * reference                                    log-probs of policy or reference model
beside        s = interference * alone                                   a stage while the other one runs
sync          s
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rollplan.models.profile.origin import AtLeastZero, Origin, Text
from rollplan.models.strict import Strict, refusal

NumberName = Literal["scale", "overhead_ms", "mfu", "trainer_overhead_s", "forward", "interference_rollout", "interference_train", "sync_s"]
Group = Literal["decode", "rollout", "update", "forward", "interference_rollout", "interference_train", "sync"]
"""What samples are of: decode steps, whole generation phases, updates, forward passes, factors, weight syncs."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Errors(Strict):
    """Relative errors |predicted - measured| / measured of a group of samples: median, the worst, and which sample that is."""

    median: AtLeastZero
    worst: AtLeastZero
    worst_at: Text


class Comparison(Strict):
    """Errors of one group of samples.

    before: with the numbers that the scenario had. after: with the calibrated ones, on the samples that they were fitted to.
    unseen: each sample predicted by a fit without it; absent where too few are left for one.
    """

    group: Group
    samples: Count
    before: Errors
    after: Errors
    unseen: Errors | None = None


class Number(Strict):
    """One constant. default: what the scenario has, or the tool. value: what to use from now on.

    low, high: interval that holds the true value 9 times in 10; absent where there are too few samples to tell. samples:
    how many it rests on, none if it keeps its default. origin: of the samples; absent if it keeps its default. note: why it
    does, or what to know.
    """

    name: NumberName
    default: AtLeastZero
    value: AtLeastZero
    low: AtLeastZero | None = None
    high: AtLeastZero | None = None
    samples: Annotated[int, Field(ge=0, le=1_000_000)]
    origin: Origin | None = None
    note: Text | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.low is None) != (self.high is None) or (self.low is not None and self.high is not None and self.low > self.high):
            raise refusal("has no interval between `low` and `high`", "give both in order, or none")
        if (self.origin is None) != (self.samples == 0):
            raise refusal("has samples without an origin, or an origin without samples", "give both, or none")
        return self


class LeftOut(Strict):
    """A sample that was not used, and why."""

    sample: Text
    reason: Text


class Calibration(Strict):
    """Everything that one calibration found. job: of the scenario that it was made for. model: its model."""

    job: Text
    model: Text
    numbers: Annotated[tuple[Number, ...], Field(min_length=1)]
    comparisons: tuple[Comparison, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _names_each_number_once(self) -> Self:
        if len({number.name for number in self.numbers}) < len(self.numbers):
            raise refusal("gives a number twice", "keep one of the two")
        return self

    def settings(self) -> dict[str, Any]:
        """Return the calibrated numbers as a scenario's `split` writes them; empty if everything keeps its default.

        A scale that was kept stands beside an overhead that was found with it: one without the other says something else.
        """
        of = {number.name: number for number in self.numbers}
        found: dict[str, Any] = {}
        for section, keys in _PLACES.items():
            there = {key: of[name] for key, name in keys.items() if name in of}
            if any(number.origin for number in there.values()):
                found[section] = {key: _written(number) for key, number in there.items()}
        if "sync_s" in of and of["sync_s"].origin:
            found["sync"] = _written(of["sync_s"])
        return found


_PLACES: dict[str, dict[str, NumberName]] = {
    "engine": {"scale": "scale", "overhead": "overhead_ms"},
    "trainer": {"mfu": "mfu", "overhead": "trainer_overhead_s", "forward_scale": "forward"},
    "interference": {"rollout": "interference_rollout", "train": "interference_train"},
}


def _written(number: Number) -> float | str:
    """Return a value with four digits that count, and its unit if it has one."""
    text = f"{number.value:.4g}"
    unit = {"ms": "ms", "s": "s"}.get(number.name.rpartition("_")[2])
    return f"{text} {unit}" if unit else float(text)
