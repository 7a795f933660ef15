"""slime and its forks: two `perf N: {python dict}` lines per rollout, and `Timer <name> end` lines.

`perf/step_time` is the trainer's wait and its training; sleeping, waking, the weight update and saving come on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import FALLBACK, Framework, Gathered, Reading, Record, first, logged, seconds, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number, pairs

_PERF = re.compile(r"\bperf (\d{1,9}): \{(?=[^\n]{0,100000}?'(?:perf|rollout)/)")
_TIMER = re.compile(r"\bTimer (\w+) end \(elapsed: ([\d.]+)s\)")
_OUTSIDE = ("perf/sleep_time", "perf/wake_up_time", "perf/update_weights_time", "perf/save_model_time")
_PHASES: Mapping[str, PhaseName] = {
    "perf/data_preprocess_time": "data",
    "perf/ref_log_probs_time": "reference",
    "perf/log_probs_time": "old_logprob",
    "perf/values_time": "values",
    "perf/actor_train_time": "update",
    "perf/critic_train_time": "critic_update",
    "perf/sleep_time": "switch",
    "perf/wake_up_time": "switch",
    "perf/update_weights_time": "sync",
    "perf/save_model_time": "checkpoint",
}
_AMOUNTS: Mapping[str, AmountName] = {
    "rollout/response_len/mean": "response_mean",
    "rollout/response_len/max": "response_max",
    "rollout/response_len/min": "response_min",
    "rollout/truncated_ratio": "response_clipped",
    "perf/tokens_per_gpu_per_sec": "tokens_per_gpu_s",
    "perf/actor_train_tok_per_s": "train_tokens_per_s",
    "rollout/raw_reward": "reward",
}
_TOTALS = ("perf/step_time", "perf/total_train_time")
_KEPT = {*_PHASES, *_AMOUNTS, *_TOTALS, "perf/rollout_time", "perf/train_wait_time", "perf/train_time"}


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    """Yield the perf dicts, and for logs without them one record each time the timers begin anew."""
    timers: dict[str, float] = {}
    begun, count, writer = 0, 0, ""
    for line in lines:
        if found := _PERF.search(line.text):
            values = {key: value for key, value in pairs(line.text[found.end() - 1 :]).items() if key in _KEPT}
            part = "train" if "perf/train_time" in values or "perf/train_wait_time" in values else "rollout"
            whole = line.ended or line.text.rstrip().endswith("}")
            yield Record(line.number, int(found[1]), values, part, line.actor, whole)
        elif (found := _TIMER.search(line.text)) and (key := f"perf/{found[1]}_time") in _KEPT and (value := number(found[2])) is not None:
            writer = writer or line.actor or "-"
            if writer != (line.actor or "-"):
                continue
            if key in timers:
                yield Record(begun, count, {**timers, FALLBACK: 1.0}, FALLBACK)
                timers, count = {}, count + 1
            begun = begun if timers else line.number
            timers[key] = value
    if timers:
        yield Record(begun, count, {**timers, FALLBACK: 1.0}, FALLBACK)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    if any(not step.values.keys().isdisjoint(_TOTALS) for step in steps):
        dialect = "perf dicts" if any("perf/step_time" in step.values for step in steps) else "perf dicts before November 2025"
    else:
        dialect = "Timer lines" if any(FALLBACK in step.values for step in steps) else "perf dicts of the rollout side only"
    mode, reason = _mode(steps)
    read = tuple(_step(step, mode) for step in steps)
    mended = ("slime's step time leaves out sleeping, waking, the weight update and saving: they were added to the step",)
    return Reading(dialect, mode, reason, read, mended if any(step.total == "stated and mended" for step in read) else ())


def _mode(steps: Sequence[Gathered]) -> tuple[Mode, str]:
    """A trainer that waits as long as the rollout takes is synchronous; one that sleeps shares its GPUs."""
    both = [
        step.values["perf/train_wait_time"] / step.values["perf/rollout_time"]
        for step in steps
        if "perf/train_wait_time" in step.values and step.values.get("perf/rollout_time", 0.0) > 0
    ]
    # The first wait of an asynchronous run has nothing to overlap with.
    later = both[1:] or both
    if later and median(later) >= 0.9:
        return "sync", "the trainer waits for as long as the rollout takes"
    if later:
        return "async", f"the trainer waits {median(later):.0%} of the rollout's time: the rest overlaps with training"
    if any(step.values.get("perf/sleep_time", 0.0) > 0 or step.values.get("perf/wake_up_time", 0.0) > 0 for step in steps):
        return "sync", "the trainer sleeps and wakes, which only --colocate does: rollout and training take turns on the same GPUs"
    return "unknown", "no rollout times beside the trainer's wait, and no sleeping or waking"


def _step(gathered: Gathered, mode: Mode) -> LoggedStep:
    values = gathered.values
    phases = summed(values, _PHASES)
    wait: Mapping[str, PhaseName] = {"perf/train_wait_time": "generation" if mode == "sync" else "wait"}
    phases |= summed(values, wait)
    if "update" not in phases:
        phases |= summed(values, {"perf/train_time": "update"})
    stated = next((value for key in _TOTALS if (value := seconds(values.get(key))) is not None), None)
    added = [value for key in _OUTSIDE if (value := seconds(values.get(key))) is not None]
    step_s = None if stated is None else stated + sum(added)
    rollout: Mapping[str, BesideName] = {"perf/rollout_time": "generation"}
    beside = first(values, rollout)
    amounts = first(values, _AMOUNTS)
    if FALLBACK in values:
        inside = seconds(values.get("perf/train_time"))
        parts = sum(phases.get(name, 0.0) for name in ("data", "reference", "old_logprob", "values", "update", "critic_update"))
        if inside is not None and inside > parts:
            phases["other"] = inside - parts
        return logged(gathered, phases, None, beside=beside, amounts=amounts, summable=True)
    return logged(gathered, phases, step_s, mended=bool(added), beside=beside, amounts=amounts)


SLIME = Framework(
    name="slime",
    looked_for="`perf N: {'perf/...` or `Timer <name> end (elapsed: X s)`",
    mark=re.compile(f"{_PERF.pattern}|{_TIMER.pattern}"),
    marks=(b"'perf/", b"'rollout/", b" end (elapsed: "),
    needles=(b"'perf/", b"'rollout/", b" end (elapsed: "),
    records=_records,
    interpret=_interpret,
)
