"""The smallest staleness that pays: a ladder of levels, simulated on the same lengths, and its flat part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rollplan.models.pipelining.asynchronous import simulate_async
from rollplan.models.pipelining.outcome import AsyncRun
from rollplan.models.pipelining.pool import RolloutPool
from rollplan.models.pipelining.rules import Asynchrony
from rollplan.models.pipelining.stages import TrainingLaw, in_range

NOISE = 0.04
"""Reruns of one configuration differ by 4 % and more (NVIDIA-NeMo/RL #959), so periods nearer than that are equal."""


@dataclass(frozen=True, slots=True)
class FlatPart:
    """Levels whose periods are equal to the shortest within noise, and the smallest of them."""

    smallest: float
    levels: tuple[float, ...]
    tolerance: float


@dataclass(frozen=True, slots=True)
class StalenessLadder:
    """One run per level, and what is enough."""

    runs: Mapping[float, AsyncRun]
    flat: FlatPart
    reason: str


def flat_part(period_s: Mapping[float, float], tolerance: float = NOISE) -> FlatPart:
    """Return the levels of staleness that are as fast as the fastest; `period_s` may be simulated or measured.

    tolerance: relative; periods within it of the shortest are equal. Raises `ValueError` if there is no level.
    """
    if not period_s:
        raise ValueError("period_s must hold at least one level of staleness, got none")
    in_range("tolerance", tolerance, 0)
    for level, seconds in period_s.items():
        in_range(f"period_s of staleness {level:g}", seconds, 0)
    limit_s = (1 + tolerance) * min(period_s.values())
    levels = tuple(sorted(level for level, seconds in period_s.items() if seconds <= limit_s))
    return FlatPart(levels[0], levels, tolerance)


def smallest_staleness(
    pool: RolloutPool,
    train: TrainingLaw,
    rules: Asynchrony,
    levels: Sequence[float] = (0, 1, 2, 3, 4),
    tolerance: float = NOISE,
    versions: int = 40,
    warmup: int = 10,
    seed: int = 0,
) -> StalenessLadder:
    """Return the smallest of the levels beyond which nothing is gained but noise.

    rules: all but its `staleness`, which the levels replace. With constant times one level is enough, the slower side
    binds whatever the bound is; more pays for fluctuation, and for engines that gain from more samples in flight.
    """
    runs = {
        float(level): simulate_async(pool, train, replace(rules, staleness=level), versions, warmup, seed) for level in sorted(set(levels))
    }
    flat = flat_part({level: run.period_s for level, run in runs.items()}, tolerance)
    return StalenessLadder(runs, flat, _reason(runs, flat))


def _reason(runs: Mapping[float, AsyncRun], flat: FlatPart) -> str:
    chosen = runs[flat.smallest]
    least_s = min(run.period_s for run in runs.values())
    sync_s = chosen.drain_s + chosen.transfer_s
    binding = "training" if chosen.train_waits_rollout_s <= flat.tolerance * chosen.period_s else "rollout"
    parts = f"training {chosen.train_s:.3g} s, sync {sync_s:.3g} s"
    text = f"staleness {flat.smallest:g}: {chosen.period_s:.3g} s per version ({parts}); {binding} binds"
    below = [level for level in runs if level < flat.smallest]
    if below:
        text += f"; {max(below):g} is {runs[max(below)].period_s / least_s - 1:.0%} slower than the fastest"
    if len(flat.levels) > 1:
        text += f"; {', '.join(f'{level:g}' for level in flat.levels)} are equal within {flat.tolerance:.0%}"
    return text
