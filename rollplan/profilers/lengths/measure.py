"""The section `lengths` of a profile, from a file or a folder of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rollplan import __version__
from rollplan.models.profile.file import Profile
from rollplan.models.profile.lengths import LengthsProfile, Unit
from rollplan.models.profile.origin import Origin
from rollplan.profilers.lengths.files import fault
from rollplan.profilers.lengths.gather import MAX_PROMPTS, UNKNOWN, Gathered, gather
from rollplan.profilers.lengths.ranker import train_ranker
from rollplan.profilers.lengths.samples import Columns, read_samples
from rollplan.profilers.lengths.statistics import drift, group_correlation, quantiles, tail

_CLIPPED = 0.05
"""Share at the limit above which it hides growth and likeness."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure. limit: absent, the longest length is taken for it. ranker: train one."""

    columns: Columns = field(default_factory=Columns)
    unit: Unit = "tokens"
    limit: int | None = None
    ranker: bool = False
    seed: int = 0


def profile_lengths(path: Path, wanted: Wanted, at: datetime | None = None) -> Profile:
    """Return the profile of the samples at `path`; raise `InputError` for what cannot be used. at: the time to write, now if absent."""
    origin = Origin(
        kind="imported",
        by=f"rollplan {__version__}",
        date=(at or datetime.now(UTC)).isoformat(timespec="seconds"),
        source=path.name or "samples",
    )
    return Profile(name=path.name or "lengths", origin=origin, lengths=measure_lengths(path, wanted))


def measure_lengths(path: Path, wanted: Wanted) -> LengthsProfile:
    """Return what the samples at `path` say; raise `InputError` for a file that cannot be used."""
    gathered = gather(read_samples(path, wanted.columns, wanted.unit), path, wanted.limit, wanted.ranker)
    limit = float(gathered.lengths.max() if wanted.limit is None else wanted.limit)
    at_limit = float(np.mean(gathered.lengths >= limit))
    if wanted.ranker and not gathered.prompts:
        raise fault(path, "", "has no prompts", "name their column with --prompt-column, or choose --ranker none")
    known = gathered.groups != UNKNOWN
    return LengthsProfile(
        unit=wanted.unit,
        samples=len(gathered.lengths),
        prompts=gathered.different_groups or None,
        steps=len(np.unique(gathered.steps[gathered.steps != UNKNOWN])) or None,
        mean=float(gathered.lengths.mean()),
        limit=limit,
        limit_stated=wanted.limit is not None,
        share_at_limit=at_limit,
        share_truncated=gathered.truncated / gathered.judged if gathered.judged else None,
        quantiles=quantiles(gathered.lengths, limit),
        tail=tail(gathered.lengths, limit),
        drift=drift(gathered.lengths, gathered.steps),
        group_correlation=group_correlation(gathered.lengths, gathered.groups, gathered.steps) if known.any() else None,
        ranker=train_ranker(gathered, path, wanted.seed) if wanted.ranker else None,
        notes=tuple(_notes(gathered, wanted, at_limit)),
    )


def _notes(gathered: Gathered, wanted: Wanted, at_limit: float) -> Iterator[str]:
    if gathered.empty:
        yield f"{gathered.empty} samples of length 0 are left out"
    if gathered.silent:
        yield f"{gathered.silent} traces without token counts are left out"
    if gathered.over:
        yield f"{gathered.over} samples are longer than the limit and count as if they had it"
    if wanted.limit is None:
        yield "no limit was given: the longest length stands for it"
    if wanted.limit is not None and at_limit > _CLIPPED:
        yield f"{100 * at_limit:.0f} % of the samples are at the limit, which hides part of the drift and of the correlation"
    if wanted.unit != "tokens":
        yield f"lengths are {wanted.unit}, not tokens: a scenario cannot use them"
    if len(gathered.prompts) == MAX_PROMPTS:
        yield f"the ranker has the first {MAX_PROMPTS:,} prompts only"
