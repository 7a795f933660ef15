"""Which runs predict which other run of the same experiment, and how. Fixed before any error was looked at.

Runs of one experiment: same source, framework, release, model, GPU and setting (`Row.group`); the targets are

    split       from the colocated run to a separate one: on the same number of GPUs, or in NeMo-RL on any
    more        from a run to one of the same mode on more GPUs
    third       from two runs of the same mode to the third, wherever there are three

Other pairs (fewer GPUs, asynchronous to colocated) are not asked. Ablations at one split are no pairs.

What is taken from a run, and nothing else:

    phases      a run with phase times: its rollout (`gen`, without waking and resharding where the engine's own time is
                given) and those training passes that the target has as well. Where only the trainer's wait is given, the
                rollout takes the whole step (the slower side paces it).
    level       a run with a step time alone (NeMo-RL): one factor, measured / predicted, for the target's step
    leftover    what its step takes beside the phases, if the target has the same mode; else the tool's own sync
    length      where no mean is stated: `ASSUMED_MEAN`

The tool then shifts its law through the phases (`stages/anchor.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import mean as mean_of
from typing import Literal

from .predict import Constants, Prediction, Stages, end_over_steady, predict
from .rows import ASSUMED_MEAN, Row, stated, unusable

Kind = Literal["split", "more", "third"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Runs that are known, and the one that is predicted."""

    kind: Kind
    known: tuple[Row, ...]
    target: Row


def pairs(rows: Sequence[Row]) -> Iterator[Pair]:
    """Yield every pair of the rules above."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if unusable(row) is None and row.samples is not None:
            groups[row.group].append(row)
    for group in groups.values():
        modes: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(group, key=lambda row: row.total):
            modes[row.mode].append(row)
        shared = [row for row in group if row.colocated]
        for known in shared:
            for target in group:
                if not target.colocated and (target.total == known.total or known.train_s is None):
                    yield Pair("split", (known,), target)
        for same in modes.values():
            for known, target in combinations(same, 2):
                if known.total < target.total:
                    yield Pair("more", (known,), target)
            if len({row.total for row in same}) == len(same) == 3:
                for target in same:
                    yield Pair("third", tuple(row for row in same if row is not target), target)


def predicted(pair: Pair, settings: Constants = ()) -> Prediction:
    """Return the prediction of a pair's target; raise `InfeasibleError` if the tool has no plan for it."""
    known, target = pair.known[0], pair.target
    if known.train_s is None:
        return _levelled(known, target, settings)
    law = settings
    runs, target = [assumed(row) for row in pair.known], assumed(target)
    if all(row.mode == target.mode for row in runs) and known.leftover_s is not None:
        leftover_s = max(0.0, mean_of(row.leftover_s or 0.0 for row in runs))
        settings = (*settings, ("", "sync", f"{leftover_s} s"), ("", "switch", "0 s"))
    rollout = {row.rollout_gpus: row.gen_s if row.gen_s is not None else stated(row.step_s) for row in runs}
    train = {row.train_gpus: _train_s(row, target) for row in runs}
    if overlapping(runs[0]):
        # The tool's tables hold batches that run to their end; the ratio to overlapping ones is the law's.
        rollout = {gpus: seconds * end_over_steady(row, law) for row, (gpus, seconds) in zip(runs, rollout.items(), strict=True)}
    return predict(target, Stages(rollout, train), settings)


def assumed(row: Row) -> Row:
    """Return a row with the assumed mean length where none is stated."""
    return row if row.mean is not None else replace(row, mean=ASSUMED_MEAN)


def overlapping(row: Row) -> bool:
    """Return whether batches overlap, so that the steady rate counts."""
    return row.way is not None and row.way.startswith("async")


def _levelled(known: Row, target: Row, settings: Constants) -> Prediction:
    own, other = predict(known, settings=settings), predict(target, settings=settings)
    factor = stated(known.step_s) / own.step_s
    return Prediction(other.rollout_s * factor, other.train_s * factor, other.step_s * factor, other.layouts)


def _train_s(row: Row, target: Row) -> float:
    old = row.old_logprob_s if target.old_logprob_s is not None else None
    reference = row.ref_s if target.ref_s is not None else None
    return stated(row.update_s) + (old or 0.0) + (reference or 0.0)
