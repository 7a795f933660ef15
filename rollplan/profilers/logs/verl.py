"""verl: console lines `step:N - key:value - ...` and the JSON lines of its file logger.

`gen` is generation in the colocated trainer and the trainer's wait in the asynchronous ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, seconds, summed, whole_number
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number, pairs

_CONSOLE = re.compile(r"(?<![\w.])step:(\d{1,9}) - (?=[A-Za-z])")
_FILE = re.compile(r'^\s*\{\s*"step"\s*:\s*(\d{1,9})\s*,\s*"data"\s*:\s*\{')
_TIMING = re.compile(r"(?:timing_s/|timing/)+")

_PHASES: Mapping[str, PhaseName] = {
    "reward": "reward",
    "old_log_prob": "old_logprob",
    "ref": "reference",
    "ref_log_prob": "reference",
    "values": "values",
    "adv": "advantage",
    "update_critic": "critic_update",
    "update_actor": "update",
    "update_weights": "sync",
    "sync_rollout_weights": "sync",
    "param_sync": "sync",
    "switch_wait": "wait",
    "wait_for_enough_samples": "wait",
    "switch_to_rollout": "switch",
    "switch_to_trainer": "switch",
    "testing": "validation",
    "save_checkpoint": "checkpoint",
    "start_profile": "other",
    "stop_profile": "other",
    "gen_max": "generation",
}
_GENERATE = ("gen", "wait_prev_gen")
_BESIDE: Mapping[str, BesideName] = {
    "agent_loop/generate_sequences/max": "generation",
    "generation_timing/max": "generation",
    "generate_sequences": "generation",
    "agent_loop/generate_sequences/mean": "generation_mean",
    "agent_loop/tool_calls/mean": "tools",
}
_TIMES = {*_PHASES, *_GENERATE, *_BESIDE, "step", "generate_async"}
_AMOUNTS: Mapping[str, AmountName] = {
    "response_length/mean": "response_mean",
    "response_length/max": "response_max",
    "response_length/min": "response_min",
    "response_length/clip_ratio": "response_clipped",
    "prompt_length/mean": "prompt_mean",
    "prompt_length/max": "prompt_max",
    "perf/total_num_tokens": "tokens",
    "perf/throughput": "tokens_per_gpu_s",
    "perf/mfu/actor": "mfu",
    "perf/max_memory_allocated_gb": "memory_gib",
    "fully_async/trainer/idle_ratio": "trainer_idle",
    "fully_async/rollouter/idle_ratio": "rollout_idle",
    "fully_async/count/dropped_stale_samples": "dropped",
    "timing/agent_loop/slowest/num_preempted": "preempted",
    "critic/score/mean": "reward",
    "critic/rewards/mean": "reward",
    "dynamic_resource/mq_size": "queue",
}
_MODES = ("fully_async/", "separate_async/", "training/off_policy/")


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    last = ""
    for line in lines:
        if found := _CONSOLE.search(line.text):
            cells = [cell.rpartition(":") for cell in line.text[found.end() :].split(" - ")]
            values = {key: value for key, _, text in cells if (value := number(text)) is not None}
            whole = line.ended or not last or cells[-1][0] == last
            last = cells[-1][0]
        elif found := _FILE.match(line.text):
            values = pairs(line.text[found.end() :])
            whole = line.ended or line.text.rstrip().endswith("}")
        else:
            continue
        kept = {_plain(key): value for key, value in values.items()}
        yield Record(line.number, int(found[1]), {k: v for k, v in kept.items() if _wanted(k)}, actor=line.actor, whole=whole)


def _plain(key: str) -> str:
    """Return a key whose prefix of times is `timing/` in every version; the old one keeps a mark of its own."""
    found = _TIMING.match(key)
    if not found:
        return key
    return ("" if "timing_s/" in found[0] else "old/") + "timing/" + key[found.end() :]


def _wanted(key: str) -> bool:
    plain = key.removeprefix("old/")
    if plain.startswith("timing/"):
        return plain in _AMOUNTS or plain.removeprefix("timing/") in _TIMES
    return key in _AMOUNTS or key == "perf/time_per_step" or key.startswith(_MODES)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    keys = {key for step in steps for key in step.values}
    old = any(key.startswith("old/") for key in keys)
    plain = [
        Gathered(step.line, step.step, {k.removeprefix("old/"): v for k, v in step.values.items()}, step.whole, step.repeated)
        for step in steps
    ]
    mode, reason, warnings = _mode(plain)
    stated = any("timing/step" in step.values or "perf/time_per_step" in step.values for step in plain)
    read = tuple(_step(step, mode, summable=not stated) for step in plain)
    if mode == "async":
        read, more = _sync_outside(read)
        warnings += more
    if any("rollout_idle" in step.amounts for step in read):
        warnings += ("rollouter/idle_ratio only covers the last pause (verl #6693): do not judge the balance of the pools by it",)
    dialect = "lines with timing/ keys (2024)" if old else "lines with timing_s/ keys"
    return Reading(dialect, mode, reason, read, warnings, whole_number(_gpus(plain)))


def _mode(steps: Sequence[Gathered]) -> tuple[Mode, str, tuple[str, ...]]:
    keys = {key for step in steps for key in step.values}
    if any(key.startswith("fully_async/") for key in keys):
        return "async", "keys fully_async/*: `gen` is the trainer's wait; times are sums over one sync cycle", ()
    if any(key.startswith(("separate_async/", "timing/switch_")) for key in keys):
        return "async", "keys of the V1 trainer in mode separate_async: `gen` is the trainer's wait", ()
    one_step = keys & {"timing/sync_rollout_weights", "timing/generate_async", "timing/wait_prev_gen"}
    if one_step:
        old = "one_step_off of verl before March 2026 (#5698) aborted rollouts: if responses shrink after step 1, do not use this log"
        return "async", f"one_step_off: {sorted(one_step)[0].removeprefix('timing/')}; `gen` is the trainer's wait", (old,)
    if "timing/param_sync" in keys:
        return "async", "a param_sync apart from generation, as in fully_async: `gen` is the trainer's wait", ()
    if any(value > 0 for step in steps for key, value in step.values.items() if key.startswith("training/off_policy/")):
        return "async", "training/off_policy/* above 0: samples of older weights; `gen` is the trainer's wait", ()
    longer = [
        step.values["timing/agent_loop/generate_sequences/max"] > 1.05 * step.values["timing/gen"] + 1
        for step in steps
        if {"timing/agent_loop/generate_sequences/max", "timing/gen"} <= step.values.keys()
    ]
    if longer and sum(longer) * 2 > len(longer):
        return "async", "samples took longer than `gen`: they were begun before the step, so `gen` is the trainer's wait", ()
    if "timing/gen" not in keys:
        return "unknown", "no `gen` and no key of an async trainer", ()
    return "sync", "`gen` lies in the step, and there is no key of an async trainer", ()


def _step(gathered: Gathered, mode: Mode, summable: bool) -> LoggedStep:
    values = gathered.values
    times = {key.removeprefix("timing/"): value for key, value in values.items() if key.startswith("timing/")}
    generate: PhaseName = "wait" if mode == "async" else "generation"
    phases = summed(times, {**_PHASES, **dict.fromkeys(_GENERATE, generate)})
    beside = first(times, _BESIDE)
    # The timer of one_step_off is the whole generation, or in old versions only its launch.
    if (whole := times.get("generate_async", 0.0)) > times.get("gen", 0.0):
        beside.setdefault("generation", whole)
    amounts = first(values, _AMOUNTS)
    if samples := _samples(amounts):
        amounts["samples"] = samples
    step_s = times.get("step", values.get("perf/time_per_step"))
    return logged(gathered, phases, step_s, beside=beside, amounts=amounts, summable=summable)


def _samples(amounts: Mapping[AmountName, float]) -> int | None:
    """Return the responses of a step: tokens count prompt and response of each."""
    each = amounts.get("prompt_mean", 0.0) + amounts.get("response_mean", 0.0)
    if "prompt_mean" not in amounts or "response_mean" not in amounts or each <= 0:
        return None
    return whole_number([amounts.get("tokens", 0.0) / each], tolerance=0.001)


def _gpus(steps: Sequence[Gathered]) -> Iterator[float]:
    """Yield the GPUs that each step implies: `perf/throughput` is tokens / (time * GPUs)."""
    for step in steps:
        time = seconds(step.values.get("perf/time_per_step", step.values.get("timing/step")))
        rate, tokens = step.values.get("perf/throughput", 0.0), step.values.get("perf/total_num_tokens", 0.0)
        if time and rate > 0 and tokens > 0:
            yield tokens / (rate * time)


def _sync_outside(steps: tuple[LoggedStep, ...]) -> tuple[tuple[LoggedStep, ...], tuple[str, ...]]:
    """Add the sync to the step where the step's timer ends before it: the phases then do not fit in otherwise."""
    with_sync = [step for step in steps if step.step_s and step.phases.get("sync", 0.0) > 0.02 * step.step_s]
    over = [step for step in with_sync if (step.unexplained_s or 0.0) < -0.01 * (step.step_s or 0.0)]
    if not with_sync or len(over) * 2 <= len(with_sync):
        return steps, ()
    mended = tuple(
        step.model_copy(update={"step_s": step.step_s + step.phases["sync"], "total": "stated and mended"})
        if step.step_s is not None and "sync" in step.phases
        else step
        for step in steps
    )
    return mended, ("the weight sync lies outside verl's step: it was added to the step",)


VERL = Framework(
    name="verl",
    looked_for='`step:N - key:value - ...`, or JSON lines {"step": N, "data": {...}}',
    mark=re.compile(f"{_CONSOLE.pattern}|{_FILE.pattern}"),
    marks=(b"step:", b'"data"'),
    needles=(b"step:", b'"data"'),
    records=_records,
    interpret=_interpret,
)
