"""TRL: the dict that the HF Trainer prints at every logging step of GRPO and its relatives.

`step_time` covers one optimizer step; steps that reuse completions are much shorter. A step of ours goes from one
generation to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from rollplan.models.profile.run import AmountName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import pairs

_LINE = re.compile(
    r"\{(?=['\"]\w)(?=[^{}]{0,100000}?['\"](?:completions/mean_length|completion_length|mean_completion_length|training_tok/s)['\"]:)"
)
_GENERATE = "profiling/Time taken: GRPOTrainer.vLLM.generate"
_SYNC = "profiling/Time taken: GRPOTrainer.sync_weights"
_PHASES: Mapping[str, PhaseName] = {
    _GENERATE: "generation",
    _SYNC: "sync",
    "profiling/Time taken: GRPOTrainer._move_model_to_vllm": "sync",
    "forward_time_s": "update",
    "weight_sync_time_s": "sync",
}
_AMOUNTS: Mapping[str, AmountName] = {
    "completions/mean_length": "response_mean",
    "mean_completion_length": "response_mean",
    "completion_length": "response_mean",
    "completions/max_length": "response_max",
    "completions/min_length": "response_min",
    "completions/clipped_ratio": "response_clipped",
    "training_tok/s": "train_tokens_per_s",
    "reward": "reward",
}
_ASYNC = {"training_tok/s", "weight_sync_time_s", "forward_time_s"}
_TOKENS = "num_tokens"
_SHORT = 0.4
"""A step that takes less than this share of a long one reuses what the long one generated."""


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    """The dicts hold no step number; a smaller epoch or token count begins the count anew."""
    counts: dict[str | None, int] = {}
    before: dict[str | None, dict[str, float]] = {}
    for line in lines:
        if not (found := _LINE.search(line.text)):
            continue
        values = pairs(line.text[found.start() :])
        previous = before.get(line.actor, {})
        anew = any(values.get(key, 0.0) < previous.get(key, 0.0) for key in (_TOKENS, "epoch") if key in values)
        counts[line.actor] = 1 if anew else counts.get(line.actor, 0) + 1
        before[line.actor] = values
        kept = {key: value for key, value in values.items() if key in _PHASES or key in _AMOUNTS or key in ("step_time", _TOKENS)}
        yield Record(line.number, counts[line.actor], kept, actor=line.actor, whole=line.ended or line.text.rstrip().endswith("}"))


def _interpret(steps: Sequence[Gathered]) -> Reading:
    keys = {key for step in steps for key in step.values}
    mode: Mode = "async" if keys & _ASYNC else "sync"
    reason = "keys of the experimental async trainer" if mode == "async" else "GRPOTrainer generates inside its step"
    warnings: tuple[str, ...] = ("TRL prints no phases: only step times and lengths were read",) if not keys & _PHASES.keys() else ()
    period = _period([step.values.get("step_time", 0.0) for step in steps])
    if period > 1:
        read = tuple(_cycle(steps[start : start + period]) for start in range(_long(steps), len(steps) - period + 1, period))
        warnings += (f"{period} steps use the same completions (steps_per_generation): they were read as one step",)
    else:
        read = tuple(_step(step, steps[place - 1] if place else None) for place, step in enumerate(steps))
    gaps = None if keys & _PHASES.keys() and mode == "sync" else "the dicts hold no phases, or not all"
    return Reading("HF Trainer dicts", mode, reason, read, warnings, gaps=gaps or "the dicts hold only some phases")


def _period(times: Sequence[float]) -> int:
    """Return how many steps lie between two long ones: 1 if there is no such rhythm."""
    if len(times) < 4 or not (high := max(times)):
        return 1
    usual = median(sorted(times)[-max(2, len(times) // 8) :])
    long = [place for place, time in enumerate(times) if time > _SHORT * min(usual, high)]
    gaps = [after - before for before, after in pairwise(long)]
    return gaps[0] if len(gaps) > 1 and gaps[0] > 1 and len(set(gaps)) == 1 else 1


def _long(steps: Sequence[Gathered]) -> int:
    """Return the place of the first long step."""
    times = [step.values.get("step_time", 0.0) for step in steps]
    return next(place for place, time in enumerate(times) if time > _SHORT * max(times))


def _cycle(steps: Sequence[Gathered]) -> LoggedStep:
    """Return one step for a generation and all steps that use it."""
    total = sum(step.values.get("step_time", 0.0) for step in steps)
    whole = all(step.whole for step in steps)
    repeated = next((step.repeated for step in steps if step.repeated is not None), None)
    values = dict(steps[0].values)
    for key in _PHASES:
        if found := [step.values[key] for step in steps if key in step.values]:
            values[key] = sum(found)
    gathered = Gathered(steps[0].line, steps[0].step, values, whole, repeated)
    return logged(gathered, summed(values, _PHASES), total, mended=True, amounts=first(values, _AMOUNTS))


def _step(gathered: Gathered, before: Gathered | None) -> LoggedStep:
    amounts = first(gathered.values, _AMOUNTS)
    if before is not None and _TOKENS in gathered.values and (grown := gathered.values[_TOKENS] - before.values.get(_TOKENS, 0.0)) > 0:
        amounts["tokens"] = grown
    return logged(gathered, summed(gathered.values, _PHASES), gathered.values.get("step_time"), amounts=amounts)


TRL = Framework(
    name="TRL",
    looked_for="`{'loss': ..., 'completions/mean_length': ...}`",
    mark=_LINE,
    marks=(b"completions/mean_length", b"completion_length", b"training_tok/s"),
    needles=(b"completions/mean_length", b"completion_length", b"training_tok/s"),
    records=_records,
    interpret=_interpret,
)
