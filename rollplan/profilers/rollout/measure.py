"""Measure an engine in rounds until its numbers agree or the time is over; part of the worker, standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from rollplan.profilers.rollout.plan import Limits, Point, default_batches, default_contexts, grid
from rollplan.profilers.rollout.series import Engine, NoRoomError, PointSeries, PrefillSeries, WorkloadSeries, fits
from rollplan.profilers.worker import PROGRESS, WorkerError

LEAST_ROUNDS = 5
"""Fewer values have no quartiles to speak of."""
"""What the worker's lines for the user begin with."""


@dataclass(frozen=True)
class Wanted:
    """What is to be measured, and how well.

    batches, contexts: absent, as many as the engine holds. spread: quartile spread, by the median, that every point
    must reach. time_limit_s: seconds for the rounds; rehearsals and loading come before. prompt_tokens: of a request whose
    prefill is measured. workloads: prompt and output lengths of whole batches to be generated in every round.
    """

    batches: list[int] | None = None
    contexts: list[int] | None = None
    spread: float = 0.02
    time_limit_s: float = 300.0
    prompt_tokens: int | None = None
    workloads: list[tuple[list[int], list[int]]] = field(default_factory=list)


class Series(Protocol):
    """Anything that is measured once in every round."""

    def take(self, engine: Engine) -> None:
        """Measure once more."""
        ...


def measure(
    engine: Engine, wanted: Wanted, clock: Callable[[], float] = perf_counter, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Return what was measured, as plain data; raise `WorkerError` if there is nothing to measure or no time for it.

    A rehearsal runs every point once. In each round all points that do not agree yet take turns, with the prefill and
    the workloads, so that all meet the same moods of the machine.
    """
    points, dropped = _rehearse(engine, wanted, say)
    prefill = _prefill(engine, wanted, points, dropped)
    workloads = [WorkloadSeries(list(prompts), list(outputs)) for prompts, outputs in wanted.workloads]
    others: list[Series] = [*([prefill] if prefill else []), *workloads]
    rounds, unsettled, started = 0, points, clock()
    while unsettled:
        begun = clock()
        for series in [*unsettled, *others]:
            series.take(engine)
        rounds += 1
        now = clock()
        if rounds == 1:
            _enough_time(now - begun, wanted.time_limit_s)
        if rounds >= LEAST_ROUNDS:
            unsettled = [point for point in unsettled if point.spread > wanted.spread]
            worst = max(point.spread for point in points)
            say(
                f"{PROGRESS}round {rounds}, {now - started:.0f} s: {len(points) - len(unsettled)} of {len(points)} points "
                f"within {wanted.spread:.1%}, widest {worst:.1%}"
            )
            if now - started + (now - begun) > wanted.time_limit_s:
                break
        else:
            say(f"{PROGRESS}round {rounds}, {now - started:.0f} s")
    late = [point.disturbed() for point in points]
    return {
        "points": [point.answer() for point in points],
        "dropped": dropped,
        "prefill": prefill.answer() if prefill else None,
        "workloads": [workload.answer() for workload in workloads],
        "rounds": rounds,
        "seconds": clock() - started,
        "unsettled": len(unsettled),
        "disturbed": sum(steps for steps, _ in late) / sum(steps for _, steps in late),
    }


def _rehearse(engine: Engine, wanted: Wanted, say: Callable[[str], None]) -> tuple[list[PointSeries], list[str]]:
    """Return the points that can be measured, with everything warm, and the others in words."""
    limits = Limits(engine.slots, engine.max_model_len, engine.kv_tokens)
    asked = grid(wanted.batches or default_batches(engine.slots), wanted.contexts or default_contexts(engine.max_model_len), limits)
    dropped, found, refused = list(asked.dropped), [], list[Point]()
    for number, point in enumerate(asked.points, 1):
        # What does not fit takes everything with it that is larger, so that the grid has no holes.
        if any(point.batch >= other.batch and point.context >= other.context for other in refused):
            dropped.append(f"batch {point.batch} at context {point.context}: a smaller point did not fit")
            continue
        try:
            found.append(PointSeries.rehearsed(engine, point))
        except NoRoomError as error:
            refused.append(point)
            dropped.append(f"batch {point.batch} at context {point.context}: {error}")
        say(f"{PROGRESS}rehearsed {number} of {len(asked.points)} points")
    if not found:
        raise WorkerError("\n".join(["no point of the grid can be measured; ask for smaller batches or contexts", *dropped]))
    return found, dropped


def _prefill(engine: Engine, wanted: Wanted, points: Sequence[PointSeries], dropped: list[str]) -> PrefillSeries | None:
    """Return the series that measures the prefill in the largest batch that has room for it; None if none has."""
    prompt = wanted.prompt_tokens or max(1, min(512, engine.max_model_len // 16))
    for batch in sorted({series.point.batch for series in points}, reverse=True):
        if fits(engine, batch, PrefillSeries.tokens(prompt)):
            try:
                return PrefillSeries.of(engine, batch, prompt)
            except NoRoomError:
                continue
    dropped.append(f"prefill of {prompt} tokens: no batch has room for {PrefillSeries.tokens(prompt)} tokens per sequence")
    return None


def _enough_time(round_s: float, limit_s: float) -> None:
    if LEAST_ROUNDS * round_s > limit_s:
        need = f"{LEAST_ROUNDS} rounds of {round_s:.1f} s do not fit into the time limit of {limit_s:g} s"
        raise WorkerError(f"{need}; allow {LEAST_ROUNDS * round_s * 1.2:.0f} s, or ask for fewer batches and contexts")
