"""A law of output lengths from a trace: the tokens of responses that were really generated."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from io import StringIO
from pathlib import Path

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.strict import show

MAX_TOKENS = 10_000_000
"""Of one response; more is a mistake of the column."""

MAX_RESPONSES = 1_000_000
"""Of one trace."""

MAX_VALUES = 1_000
"""Different lengths that a law keeps apart."""

LONGEST_KEPT = 250
"""Of these, the longest, which decide how long a rollout takes: each is kept as it is."""

_SHOWN_FAULTS = 10


def trace_law(counts: Iterable[int], limit_tokens: float | None = None) -> QuantileLaw:
    """Return the law that draws from these token counts with equal chance; raise `ValueError` if there are none.

    limit_tokens: what is longer is cut off there; absent, the longest count. Of more than `MAX_VALUES` different
    lengths, the `LONGEST_KEPT` longest stay as they are, the others are replaced by the means of groups of about equally
    many responses. The mean of the law is that of the trace in any case.
    """
    tally = Counter(counts)
    if not tally or min(tally) < 1:
        raise ValueError("a trace has at least one response, and no response less than 1 token")
    limit = float(max(tally) if limit_tokens is None else limit_tokens)
    cut = Counter[float]()
    for tokens, responses in tally.items():
        cut[min(float(tokens), limit)] += responses
    steps = sorted(cut.items())
    if len(steps) > MAX_VALUES:
        steps = [*_grouped(steps[:-LONGEST_KEPT], MAX_VALUES - LONGEST_KEPT), *steps[-LONGEST_KEPT:]]
    total, below = sum(cut.values()), 0
    knots: list[tuple[float, float]] = []
    for length, responses in steps:
        knots += [(below / total, length), ((below + responses) / total, length)]
        below += responses
    return QuantileLaw(limit, tuple(knots))


def _grouped(steps: list[tuple[float, int]], groups: int) -> Iterator[tuple[float, int]]:
    """Yield mean and number of responses of groups that hold about equally many."""
    total = sum(responses for _, responses in steps)
    members: dict[int, list[tuple[float, int]]] = {}
    below = 0
    for tokens, responses in steps:
        members.setdefault(groups * (2 * below + responses) // (2 * total), []).append((tokens, responses))
        below += responses
    for group in members.values():
        count = sum(responses for _, responses in group)
        yield sum(tokens * responses for tokens, responses in group) / count, count


def read_trace(path: Path, column: str) -> tuple[int, ...]:
    """Return the token counts in one column of a CSV file, or under one key of JSON lines (`.jsonl`, `.ndjson`).

    Raises `InputError`, with the first rows at fault, if one is not a whole number from 1 to `MAX_TOKENS`.
    """
    text = read_text(path, "trace")
    lines = _json_values if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_values
    counts: list[int] = []
    faults: list[Finding] = []
    for line, value in lines(text, path, column):
        count = _count(value)
        if count is None:
            remedy = f"write a whole number from 1 to {MAX_TOKENS:,}, and leave rows without a response out"
            faults.append(Finding(f"line {line}, {column}", show(value), "is not a number of tokens", remedy))
        else:
            counts.append(count)
        if len(faults) == _SHOWN_FAULTS:
            break
        if len(counts) > MAX_RESPONSES:
            raise _fault(path, "", f"has more than {MAX_RESPONSES:,} responses", "draw some of them at random")
    if faults:
        raise InputError(str(path), faults)
    if not counts:
        raise _fault(path, "", "has no response", "give a file with at least one row")
    return tuple(counts)


def _count(value: object) -> int | None:
    if isinstance(value, str) and len(value) < 20:
        # Columns with gaps are written as floats by data-frame libraries.
        digits = value.strip().removesuffix(".0")
        value = int(digits) if digits.isascii() and digits.isdecimal() else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_TOKENS else None


def _csv_values(text: str, path: Path, column: str) -> Iterator[tuple[int, object]]:
    rows = csv.reader(StringIO(text))
    try:
        header = [name.strip() for name in next(rows, [])]
        if header.count(column) != 1:
            problem = "is in the header more than once" if column in header else "is not in the header"
            raise _fault(path, column, problem, _near(column, header))
        place = header.index(column)
        for row in rows:
            if row:
                yield rows.line_num, row[place] if place < len(row) else ""
    except csv.Error as error:
        raise _fault(path, f"line {rows.line_num}", f"is not CSV ({error})", "write comma-separated values with a header") from None


def _json_values(text: str, path: Path, column: str) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _fault(path, f"line {number}", "is not JSON", "write one JSON object on each line") from None
        if not isinstance(row, dict) or column not in row:
            keys = [str(key) for key in row] if isinstance(row, dict) else []
            raise _fault(path, f"line {number}", f"has no key {show(column)}", _near(column, keys))
        yield number, row[column]


def _near(column: str, names: list[str]) -> str:
    near = get_close_matches(column, names, n=1)
    return f"did you mean {show(near[0])}?" if near else f"choose from {', '.join(show(name) for name in names[:20]) or 'no names'}"


def _fault(path: Path, place: str, problem: str, remedy: str) -> InputError:
    return InputError(str(path), [Finding(place or str(path), "", problem, remedy)])
