"""A configuration as flat keys with values: what every kind of file is brought to before a framework is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_KEYS = 50_000
MAX_DEPTH = 48
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*\w+\s*,\s*([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Given:
    """value: plain data, or text where `known` is false: then the file names something that it does not tell.

    key: as written. where: line or place, empty if the format does not tell.
    """

    key: str
    value: object
    where: str = ""
    known: bool = True


class TooLargeError(ValueError):
    """More keys or levels than any configuration has."""


class Flat:
    """Keys with values, the later over the earlier; words of the commands; what a reader of the result should know.

    partial: whether more settings come from somewhere that was not read, so that what is absent need not be a default.
    twice: remarks on keys that were given several values, by the key.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Given] = {}
        self.commands: list[str] = []
        self.partial = False
        self.twice: dict[str, str] = {}
        self.warnings: list[str] = []

    def put(self, key: str, value: object, where: str = "", known: bool = True) -> None:
        """Add a key; a second value for it counts, and is warned of if it differs."""
        try:
            str(value)
        except ValueError:
            raise TooLargeError(f"holds a number of thousands of digits at {key[:60]}") from None
        name = normal(key)
        before = self._entries.get(name)
        if before is not None and before.known and known and _differ(before.value, value):
            places = f" ({before.where}, {where})" if before.where and where else ""
            self.twice[name] = f"{key} is given twice{places}: {_short(before.value)}, then {_short(value)}; the latter counts"
        if before is None and len(self._entries) >= MAX_KEYS:
            raise TooLargeError(f"has more than {MAX_KEYS} keys")
        self._entries[name] = Given(key, value, where, known)

    def put_tree(self, tree: Mapping[object, object], above: str = "", depth: int = 0) -> None:
        """Add nested mappings under dotted keys; lists stay values."""
        if depth > MAX_DEPTH:
            raise TooLargeError(f"is nested more than {MAX_DEPTH} levels deep")
        for key, value in tree.items():
            path = f"{above}.{key}" if above else str(key)
            if isinstance(value, dict) and value:
                self.put_tree(value, path, depth + 1)
            else:
                self.put(path, value)

    def warn(self, text: str) -> None:
        """Keep a remark, once."""
        if text not in self.warnings and len(self.warnings) < 200:
            self.warnings.append(text[:900])

    def __contains__(self, key: str) -> bool:
        return normal(key) in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, key: str) -> Given | None:
        """Return what stands at a key, references to other keys followed; None if there is nothing, or null."""
        given = self._entries.get(normal(key))
        for _ in range(10):
            if given is None or not isinstance(given.value, str):
                break
            if (environment := _ENVIRONMENT.fullmatch(given.value.strip())) is not None:
                return Given(given.key, environment[1].strip().strip("'\""), given.where)
            if (reference := _REFERENCE.fullmatch(given.value.strip())) is None:
                break
            target = self._entries.get(normal(reference[1]))
            if target is None:
                return Given(given.key, given.value, given.where, known=False)
            given = Given(given.key, target.value, given.where, target.known)
        if given is None or given.value is None:
            return None
        return given if "${" not in str(given.value) else Given(given.key, given.value, given.where, known=False)


def normal(key: str) -> str:
    """Return a key in the form in which it is looked up: no leading dashes, underscores inside."""
    return key.lstrip("-").replace("-", "_")


def _differ(one: object, other: object) -> bool:
    return str(one).strip("'\"").lower() != str(other).strip("'\"").lower()


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
