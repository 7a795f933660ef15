"""Lines of a log of any size: plain or gzip, with everything taken off that terminals and Ray put around them."""

from __future__ import annotations

import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rollplan.models.errors import Finding, InputError

BLOCK = 1 << 20
"""Bytes that are searched at once."""
LONGEST = 8 << 20
"""Bytes of a line that are read; the rest of a longer one is passed over."""

_GZIP = 31
"""zlib's window size for gzip."""
_ESCAPE = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3})*m")
"""A colour that lost its escape character on the way, as in texts copied from a browser."""
_ACTOR = re.compile(r"\s*\(([A-Za-z_][\w.:<>-]*(?: [\w.:<>-]+)*) pid=(\d+)(?:, ip=([^)\s]*))?\)\s?|\s*\[((?:default|rank)\d+)\]: ?")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")


@dataclass(frozen=True, slots=True)
class Line:
    """One line without colours and prefixes.

    number: as an editor counts. actor: who of several processes wrote it, as Ray or torchrun say. ended: by a line
    break; the last line of a file that is still written, or was cut, has none.
    """

    number: int
    text: str
    actor: str | None = None
    ended: bool = True


class LogFile:
    """A log that can be read twice. `-` and pipes are copied to a temporary file first.

    long_lines: how many lines were cut at `LONGEST`. broken: why reading a damaged gzip file ended early.
    """

    def __init__(self, path: Path, on_progress: Callable[[float], None] | None = None) -> None:
        """Open a log; `on_progress` is told the share of the file that has been read. Raises `InputError`."""
        self.name = "stdin" if str(path) == "-" else path.name.encode("utf-8", "replace").decode()
        self.long_lines = 0
        self.broken: str | None = None
        self._on_progress = on_progress
        self._raw = _opened(path)
        head = self._raw.read(4)
        self._packed = head[:2] == b"\x1f\x8b"
        self._bytes = self._raw.seek(0, 2)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self.close()
            raise InputError(str(path), [Finding(self.name, "", "is UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8")])

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def lines(self, needles: Sequence[bytes]) -> Iterator[Line]:
        """Yield the lines that hold any of the needles, in bounded memory."""
        number = 1
        self.long_lines = 0
        for block, ended in self._blocks():
            last = 0
            for start, end in _holding(block, needles):
                number += block.count(b"\n", last, start)
                last = start
                yield from cleaned(block[start:end], number, ended or end < len(block))
            number += block.count(b"\n", last)

    def _blocks(self) -> Iterator[tuple[bytes, bool]]:
        """Yield pieces of whole lines, and whether the last of them is ended by a line break."""
        rest, passing_over = b"", False
        for chunk in self._unpacked() if self._packed else self._chunks():
            if passing_over:
                start = chunk.find(b"\n") + 1
                passing_over = not start
                rest = chunk[start:] if start else b""
            else:
                rest += chunk
            if end := rest.rfind(b"\n") + 1:
                yield rest[:end], True
                rest = rest[end:]
            if len(rest) > LONGEST:
                self.long_lines += 1
                yield rest[:LONGEST] + b"\n", True
                rest, passing_over = b"", True
        if rest:
            yield rest, False

    def _chunks(self) -> Iterator[bytes]:
        self._raw.seek(0)
        while chunk := self._raw.read(BLOCK):
            yield chunk
            if self._on_progress is not None and self._bytes:
                self._on_progress(self._raw.tell() / self._bytes)

    def _unpacked(self) -> Iterator[bytes]:
        """Yield what a gzip file holds, of several members in a row, up to where it is damaged; never much at once."""
        unpack = zlib.decompressobj(_GZIP)
        try:
            for data in self._chunks():
                while data:
                    yield unpack.decompress(data, BLOCK)
                    data = unpack.unconsumed_tail
                    if unpack.eof:
                        data = unpack.unused_data.lstrip(b"\0")
                        unpack = zlib.decompressobj(_GZIP) if data else unpack
            yield unpack.flush()
        except zlib.error as error:
            self.broken = f"the gzip file is damaged ({error}): what came before was read"
        else:
            self.broken = None if unpack.eof else "the gzip file is cut off: what came before was read"


def cleaned(raw: bytes, number: int, ended: bool = True) -> Iterator[Line]:
    """Yield what a line holds, without colours, prefixes and suffixes; a progress bar's line holds several texts."""
    whole = raw.decode("utf-8", "replace").replace("\0", "")
    texts = [text for text in whole.split("\r") if text] if "\r" in whole else [whole]
    for place, text in enumerate(texts):
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
        if "[" in text:
            text = _COLOUR.sub("", text.replace("^[[", "["))
        actor = None
        if text[:1] in "([ \t" and (found := _ACTOR.match(text)):
            actor = found[4] or f"{found[1]} pid={found[2]}{f', ip={found[3]}' if found[3] else ''}"
            text = text[found.end() :]
        if "across cluster]" in text:
            text = _REPEATED.sub("", text)
        yield Line(number, text, actor, ended or place < len(texts) - 1)


def _holding(block: bytes, needles: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield start and end of every line of a block that holds a needle."""
    places = [block.find(needle) for needle in needles]
    while found := [place for place in places if place >= 0]:
        first = min(found)
        start = block.rfind(b"\n", 0, first) + 1
        end = block.find(b"\n", first)
        end = len(block) if end < 0 else end
        yield start, end
        places = [place if place < 0 or place >= end else block.find(needle, end) for place, needle in zip(places, needles, strict=True)]


def _opened(path: Path) -> IO[bytes]:
    """Return a file that can be read twice."""
    remedy = "give the path of a log file, or - for stdin"
    if str(path) == "-":
        return _copied(sys.stdin.buffer)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(str(path), [Finding(str(path), "", "is a directory", "give the log file inside it")])
        file = path.open("rb")
        if stat.S_ISREG(mode):
            return file
        with file:
            return _copied(file)
    except FileNotFoundError:
        raise InputError(str(path), [Finding(str(path), "", "does not exist", remedy)]) from None
    except OSError as error:
        raise InputError(str(path), [Finding(str(path), "", f"cannot be read ({error.strerror})", remedy)]) from None


def _copied(stream: IO[bytes]) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    shutil.copyfileobj(stream, copy)
    copy.seek(0)
    return copy
