"""P7 adjustment: lengths grow while a job runs; when does another rollout instance pay?

    gap   delta  = T_rollout(x) - T_train            measured in an iteration
    gain  delta' = T_rollout(x) - T_rollout(x + 1)   predicted at the present lengths
    add one instance when delta >= delta'

StreamRL, dynamic resource adjustment (Zhong et al. 2025, arXiv 2504.15930). The condition says
T_rollout(x + 1) >= T_train: rollout still binds afterwards. So
with an exact prediction the gap never falls below 0 by an addition; a prediction below the true gain adds too early.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite


def add_instance(gap_s: float, gain_s: float) -> bool:
    """Return whether to add one instance; raise `ValueError` for a gain below 0 or values that are not finite."""
    if not (isfinite(gap_s) and isfinite(gain_s) and gain_s >= 0):
        raise ValueError(f"gap_s must be finite and gain_s finite and at least 0, got {gap_s} and {gain_s}")
    return gain_s > 0 and gap_s >= gain_s


def adjusted(rollout_s: Callable[[int], float], instances: int, train_s: float, most: int) -> int:
    """Return the instances after one iteration: one more if the rule says so and there are fewer than `most`.

    rollout_s: seconds of rollout by number of instances, at the present lengths; training is never resized.
    """
    gap_s = rollout_s(instances) - train_s
    more = instances < most and add_instance(gap_s, max(0.0, rollout_s(instances) - rollout_s(instances + 1)))
    return instances + more
