"""Samples from the log of a run: medians of its kept steps, phase by phase."""

from __future__ import annotations

from statistics import median

from rollplan.models.calibration.samples import LEAST_S, RolloutSample, Samples, TrainingSample
from rollplan.models.profile.calibration import LeftOut
from rollplan.models.profile.run import AmountName, LoggedRun, PhaseName

FEW_STEPS = 3
"""Below this many steps a median is whatever came by."""


def samples_of(run: LoggedRun, rollout_gpus: int | None = None, train_gpus: int | None = None) -> tuple[Samples, list[LeftOut]]:
    """Return the samples of a run, and which of its phases say nothing about the constants.

    rollout_gpus, train_gpus: where the log does not say, or where stages had GPUs of their own. A run in which the stages
    take turns has all of its GPUs in both.
    """
    phases = {name: seconds for name in _USED if (seconds := _phase(run, name)) is not None and seconds >= LEAST_S}
    shared = run.gpus if run.mode == "sync" else None
    left_out = [LeftOut(sample=f"{run.source}: {name}", reason=reason) for name, reason in _unusable(run, phases, rollout_gpus, train_gpus)]
    excluded = {text.sample.rpartition(": ")[2] for text in left_out}
    used = {name: seconds for name, seconds in phases.items() if name not in excluded}
    count, mean, tokens = (_amount(run, name) for name in ("samples", "response_mean", "tokens"))
    sequences = None if count is None else round(count)
    data: dict[str, object] = {}
    if "generation" in used:
        phase = {"gpus": rollout_gpus or shared, "time": f"{used['generation']!r} s", "samples": sequences, "response_mean": mean}
        data["rollout"] = (RolloutSample.build(phase, run.source),)
    passes = {key: f"{used[name]!r} s" for name, key in _TRAINING.items() if name in used}
    if passes:
        training = {"gpus": train_gpus or shared, "tokens": tokens, "samples": sequences, **passes}
        data["training"] = (TrainingSample.build(training, run.source),)
    if "sync" in used:
        data["sync"] = (f"{used['sync']!r} s",)
    return Samples.build(data, run.source), left_out


_TRAINING: dict[PhaseName, str] = {"update": "update", "old_logprob": "old_logprob", "reference": "reference"}
_USED: tuple[PhaseName, ...] = ("generation", *_TRAINING, "logprobs", "sync")


def _unusable(
    run: LoggedRun, phases: dict[PhaseName, float], rollout_gpus: int | None, train_gpus: int | None
) -> list[tuple[PhaseName, str]]:
    """Return the phases that cannot be used, each with the reason."""
    if 0 < len(run.kept) < FEW_STEPS:
        return [(name, f"rests on {len(run.kept)} steps; {FEW_STEPS} are needed") for name in phases]
    shared = run.gpus if run.mode == "sync" else None
    found: list[tuple[PhaseName, str]] = []
    if "logprobs" in phases:
        found.append(("logprobs", "times several passes together, so none of them is known"))
    if run.mode == "async" and {"generation", "wait"} & phases.keys():
        found.append(("generation", "is of an asynchronous run, where generation overlaps with other batches"))
    elif "generation" in phases and not (rollout_gpus or shared):
        found.append(("generation", "does not say on how many GPUs: add --rollout-gpus"))
    if not (train_gpus or shared):
        found += [(name, "does not say on how many GPUs: add --train-gpus") for name in _TRAINING if name in phases]
    return found


def _phase(run: LoggedRun, name: PhaseName) -> float | None:
    values = [step.phases[name] for step in run.kept if name in step.phases]
    return median(values) if values else None


def _amount(run: LoggedRun, name: AmountName) -> float | None:
    values = [step.amounts[name] for step in run.kept if name in step.amounts]
    return median(values) if values and median(values) >= 1 else None
