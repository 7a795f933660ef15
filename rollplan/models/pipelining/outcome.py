"""What an asynchronous run comes to: the period, what each side waits for, how stale, what is thrown away, what to change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from rollplan.models.pipelining.rules import Asynchrony

SYNC_SHARE = 0.1
"""A sync that takes a larger share of the time is worth a warning."""

FEW = 0.001
"""A smaller share of samples that are too slow is not worth a warning."""


@dataclass(frozen=True, slots=True)
class AsyncRun:
    """Means over the versions after warm-up; seconds per version, that is from sync to sync.

    train_s, train_waits_rollout_s, drain_s, transfer_s: what the trainer does, they add up to period_s (transfer_s
    includes computing running samples again). rollout_idle_s: seconds that an instance has no sample, mean over instances,
    syncs included. in_flight: samples. discarded, discarded_tokens: shares of what was finished. rollout_s: mean seconds
    from start to end of a sample. outlived: share of samples that take longer than `limit` periods, where limit is the
    bound on staleness: they depend on luck, or will never be trained on if older ones are discarded.
    """

    period_s: float
    train_s: float
    train_waits_rollout_s: float
    drain_s: float
    transfer_s: float
    rollout_idle_s: float
    in_flight: float
    mean_staleness: float
    max_staleness: int
    discarded: float
    discarded_tokens: float
    rollout_s: float
    outlived: float
    warnings: tuple[str, ...]


class Measure:
    """Sums since warm-up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.staleness: list[int] = []
        self.rollout_s: list[float] = []
        self.finished_tokens = self.discarded = self.discarded_tokens = 0


def summary(measure: Measure, rules: Asynchrony, versions: int) -> AsyncRun:
    """Return the means over so many versions, with warnings where there is something to change."""

    def per_version(what: str) -> float:
        return measure.seconds[what] / versions

    period_s, finished = per_version("all"), max(1, len(measure.rollout_s))
    limit = max(1, ceil(rules.staleness) if rules.discard_older_than is None else rules.discard_older_than)
    run = AsyncRun(
        period_s=period_s,
        train_s=per_version("train"),
        train_waits_rollout_s=per_version("rollout"),
        drain_s=per_version("drain"),
        transfer_s=per_version("transfer"),
        rollout_idle_s=per_version("rollout idle"),
        in_flight=measure.seconds["in flight"] / (measure.seconds["all"] or 1.0),
        mean_staleness=float(np.mean(measure.staleness)),
        max_staleness=max(measure.staleness),
        discarded=measure.discarded / finished,
        discarded_tokens=measure.discarded_tokens / max(1, measure.finished_tokens),
        rollout_s=sum(measure.rollout_s) / finished,
        outlived=sum(seconds > limit * period_s for seconds in measure.rollout_s) / finished,
        warnings=(),
    )
    return replace(run, warnings=tuple(_warnings(run, rules, limit)))


def _warnings(run: AsyncRun, rules: Asynchrony, limit: int) -> Iterator[str]:
    if rules.staleness > 0 and run.outlived >= FEW:
        fate = "trained on when they are older" if rules.discard_older_than is None else "thrown away, or trained on by luck"
        yield (
            f"{run.outlived:.1%} of the samples roll out for longer than {limit} x {run.period_s:.3g} s (staleness x time between syncs): "
            f"they are {fate}; allow more staleness, sync less often, or shorten responses"
        )
    if run.discarded:
        yield (
            f"{run.discarded:.1%} of the samples and {run.discarded_tokens:.1%} of the generated tokens are thrown away: "
            f"older than {rules.discard_older_than} versions; pace admission with a smaller staleness instead"
        )
    if (sync_s := run.drain_s + run.transfer_s) > SYNC_SHARE * run.period_s:
        remedy = "sync less often" if rules.partial_rollout else "use partial rollout, or sync less often"
        parts = f"drain {run.drain_s:.3g} s, transfer {run.transfer_s:.3g} s"
        yield f"a weight sync takes {sync_s / run.period_s:.0%} of the time between syncs ({parts}); {remedy}"
