"""Which steps of a run say something of its steady state, and what must be known before its numbers are trusted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rollplan.models.pipelining.reading import idle_contradiction
from rollplan.models.profile.run import LoggedRun, LoggedStep, PhaseName
from rollplan.profilers.logs.framework import Reading

WARM_UP = 1.25
"""A first step that is longer than the later ones by this factor is warm-up."""
OVER, OVER_S = 0.02, 0.1
"""Phases may be longer than the step by this share and these seconds: clocks and rounding."""
GAP = 0.15
"""A step whose unexplained share is above its run's by this much does not add up; a run above it is warned about."""
RARE = 0.01
"""Validation and checkpoints below this share of the step do not matter."""
_INTERRUPTIONS: tuple[PhaseName, ...] = ("validation", "checkpoint")


def judged(reading: Reading, framework: str, source: str, notes: Sequence[str] = ()) -> LoggedRun:
    """Return the run with every step that does not count marked, and with warnings."""
    steps = list(reading.steps)
    warnings = [*notes, *reading.warnings]
    _incomplete(steps)
    warnings += _outside(steps)
    _too_long(steps)
    warnings += _interrupted(steps)
    if reading.gaps is None:
        warnings += _unexplained(steps)
    _warm_up(steps, either_way=reading.mode == "async")
    run = LoggedRun(
        framework=framework,
        dialect=reading.dialect,
        mode=reading.mode,
        mode_reason=reading.mode_reason,
        source=source,
        gpus=reading.gpus,
        steps=tuple(steps),
    )
    return run.model_copy(update={"warnings": tuple(text[:1000] for text in [*warnings, *_doubts(run)])})


def _drop(steps: list[LoggedStep], place: int, reason: str) -> None:
    if steps[place].dropped is None:
        steps[place] = steps[place].model_copy(update={"dropped": reason[:1000]})


def _counting(steps: Sequence[LoggedStep]) -> list[int]:
    return [place for place, step in enumerate(steps) if step.dropped is None]


def _incomplete(steps: list[LoggedStep]) -> None:
    """Drop what holds no times, and pieces of steps where others are whole."""
    stated = any(step.step_s is not None and step.total != "summed" for step in steps)
    summed = any(step.step_s is not None for step in steps)
    for place, step in enumerate(steps):
        if step.step_s == 0:
            _drop(steps, place, "the step takes no time")
        elif step.step_s is None and not step.phases:
            _drop(steps, place, "holds no times")
        elif step.step_s is None and (stated or summed):
            _drop(steps, place, "has no step time, unlike others: part of its line is missing")


def _outside(steps: list[LoggedStep]) -> list[str]:
    """Take validation and checkpoints out of phases where the step's timer ends before them, and drop such steps."""
    found = []
    for phase in _INTERRUPTIONS:
        outside = []
        for place in _counting(steps):
            step = steps[place]
            time = step.phases.get(phase, 0.0)
            if not step.step_s or step.total == "summed" or time <= RARE * step.step_s:
                continue
            rest = sum(step.phases.values()) - time
            if rest <= _limit(step.step_s) < rest + time:
                outside.append((place, time))
        for place, _ in outside:
            inside = {key: value for key, value in steps[place].phases.items() if key != phase}
            steps[place] = steps[place].model_copy(update={"phases": inside})
        clean = set(_counting(steps)) - {place for place, _ in outside}
        if clean:
            for place, time in outside:
                _drop(steps, place, f"{phase} right after it ({time:.1f} s, outside the step)")
        elif outside:
            found.append(f"{phase} follows every step; it lies outside the step and was left out")
    return found


def _limit(step_s: float) -> float:
    return step_s * (1 + OVER) + min(OVER_S, 0.2 * step_s)


def _too_long(steps: list[LoggedStep]) -> None:
    for place in _counting(steps):
        step = steps[place]
        if step.step_s is not None and (parts := sum(step.phases.values())) > _limit(step.step_s):
            reason = f"phases ({parts:.1f} s) are longer than the step ({step.step_s:.1f} s): values may be swapped"
            _drop(steps, place, reason)


