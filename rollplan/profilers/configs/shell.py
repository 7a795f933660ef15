"""Shell scripts as flat keys: variables put in, arrays spread, the arguments of launch commands read; nothing is run.

What a script only knows when it runs (output of commands, arguments of its own, files that it sources, branches) stays
unknown and is reported, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rollplan.models.errors import Finding, InputError
from rollplan.profilers.configs.arguments import put_arguments
from rollplan.profilers.configs.detect import is_launch
from rollplan.profilers.configs.expand import Expanded, Variables
from rollplan.profilers.configs.flat import Flat, TooLargeError
from rollplan.profilers.configs.shell_words import Statement, Word, statements

MAX_CHARACTERS = 500_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_OPENING = ("if", "for", "while", "until", "case", "select")
_CLOSING = ("fi", "done", "esac")
_SETTING = ("unset", "read", "mapfile", "readarray", "let", "getopts", "eval", "printf")
"""Commands that change variables which they name."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_COUNTED = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))")
_FILLING = ("then", "else", "elif", "do", "{", "}", "!", "time", "exec", "nohup", "sudo")
_DECLARING = ("export", "local", "readonly", "declare", "typeset")
_OTHER = re.compile(
    r":|echo|printf|set|unset|cd|mkdir|rm|cp|ls|mv|cat|tee|sleep|pip3?|apt(?:-get)?|git|curl|wget|huggingface-cli|hf|p?kill|docker|test|\[\[?|"
    r"return|exit|trap|shift|ulimit|hostname|which|conda|module|nvidia-smi|chmod|grep|sed|awk|tail|head|wait|true|false"
)
"""Programs that launch no training; `ray` only does as `ray job submit`."""


def from_shell(text: str, source: str) -> Flat:
    """Return the arguments of all launch commands of a script."""
    if len(text) > MAX_CHARACTERS:
        problem = f"has more than {MAX_CHARACTERS // 1000} thousand characters and shows no printed configuration"
        raise InputError(source, [Finding(source, "", problem, "give the script itself")])
    flat, script = Flat(), _Script()
    try:
        for statement in statements(text):
            script.take(statement, flat)
    except (TooLargeError, RecursionError) as error:
        raise InputError(
            source, [Finding(source, "", f"is no launch script that can be read ({error})", "give the command itself")]
        ) from None
    return flat


class _Script:
    def __init__(self) -> None:
        self._variables = Variables()
        self._depth = 0
        self._braces = 0

    def take(self, statement: Statement, flat: Flat) -> None:
        """Take one statement: keep what it assigns, read what it launches."""
        words = list(statement.words)
        while words and (first := _plain(words[0])) in (*_OPENING, *_CLOSING, *_FILLING):
            self._depth = max(0, self._depth + (first in _OPENING) - (first in _CLOSING))
            self._braces = max(0, self._braces + (first == "{") - (first == "}"))
            words.pop(0)
            if first == "for" and words:
                self._variables.forget(_plain(words[0]), "changes in a loop")
                return
            if first in ("case", "select"):
                return
        if words and words[0].parts[0].kind == "arithmetic":
            self._forget(_COUNTED.findall(words[0].parts[0].text), "counted")
            return
        if words and _plain(words[0]) in _DECLARING:
            words = [word for word in words[1:] if not _plain(word).startswith("-")]
            words = [word for word in words if _assigned(word) is not None]
        assigned = 0
        while assigned < len(words) and _assigned(words[assigned]) is not None:
            assigned += 1
        if assigned == len(words):
            for word in words:
                self._assign(word, certain=self._depth == 0 and not statement.chained)
        else:
            self._launch(words[assigned:], statement.line, flat)

    def _assign(self, word: Word, certain: bool) -> None:
        name, operator = _assigned(word) or ("", "=")
        if word.items is not None:
            values = [value for item in word.items for value in self._variables.expand(item)]
        else:
            head = word.parts[0]
            rest = type(head)(head.kind, head.text[len(name) + len(operator) :], True)
            values = self._variables.expand(Word([rest, *(type(part)(part.kind, part.text, True) for part in word.parts[1:])]))
        # A function may be called before what follows, after it, or never: what it changes is not known.
        certain = certain and (self._braces == 0 or name not in self._variables)
        self._variables.assign(name, values, word.items is not None, operator == "+=", certain)

    def _forget(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if name in self._variables:
                self._variables.forget(name, why)

    def _launch(self, words: list[Word], line: int, flat: Flat) -> None:
        command = [value for word in words for value in self._variables.expand(word)]
        name = command[0].text.rsplit("/", 1)[-1] if command else ""
        if name in ("source", "."):
            where = command[1].text if len(command) > 1 else "a file"
            flat.warn(f"line {line}: {where} is sourced and was not read; variables that it sets are not known here")
        elif command and not _OTHER.fullmatch(name) and (name != "ray" or (len(command) > 2 and command[1].text == "job")):
            self._read(command, line, flat)
        if name in _SETTING and (name != "printf" or command[1:2] == [Expanded("-v")]):
            self._forget({found for word in command[1:] for found in _NAME.findall(word.text)}, f"changed by {name}")

    def _read(self, command: list[Expanded], line: int, flat: Flat) -> None:
        separator = next((index for index, word in enumerate(command) if word.text == "--"), None)
        if separator is not None and command[0].text.endswith("ray"):
            command = command[separator + 1 :]
        if not is_launch([word.text for word in command]):
            return
        flat.commands.append(" ".join(word.text for word in command))
        put_arguments(command, flat, f"line {line}")


def _plain(word: Word) -> str:
    return "".join(part.text for part in word.parts) if all(part.kind == "text" for part in word.parts) else ""


def _assigned(word: Word) -> tuple[str, str] | None:
    first = word.parts[0]
    found = _ASSIGNMENT.match(first.text) if first.kind == "text" and not first.quoted else None
    return None if found is None else (found[1], found[2])
