"""Samples from rows: columns of the user's own files, verl's rollout dumps, traces of prime-rl and verifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rollplan.models.errors import InputError
from rollplan.models.lengths.trace import MAX_TOKENS
from rollplan.models.profile.lengths import Unit
from rollplan.models.strict import show
from rollplan.profilers.lengths.files import fault, rows, sources

TOKEN_COLUMNS = ("tokens", "response_tokens", "completion_tokens", "output_tokens", "num_output_tokens", "response_length")
TEXT_COLUMNS = ("output", "response", "completion", "answer")
PROMPT_COLUMNS = ("prompt", "input", "question")
STEP_COLUMNS = ("step", "global_step")
MAX_PROMPT = 20_000
"""Characters of a prompt that are looked at; what follows is cut off."""
MAX_STEP = 10**9


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns to read; None takes the first of the usual names that is there.

    length: counts. text: responses whose words or characters are counted instead. group: whose samples belong together.
    """

    length: str | None = None
    text: str | None = None
    prompt: str | None = None
    group: str | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One response. length: in the unit asked for, 0 where nothing was generated, None where the trace does not say."""

    length: int | None
    prompt: str | None
    group: str | None
    step: int | None
    truncated: bool | None


def read_samples(path: Path, columns: Columns, unit: Unit = "tokens") -> Iterator[Sample]:
    """Yield the samples of a file or a folder, one at a time; raise `InputError` at the first that is none."""
    for source in sources(path):
        for line, row in rows(source.path):
            place = f"line {line}"
            if traces := _traces(row):
                for trace in traces:
                    yield _from_trace(trace, source.step, unit, source.path, place)
            elif not _is_episode(row):
                yield _from_columns(row, columns, source.step, unit, source.path, place)


def read_prompts(path: Path, column: str | None) -> Iterator[str]:
    """Yield the prompts of a file, one for each row, in its order; raise `InputError` at the first row without one."""
    for source in sources(path):
        for line, row in rows(source.path):
            found = _found(row, column, PROMPT_COLUMNS)
            if found is None:
                wanted = column or PROMPT_COLUMNS[0]
                raise _missing(row, "prompt", wanted, "name its column with --prompt-column", source.path, f"line {line}")
            yield _prompt(row[found]) or ""


def _from_columns(row: Mapping[str, Any], columns: Columns, step: int | None, unit: Unit, path: Path, place: str) -> Sample:
    counted = columns.length is None and unit != "tokens"
    asked = columns.text if counted else columns.length
    name = _asked(row, asked, TEXT_COLUMNS if counted else TOKEN_COLUMNS, path, place)
    if name is None:
        what, option = ("text of a response", "--text") if counted else (f"number of {unit}", "--column")
        raise _missing(row, what, "tokens", f"name the column with {option}", path, place)
    at = f"{place}, {name}"
    prompt, group, own = (
        _asked(row, asked, usual_names, path, place)
        for asked, usual_names in ((columns.prompt, PROMPT_COLUMNS), (columns.group, ()), (columns.step, STEP_COLUMNS))
    )
    text = None if prompt is None else _prompt(row[prompt])
    return Sample(
        length=_size(row[name], unit, path, at) if counted else _length(row[name], unit, path, at),
        prompt=text,
        group=text if group is None else _key(row[group]),
        step=step if own is None else _step(row[own], path, f"{place}, {own}"),
        truncated=None,
    )


def _is_episode(row: Mapping[str, Any]) -> bool:
    """Say whether a row is an episode of verifiers, which may hold no trace if it failed."""
    return isinstance(row.get("traces"), list)


def _traces(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the traces in a row: of a prime-rl episode those of agents that are trained, or the row itself."""
    found = row["traces"] if _is_episode(row) else [row]
    traces = [trace for trace in found if isinstance(trace, dict) and isinstance(trace.get("calls"), list) and "task" in trace]
    return [trace for trace in traces if not (isinstance(agent := trace.get("agent"), dict) and agent.get("trainable") is False)]


