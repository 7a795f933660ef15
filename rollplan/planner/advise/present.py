"""The run as it is: seconds of its stages and idle shares, as far as its log tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

from rollplan.models.errors import Finding, InputError
from rollplan.models.pipelining.reading import IDLE
from rollplan.models.profile.origin import Spread
from rollplan.models.profile.run import AmountName, BesideName, LoggedRun, PhaseName
from rollplan.models.split.iteration import UnchunkedWay
from rollplan.planner.advise.estimate import Estimate
from rollplan.planner.advise.facts import Facts

Name = TypeVar("Name", bound=str)

TRAINING: tuple[PhaseName, ...] = (
    "old_logprob",
    "reference",
    "logprobs",
    "values",
    "advantage",
    "update",
    "critic_update",
    "data",
    "other",
)
"""Phases of the trainer; where both sides share GPUs, what is in no phase as well."""
ROLLOUT: tuple[PhaseName, ...] = ("generation", "reward")
ENOUGH_STALENESS = 0.3
"""verl's published ladder is flat from here (0: 231 s, 0.1: 171 s, 0.3: 146 s, 0.5: 151 s per step)."""
STREAMED_PORTIONS = 4
"""Without staleness, a streaming trainer still trains the last of so many portions after the rollout has ended."""
BUSY_AT_LEAST = 0.5
"""Of a rollout pool that the trainer never waits for: nobody disaggregates to idle more."""
TIMES_BATCHES = ("slime", "OpenRLHF")
"""Frameworks whose generation beside the step is that of a batch."""
ONE_STEP_OFF = "one_step_off"
"""How the reader's reason for calling a run of verl asynchronous begins where batches do not overlap."""
TAIL = Estimate(0.4, 0.7, 1.0)
"""Seconds per batch with overlapping batches by seconds of one batch alone, where the log says nothing of lengths."""


@dataclass(frozen=True, slots=True)
class Present:
    """way: None if both sides take turns on the same GPUs; `one-step` also where staleness is too small to overlap batches.
    gpus: of rollout and of training; the same ones in turn.

    rollout: seconds of one batch alone. steady: seconds per step of a rollout whose batches overlap. train: seconds that the
    trainer works per step. passed_on: part of it that an asynchronous trainer may take from rollout (old log-probs). wait_s: the trainer's
    wait for samples. checks_s: validation and checkpoints, mean over all steps, beside `step`. idle: shares of rollout and trainer, 0 to 1.
    phases, amounts: medians of the kept steps.
    """

    way: UnchunkedWay | None
    gpus: tuple[int, int]
    step: Spread
    rollout: Estimate
    steady: Estimate
    train: Estimate
    passed_on: Estimate
    sync_s: float
    switch_s: float
    wait_s: float
    checks_s: float
    idle: tuple[Estimate, Estimate]
    phases: Mapping[PhaseName, float]
    amounts: Mapping[AmountName, float]
    assumptions: tuple[str, ...]

    @property
    def total_gpus(self) -> int:
        """Each counted once."""
        return self.gpus[0] if self.way is None else sum(self.gpus)


def present(run: LoggedRun, facts: Facts) -> Present:
    """Return what the log of a run says; raise `InputError` for what it cannot do without."""
    steps = run.kept
    seconds = [step.step_s for step in steps if step.step_s is not None]
    if not seconds or median(seconds) <= 0:
        raise _fault(run, "has no step whose length is known", "give a log with at least one complete step after the warm-up")
    mode = _mode(run, facts)
    phases: dict[PhaseName, float] = _medians([step.phases for step in steps])
    if run.mode == "unknown" and mode == "sync" and "wait" in phases:
        phases["generation"] = phases.get("generation", 0.0) + phases.pop("wait")
    amounts: dict[AmountName, float] = _medians([step.amounts for step in steps])
    step = Spread.of(seconds)
    way = _way(run, mode, facts)
    gpus = _gpus(run, way, facts)
    sync_s, switch_s, wait_s = (phases.get(name, 0.0) for name in ("sync", "switch", "wait"))
    train_s = sum(phases.get(name, 0.0) for name in TRAINING)
    rollout_s = sum(phases.get(name, 0.0) for name in ROLLOUT)
    known = train_s + rollout_s + sync_s + switch_s + wait_s + phases.get("validation", 0.0) + phases.get("checkpoint", 0.0)
    rest_s = max(0.0, step.median - known)
    notes = _gpu_notes(run, way, gpus, facts)
    if mode == "async" and "wait" not in phases:
        if train_s <= 0:
            raise _fault(run, "says neither how long the trainer works nor how long it waits", "give a log that times its phases")
        wait_s = rest_s
        notes.append("what is in no phase of the log is taken to be the trainer's wait")
    else:
        train_s += rest_s
    beside = _medians([step.beside for step in steps])
    if way is None or way == "serial":
        if rollout_s <= 0:
            raise _fault(run, "runs in turn but says nothing of generation", "give a log that times it")
        alone = Estimate.exact(rollout_s)
        steady = alone.times(_tail(amounts))
    else:
        alone, steady = _overlapped(way, step.median, train_s, sync_s, wait_s, _generation(run, beside), amounts, facts, notes)
    old_logprob_s = phases.get("old_logprob", 0.0)
    return Present(
        way, gpus, step, alone, steady, Estimate.exact(train_s), _passed_on(run, old_logprob_s), sync_s, switch_s, wait_s, _checks_s(run),
        _idle(way, step.median, alone, steady, train_s, wait_s), phases, amounts, tuple(notes),
    )  # fmt: skip


