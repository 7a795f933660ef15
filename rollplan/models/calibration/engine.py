"""Scale and host time of decode steps: ms = overhead + scale * reference.

Decode steps tell what the engine takes by itself, whole generation phases what it takes inside the framework, which is what
a plan has to foresee. So where there are both, the steps give the scale and the phases the overhead.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollplan.models.calibration.found import Found, Stamp, best, compared, fitted, kept, no_better, separable
from rollplan.models.calibration.laws import Job
from rollplan.models.calibration.robust import Constants, Fit, Observed, errors, fit
from rollplan.models.profile.calibration import Comparison, Number
from rollplan.models.stages.engines import calibration

SCALES = (0.1, 10.0)
"""What `engine.scale` may be."""
MOST_OVERHEAD_MS = 60_000.0
_NOTHING_MS = 1e-3
_BOTH, _SCALE, _OVERHEAD = (True, True), (True, False), (False, True)


def engine(job: Job, decode: Sequence[Observed], rollout: Sequence[Observed], stamp: Stamp) -> Found:
    """Return scale and overhead by decode steps, generation phases, or both; nothing without samples."""
    used = calibration(job.model, job.split.engine)
    default = (used.scale, used.overhead_ms)
    constants = Constants(default, (SCALES[0], 0.0), (SCALES[1], MOST_OVERHEAD_MS), _BOTH)
    steps = _level(decode, constants, default) if decode else None
    if not rollout:
        return Found() if steps is None else Found(_numbers(default, decode, *steps, stamp), (compared("decode", decode, steps[0]),))
    if steps is None or not (steps[0].better and steps[1][0]):
        return _by_phases(decode, rollout, constants, default, stamp)
    alone, told = steps
    inside = fit(rollout, constants.fixed_at(alone.values, _OVERHEAD), default)
    if not inside.better:
        return _by_phases(decode, rollout, constants, default, stamp)
    # The scale of the steps holds together with the overhead that the phases ask for beside it.
    numbers = (_numbers(default, decode, alone, told, stamp)[0], _numbers(default, rollout, inside, _OVERHEAD, stamp)[1])
    note = f"decode steps by themselves have {alone.values[1]:.2f} ms of overhead, generation phases {inside.values[1]:.2f} ms"
    return Found(numbers, (compared("decode", decode, alone), compared("rollout", rollout, inside)), (note,))


def _by_phases(
    decode: Sequence[Observed], rollout: Sequence[Observed], constants: Constants, default: tuple[float, float], stamp: Stamp
) -> Found:
    """Return what the phases alone say; decode steps that tell no scale are compared with it."""
    found, told = _level(rollout, constants, default)
    comparison = compared("rollout", rollout, found)
    numbers = _numbers(default, rollout, found, told, stamp)
    if not decode:
        return Found(numbers, (comparison,))
    values = [number.value for number in numbers]
    beside = Comparison(group="decode", samples=len(decode), before=errors(decode, default), after=errors(decode, values))
    note = "generation phases decide: the decode steps tell no scale that goes with them"
    return Found(numbers, (beside, comparison), (note,))


def _level(observed: Sequence[Observed], constants: Constants, default: tuple[float, float]) -> tuple[Fit, tuple[bool, ...]]:
    """Return the best fit of what the samples can tell, and which of scale and overhead that is."""
    overhead = constants.fixed_at(default, _OVERHEAD)
    found, told = best(observed, [constants, overhead] if separable(observed, constants) else [overhead], default)
    if told == _OVERHEAD and found.values[1] <= _NOTHING_MS:
        return fit(observed, constants.fixed_at((default[0], 0.0), _SCALE), default), _SCALE
    return found, told


def _numbers(
    default: tuple[float, float], observed: Sequence[Observed], found: Fit, told: tuple[bool, ...], stamp: Stamp
) -> tuple[Number, Number]:
    """Return scale and overhead."""
    if not found.better:
        reason = no_better(found)
        return kept("scale", default[0], reason), kept("overhead_ms", default[1], reason)
    origin, count = stamp.origin(observed), len(observed)
    scale, overhead = found.values
    alike = "kept: too few samples, or steps too alike, to tell it from overhead"
    edge = (
        "is at the end of its range: check the units of the samples" if scale <= SCALES[0] * 1.001 or scale >= SCALES[1] * 0.999 else None
    )
    return (
        fitted("scale", default[0], scale, found.intervals[0], origin, count, edge) if told[0] else kept("scale", default[0], alike),
        fitted("overhead_ms", default[1], overhead, found.intervals[1], origin, count)
        if told[1]
        else fitted(
            "overhead_ms", default[1], overhead, None, origin, count, "even without it the reference is too slow, so the scale was fitted"
        ),
    )
