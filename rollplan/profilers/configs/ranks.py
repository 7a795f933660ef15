"""ROLL's device mappings: `list(range(0,16))`, `[0,1,2]`, sums of both, read by a small parser and never evaluated as code."""

from __future__ import annotations

import re

from rollplan.profilers.configs.arithmetic import whole

MOST = 100_000
_RANGE = re.compile(r"(?:list\s*\(\s*)?range\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)(?:\s*\))?")
_LIST = re.compile(r"\[([^\[\]]*)\]")


def ranks(value: object) -> frozenset[int] | None:
    """Return the GPU ranks of a mapping; None if it is none that is understood, or has more than `MOST` ranks."""
    if isinstance(value, list):
        whole_numbers = [item for item in value if isinstance(item, int) and not isinstance(item, bool) and item >= 0]
        return frozenset(whole_numbers) if len(whole_numbers) == len(value) else None
    if not isinstance(value, str) or len(value) > 20_000:
        return None
    found: set[int] = set()
    text, at = value.strip(), 0
    while True:
        part = _RANGE.match(text, at) or _LIST.match(text, at)
        numbers = None if part is None else _range(part[1]) if part.re is _RANGE else _listed(part[1])
        if part is None or numbers is None or len(numbers) + len(found) > MOST:
            return None
        found.update(numbers)
        rest = text[part.end() :].lstrip()
        if not rest:
            return frozenset(found)
        if not rest.startswith("+"):
            return None
        at = len(text) - len(rest[1:].lstrip())


def _range(inside: str) -> range | None:
    ends = [whole(part.strip()) for part in inside.split(",")]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends) or not 1 <= len(known) <= 3 or (len(known) == 3 and known[2] == 0):
        return None
    found = range(*known)
    return found if len(found) <= MOST and all(end >= 0 for end in known[:2]) else None


def _listed(inside: str) -> list[int] | None:
    if not inside.strip():
        return []
    numbers = [whole(part.strip()) for part in inside.rstrip().removesuffix(",").split(",")]
    known = [number for number in numbers if number is not None and number >= 0]
    return known if len(known) == len(numbers) else None