def _passed_on(run: LoggedRun, old_logprob_s: float) -> Estimate:
    """Return the seconds of old log-probs that are saved: verl's asynchronous trainer always takes them from rollout."""
    return Estimate(0.0, old_logprob_s if run.framework == "verl" else 0.0, old_logprob_s)


def _checks_s(run: LoggedRun) -> float:
    """Return the mean seconds of validation and checkpoints over all steps; those that hold them do not count otherwise."""
    times = [step.phases.get("validation", 0.0) + step.phases.get("checkpoint", 0.0) for step in run.steps if step.step_s is not None]
    return sum(times) / len(times)


def _generation(run: LoggedRun, beside: Mapping[BesideName, float]) -> float | None:
    """Return the seconds of a whole batch, where that is what the framework times beside the step; others time their longest sample."""
    return beside.get("generation") if run.framework in TIMES_BATCHES else None


def _mode(run: LoggedRun, facts: Facts) -> Literal["sync", "async"]:
    """Return whether rollout and training overlap, as the log says, or else the facts."""
    if run.mode != "unknown":
        return run.mode
    if facts.placement == "colocated":
        return "sync"
    told = None if facts.settings is None else facts.settings.asynchronous
    if facts.staleness is not None:
        told = facts.staleness > 0
    if told is None:
        remedy = "say it: --placement colocated, or --staleness (0: they take turns on GPUs of their own), or --config"
        raise _fault(run, f"does not say whether rollout and training overlap ({run.mode_reason})", remedy)
    return "async" if told else "sync"


def _way(run: LoggedRun, mode: Literal["sync", "async"], facts: Facts) -> UnchunkedWay | None:
    placement = facts.placement
    if mode == "async":
        if placement == "colocated":
            raise _fault(run, f"is asynchronous ({run.mode_reason}), which needs GPUs of its own for each side", "correct --placement")
        waits = facts.staleness is not None and facts.staleness < ENOUGH_STALENESS
        return "one-step" if waits or (facts.staleness is None and run.mode_reason.startswith(ONE_STEP_OFF)) else "async-batch"
    return "serial" if placement == "separate" or (placement is None and _apart(run, facts)) else None


def _apart(run: LoggedRun, facts: Facts) -> bool:
    """Return whether the numbers of GPUs alone say that the sides are apart."""
    if facts.rollout_gpus is None or facts.train_gpus is None:
        return run.mode == "unknown"
    return facts.rollout_gpus != facts.train_gpus or run.gpus == facts.rollout_gpus + facts.train_gpus or run.mode == "unknown"


def _gpu_notes(run: LoggedRun, way: UnchunkedWay | None, gpus: tuple[int, int], facts: Facts) -> list[str]:
    """Return what of the numbers of GPUs is doubtful."""
    notes = []
    if way is None and facts.placement is None and facts.rollout_gpus is not None and facts.rollout_gpus == facts.train_gpus:
        notes.append(f"rollout and training are taken to share {gpus[0]} GPUs: if they do not, say --placement separate")
    total = gpus[0] if way is None else sum(gpus)
    if run.gpus is not None and run.gpus != total:
        notes.append(f"the log's own rates imply {run.gpus} GPUs, not {total}")
    return notes


