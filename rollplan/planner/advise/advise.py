"""`advise`: from the log of a run to who binds, what idles, what it costs, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollplan.models.errors import Finding, InputError
from rollplan.models.launch import Adjustable, changed_lines
from rollplan.models.pipelining.reading import IDLE, explain_idle
from rollplan.models.profile.run import LoggedRun
from rollplan.models.reference.prices import price_per_gpu_h
from rollplan.planner.advise.facts import Facts
from rollplan.planner.advise.law import law_shape
from rollplan.planner.advise.levers import WORTH, Change, levers
from rollplan.planner.advise.options import Option, nearest, options
from rollplan.planner.advise.present import ENOUGH_STALENESS, Present, present
from rollplan.planner.advise.shape import PowerShape, Shape

HOURS_PER_MONTH = 730.0
NOISE = 0.05
"""Reruns of one configuration differ by 4 % and more (NVIDIA-NeMo/RL #959)."""
SETTINGS = 3
WHOLE_NODE = 8


@dataclass(frozen=True, slots=True)
class Advice:
    """binds: in one word; reading: the sentence. better: the best option, None if nothing is to gain beyond noise.

    per_month: dollars of all GPUs in 730 hours, idle_per_month: of their idle time; None without a price. settings: at
    most three changes, the largest first. law: where the seconds of other splits come from. limits: the
    rule by which numbers of training GPUs were left out, if one is known.
    """

    run: LoggedRun
    present: Present
    binds: str
    reading: str
    noise: float
    options: tuple[Option, ...]
    better: Option | None
    settings: tuple[Change, ...]
    per_month: float | None
    idle_per_month: float | None
    price_note: str | None
    law: str
    limits: str | None
    warnings: tuple[str, ...]


def advise(run: LoggedRun, facts: Facts) -> Advice:
    """Return what the log of a run advises; raise `InputError` for what it cannot do without."""
    if facts.settings is not None and facts.settings.framework != run.framework:
        what = f"is of {facts.settings.framework}, but the log is of {run.framework}"
        raise InputError(run.source, [Finding("config", "", what, "give the configuration of this run, or say which with --framework")])
    seen = present(run, facts)
    noise = max(NOISE, seen.step.relative)
    shape, law = _shape(seen, facts)
    found = options(seen, shape)
    gaining = [option for option in found if option.gain[1] > noise]
    better = nearest(seen, gaining, noise, facts.gpus_per_node) if gaining else None
    binds, reading = _binding(seen)
    price, price_note = _price(facts)
    month = None if price is None else price * seen.total_gpus * HOURS_PER_MONTH
    return Advice(
        run=run,
        present=seen,
        binds=binds,
        reading=reading,
        noise=noise,
        options=tuple(found),
        better=better,
        settings=tuple(_settings(seen, facts, gaining, noise))[:SETTINGS],
        per_month=month,
        idle_per_month=None if month is None else month * idle_share(seen),
        price_note=price_note,
        law=law,
        limits=_limits(facts),
        warnings=(*run.warnings, *facts.warnings, *seen.assumptions),
    )


def idle_share(seen: Present) -> float:
    """Return the likely share of all GPU time that is idle."""
    rollout, train = (idle.likely for idle in seen.idle)
    if seen.way is None:
        return rollout
    return (rollout * seen.gpus[0] + train * seen.gpus[1]) / sum(seen.gpus)


def _binding(seen: Present) -> tuple[str, str]:
    """Return who binds and the sentence that says so."""
    step_s, rollout, trainer = seen.step.median, seen.idle[0], seen.idle[1].likely
    if seen.way is None:
        return "both in turn", (
            f"both sides take turns on the same GPUs: rollout {seen.rollout.likely / step_s:.0%} of the step, "
            f"training {seen.train.likely / step_s:.0%}"
        )
    if seen.way == "serial":
        return "both in turn", (
            f"each side waits for the other: rollout GPUs idle {rollout.likely:.0%} of the step, training GPUs {trainer:.0%}"
        )
    if trainer <= IDLE and not rollout.known:
        return "training", (
            f"the trainer waits only {trainer:.0%} of the step: training binds, or rollout has more GPUs than it needs "
            f"(it idles {rollout.low:.0%} to {rollout.high:.0%})"
        )
    if seen.way == "one-step" and trainer > IDLE:
        return "rollout", f"the trainer waits {trainer:.0%} of the step for a rollout that cannot overlap with the next one"
    found = explain_idle(trainer, rollout.likely)
    return found.binding, found.text


def _shape(seen: Present, facts: Facts) -> tuple[Shape, str]:
    """Return the laws of the model where it is known and fits the run, published exponents otherwise."""
    missing = [option for option, known in (("--model", facts.model), ("--gpu", facts.gpu)) if known is None]
    reason = f"give {' and '.join(missing)} for the laws of your model"
    if facts.model is not None and facts.gpu is not None:
        law, reason = law_shape(seen, facts, facts.model, facts.gpu)
        if law is not None:
            return law, f"laws of {facts.model} on {facts.gpu}, at the level of the log"
    unit = 1 if seen.total_gpus <= WHOLE_NODE else 4 if seen.total_gpus <= 8 * WHOLE_NODE else WHOLE_NODE
    shape = PowerShape(seen.total_gpus, facts.rollout_unit or unit, facts.train_unit or unit, facts.samples_per_update)
    assumed = (
        "" if facts.rollout_unit and facts.train_unit else f"; GPUs are moved in assumed units of {unit}, --config tells the real ones"
    )
    return shape, f"published exponents ({reason}){assumed}"


def _settings(seen: Present, facts: Facts, found: Sequence[Option], noise: float) -> list[Change]:
    """Return changes, the largest first: the best option of each kind, then what the phases suggest."""
    kinds = (
        [option for option in found if option.way == seen.way],
        [option for option in found if option.way is None and seen.way is not None],
        [option for option in found if option.way not in (None, seen.way)],
    )
    best = [nearest(seen, kind, noise, facts.gpus_per_node) for kind in kinds if kind]
    changes = [*(_as_change(seen, facts, option) for option in best), *levers(seen, facts)]
    return sorted((change for change in changes if change.saves >= WORTH), key=lambda change: -change.saves)


def _as_change(seen: Present, facts: Facts, option: Option) -> Change:
    low, likely, high = option.gain
    why = f"{option.step.likely:.3g} s per step predicted ({option.step.low:.3g} to {option.step.high:.3g} s)"
    split = f"{option.gpus[0]} GPU{'s' if option.gpus[0] != 1 else ''} for rollout, {option.gpus[1]} for training"
    fields: dict[Adjustable, float | str] = {"rollout_gpus": option.gpus[0], "train_gpus": option.gpus[1]}
    if option.way is None:
        text, fields = f"let both sides take turns on {option.gpus[0]} GPUs", {"placement": "colocated"}
    elif option.way == seen.way:
        text = split
    elif seen.way in ("one-step", "async-batch"):
        text = f"allow batches to overlap (staleness {ENOUGH_STALENESS} or more, partial rollout)"
        if option.gpus == seen.gpus:
            fields = {"staleness": 0.5}
        else:
            text, fields = f"{text}: {split}", {"staleness": 0.5, **fields}
    else:
        text = f"asynchronous on GPUs of their own ({option.way}, staleness {option.staleness}): {split}"
        fields |= {"placement": "separate", "staleness": option.staleness}
        if seen.way is None and seen.passed_on.likely > 0:
            why += f"; {seen.passed_on.likely:.3g} s of old log-probs that rollout gives as well are left out, which needs no split"
    lines = () if facts.settings is None else changed_lines(facts.settings, fields) or ()
    return Change(text, why, likely, (low, high), lines)


def _limits(facts: Facts) -> str | None:
    if facts.samples_per_update is None:
        return None
    unit = f"in units of {facts.train_unit} " if facts.train_unit else ""
    return f"training GPUs {unit}must divide the {facts.samples_per_update} samples of an update among them"


def _price(facts: Facts) -> tuple[float | None, str | None]:
    if facts.price_per_gpu_h is not None:
        return facts.price_per_gpu_h, None
    known = None if facts.gpu is None else price_per_gpu_h(facts.gpu)
    return (None, None) if known is None else (known.median_per_h, f"median of {known.note}: {known.median_per_h:.2f} $/h per GPU")
