"""Which finished samples train, and when: what the ways of docs/modes.md mean for the trainer of one job.

Chunks of an iteration are gradient accumulation: the optimizer steps once, after the last one. Source: StreamRL
(arXiv 2504.15930) Fig. 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollplan.executor.core.runbook import JobRun

WITH_SYNC = ("serial", "mini-batch", "dynamic-batch")
"""Ways in which an iteration ends with its sync, which the training resource is held for (docs/decisions/0003)."""


def staleness_bound(run: JobRun) -> int:
    """Return how many versions the weights of a sample may be older than those that train on it."""
    if run.way in WITH_SYNC:
        return 0
    return 1 if run.way == "one-step" else run.staleness


def next_chunk(run: JobRun, ready: Sequence[int], trained: int) -> tuple[int, ...]:
    """Return the samples that a free trainer takes now, ascending; none if it shall wait.

    ready: finished samples of the iteration, not yet trained, in the order of finishing. trained: how many are.
    """
    complete = trained + len(ready) == run.samples
    match run.way:
        case "mini-batch":
            ends = (run.samples * chunk // run.chunks for chunk in range(1, run.chunks + 1))
            size = next((end for end in ends if end > trained), trained) - trained
            enough = len(ready) >= size
        case "dynamic-batch" | "async-streamed":
            size = len(ready)
            enough = complete or size >= run.fill
        case _:
            size = len(ready)
            enough = complete
    return tuple(sorted(ready[:size])) if enough else ()
