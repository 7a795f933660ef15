"""ROLL: `metrics_tag: {"step": N, "metrics": {..}}` (track_with: stdout), or the bare JSON dict of every logging step.

The RLVR pipeline's `time/step_total` belongs to the step before the one it is logged with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, seconds, summed, whole_number
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number, pairs

_TAGGED = re.compile(r'metrics_tag: \{"step": (\d{1,9}),')
_BARE = re.compile(r'\{(?=[^{}]{0,100000}?"time/step_(?:generate|rollout|train)")')
_STEP = re.compile(r"\bpipeline step (\d{1,9}) start")
_RATIO = re.compile(r"\basync_generation_ratio['\"]?\s*[:=]\s*([\d.]{1,10})")
_PREFETCH = "async_generation_ratio"
_PHASES: Mapping[str, PhaseName] = {
    "time/step_stop_server": "switch",
    "time/step_model_update": "sync",
    "time/val_step": "validation",
    "time/ref_log_probs_values": "reference",
    "time/old_log_probs": "old_logprob",
    "time/old_log_probs_values": "old_logprob",
    "time/step_ref_log_probs_values_reward": "logprobs",
    "time/step_old_log_probs_values": "old_logprob",
    "time/step_adv": "advantage",
    "time/adv": "advantage",
    "time/step_train": "update",
}
_GENERATE = ("time/step_generate", "time/step_rollout")
_SAMPLES = re.compile(r"scheduler/.+/time/generate/(max|mean)$")
_AMOUNTS: Mapping[str, AmountName] = {
    "tokens/response_length/mean": "response_mean",
    "tokens/response_length/max": "response_max",
    "tokens/response_length/min": "response_min",
    "tokens/prompt_length/mean": "prompt_mean",
    "tokens/prompt_length/max": "prompt_max",
    "system/tps_gpu": "tokens_per_gpu_s",
}


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    hint: dict[str, float] = {}
    latest: int | None = None
    count = 0
    for line in lines:
        if found := _TAGGED.search(line.text):
            step = int(found[1])
        elif (found := _BARE.search(line.text)) and "metrics_tag" not in line.text:
            step = latest if latest is not None else count
        else:
            if found := _STEP.search(line.text):
                latest = int(found[1])
            elif found := _RATIO.search(line.text):
                hint[_PREFETCH] = number(found[1].rstrip(".")) or 0.0
            continue
        values = pairs(line.text[found.start() :])
        bare = "metrics_tag" not in line.text
        if bare and latest is None and "system/global_step" in values and 0 <= values["system/global_step"] < 1e9:
            step = int(values["system/global_step"])
        kept = {key: value for key, value in values.items() if _wanted(key)}
        whole = line.ended or line.text.rstrip().endswith("}")
        count += 1
        yield Record(line.number, step, {**kept, **hint, **({"bare": 1.0} if bare else {})}, actor=line.actor, whole=whole)


def _wanted(key: str) -> bool:
    plain = ("time/step_total", "system/tps", *_GENERATE)
    return key in _PHASES or key in _AMOUNTS or key in plain or bool(_SAMPLES.match(key))


def _interpret(steps: Sequence[Gathered]) -> Reading:
    agentic = any("time/step_rollout" in step.values for step in steps)
    mode, reason = _mode(steps)
    totals = {step.step - (0 if agentic else 1): step.values.get("time/step_total") for step in steps if step.repeated is None}
    read = tuple(_step(step, mode, totals.get(step.step)) for step in steps)
    shifted = "time/step_total of RLVR belongs to the previous step: totals were shifted by one; the last step is summed"
    warnings: tuple[str, ...] = () if agentic else (shifted,)
    if mode == "unknown":
        warnings += ("time/step_generate was read as the trainer's wait; give the log with the configuration to be sure",)
    pipeline = "agentic" if agentic else "RLVR"
    form = "bare JSON" if any("bare" in step.values for step in steps) else "metrics_tag"
    rates = [
        step.values["system/tps"] / step.values["system/tps_gpu"]
        for step in steps
        if "system/tps" in step.values and step.values.get("system/tps_gpu", 0.0) > 0
    ]
    return Reading(f"{pipeline} pipeline, {form}", mode, reason, read, warnings, whole_number(rates))


def _mode(steps: Sequence[Gathered]) -> tuple[Mode, str]:
    ratios = {step.values[_PREFETCH] for step in steps if _PREFETCH in step.values}
    if ratios:
        ratio = max(ratios)
        return ("async" if ratio > 0 else "sync"), f"async_generation_ratio is {ratio:g}"
    longer = []
    for step in steps:
        samples = [value for key, value in step.values.items() if key.endswith("/time/generate/max")]
        step_s = next((step.values[key] for key in _GENERATE if key in step.values), None)
        if samples and step_s is not None:
            longer.append(max(samples) > 1.05 * step_s + 1)
    if longer and sum(longer) * 2 > len(longer):
        return "async", "samples took longer than the step's generation: they were begun before it"
    # Only the async pipeline has something to pause at the start of a step; the timer runs in both.
    pauses = [step.values["time/step_stop_server"] for step in steps if "time/step_stop_server" in step.values]
    if pauses and median(pauses) < 1e-3:
        return "sync", "stopping the server takes no time: there is nothing to pause between two steps"
    if pauses and median(pauses) > 1e-2:
        return "async", "the server is paused at the start of every step"
    return "unknown", "nothing in the log says whether async_generation_ratio is above 0"


def _step(gathered: Gathered, mode: Mode, total: float | None) -> LoggedStep:
    values = gathered.values
    name: PhaseName = "generation" if mode == "sync" else "wait"
    phases = summed(values, {**_PHASES, **dict.fromkeys(_GENERATE, name)})
    beside: dict[BesideName, float] = {}
    for key, value in values.items():
        if (found := _SAMPLES.match(key)) and seconds(value) is not None:
            kind: BesideName = "generation" if found[1] == "max" else "generation_mean"
            beside[kind] = max(beside.get(kind, 0.0), value)
    # The pipeline has no previous step to report when it begins, and says 0.
    known = total if total else None
    return logged(gathered, phases, known, beside=beside, amounts=first(values, _AMOUNTS), summable=True)


ROLL = Framework(
    name="ROLL",
    looked_for='`metrics_tag: {"step": N, ...}` or a JSON dict with "time/step_..." keys',
    mark=re.compile(f"{_TAGGED.pattern}|{_BARE.pattern}"),
    marks=(b"metrics_tag", b'"time/step_'),
    needles=(b"metrics_tag", b'"time/step_', b"pipeline step ", b"async_generation_ratio"),
    records=_records,
    interpret=_interpret,
)
