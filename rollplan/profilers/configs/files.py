"""YAML, TOML, JSON and printed Python dictionaries, loaded as plain data: no tags, no code, bounded in size."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator

import yaml

from rollplan.models.errors import Finding, InputError
from rollplan.profilers.configs.flat import MAX_DEPTH, MAX_KEYS, Flat, TooLargeError

_PREFIX = re.compile(r"^(?:\x1b\[[\d;]*m)*\([^()\n]{0,120}pid=\d+[^()\n]{0,120}\)(?:\x1b\[[\d;]*m)* ?", re.M)
_OPENS = re.compile(r"^\{'\w+':", re.M)


def from_yaml(text: str, source: str) -> Flat:
    """Return the keys of a YAML document with its aliases resolved."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        repeated = list(_guarded(yaml.parse(text, Loader=loader)))
        tree = yaml.load(text, Loader=loader)  # the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else source
        raise _refusal(source, where, f"is not YAML ({str(getattr(error, 'problem', None) or error).strip()})") from None
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:  # of values that their tags do not fit
        raise _refusal(source, source, f"is not YAML that can be read ({error})") from None
    flat = _flat(tree, source, "YAML")
    for warning in repeated:
        flat.warn(warning)
    return flat


def from_toml(text: str, source: str) -> Flat:
    """Return the keys of a TOML document."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(source, source, f"is not TOML ({error})") from None
    return _flat(tree, source, "TOML")


def from_json(text: str, source: str) -> Flat:
    """Return the keys of a JSON document, or of a Python dictionary as `pprint` writes it."""
    try:
        tree = json.loads(text)
    except RecursionError:
        raise _refusal(source, source, "is nested too deeply") from None
    except ValueError as error:
        tree = _literal(text)
        if tree is None:
            raise _refusal(source, source, f"is not JSON ({error})") from None
    return _flat(tree, source, "JSON")


def printed(text: str) -> str | None:
    """Return the first dictionary that `pprint` wrote into a log, without the prefixes of Ray; None if there is none."""
    plain = _PREFIX.sub("", text)
    opened = _OPENS.search(plain)
    if opened is None:
        return None
    lines = plain[opened.start() :].split("\n")
    end = next((index for index, line in enumerate(lines) if index and not line.startswith(" ")), len(lines))
    return "\n".join(lines[:end]).rstrip()


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _flat(tree: object, source: str, kind: str) -> Flat:
    if not isinstance(tree, dict):
        raise _refusal(source, source, "holds no keys" if tree is not None else "is empty", f"give a {kind} file with keys and values")
    flat = Flat()
    try:
        flat.put_tree(tree)
    except TooLargeError as error:
        raise _refusal(source, source, str(error), "give the launch configuration itself") from None
    inherited = tree.get("defaults")
    names = [str(name) for name in (inherited if isinstance(inherited, list) else [inherited] if inherited else []) if name != "_self_"]
    if names:
        flat.warn(f"defaults: {', '.join(names)} was not read; what it sets is not known here")
        # Hydra's names of groups are the framework's own defaults; files are somebody's.
        flat.partial = any(name.endswith((".yaml", ".yml")) for name in names)
    return flat


def _guarded(events: Iterator[yaml.Event]) -> Iterator[str]:
    """Yield a remark per key that is given twice; raise `ValueError` for aliases that stand for too much or for themselves."""
    sizes: dict[str, int] = {}
    open_nodes: list[_Node] = []
    for event in events:
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            node = open_nodes.pop()
            node.close(sizes, open_nodes)
        elif isinstance(event, (yaml.ScalarEvent, yaml.AliasEvent)):
            if isinstance(event, yaml.AliasEvent):
                if event.anchor not in sizes:
                    raise ValueError(f"the alias *{event.anchor} stands for itself or for nothing")
                size = sizes[event.anchor]
            else:
                size = 1
                if event.anchor:
                    sizes[event.anchor] = 1
            if open_nodes and (again := open_nodes[-1].take(size, getattr(event, "value", None))):
                line = event.start_mark.line + 1 if event.start_mark else 0
                yield f"{again} is given twice in one mapping (line {line}); the latter counts"
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            open_nodes.append(_Node(isinstance(event, yaml.MappingStartEvent), event.anchor))
            if len(open_nodes) > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


class _Node:
    """A mapping or sequence that is still open: how many values it stands for, and which keys it had."""

    def __init__(self, mapping: bool, anchor: str | None) -> None:
        self._keys: set[str] | None = set() if mapping else None
        self._anchor = anchor
        self._size = 1
        self._children = 0

    def take(self, size: int, text: str | None) -> str | None:
        """Add a child; return its text if it is a key for the second time."""
        self._size += size
        self._children += 1
        if self._size > MAX_KEYS:
            raise ValueError(f"it stands for more than {MAX_KEYS} values")
        if self._keys is None or self._children % 2 == 0 or text is None:
            return None
        if text in self._keys:
            return text
        self._keys.add(text)
        return None

    def close(self, sizes: dict[str, int], above: list[_Node]) -> None:
        """Tell the anchor and the node above how much this one stands for."""
        if self._anchor:
            sizes[self._anchor] = self._size
        if above:
            above[-1].take(self._size, None)


def _refusal(source: str, where: str, problem: str, remedy: str = "check the file in the framework's own tools") -> InputError:
    return InputError(source, [Finding(where, "", problem, remedy)])
