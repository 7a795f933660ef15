"""What idle ratios say: who binds, and whether a reported ratio can be true at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rollplan.models.pipelining.stages import in_range

Side = Literal["trainer", "rollout"]
Binding = Literal["rollout", "training", "coordination", "nothing"]

IDLE = 0.1
"""A side that idles for a larger share of the step counts as idle."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Who binds, and the sentence that says so."""

    binding: Binding
    text: str


def explain_idle(trainer_idle: float, rollout_idle: float, threshold: float = IDLE) -> Reading:
    """Return who binds, from the shares of the step, 0 to 1, in which each side idles.

    The table is the one users of verl asked for (verl #7601). Ratios of a framework may be wrong: see `idle_contradiction`.
    """
    in_range("trainer_idle", trainer_idle, 0, 1)
    in_range("rollout_idle", rollout_idle, 0, 1)
    in_range("threshold", threshold, 0, 1)
    seen = f"trainer idle {trainer_idle:.0%}, rollout idle {rollout_idle:.0%}"
    match trainer_idle > threshold, rollout_idle > threshold:
        case True, False:
            return Reading("rollout", f"{seen}: rollout binds; move GPUs to it, raise samples in flight, or shorten responses")
        case False, True:
            return Reading("training", f"{seen}: training binds, or rollout has more GPUs than it needs; move GPUs to training")
        case True, True:
            return Reading("coordination", f"{seen}: neither binds; weight sync, scheduling or data take the time")
    return Reading("nothing", f"{seen}: both are busy; if it is slow all the same, check the ratios and the batch each side gets")


def idle_contradiction(side: Side, reported_idle: float, step_s: float, work_s: float, tolerance: float = 0.05) -> str | None:
    """Return why a reported idle share cannot be true, or None if it may be.

    step_s: seconds of a step. work_s: seconds of it in which the side was measured to work; for a trainer, at least its
    update, better with log-probabilities and reference passes. tolerance: share of the step that clocks may be off by.
    """
    in_range("reported_idle", reported_idle, 0, 1)
    in_range("step_s", step_s, 1e-9)
    in_range("work_s", work_s, 0)
    in_range("tolerance", tolerance, 0, 1)
    share = work_s / step_s
    if share > 1 + tolerance:
        return f"{side}: {work_s:g} s of work do not fit into a step of {step_s:g} s; values may be swapped, or summed over several steps"
    most = max(0.0, 1 - share)
    if reported_idle > most + tolerance:
        return f"{side}: reported idle {reported_idle:.0%}, but work alone fills {share:.0%} of the step; it idles {most:.0%} at most"
    if reported_idle < most - tolerance:
        return (
            f"{side}: reported idle {reported_idle:.0%}, but only {share:.0%} of the step is measured work; "
            f"{most - reported_idle:.0%} of the step are neither: unmeasured work, or a ratio that misses waits"
        )
    return None
