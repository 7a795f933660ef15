"""Numbers as frameworks print them: numpy's words around them, quotes, thousands, mixed units of time."""

from __future__ import annotations

import re
from math import isfinite

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WRAPPED = re.compile(rf"[A-Za-z_][\w.]*\(['\"]?({_NUMBER})['\"]?(?:,[^)]*)?\)|['\"]?({_NUMBER})['\"]?")
_PAIR = re.compile(
    rf"['\"]([^'\"\n]{{1,200}})['\"]\s*:\s*(?:[A-Za-z_][\w.]*\()?['\"]?({_NUMBER})['\"]?"
    r"(?:, ?(?:device|dtype)=[^)]*)?\)?(?=\s*(?:[,}\]]|$))"
)
_PART = re.compile(rf"({_NUMBER})\s*(ms|us|µs|s|sec|m|min|h|d)(?![a-zA-Z])")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def number(text: str) -> float | None:
    """Return `12.3`, `np.float64(12.3)`, `'12.3'` or `1,234.5` as a number; None if it is none, or not finite."""
    text = text.strip()
    found = _WRAPPED.fullmatch(text) or _WRAPPED.fullmatch(text.replace(",", ""))
    value = float(found[1] or found[2]) if found else None
    return value if value is not None and isfinite(value) else None


def pairs(text: str) -> dict[str, float]:
    """Return the numbers of a Python or JSON dict by their keys, of nested and of cut ones, too.

    Parsing the text properly would refuse `np.float64(..)`, `nan`, tensors, and dicts that break off.
    """
    found = ((key, float(value)) for key, value in _PAIR.findall(text))
    return {key: value for key, value in found if isfinite(value)}


def duration(text: str) -> float | None:
    """Return `850ms`, `12.3s`, `2m 3s` or `1h 4m` in seconds."""
    parts = _PART.findall(text)
    rest = _PART.sub("", text).strip()
    return sum(float(value) * _SECONDS[unit] for value, unit in parts) if parts and not rest else None
