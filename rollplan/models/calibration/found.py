"""From fits to the numbers of a calibration, each with origin, interval and samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollplan.models.calibration.robust import Constants, Fit, Observed, fit, linearised
from rollplan.models.profile.calibration import Comparison, Group, Number, NumberName
from rollplan.models.profile.origin import Origin

FEWEST_FOR_TWO = 3
"""Two constants fit any two samples without error, which tells nothing."""
APART = 1.5
"""How far the samples must differ for two constants: the largest ratio of their effects over the least."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who calibrates, and when: name and version of the program, ISO 8601."""

    by: str
    date: str

    def origin(self, observed: Sequence[Observed]) -> Origin:
        """Return the origin of a number that rests on these samples; read from logs only if all of them are."""
        sources = "; ".join(dict.fromkeys(sample.source for sample in observed))
        measured = any(sample.kind == "measured" for sample in observed)
        return Origin(kind="measured" if measured else "imported", by=self.by, date=self.date, source=_cut(sources))


@dataclass(frozen=True, slots=True)
class Found:
    """What one group of samples says."""

    numbers: tuple[Number, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Found) -> Found:
        """Return both."""
        return Found(self.numbers + other.numbers, self.comparisons + other.comparisons, self.notes + other.notes)


def separable(observed: Sequence[Observed], constants: Constants) -> bool:
    """Return whether the samples can tell two constants apart."""
    design, _ = linearised(observed, constants.default)
    if len(observed) < FEWEST_FOR_TWO or (design <= 0).any():
        return False
    ratio = design[:, 0] / design[:, 1]
    return bool(ratio.max() >= APART * ratio.min())


def best(observed: Sequence[Observed], choices: Sequence[Constants], default: Sequence[float]) -> tuple[Fit, tuple[bool, ...]]:
    """Return the fit that is least off on samples that it has not seen, and what is free in it; of equals the first choice.

    More constants follow the samples more closely and may foresee less. If no choice is better than the default, the last.
    """
    fits = [(fit(observed, choice, default), choice.free) for choice in choices]
    better = [made for made in fits if made[0].better]
    if not better:
        return fits[-1]
    return min(better, key=lambda made: made[0].after.median if made[0].unseen is None else made[0].unseen.median)


def compared(group: Group, observed: Sequence[Observed], made: Fit) -> Comparison:
    """Return the errors of a fit, those of the default where that was kept."""
    after, unseen = (made.after, made.unseen) if made.better else (made.before, None)
    return Comparison(group=group, samples=len(observed), before=made.before, after=after, unseen=unseen)


def fitted(
    name: NumberName,
    default: float,
    value: float,
    interval: tuple[float, float] | None,
    origin: Origin,
    samples: int,
    note: str | None = None,
) -> Number:
    """Return a number that was found."""
    low, high = (None, None) if interval is None else interval
    return Number(name=name, default=default, value=value, low=low, high=high, samples=samples, origin=origin, note=note)


def kept(name: NumberName, default: float, note: str) -> Number:
    """Return a number that stays as it was, with the reason."""
    return Number(name=name, default=default, value=default, samples=0, note=note)


def no_better(made: Fit) -> str:
    """Return why a fit is not used."""
    unseen = made.unseen is not None and made.unseen.median > made.before.median
    errors, where = (made.unseen, " on samples that it has not seen") if unseen and made.unseen is not None else (made.after, "")
    return f"kept: a fitted value is {errors.median:.1%} off{where}, the default {made.before.median:.1%} (medians)"


def _cut(text: str) -> str:
    return text if len(text) <= 1000 else f"{text[:997]}..."
