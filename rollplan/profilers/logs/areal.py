"""AReaL: `Epoch e/E Step s/S Train step g/G done.`, then a fancy_grid table of keys and values in column pairs.

There is no step total; the step is the sum of its `timeperf/*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rollplan.models.profile.run import AmountName, Mode, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number

_DONE = re.compile(r"\bEpoch \d+/\d+ Step \d+/\d+ Train step (\d{1,9})/\d+ done\.")
_STALENESS = re.compile(r"\bmax_head_offpolicyness['\"]?\s*[:=]\s*(\d{1,6})")
_HINT = "max_head_offpolicyness"
_PHASES: Mapping[str, PhaseName] = {
    "timeperf/recompute_logp": "old_logprob",
    "timeperf/ref_logp": "reference",
    "timeperf/critic_values": "values",
    "timeperf/compute_advantage": "advantage",
    "timeperf/compute_advantages": "advantage",
    "timeperf/train_step": "update",
    "timeperf/critic_train_step": "critic_update",
    "timeperf/update_weights": "sync",
    "timeperf/save": "checkpoint",
    "timeperf/checkpoint_for_recover": "checkpoint",
    "timeperf/eval": "validation",
    "timeperf/clear_batches": "other",
    "timeperf/rollout_pause": "sync",
}
_AMOUNTS: Mapping[str, AmountName] = {
    "ppo_actor/seq_len": "sequence_mean",
    "ppo_actor/seq_len/avg": "sequence_mean",
    "ppo_actor/no_eos_ratio": "response_clipped",
    "ppo_actor/no_eos_ratios/avg": "response_clipped",
    "rollout/reward": "reward",
}


@dataclass
class _Open:
    """A step whose table is being read."""

    line: int
    step: int
    actor: str | None
    values: dict[str, float] = field(default_factory=dict)


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    """Tables of several processes may be interleaved: each belongs to the last `done` of its own writer."""
    open_steps: dict[str | None, _Open] = {}
    hint: dict[str, float] = {}
    ended = True
    for line in lines:
        ended = line.ended
        if found := _DONE.search(line.text):
            if before := open_steps.pop(line.actor, None):
                yield Record(before.line, before.step, {**before.values, **hint}, actor=before.actor)
            open_steps[line.actor] = _Open(line.number, int(found[1]), line.actor)
        elif (current := open_steps.get(line.actor)) and "│" in line.text:
            cells = [cell.strip() for cell in line.text.strip().strip("│").split("│")]
            for key, text in zip(cells[::2], cells[1::2], strict=False):
                if (value := number(text)) is not None and (key.startswith("timeperf/") or key in _AMOUNTS):
                    current.values.setdefault(key, value)
        elif found := _STALENESS.search(line.text):
            hint[_HINT] = float(found[1])
    for last in open_steps.values():
        yield Record(last.line, last.step, {**last.values, **hint}, actor=last.actor, whole=ended)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    mode, reason = _mode(steps)
    name: PhaseName = "generation" if mode == "sync" else "wait"
    phases = {**_PHASES, "timeperf/rollout": name}
    read = tuple(logged(step, summed(step.values, phases), None, amounts=first(step.values, _AMOUNTS), summable=True) for step in steps)
    warnings: tuple[str, ...] = ("AReaL logs no step total: the step is the sum of its timeperf/*, and time between them is not seen",)
    if mode == "unknown":
        warnings += ("timeperf/rollout was read as the trainer's wait, as in asynchronous runs, which are the default",)
    return Reading("tables of timeperf/*", mode, reason, read, warnings)


def _mode(steps: Sequence[Gathered]) -> tuple[Mode, str]:
    stale = {step.values[_HINT] for step in steps if _HINT in step.values}
    if stale == {0.0}:
        return "sync", "max_head_offpolicyness is 0"
    if stale:
        return "async", f"max_head_offpolicyness is {max(stale):g}: timeperf/rollout is the trainer's wait"
    return "unknown", "the configuration (max_head_offpolicyness) does not stand in the log"


AREAL = Framework(
    name="AReaL",
    looked_for="`Epoch e/E Step s/S Train step g/G done.` and a table of statistics",
    mark=_DONE,
    marks=(b"Train step ",),
    needles=(b"Train step ", "│".encode(), b"max_head_offpolicyness"),
    records=_records,
    interpret=_interpret,
)
