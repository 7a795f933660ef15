"""How much the time of one batch's generation varies because responses vary: drawn lengths, all instances simulated."""

from __future__ import annotations

import numpy as np

from rollplan.models.decode import Admission, Requests, simulate
from rollplan.models.lengths.sampling import sample
from rollplan.models.recipe import Workload
from rollplan.models.stages.rollout import Dispatch, Engine

MOST_DRAWS, FEWEST_DRAWS = 20, 5
SAMPLES = 40_000
"""Samples of all draws together, so that a large batch does not take long."""
MOST_SAMPLES = 100_000
"""Of one batch; beyond, the spread is not worth its time."""
QUANTILES = (0.05, 0.95)


def rollout_spread_s(workload: Workload, engine: Engine, instances: int, dispatch: Dispatch, seed: int = 0) -> tuple[float, float]:
    """Return the seconds below which 5 % and 95 % of the draws stay.

    Samples of one prompt are correlated as the workload says. `random` deals shuffled samples out in turn, `lpt` sorted ones.
    """
    rng = np.random.default_rng(seed)
    law = workload.law()
    admission = Admission(engine.slots, engine.kv_tokens, "preempt")
    seconds = []
    for _ in range(max(FEWEST_DRAWS, min(MOST_DRAWS, SAMPLES // workload.samples))):
        drawn = sample(law, rng, workload.prompts, workload.samples_per_prompt, workload.group_correlation).ravel()
        order = np.argsort(-drawn, kind="stable") if dispatch == "lpt" else rng.permutation(drawn.size)
        prefill = round(workload.prompt_tokens / workload.samples_per_prompt)
        parts = [
            Requests(np.full(own.size, workload.prompt_tokens), drawn[own], np.full(own.size, prefill))
            for own in (order[first::instances] for first in range(min(instances, drawn.size)))
        ]
        seconds.append(simulate(parts, admission, engine.latency, engine.prefill_s_per_token).seconds)
    low, high = np.quantile(seconds, QUANTILES)
    return float(low), float(high)