def _from_trace(trace: Mapping[str, Any], step: int | None, unit: Unit, path: Path, place: str) -> Sample:
    """Return the sample of a trace: the completion tokens of all its model calls."""
    if unit != "tokens":
        raise fault(path, place, f"is a trace with token counts, and --unit is {unit}", "leave --unit out")
    calls = [call for call in trace["calls"] if isinstance(call, dict)]
    usages = [call["usage"].get("completion_tokens") for call in calls if isinstance(call.get("usage"), dict)]
    counts = [_length(count, unit, path, f"{place}, completion_tokens") for count in usages]
    data = trace["task"].get("data") if isinstance(trace["task"], dict) else None
    prompt = data.get("prompt") if isinstance(data, dict) else None
    text = _prompt(prompt)
    index = data.get("idx") if isinstance(data, dict) else None
    total = sum(counts)
    if total > MAX_TOKENS:
        raise fault(path, place, f"has more than {MAX_TOKENS:,} tokens in sum", "leave this trace out")
    return Sample(
        length=total if counts else None,
        prompt=text,
        group=_key(index) if text is None else text,
        step=step,
        truncated=None if not calls else calls[-1].get("finish_reason") == "length",
    )


def _length(value: Any, unit: Unit, path: Path, place: str) -> int:
    count = _count(value)
    if count is not None and 0 <= count <= MAX_TOKENS:
        return count
    remedy = f"give a column of whole numbers from 0 to {MAX_TOKENS:,}"
    raise fault(path, place, f"is not a number of {unit}", remedy, show(value))


def _size(value: Any, unit: Unit, path: Path, place: str) -> int:
    """Return how many words or characters a text has; its tokens only its own tokenizer knows."""
    if not isinstance(value, str):
        raise fault(path, place, "is not text", "name a column of numbers with --column", show(value))
    return min(len(value.split()) if unit == "words" else len(value), MAX_TOKENS)


def _count(value: Any) -> int | None:
    """Return a whole number, also as data-frame libraries write it in columns with gaps (`12.0`)."""
    if isinstance(value, str) and len(value) < 20:
        digits = value.strip().removesuffix(".0")
        return int(digits) if digits.isascii() and digits.isdecimal() else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _step(value: Any, path: Path, place: str) -> int:
    step = _count(value)
    if step is None or not 0 <= step <= MAX_STEP:
        raise fault(path, place, "is not a step", f"give a column of whole numbers from 0 to {MAX_STEP:,}", show(value))
    return step


def _prompt(value: Any) -> str | None:
    """Return the text of a prompt; of a list of messages, the texts of all of them. None if there is none."""
    if isinstance(value, list):
        contents = [message.get("content") for message in value[:1000] if isinstance(message, dict)]
        parts = [part for content in contents for part in (content[:1000] if isinstance(content, list) else [content])]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        value = "\n".join(text for text in texts if isinstance(text, str))
    return _key(value)


def _key(value: Any) -> str | None:
    """Return what tells samples apart; nothing, and an empty cell, tell nothing."""
    return None if value is None else str(value)[:MAX_PROMPT] or None


def _found(row: Mapping[str, Any], asked: str | None, usual: tuple[str, ...]) -> str | None:
    names = usual if asked is None else (asked,)
    return next((name for name in names if name in row), None)


def _asked(row: Mapping[str, Any], asked: str | None, usual: tuple[str, ...], path: Path, place: str) -> str | None:
    """Return the column to read; one that was asked for must be there."""
    found = _found(row, asked, usual)
    if found is None and asked is not None:
        raise _missing(row, f"column {show(asked)}", asked, "correct the name", path, place)
    return found


def _missing(row: Mapping[str, Any], what: str, wanted: str, remedy: str, path: Path, place: str) -> InputError:
    names = [str(name) for name in list(row)[:20]]
    near = get_close_matches(wanted, names, n=1)
    there = f"did you mean {show(near[0])}?" if near else f"it has {', '.join(show(name) for name in names) or 'no columns'}"
    hint = " (text alone has no tokens: --unit words counts its words)" if what.endswith("tokens") else ""
    return fault(path, place, f"has no {what}", f"{there}; {remedy}{hint}")
