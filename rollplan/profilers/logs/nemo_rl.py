"""NeMo-RL: console blocks of bullets, `Training Results:`, `Timing:` with `Total step time: X s`, `Performance Metrics:`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rollplan.models.profile.run import AmountName, LoggedStep, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, summed, whole_number
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number

_BULLET = re.compile(r"[•*-]\s+([A-Za-z][\w /().-]*?):\s+([-+\d.,eE]+)\s?(s|%)?(?:\s|$|\()")
_HEADER = re.compile(r"=+ Step (\d{1,9})(?:/\d+)?\s*=*")
_TOTAL = re.compile(r"[•*-]?\s*Total step time:\s+([\d.]+)s")
_VALIDATION = re.compile(r"[•*-]\s+Total validation time:\s+([\d.]+)s")
_PHASES: Mapping[str, PhaseName] = {
    "exposed_generation": "wait",
    "generation": "generation",
    "policy_training": "update",
    "value_training": "critic_update",
    "policy_and_reference_logprobs": "logprobs",
    "reward_calculation": "reward",
    "advantage_calculation": "advantage",
    "data_processing": "data",
    "buffer_sampling": "data",
    "logprob_inference_prep": "switch",
    "training_prep": "switch",
    "prepare_for_generation/total": "switch",
    "weight_sync": "sync",
    "checkpointing": "checkpoint",
    "validation": "validation",
    "idle/validation": "validation",
}
_TRANSFER = "prepare_for_generation/transfer_and_update_weights"
_AMOUNTS: Mapping[str, AmountName] = {
    "Mean Generation Length": "response_mean",
    "Avg Reward": "reward",
    "Avg Trajectory Age": "staleness",
    "Buffer Size": "queue",
    "E2E (Tokens/sec/gpu)": "tokens_per_gpu_s",
}
_RATE = "E2E (Tokens/sec)"
_UTILIZATION = "Training Model Floating Point Utilization"


@dataclass
class _Open:
    """A block that is being read. timed: its `Total step time` has come."""

    line: int
    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    timed: bool = False


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    """Every writer has a block of its own; a block ends where the next begins."""
    blocks: dict[str | None, _Open] = {}
    counts: dict[str | None, int] = {}
    ended = True

    def closed(actor: str | None, whole: bool = True) -> Iterator[Record]:
        block = blocks.pop(actor, None)
        if block is None or not block.timed:
            return
        step = block.step if block.step is not None else counts.get(actor, 0) + 1
        counts[actor] = step
        yield Record(block.line, step, block.values, actor=actor, whole=whole)

    for line in lines:
        ended = line.ended
        if found := _HEADER.search(line.text):
            yield from closed(line.actor)
            blocks[line.actor] = _Open(line.number, int(found[1]))
            continue
        block = blocks.setdefault(line.actor, _Open(line.number))
        if "Training Results:" in line.text and block.timed:
            yield from closed(line.actor)
            blocks[line.actor] = _Open(line.number)
        elif found := _TOTAL.search(line.text):
            if block.timed:
                yield from closed(line.actor)
                block = blocks.setdefault(line.actor, _Open(line.number))
            block.timed, block.line = True, line.number
            if (value := number(found[1])) is not None:
                block.values["total"] = value
        elif (found := _VALIDATION.search(line.text)) and (value := number(found[1])) is not None:
            block.values["timing/validation"] = value
        elif (found := _BULLET.search(line.text)) and (value := number(found[2])) is not None:
            name = f"timing/{found[1]}" if found[3] == "s" else found[1]
            if block.timed or not name.startswith("timing/"):
                block.values[name] = value
    for actor in list(blocks):
        yield from closed(actor, ended)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    keys = {key for step in steps for key in step.values}
    mode: Mode
    if keys & {"timing/exposed_generation", "Avg Trajectory Age"}:
        mode, reason = "async", "exposed_generation: what of generation the trainer had to wait for"
    elif "timing/generation" in keys:
        mode, reason = "sync", "generation lies in the step, and there is no exposed_generation"
    else:
        mode, reason = "unknown", "neither generation nor exposed_generation (supervised training?)"
    rates = [
        step.values[_RATE] / step.values[f"{_RATE[:-1]}/gpu)"]
        for step in steps
        if _RATE in step.values and step.values.get(f"{_RATE[:-1]}/gpu)", 0.0) > 0
    ]
    return Reading("console blocks", mode, reason, tuple(_step(step) for step in steps), gpus=whole_number(rates))


def _step(gathered: Gathered) -> LoggedStep:
    times = {key.removeprefix("timing/"): value for key, value in gathered.values.items() if key.startswith("timing/")}
    phases = summed(times, _PHASES)
    if (transfer := summed(times, {_TRANSFER: "sync"})) and "prepare_for_generation/total" in times:
        inside: float = min(transfer["sync"], phases.get("switch", 0.0))
        phases["switch"] = phases.get("switch", 0.0) - inside
        phases["sync"] = phases.get("sync", 0.0) + inside
    elif transfer:
        phases["sync"] = phases.get("sync", 0.0) + transfer["sync"]
    other: dict[str, PhaseName] = {key: "other" for key in times if key not in _PHASES and "/" not in key and not key[0].isupper()}
    phases |= summed(times, other)
    amounts = first(gathered.values, _AMOUNTS)
    if (share := gathered.values.get(_UTILIZATION)) is not None:
        amounts["mfu"] = share / 100
    return logged(gathered, phases, gathered.values.get("total"), amounts=amounts)


NEMO_RL = Framework(
    name="NeMo-RL",
    looked_for="`Total step time: X s` in a block of bullets",
    mark=re.compile(r"[•*]\s*Total step time:\s+[\d.]+s"),
    marks=(b"Total step time:",),
    needles=("•".encode(), b"Total step time:", b"Training Results:", b"== Step ", b"Tokens/sec"),
    records=_records,
    interpret=_interpret,
)
