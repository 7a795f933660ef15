"""Which framework, and which dialect of it, a configuration is written for."""

from __future__ import annotations

from collections.abc import Sequence

from rollplan.models.errors import Finding, InputError
from rollplan.models.launch import DIALECTS, FRAMEWORKS, Dialect, FrameworkName
from rollplan.models.strict import show
from rollplan.profilers.configs.flat import Flat, normal

_KNOWN = frozenset(
    normal(key)
    for table in DIALECTS
    for key in (
        *table.marks,
        *table.rollout.keys,
        *table.train.keys,
        *table.defaults,
        *(key for keys in table.keys.values() for key in keys),
    )
)
_PREFIXES = tuple(mark for table in DIALECTS for mark in table.marks if mark.endswith("."))


def detect(flat: Flat, source: str, framework: str | None = None) -> Dialect:
    """Return the dialect; raise `InputError` if the framework is unknown, not recognised, or one of several."""
    name = None if framework is None else framework_name(framework)
    programs = " ".join(flat.commands)
    by_program = [table for table in DIALECTS if any(program in programs for program in table.programs)]
    by_keys = [table for table in DIALECTS if _marks(table, flat)]
    if name is None:
        found = tuple(dict.fromkeys(table.framework for table in by_program or by_keys))
        if len(found) != 1:
            raise InputError(source, [_ambiguous(source, found)])
        name = found[0]
    # The dialect with most of its own keys; the present one of equals. Programs are shared by dialects, or very telling.
    tables = [table for table in DIALECTS if table.framework == name]
    return max(tables, key=lambda table: (_telling(table, by_program, tables), _marks(table, flat) if table is not tables[0] else 0))


def is_launch(words: Sequence[str]) -> bool:
    """Return whether a command starts a program of a framework, or has arguments that one of them knows."""
    text = " ".join(words)
    if any(program in text for table in DIALECTS for program in table.programs):
        return True
    keys = {normal(word.lstrip("+").partition("=")[0]) for word in words if word.startswith("--") or "=" in word}
    return not keys.isdisjoint(_KNOWN) or any(key.startswith(_PREFIXES) for key in keys)


def framework_name(text: str) -> FrameworkName:
    """Return a framework by its name in any case and without its dashes; raise `InputError` for others."""
    for name in FRAMEWORKS:
        if _letters(name) == _letters(text):
            return name
    raise InputError("--framework", [Finding("--framework", show(text), "is not known", f"choose from {', '.join(FRAMEWORKS)}")])


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _telling(table: Dialect, by_program: Sequence[Dialect], tables: Sequence[Dialect]) -> bool:
    """Return whether the command names this dialect's program and no other dialect's."""
    return table in by_program and not any(other in by_program for other in tables if other is not table)


def _marks(table: Dialect, flat: Flat) -> int:
    """Return how many marks of a dialect the keys show."""
    keys = list(flat)
    return sum(any(key.startswith(mark) for key in keys) if mark.endswith(".") else normal(mark) in flat for mark in table.marks)


def _ambiguous(source: str, found: Sequence[FrameworkName]) -> Finding:
    if not found:
        known = ", ".join(FRAMEWORKS)
        return Finding(source, "", "shows no key and no program of a framework that rollplan reads", f"say which with --framework: {known}")
    return Finding(source, "", f"looks like {' and '.join(found)}", "say which with --framework")
