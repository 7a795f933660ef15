"""Variables of a shell script, put into words as far as the script itself tells them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rollplan.profilers.configs.arithmetic import whole
from rollplan.profilers.configs.flat import TooLargeError
from rollplan.profilers.configs.shell_words import Part, Word, statements

MAX_TEXT = 200_000
MAX_WORK = 2_000_000
_PARAMETER = re.compile(r"([A-Za-z_]\w*)(?:(\[[@*]\])|(:?[-=])(.*))?", re.S)


@dataclass(frozen=True, slots=True)
class Expanded:
    """One word; `known` is false if part of it is not told by the script, and then shows in the text as written."""

    text: str
    known: bool = True


class Variables:
    """What a script has assigned so far."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Expanded, ...]] = {}
        self._work = 0

    def assign(self, name: str, values: Sequence[Expanded], array: bool, append: bool, certain: bool) -> None:
        """Set a variable; a value that depends on a branch is only kept if it changes nothing."""
        before = self._values.get(name, ())
        if append and array:
            values = (*before, *values)
        elif append:
            old, new = before[:1], values[0] if values else Expanded("")
            values = (Expanded(old[0].text + new.text, old[0].known and new.known),) if old else (new,)
        if not certain and tuple(values) != before:
            self.forget(name, "set in a branch")
        else:
            self._values[name] = tuple(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def forget(self, name: str, why: str) -> None:
        """Make a variable unknown."""
        if name:
            self._values[name] = (Expanded(f"${name} ({why})", known=False),)

    def expand(self, word: Word, depth: int = 0) -> list[Expanded]:
        """Return the words that one word becomes: none or several if it holds unquoted lists."""
        done: list[Expanded] = []
        texts: list[str] = []
        known, started = True, False
        for part in word.parts:
            pieces = self._piece(part, depth)
            for index, piece in enumerate(pieces):
                if index:
                    done.append(Expanded("".join(texts), known))
                    texts, known = [], True
                texts.append(piece.text)
                known, started = known and piece.known, True
                self._spend(len(piece.text))
            started = started or part.quoted
        return [*done, Expanded("".join(texts), known)] if started else done

    def _spend(self, letters: int) -> None:
        self._work += letters + 1
        if letters > MAX_TEXT or self._work > MAX_WORK:
            raise TooLargeError("its variables expand to more text than any command has")

    def _piece(self, part: Part, depth: int) -> list[Expanded]:
        """Return the words of one part; neighbours join the first and the last."""
        if part.kind == "text":
            return [Expanded(part.text)]
        if part.kind == "command":
            return [Expanded(f"$({part.text.strip()[:60]})", known=False)]
        if part.kind == "arithmetic":
            value = whole(part.text.strip(), self._number)
            return [Expanded(f"$(({part.text.strip()[:60]}))", known=False) if value is None else Expanded(str(value))]
        found = _PARAMETER.fullmatch(part.text)
        name = part.text if found is None else found[1]
        values = self._values.get(name) if found is not None else None
        if values is None or (found is not None and found[3] in (":-", ":=") and not any(value.text for value in values)):
            if found is not None and found[3] is not None and depth < 8:
                default = self._default(found[4], depth)
                if found[3].endswith("="):
                    self._values[name] = tuple(default)
                return default
            return [Expanded(f"${{{part.text[:60]}}}", known=False)]
        if found is not None and found[2]:
            return list(values)
        if part.quoted or not values:
            return list(values[:1])
        first = values[0]
        return [Expanded(piece, first.known) for piece in first.text.split()] if first.known else [first]

    def _default(self, text: str, depth: int) -> list[Expanded]:
        """Return the words of `${NAME:-default}`; the default may hold variables again."""
        quoted = text if text[:1] in ("'", '"') else '"' + text + '"'
        found = next(statements(f"x={quoted}"), None)
        if found is None:
            return [Expanded(text)]
        parts = found.words[0].parts
        rest = [Part(part.kind, part.text, True) for part in parts[1:]]
        return self.expand(Word(rest or [Part("text", "", True)]), depth + 1)

    def _number(self, name: str) -> int | None:
        values = self._values.get(name)
        return whole(values[0].text) if values and values[0].known and len(values[0].text) < 20 else None
