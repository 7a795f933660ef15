"""YAML read safely and strictly: plain data only, and what is refused inside a document is named with its line.

The events of PyYAML's parser are turned into dictionaries, lists and scalars here, because the usual safe loader
accepts more than a plan needs: aliases (a few hundred bytes can stand for billions of values), tags, merge keys, and
duplicate keys of which the last one wins silently. Scalars follow YAML 1.2 (`on` and `1:30` are
text) without its octal and hexadecimal numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text

MAX_DEPTH = 32
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}


def read_yaml(path: Path, kind: str = "scenario") -> object:
    """Return the plain data of a YAML file; raise `InputError` naming line and remedy."""
    return parse_yaml(read_text(path, kind), str(path), kind)


def parse_yaml(text: str, source: str, kind: str = "scenario") -> object:
    """Return the plain data of YAML text; `source` is what messages call it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value = _Builder(yaml.parse(text, Loader=loader), source).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else source
        what = str(getattr(error, "problem", None) or error).strip()
        raise InputError(source, [Finding(where, "", f"is not YAML ({what})", "check indentation, quotes and colons")]) from None
    except RecursionError:
        raise InputError(source, [Finding(source, "", "is nested too deeply", f"use at most {MAX_DEPTH} levels")]) from None
    if value is None:
        raise InputError(source, [Finding(source, "", "is empty", f"write a {kind}; `rollplan schema {kind}` describes it")])
    return value


class _Builder:
    """Turns parser events into plain data."""

    def __init__(self, events: Iterator[yaml.Event], source: str) -> None:
        self._events = events
        self._source = source

    def document(self) -> object:
        """Return the only document, None if there is none."""
        value: object = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refuse(event, "starts a second document", "keep one document per file")
                value = self._node(next(self._events), 0)
        return value

    def _node(self, event: yaml.Event, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise self._refuse(event, "is nested too deeply", f"use at most {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse(event, f"uses the alias `*{event.anchor}`", "write the value out; aliases are not read")
        if getattr(event, "anchor", None):
            raise self._refuse(event, f"sets the anchor `&{getattr(event, 'anchor', '')}`", "remove it; aliases are not read")
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            raise self._refuse(event, f"has the tag `{tag}`", "remove it; only plain values are read")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(depth)
        return self._mapping(depth)

    def _sequence(self, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[object, object]:
        items: dict[object, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if isinstance(key, (list, dict)):
                raise self._refuse(event, "is a key made of several values", "use a plain word as the key")
            if key in items:
                raise self._refuse(event, f"gives the key `{key}` a second time", "keep one of the two")
            items[key] = self._node(next(self._events), depth + 1)
        return items

    def _refuse(self, event: yaml.Event, problem: str, remedy: str) -> InputError:
        line = event.start_mark.line + 1 if event.start_mark else 0
        return InputError(self._source, [Finding(f"line {line}", "", problem, remedy)])


def _scalar(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 20 else float(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
