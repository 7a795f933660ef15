"""SkyRL: `Finished: '<timer>', time cost: X s` lines, and the tracker's `Step N:` with a dict of quoted numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import FALLBACK, Framework, Gathered, Reading, Record, first, logged, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number, pairs

_TIMER = re.compile(r"\bFinished: '([\w/ -]{1,80})', time cost: ([\d.]{1,15})s")
_STEP = re.compile(r"(?:^|[\s|-])Step:? (\d{1,9}):?\s*(\{.*)?$")
_WAIT = "timing/wait_for_generation_buffer"
_PHASES: Mapping[str, PhaseName] = {
    "timing/generate": "generation",
    _WAIT: "wait",
    "timing/postprocess_generator_output": "reward",
    "timing/convert_to_training_input": "data",
    "timing/compute_advantages_and_returns": "advantage",
    "timing/policy_train": "update",
    "timing/critic_train": "critic_update",
    "timing/eval": "validation",
    "timing/save_checkpoints": "checkpoint",
    "timing/save_hf_model": "checkpoint",
    "timing/offload_policy_model_to_cpu": "switch",
}
_SYNC = ("timing/sync_weights_total", "timing/sync_weights", "timing/sync_weights_to_inference_engines")
_LOGPROBS = ("timing/fwd_logprobs_values_reward", "timing/fwd_logprobs_values")
_OUTER = ("timing/train_critic_and_policy", "timing/run_training")
"""Timers that hold others; what is left of them is `other`."""
_INNER: Mapping[str, tuple[PhaseName, ...]] = {
    "timing/train_critic_and_policy": ("update", "critic_update"),
    "timing/run_training": ("update", "critic_update", "logprobs", "advantage"),
}
_AMOUNTS: Mapping[str, AmountName] = {
    "generate/avg_num_tokens": "response_mean",
    "generate/max_num_tokens": "response_max",
    "generate/min_num_tokens": "response_min",
    "trainer/tokens_per_second_per_gpu": "tokens_per_gpu_s",
    "async/staleness_mean": "staleness",
    "async/gen_buffer_qsize_at_wait_start": "queue",
    "reward/avg_raw_reward": "reward",
}
_KEPT = {*_PHASES, *_SYNC, *_LOGPROBS, *_OUTER, *_AMOUNTS, "timing/step"}


@dataclass
class _Open:
    """What one writer has said since its last step."""

    timers: dict[str, float] = field(default_factory=dict)
    begun: int = 0
    count: int = 0
    dict_step: int | None = None
    dict_line: int = 0
    values: dict[str, float] = field(default_factory=dict)


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    writers: dict[str | None, _Open] = {}
    ended = True
    for line in lines:
        ended = line.ended
        writer = writers.setdefault(line.actor, _Open())
        text = line.text
        if found := _TIMER.search(text):
            key = f"timing/{found[1]}"
            if key in _KEPT and (value := number(found[2])) is not None:
                writer.begun = writer.begun if writer.timers else line.number
                writer.timers[key] = writer.timers.get(key, 0.0) + value
            if found[1] == "step":
                writer.count += 1
                yield Record(writer.begun, writer.count, {**writer.timers, FALLBACK: 1.0}, FALLBACK, line.actor)
                writer.timers = {}
            continue
        if found := _STEP.search(text):
            if writer.dict_step is not None:
                yield Record(writer.dict_line, writer.dict_step, writer.values, actor=line.actor)
            writer.dict_step, writer.dict_line, writer.values = int(found[1]), line.number, {}
            text = found[2] or ""
        if writer.dict_step is not None:
            writer.values |= {key: value for key, value in pairs(text).items() if key in _KEPT}
            if text.rstrip().endswith("}"):
                yield Record(writer.dict_line, writer.dict_step, writer.values, actor=line.actor)
                writer.dict_step = None
    for actor, writer in writers.items():
        if writer.dict_step is not None and writer.values:
            yield Record(writer.dict_line, writer.dict_step, writer.values, actor=actor, whole=False)
        if writer.timers and (writer.count == 0 or actor is not None or len(writers) == 1):
            whole = writer.count == 0
            yield Record(writer.begun, writer.count + 1, {**writer.timers, FALLBACK: 1.0}, FALLBACK, actor, whole and ended)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    by_timers = any(FALLBACK in step.values for step in steps)
    keys = {key for step in steps for key in step.values}
    mode: Mode
    if _WAIT in keys:
        mode, reason = "async", "wait_for_generation_buffer: the fully asynchronous trainer"
    elif "timing/generate" in keys:
        mode, reason = "sync", "generate lies in the step, and nothing waits for a generation buffer"
    else:
        mode, reason = "unknown", "neither generate nor wait_for_generation_buffer"
    warnings: tuple[str, ...] = ()
    if "timing/step" not in keys:
        warnings += ("no timer named `step` has ended: there are parts of a step, but no step time",)
    if mode == "async" and "timing/sync_weights" in keys and "timing/sync_weights_total" not in keys:
        warnings += ("sync_weights of SkyRL before 2026-08-14 includes the pause of the engines, about twice the transfer",)
    read = tuple(_step(step, mode) for step in steps)
    return Reading("Timer lines" if by_timers else "Step N: dicts", mode, reason, read, warnings)


def _step(gathered: Gathered, mode: Mode) -> LoggedStep:
    values = gathered.values
    phases = summed(values, _PHASES)
    beside: dict[BesideName, float] = {}
    if mode == "async" and "generation" in phases:
        beside["generation"] = phases.pop("generation")
    phases |= first(values, dict.fromkeys(_SYNC, "sync"))
    phases |= first(values, dict.fromkeys(_LOGPROBS, "logprobs"))
    # The timer of critic and policy may be the only one of training.
    if "update" not in phases:
        phases |= summed(values, {"timing/train_critic_and_policy": "update"})
    outer = next((key for key in reversed(_OUTER) if key in values), None)
    if outer is not None:
        rest = values[outer] - sum(phases.get(name, 0.0) for name in _INNER[outer])
        if rest > 0:
            phases["other"] = rest
    return logged(gathered, phases, values.get("timing/step"), beside=beside, amounts=first(values, _AMOUNTS))


SKYRL = Framework(
    name="SkyRL",
    looked_for="`Finished: '<timer>', time cost: X s`, or `Step N:` and a dict with 'timing/step'",
    mark=re.compile(rf"{_TIMER.pattern}|['\"]timing/(?:step|generate|policy_train|sync_weights)['\"]: ['\"][\d.]+['\"]"),
    marks=(b"time cost: ", b"'timing/"),
    needles=(b"time cost: ", b"Step", b"'timing/", b"'generate/", b"'async/", b"'trainer/", b"'reward/", b"'}"),
    records=_records,
    interpret=_interpret,
)
