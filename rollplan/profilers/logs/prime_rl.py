"""prime-rl: `Step N | ...` lines of trainer and orchestrator in two grammars, and the file monitor's metrics.jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from rollplan.models.profile.run import AmountName, LoggedStep, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, summed, whole_number
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import duration, number, pairs

_LINE = re.compile(r"\bStep (\d{1,9}) \|\s*(?:Time:\s*)?((?:[\d.]+\s?(?:ms|us|µs|s|m|h|d)\s?){1,4})(?=\||$)")
_FILE = re.compile(r'^\s*\{(?=[^{}]{0,100000}?"(?:time/(?:step|wait_for_batch|forward_backward)|progress/|perf/)[^"]{0,60}")')
_FILE_STEP = re.compile(r'"step"\s*:\s*(\d{1,9})(?:\.0)?\b')
_CELL = re.compile(r"\s*(?P<name>[A-Z][A-Za-z. -]*?):?\s+(?P<value>[-+]?[\d.,]+(?:[eE][-+]?\d+)?)(?P<rest>.*)")
_TRAINER, _ORCHESTRATOR = "trainer", "orchestrator"
_PHASES: Mapping[str, PhaseName] = {
    "trainer/time/wait_for_batch": "wait",
    "trainer/time/load_data": "data",
    "trainer/time/forward_backward": "update",
    "trainer/time/broadcast_weights": "sync",
    "trainer/time/save_ckpt": "checkpoint",
}
_AMOUNTS: Mapping[str, AmountName] = {
    "trainer/Throughput": "train_tokens_per_s",
    "trainer/perf/throughput": "train_tokens_per_s",
    "trainer/perf/throughput_per_gpu": "tokens_per_gpu_s",
    "trainer/MFU": "mfu",
    "trainer/perf/mfu": "mfu",
    "trainer/Peak Mem.": "memory_gib",
    "trainer/perf/peak_memory": "memory_gib",
    "orchestrator/Reward": "reward",
    "orchestrator/Seq. Length": "sequence_mean",
    "orchestrator/Async Level": "staleness",
    "orchestrator/Truncation": "response_clipped",
}
_PERCENT = {"MFU", "Truncation", "Error", "Cancelled", "perf/mfu"}


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    for line in lines:
        if found := _LINE.search(line.text):
            step, values = int(found[1]), _cells(line.text[found.end() :])
            part = _TRAINER if "Loss" in values else _ORCHESTRATOR
            if (time := duration(found[2])) is not None:
                values["time/step"] = time
            whole = line.ended or line.text.count("|") > 2
        elif (begun := _FILE.match(line.text)) and (found := _FILE_STEP.search(line.text, begun.start())):
            step, values = int(found[1]), pairs(line.text)
            trains = values.keys() & {"time/wait_for_batch", "time/forward_backward", "time/load_data", "perf/throughput"}
            part = _TRAINER if trains else _ORCHESTRATOR
            whole = line.ended or line.text.rstrip().endswith("}")
        else:
            continue
        named = {f"{part}/{key}": value / 100 if key in _PERCENT else value for key, value in values.items()}
        kept = {key: value for key, value in named.items() if key in _PHASES or key in _AMOUNTS or key.endswith("/time/step")}
        yield Record(line.number, step, kept, part, line.actor, whole)


def _cells(text: str) -> dict[str, float]:
    values = {}
    for cell in text.split("|"):
        if (found := _CELL.match(cell)) and (value := number(found["value"])) is not None:
            values[found["name"].strip()] = value
    return values


def _interpret(steps: Sequence[Gathered]) -> Reading:
    keys = {key for step in steps for key in step.values}
    trained = "trainer/time/step" in keys
    phases = bool(keys & _PHASES.keys())
    levels = [step.values["orchestrator/Async Level"] for step in steps if "orchestrator/Async Level" in step.values]
    read = tuple(_step(step, _TRAINER if trained else _ORCHESTRATOR) for step in steps)
    warnings: tuple[str, ...] = ()
    if not trained:
        warnings += ("only the orchestrator's lines are there: its step is the time between two batches, not the trainer's work",)
    elif not phases:
        warnings += ("the trainer's console lines hold no phases: read metrics.jsonl of the file monitor for them",)
    long = [step.step_s for step in read if step.step_s is not None and step.step_s > 60]
    if long and not phases and all(time == round(time) for time in long):
        warnings += ("durations above a minute are printed in whole seconds",)
    rates = [
        step.values["trainer/perf/throughput"] / step.values["trainer/perf/throughput_per_gpu"]
        for step in steps
        if "trainer/perf/throughput" in step.values and step.values.get("trainer/perf/throughput_per_gpu", 0.0) > 0
    ]
    if train_gpus := whole_number(rates):
        warnings += (f"{train_gpus} GPUs train (throughput by throughput per GPU); rollout GPUs are not in this log",)
    if levels and median(levels) == 0:
        reason = "prime-rl is always disaggregated; Async Level is 0, so rollout and training hardly overlap"
    else:
        reason = "prime-rl is always disaggregated and asynchronous"
    gaps = None if phases else "the lines hold no phases"
    sides = " and ".join(side for side in (_TRAINER, _ORCHESTRATOR) if any(key.startswith(side) for key in keys))
    dialect = f"{'metrics.jsonl' if phases else 'console lines'} of {sides}"
    return Reading(dialect, "async", reason, read, warnings, gaps=gaps)


def _step(gathered: Gathered, side: str) -> LoggedStep:
    values = gathered.values
    return logged(gathered, summed(values, _PHASES), values.get(f"{side}/time/step"), amounts=first(values, _AMOUNTS))


PRIME_RL = Framework(
    name="prime-rl",
    looked_for="`Step N | 12.3s | Loss ...` or `... | Reward ...`, or metrics.jsonl",
    mark=re.compile(rf"{_LINE.pattern}[^\n]*?\b(?:Loss|Reward)\b|{_FILE.pattern}"),
    marks=(b"| Loss", b"| Reward", b'"time/', b'"progress/', b'"perf/'),
    needles=(b"Step ", b'"time/', b'"progress/', b'"perf/'),
    records=_records,
    interpret=_interpret,
)
