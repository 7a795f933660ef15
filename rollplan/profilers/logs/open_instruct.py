"""open-instruct: a rich panel titled `Metrics`, one row per group of keys: `time | total: 350.12 | training: ...`.

A terminal of 80 columns breaks the rows; a row that begins with spaces goes on with the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rollplan.models.profile.run import AmountName, BesideName, LoggedStep, PhaseName
from rollplan.profilers.logs.framework import Framework, Gathered, Reading, Record, first, logged, summed
from rollplan.profilers.logs.lines import Line
from rollplan.profilers.logs.values import number

_TOP = re.compile(r"[╭┌+][─-]+ Metrics [─-]+[╮┐+]")
_BOTTOM = re.compile(r"[╰└+][─-]{4,}[╯┘+]")
_TIME = re.compile(r"^\W*time\s*[|│]?\s+(?:\w+: [\d.e+-]+ \| ){0,20}total: [\d.]+")
_GROUP = re.compile(r"^\W*time\s*[|│]?\s+")
_ROW = re.compile(r"^(\s?)(\w[\w-]*)(?:\s*\|\s|\s{2,})(?=\S[^|]*: )")
_NUMBERED = "other/training_step"
_PHASES: Mapping[str, PhaseName] = {
    "time/training": "update",
    "time/weight_sync": "sync",
    "time/saving": "checkpoint",
    "time/health_check": "other",
    "time/trainer_waiting_for_data": "wait",
    "time/trainer_idle_waiting_for_inference": "wait",
    "time/trainer_idling": "wait",
}
_BESIDE: Mapping[str, BesideName] = {"time/group_generation_max": "generation", "time/group_generation_mean": "generation_mean"}
_AMOUNTS: Mapping[str, AmountName] = {
    "val/sequence_lengths": "response_mean",
    "val/sequence_lengths_max": "response_max",
    "val/sequence_lengths_min": "response_min",
    "val/num_step_tokens": "tokens",
    "val/actor_tokens_per_second": "generate_tokens_per_s",
    "other/learner_tokens_per_second_step": "train_tokens_per_s",
    "other/learner_mfu": "mfu",
}
_KEPT = {*_PHASES, *_BESIDE, *_AMOUNTS, "time/total", _NUMBERED}


@dataclass
class _Panel:
    """A panel that is being read: rows of text by group. framed: has lines around it, as on every modern terminal."""

    line: int
    framed: bool = True
    rows: list[tuple[str, str]] = field(default_factory=list)

    def values(self) -> dict[str, float]:
        """Return what the rows say, by `group/name`."""
        found = {}
        for group, text in self.rows:
            for cell in text.split(" | "):
                name, colon, shown = cell.rpartition(":")
                key = f"{group}/{name.strip()}"
                if colon and key in _KEPT and (value := number(shown)) is not None:
                    found[key] = value
        return found


def _records(lines: Iterable[Line]) -> Iterator[Record]:
    panels: dict[str | None, _Panel] = {}
    counts: dict[str | None, int] = {}

    def closed(actor: str | None, whole: bool = True) -> Iterator[Record]:
        panel = panels.pop(actor, None)
        values = panel.values() if panel is not None else {}
        if panel is not None and "time/total" in values:
            stated = values.pop(_NUMBERED, None)
            counts[actor] = int(stated) if stated is not None and 0 <= stated < 1e9 else counts.get(actor, 0) + 1
            yield Record(panel.line, counts[actor], values, actor=actor, whole=whole)

    ended = True
    for line in lines:
        text, ended = line.text, line.ended
        if _TOP.search(text):
            yield from closed(line.actor)
            panels[line.actor] = _Panel(line.number)
        elif _BOTTOM.search(text):
            yield from closed(line.actor)
        elif _TIME.search(text) and not ((panel := panels.get(line.actor)) and panel.framed):
            yield from closed(line.actor)
            panels[line.actor] = _Panel(line.number, framed=False, rows=[("time", _GROUP.sub("", text))])
        elif panel := panels.get(line.actor):
            inside = re.sub(r"^\s*[│|] ?|\s*[│|]?\s*$", "", text)
            if found := _ROW.match(inside):
                panel.rows.append((found[2], inside[found.end() :]))
            elif panel.framed and panel.rows and inside.strip():
                group, before = panel.rows[-1]
                panel.rows[-1] = (group, f"{before} {inside.strip()}")
    for actor, panel in list(panels.items()):
        yield from closed(actor, whole=not panel.framed and ended)


def _interpret(steps: Sequence[Gathered]) -> Reading:
    keys = {key for step in steps for key in step.values}
    read = tuple(_step(step) for step in steps)
    gaps = None if keys & {key for key, name in _PHASES.items() if name == "wait"} else "this version does not log the trainer's wait"
    warnings = () if gaps is None else (gaps,)
    reason = "open-instruct generates ahead in queues (async_steps of at least 1)"
    return Reading("panels of metrics", "async", reason, read, warnings, gaps=gaps)


def _step(gathered: Gathered) -> LoggedStep:
    values = gathered.values
    beside, amounts = first(values, _BESIDE), first(values, _AMOUNTS)
    return logged(gathered, summed(values, _PHASES), values.get("time/total"), beside=beside, amounts=amounts)


OPEN_INSTRUCT = Framework(
    name="open-instruct",
    looked_for="a panel titled `Metrics` with a row `time | total: ...`",
    mark=re.compile(f"{_TIME.pattern}|{_TOP.pattern}"),
    marks=(b"total: ", b" Metrics "),
    needles=(b" Metrics ", "│".encode(), "╰".encode(), "└".encode(), b"| ", b"+--"),
    records=_records,
    interpret=_interpret,
)
