"""Settings to change, with what each could bring at most: from the phases of the step, not from the split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rollplan.models.pipelining.reading import IDLE
from rollplan.models.profile.run import PhaseName
from rollplan.planner.advise.facts import Facts
from rollplan.planner.advise.present import Present

WORTH = 0.05
"""Levers that could bring less of the step are not named."""
PASSES: tuple[PhaseName, ...] = ("old_logprob", "reference", "logprobs")
GOOD_MFU = 0.35
CLIPPED = 0.1
FULL_ENGINE = 32
"""Sequences; decoding is bound by reading the weights well beyond (docs/reference_data.md)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the settings. saves: share of the step, 0 to 1; what is likely where between gives the interval, else at most.

    lines: the settings in the framework's own words, as far as they are known.
    """

    text: str
    why: str
    saves: float
    between: tuple[float, float] | None = None
    lines: tuple[str, ...] = ()


def levers(present: Present, facts: Facts) -> list[Change]:
    """Return what the phases of a step suggest."""
    return [*_trainer(present), *_rollout(present, facts), *_between(present)]


def _share(present: Present, seconds: float) -> float:
    return min(1.0, seconds / present.step.median)


def _trainer(present: Present) -> Iterator[Change]:
    """Yield what shortens training; seconds of it count only where the trainer does not wait for rollout anyway."""
    if present.way not in (None, "serial") and present.wait_s > IDLE * present.step.median:
        return
    phases = present.phases
    passes = sum(phases.get(name, 0.0) for name in PASSES)
    yield Change(
        "take old log-probs from the rollout engine, give passes larger micro-batches, drop a reference whose KL weight is 0",
        f"passes without gradients take {passes:.3g} s of {present.step.median:.3g} s",
        _share(present, passes),
    )
    mfu, update = present.amounts.get("mfu"), phases.get("update", 0.0) + phases.get("critic_update", 0.0)
    if mfu is not None and 0 < mfu < GOOD_MFU / 1.5:
        yield Change(
            "pack sequences or use dynamic batches in the update, with less parallelism inside of the model",
            f"the update reaches {mfu:.0%} of the peak speed; well-packed ones reach {GOOD_MFU:.0%}",
            _share(present, update * (1 - mfu / GOOD_MFU)),
        )


def _rollout(present: Present, facts: Facts) -> Iterator[Change]:
    amounts, phases = present.amounts, present.phases
    reward = phases.get("reward", 0.0)
    yield Change("score samples while others are generated", f"rewards take {reward:.3g} s after generation", _share(present, reward))
    samples, waits_s = amounts.get("samples", 0.0), phases.get("generation", present.wait_s)
    if samples > 0 and (at_once := samples / (present.gpus[0] / (facts.rollout_unit or 1))) < FULL_ENGINE:
        yield Change(
            "send more requests to each engine at once",
            f"{at_once:.3g} sequences per engine leave it waiting for memory: {FULL_ENGINE} take hardly longer per token",
            _share(present, waits_s) * (1 - at_once / FULL_ENGINE),
        )
    preempted = amounts.get("preempted", 0.0)
    if preempted > 0:
        yield Change(
            "let fewer sequences run at once, or give the KV cache more memory",
            f"the engine throws out running samples for want of KV cache ({preempted:.3g} per step)",
            _share(present, waits_s) * 0.5,
        )
    if CLIPPED < amounts.get("response_clipped", 0.0) <= 1 and present.way is not None and present.wait_s > IDLE * present.step.median:
        yield Change(
            "lower the response limit, or filter prompts whose answers never end",
            f"{amounts['response_clipped']:.0%} of the responses run into the limit and train on a cut answer",
            _share(present, present.wait_s) * 0.5,
        )


def _between(present: Present) -> Iterator[Change]:
    sync = present.sync_s
    yield Change(
        "send weights another way (NCCL or shards instead of a full gather, FSDP2 instead of FSDP1), or less often",
        f"weight sync takes {sync:.3g} s of {present.step.median:.3g} s; it may include waiting for samples that still run",
        _share(present, sync),
    )
    switch = present.switch_s
    yield Change(
        "keep optimizer and weights on the GPU, or separate the sides",
        f"off-loading, loading and resharding take {switch:.3g} s of {present.step.median:.3g} s",
        _share(present, switch),
    )
    checks = present.checks_s
    yield Change(
        "validate and save less often",
        f"validation and checkpoints add {checks:.3g} s to a step of {present.step.median:.3g} s, on average",
        checks / (checks + present.step.median),
    )
