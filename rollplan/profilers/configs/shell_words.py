"""Shell scripts cut into statements of words, as a shell would cut them; nothing is expanded or run here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_HEREDOC = re.compile(r"<<(-?)[ \t]*(?:(['\"])([^'\"\n]+)\2|\\?([A-Za-z_]\w*))")
_PLAIN = re.compile(r"[^ \t\n;&|<>()\\'\"$`]+")
_INSIDE = re.compile(r"[^\"\\$`]+")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=$")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word. kind `variable`: what stands inside `${...}`; `arithmetic`: inside `$((...))`; `command`: the text of `$(...)`."""

    kind: Literal["text", "variable", "arithmetic", "command"]
    text: str
    quoted: bool


@dataclass(slots=True)
class Word:
    """Pieces that stand together. items: words of an array, for `NAME=(...)`."""

    parts: list[Part] = field(default_factory=list)
    items: list[Word] | None = None


@dataclass(slots=True)
class Statement:
    """One command or assignment with its line. chained: whether it only runs if the one before succeeds, or fails."""

    line: int
    words: list[Word] = field(default_factory=list)
    chained: bool = False


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a script; comments, redirections and here-documents are left out."""
    return _Reader(text.replace("\r\n", "\n")).statements()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._endings: list[tuple[str, bool]] = []

    def statements(self) -> Iterator[Statement]:
        current = Statement(self._line)
        while self._at < len(self._text):
            letter = self._text[self._at]
            if not current.words and self._text.startswith("((", self._at):
                current.line = self._line
                current.words.append(Word([Part("arithmetic", self._balanced("(", ")", 2), False)]))
            elif letter in "\n;&|()":
                # Of `&&`, `||`, `;;`, `&>` the first letter ends the statement, the second one ends an empty one.
                chained = letter in "&|" and (self._text.startswith(letter * 2, self._at) or (current.chained and not current.words))
                self._step()
                if letter == "\n":
                    self._skip_documents()
                if current.words:
                    yield current
                current = Statement(self._line, chained=chained)
            elif letter in " \t":
                self._step()
            elif letter == "#":
                self._to_line_end()
            elif letter in "<>":
                self._redirection()
            elif (word := self._word()) is not None:
                if not current.words:
                    current.line = self._line
                current.words.append(word)
        if current.words:
            yield current

    def _step(self, count: int = 1) -> None:
        self._line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def _to_line_end(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _redirection(self) -> None:
        document = _HEREDOC.match(self._text, self._at)
        if document is not None:
            self._endings.append((document[3] or document[4], bool(document[1])))
            self._at = document.end()
            return
        while self._at < len(self._text) and self._text[self._at] in "<>&":
            self._step()
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._step()
        if self._at < len(self._text) and self._text[self._at] not in "\n;|()":
            self._word()

    def _skip_documents(self) -> None:
        for ending, tabs in self._endings:
            while self._at < len(self._text):
                start = self._at
                self._to_line_end()
                line = self._text[start : self._at]
                self._step()
                if (line.lstrip("\t") if tabs else line) == ending:
                    break
        self._endings = []

    def _word(self) -> Word | None:
        """Return the word that starts here; None if there is only a line continuation."""
        word = Word()
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter in " \t\n;&|<>":
                break
            if letter in "()":
                if letter == "(" and len(word.parts) == 1 and _ARRAY.match(word.parts[0].text):
                    word.items = self._array()
                break
            if letter == "\\":
                following = self._text[self._at + 1 : self._at + 2]
                self._step(2)
                if following != "\n":
                    word.parts.append(Part("text", following, True))
            elif letter == "'":
                end = self._text.find("'", self._at + 1)
                end = len(self._text) if end < 0 else end
                word.parts.append(Part("text", self._text[self._at + 1 : end], True))
                self._step(end + 1 - self._at)
            elif letter == '"':
                self._step()
                self._double(word)
            elif letter in "$`":
                word.parts.append(self._dollar(False))
            else:
                word.parts.append(Part("text", self._run(_PLAIN), False))
        return word if word.parts else None

    def _double(self, word: Word) -> None:
        word.parts.append(Part("text", "", True))
        while self._at < len(self._text) and self._text[self._at] != '"':
            letter = self._text[self._at]
            if letter == "\\" and self._text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                following = self._text[self._at + 1]
                self._step(2)
                if following != "\n":
                    word.parts.append(Part("text", following, True))
            elif letter in "$`":
                word.parts.append(self._dollar(True))
            else:
                word.parts.append(Part("text", self._run(_INSIDE), True))
        self._step()

    def _dollar(self, quoted: bool) -> Part:
        if self._text[self._at] == "`":
            return Part("command", self._until("`", 1), quoted)
        if self._text.startswith("$((", self._at):
            return Part("arithmetic", self._balanced("(", ")", 3).removesuffix(")"), quoted)
        if self._text.startswith("$(", self._at):
            return Part("command", self._balanced("(", ")", 2), quoted)
        if self._text.startswith("${", self._at):
            return Part("variable", self._balanced("{", "}", 2), quoted)
        name = _NAME.match(self._text, self._at + 1)
        self._step(1 if name is None else 1 + len(name[0]))
        return Part("text", "$", quoted) if name is None else Part("variable", name[0], quoted)

    def _run(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        text = self._text[self._at] if found is None else found[0]
        self._step(len(text))
        return text

    def _until(self, mark: str, skip: int) -> str:
        end = self._text.find(mark, self._at + skip)
        end = len(self._text) if end < 0 else end
        inside = self._text[self._at + skip : end]
        self._step(end + 1 - self._at)
        return inside

    def _balanced(self, opening: str, closing: str, skip: int) -> str:
        """Return what stands up to the bracket that closes the ones before (two of them for arithmetic), and go behind it."""
        depth = skip - 1
        start = at = self._at + skip
        while at < len(self._text) and depth:
            depth += (self._text[at] == opening) - (self._text[at] == closing)
            at += 1
        inside = self._text[start : at - 1 if depth == 0 else at]
        self._step(at - self._at)
        return inside

    def _array(self) -> list[Word]:
        self._step()
        items: list[Word] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            letter = self._text[self._at]
            if letter in " \t\n;&|<>(":
                self._step()
            elif letter == "#":
                self._to_line_end()
            elif (word := self._word()) is not None:
                items.append(word)
        self._step()
        return items
