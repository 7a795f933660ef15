"""OpenRLHF: `Global step N: {python dict}` with `timing/*` keys (since March 2026), or the older `--perf` keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, seconds, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import pairs

_LINE = re.compile(r"(✨\s*)?Global step (\d{1,9}): \{")
_SPARKLE = "sparkle"
_PHASES: Mapping[str, PhaseName] = {
    "timing/make_experience": "logprobs",
    "timing/ppo_train": "update",
    "timing/broadcast": "sync",
    "timing/actor_idle_wait": "wait",
}
_PERF: Mapping[str, PhaseName] = {"generate_time": "generation", "actor_time": "update", "wait_time": "wait"}
_AMOUNTS: Mapping[str, AmountName] = {
    "response_length": "response_mean",
    "total_length": "sequence_mean",
    "truncated": "response_clipped",
    "reward": "reward",
}


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    for line in lines:
        if found := _LINE.search(line.text):
            values = {key.removeprefix("train/"): value for key, value in pairs(line.text[found.end() - 1 :]).items()}
            kept = {key: value for key, value in values.items() if key.startswith("timing/") or key in _AMOUNTS or key in _PERF}
            if found[1]:
                kept[_SPARKLE] = 1.0
            whole = line.ended or line.text.rstrip().endswith("}")
            yield Record(line.number, int(found[2]), kept, actor=line.actor, whole=whole)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    if not any(key.startswith("timing/") for step in steps for key in step.values):
        read = tuple(_perf(step) for step in steps)
        reason = "the --perf keys do not say whether generation lies in the step"
        return Reading("Global step lines with --perf keys", "unknown", reason, read, gaps="only parts of the step were timed")
    mode, reason = _mode(steps)
    gaps = None if mode == "sync" else "async OpenRLHF does not log the trainer's wait: it is what no phase explains"
    warnings = () if gaps is None else (gaps,)
    return Reading("Global step lines with timing/ keys", mode, reason, tuple(_step(step, mode) for step in steps), warnings, gaps=gaps)


def _mode(steps: Sequence[Gathered]) -> tuple[Mode, str]:
    """Sync totals are the sum of the phases; async ones are wall clock, with generation beside them."""
    apart = []
    for step in steps:
        parts = [value for key, value in step.values.items() if key.startswith("timing/") and key != "timing/step_total"]
        if (total := step.values.get("timing/step_total")) is not None and total > 0 and len(parts) > 1:
            apart.append(abs(sum(parts) - total) / total)
    if apart and median(apart) < 1e-3:
        return "sync", "step_total is the sum of the phases, as the sync trainer computes it"
    if any(_SPARKLE in step.values for step in steps):
        return "sync", "the line begins with the sync trainer's sparkle"
    if apart:
        return "async", "step_total is not the sum of the phases: generation overlaps the step"
    return "unknown", "no step_total with phases"


def _step(gathered: Gathered, mode: Mode) -> LoggedStep:
    values = gathered.values
    phases = summed(values, _PHASES)
    beside: dict[BesideName, float] = {}
    if (generation := seconds(values.get("timing/generation"))) is not None:
        if mode == "sync":
            phases["generation"] = generation
        else:
            beside["generation"] = generation
    return logged(gathered, phases, values.get("timing/step_total"), beside=beside, amounts=first(values, _AMOUNTS))


def _perf(gathered: Gathered) -> LoggedStep:
    return logged(gathered, summed(gathered.values, _PERF), None, amounts=first(gathered.values, _AMOUNTS), summable=True)


OPENRLHF = Framework(
    name="OpenRLHF",
    looked_for="`Global step N: {...}`",
    mark=_LINE,
    marks=(b"Global step ",),
    needles=(b"Global step ",),
    records=_records,
    interpret=_interpret,
)