def _interrupted(steps: list[LoggedStep]) -> list[str]:
    """Drop steps with validation or a checkpoint inside; where all have them, take those seconds out instead."""
    marked = {}
    for place in _counting(steps):
        step = steps[place]
        names = [name for name in _INTERRUPTIONS if step.phases.get(name, 0.0) > RARE * (step.step_s or 0.0)]
        if names:
            marked[place] = names
    if not marked:
        return []
    if set(_counting(steps)) - marked.keys():
        for place, names in marked.items():
            times = [f"{name} ({steps[place].phases[name]:.1f} s)" for name in names]
            _drop(steps, place, f"{' and '.join(times)} inside the step")
        return []
    for place, names in marked.items():
        step = steps[place]
        inside = {key: value for key, value in step.phases.items() if key not in names}
        taken = sum(step.phases.values()) - sum(inside.values())
        step_s = None if step.step_s is None else max(0.0, step.step_s - taken)
        total = "summed" if step.total == "summed" else "stated and mended" if step.step_s is not None else step.total
        steps[place] = step.model_copy(update={"phases": inside, "step_s": step_s, "total": total})
    seen = sorted({name for names in marked.values() for name in names})
    return [f"every step that counts holds {' or '.join(seen)}: their seconds were taken out of the step"]


def _unexplained(steps: list[LoggedStep]) -> list[str]:
    """Drop steps that leave much more unexplained than the others, and warn if all leave much."""
    shares = {}
    for place in _counting(steps):
        step = steps[place]
        if step.step_s and step.total != "summed" and step.phases and step.unexplained_s is not None:
            shares[place] = step.unexplained_s / step.step_s
    if not shares:
        return []
    usual = median(shares.values())
    if len(shares) > 2:
        for place, share in shares.items():
            if share > usual + GAP:
                reason = f"does not add up: {share:.0%} of the step is in no phase, of others {max(usual, 0.0):.0%}"
                _drop(steps, place, reason)
    if usual <= GAP:
        return []
    return [f"{usual:.0%} of the step is in no phase: the log does not time everything, or not all of it was kept"]


def _warm_up(steps: list[LoggedStep], either_way: bool) -> None:
    """Drop the first one or two steps of the run if they are no measure of the later ones, but never the only one.

    either_way: in asynchronous runs the first step may also be much too short, because its samples were ready.
    """
    for _ in range(2):
        counting = _counting(steps)
        timed = [place for place in counting if steps[place].step_s is not None]
        if len(timed) < 2:
            return
        begin, later = steps[timed[0]], [time for place in timed[1:] if (time := steps[place].step_s) is not None]
        rates = [steps[place].amounts.get("train_tokens_per_s") for place in timed]
        if rates[0] == 0 and any(rates[1:]):
            _drop(steps, timed[0], "warm-up: it reports a throughput of 0")
            continue
        usual, time = median(later), begin.step_s or 0.0
        if len(later) < 2 or not usual:
            return
        if time > WARM_UP * usual:
            _drop(steps, timed[0], f"warm-up: {time:.1f} s, later steps {usual:.1f} s")
        elif either_way and time < usual / WARM_UP:
            _drop(steps, timed[0], f"start-up: {time:.1f} s, later steps {usual:.1f} s; its samples were generated before it")
        else:
            return


def _doubts(run: LoggedRun) -> list[str]:
    """Return what in the numbers that count cannot be right."""
    doubts = []
    kept = run.kept
    flops = [step.amounts["mfu"] for step in kept if "mfu" in step.amounts]
    if flops and median(flops) > 1:
        doubts.append(f"mfu is {median(flops):.2f}, above 1: the framework does not know the GPU; do not use it")
    idle = [(step.amounts["trainer_idle"], step.step_s, step) for step in kept if "trainer_idle" in step.amounts and step.step_s]
    told = [
        text
        for share, step_s, step in idle
        if 0 <= share <= 1 and (text := idle_contradiction("trainer", share, step_s, _work(step))) is not None
    ]
    if told and 2 * len(told) > len(idle):
        doubts.append(told[len(told) // 2])
    swapped = sum(step.dropped is not None and "swapped" in step.dropped for step in run.steps)
    if swapped:
        doubts.append(f"in {swapped} of {len(run.steps)} steps the phases are longer than the step: values may be swapped")
    if len(kept) == 1 and len(run.steps) > 0:
        doubts.append("only one step counts: there is no spread, and it may be a warm-up")
    return doubts


def _work(step: LoggedStep) -> float:
    return sum(time for name, time in step.phases.items() if name not in ("wait", "generation"))
