"""Whole-number arithmetic as shells and rank lists have it, read by a small parser and never evaluated as code."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(\d{1,18})|\$?\{?([A-Za-z_]\w*)\}?|(\*\*|[-+*/%()]))")
_LIMIT = 10**18


def whole(text: str, value_of: Callable[[str], int | None] = lambda name: None) -> int | None:
    """Return the value of `2 * (A + 1)`; None for anything else, unknown names, division by zero and huge values.

    value_of: whole number of a variable by its name.
    """
    if len(text) > 500:
        return None
    parser = _Parser(text, value_of)
    value = parser.sum()
    return value if parser.done else None


class _Parser:
    def __init__(self, text: str, value_of: Callable[[str], int | None]) -> None:
        self._text = text.rstrip()
        self._at = 0
        self._depth = 0
        self._value_of = value_of

    @property
    def done(self) -> bool:
        return self._at == len(self._text)

    def sum(self) -> int | None:
        value = self._product()
        while value is not None and (sign := self._take("+", "-")):
            right = self._product()
            value = None if right is None else value + right if sign == "+" else value - right
        return value if value is None or abs(value) < _LIMIT else None

    def _product(self) -> int | None:
        value = self._atom()
        while value is not None and (sign := self._take("*", "/", "%")):
            right = self._atom()
            if right is None or (sign != "*" and right == 0):
                return None
            # Shells divide towards zero, Python downwards.
            quotient = abs(value) // abs(right) * (1 if (value < 0) == (right < 0) else -1) if sign != "*" else 0
            value = value * right if sign == "*" else quotient if sign == "/" else value - quotient * right
            if abs(value) >= _LIMIT:
                return None
        return value

    def _atom(self) -> int | None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or self._depth > 30:
            return None
        if found[3] == "-":
            self._at, self._depth = found.end(), self._depth + 1
            inner = self._atom()
            self._depth -= 1
            return None if inner is None else -inner
        if found[3] == "(":
            self._at, self._depth = found.end(), self._depth + 1
            inner = self.sum()
            self._depth -= 1
            return inner if self._take(")") else None
        if found[3]:
            return None
        self._at = found.end()
        return int(found[1]) if found[1] else self._value_of(found[2])

    def _take(self, *signs: str) -> str | None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[3] not in signs:
            return None
        self._at = found.end()
        return found[3]
