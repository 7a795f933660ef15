"""What `rollplan dispatch --json` found for a job, as rules for every iteration: which instances hold the tail, how many at once.

The file deals the samples of one batch; another iteration has other lengths. What carries over is kept: the order on an
instance, its slots, and whether some instances have the longest samples to themselves (StreamRL 5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollplan.executor.core.runbook import Dispatch
from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text

_KEYS = {"job": str, "slots": int, "output_tokens": list, "orders": list}


def read_dispatch(path: Path) -> tuple[str, Dispatch, int]:
    """Return job, rules, and number of instances of a file that `rollplan dispatch --json` wrote; raise `InputError` for another."""
    try:
        raw = json.loads(read_text(path, "dispatch"))
    except (ValueError, RecursionError):
        raw = None
    if not (isinstance(raw, dict) and all(isinstance(raw.get(key), kind) for key, kind in _KEYS.items()) and _deals(raw)):
        remedy = "give what `rollplan dispatch SCENARIO --json` printed"
        raise InputError(str(path), [Finding(str(path), "", "is not a dispatch", remedy)])
    return raw["job"], _rules(raw), len(raw["orders"])


def _deals(raw: Mapping[str, Any]) -> bool:
    """Return whether every sample has a length and is dealt to one instance, which takes at least one at once."""
    numbers = all(isinstance(tokens, int | float) for tokens in raw["output_tokens"])
    whole = all(isinstance(order, list) and all(isinstance(sample, int) for sample in order) for order in raw["orders"])
    dealt = whole and sorted(sample for order in raw["orders"] for sample in order) == list(range(len(raw["output_tokens"])))
    return numbers and dealt and raw["slots"] >= 1


def _rules(raw: Mapping[str, Any]) -> Dispatch:
    tokens: Sequence[int] = raw["output_tokens"]
    loads = [[tokens[sample] for sample in order] for order in raw["orders"]]
    longest_first = all(load == sorted(load, reverse=True) for load in loads)
    slots = raw["slots"]
    tail = _tail(loads)
    share = sum(map(len, tail)) / len(tokens) if tail else Dispatch().tail_share
    return Dispatch("lpt" if longest_first else "given", share, len(tail), slots, slots)


def _tail(loads: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Return the fewest instances that hold nothing but samples longer than all others; none if the lengths are mixed."""
    busy = sorted((load for load in loads if load), key=min, reverse=True)
    for count in range(1, len(busy)):
        if min(map(min, busy[:count])) > max(map(max, busy[count:])):
            return busy[:count]
    return []