def _gpus(run: LoggedRun, way: UnchunkedWay | None, facts: Facts) -> tuple[int, int]:
    rollout, train = facts.rollout_gpus, facts.train_gpus
    if way is None:
        if rollout is not None and train is not None and rollout != train:
            problem = f"ran with both sides on the same GPUs, but {rollout} are said to roll out and {train} to train"
            raise _fault(run, problem, "correct --placement, --rollout-gpus or --train-gpus")
        total = rollout or train or run.gpus
        if total is None:
            raise _fault(run, "does not say on how many GPUs it ran", "give --rollout-gpus, or the launch configuration with --config")
        return total, total
    if rollout is None and train is not None and run.gpus is not None and run.gpus > train:
        rollout = run.gpus - train
    if train is None and rollout is not None and run.gpus is not None and run.gpus > rollout:
        train = run.gpus - rollout
    if rollout is None or train is None:
        seen = "" if run.gpus is None else f" ({run.gpus} in all)"
        problem = f"does not say how many GPUs roll out and how many train{seen}"
        raise _fault(run, problem, "give --rollout-gpus and --train-gpus, or the launch configuration with --config")
    return rollout, train


def _overlapped(
    way: UnchunkedWay,
    step_s: float,
    train_s: float,
    sync_s: float,
    wait_s: float,
    generation_s: float | None,
    amounts: Mapping[AmountName, float],
    facts: Facts,
    notes: list[str],
) -> tuple[Estimate, Estimate]:
    """Return seconds of one batch alone, and per step with overlapping batches, of a rollout that runs beside training."""
    if wait_s > IDLE * step_s:
        if way != "one-step":
            return _alone(Estimate.exact(step_s), amounts), Estimate.exact(step_s)
        # Without staleness a streaming trainer still trains its last portion after the rollout has ended.
        last_s = train_s / STREAMED_PORTIONS if facts.staleness == 0 else 0.0
        alone = Estimate.exact(max(wait_s, step_s - sync_s - last_s))
        return alone, alone.times(_tail(amounts))
    if generation_s is not None and generation_s <= 1.05 * step_s:
        found = Estimate.exact(min(generation_s, step_s))
    else:
        found = Estimate(BUSY_AT_LEAST * step_s, 0.8 * step_s, step_s)
        notes.append("the log does not say how long rollout works: at most the whole step, taken as 50 to 100 % of it, likely 80 %")
    return (found, found.times(_tail(amounts))) if way == "one-step" else (_alone(found, amounts), found)


def _alone(steady: Estimate, amounts: Mapping[AmountName, float]) -> Estimate:
    """Return seconds of one batch that runs to its end, from those of one that overlaps with its neighbours."""
    return steady.times(_tail(amounts).map(lambda share: 1 / share))


def _tail(amounts: Mapping[AmountName, float]) -> Estimate:
    """Return seconds per batch of overlapping batches, by those of a batch that runs to its end.

    At least mean / longest, as if a step took the same time for any batch; at most 1, as if it took time in proportion.
    """
    mean, longest = amounts.get("response_mean", 0.0), amounts.get("response_max", 0.0)
    if not 0 < mean <= longest:
        return TAIL
    return Estimate(mean / longest, (mean / longest) ** 0.5, 1.0)


def _idle(
    way: UnchunkedWay | None, step_s: float, alone: Estimate, steady: Estimate, train_s: float, wait_s: float
) -> tuple[Estimate, Estimate]:
    """Return the shares of the step in which rollout GPUs and training GPUs do not work."""

    def share(busy_s: float) -> float:
        return min(1.0, max(0.0, 1 - busy_s / step_s))

    if way is None:
        nothing = Estimate.exact(share(alone.likely + train_s))
        return nothing, nothing
    if way == "serial":
        return alone.map(share), Estimate.exact(share(train_s))
    return (alone if way == "one-step" else steady).map(share), Estimate.exact(min(1.0, wait_s / step_s))


def _medians(steps: list[dict[Name, float]]) -> dict[Name, float]:
    """Return the median of each name over the steps that have it, where at least half of them do."""
    names = {name for step in steps for name in step}
    found = {name: [step[name] for step in steps if name in step] for name in sorted(names)}
    return {name: median(values) for name, values in found.items() if 2 * len(values) >= len(steps)}


def _fault(run: LoggedRun, problem: str, remedy: str) -> InputError:
    return InputError(run.source, [Finding("log", "", problem, remedy)])
