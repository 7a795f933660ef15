"""Files of samples, line by line: CSV or JSON lines, also gzipped, one file or a folder with a file for each step.

Only one line is in memory at a time. Steps are in the names that frameworks give: verl's `trainer.rollout_data_dir` holds
`<step>.jsonl`, prime-rl's runs hold `rollouts/step_<step>/train/all/traces.jsonl`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rollplan.models.errors import Finding, InputError

JSON_LINES = (".jsonl", ".ndjson")
MAX_LINE = 64 * 2**20
"""Characters of one line; a longer one is no sample."""
MAX_FILES = 100_000

_STEP_FILE = re.compile(r"(?:global_)?(?:step[_-]?)?([0-9]{1,9})")
_STEP_FOLDER = re.compile(r"(?:global_)?step[_-]?([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Source:
    """One file of samples. step: as its name or a folder above says, None if they say nothing."""

    path: Path
    step: int | None


def sources(path: Path) -> list[Source]:
    """Return the files to read, in the order of their steps; raise `InputError` if there are none.

    Of a folder: all CSV and JSON-lines files in it and below, without evaluations (`eval` or `val` folders) and without
    prime-rl's `effective` part where `all` is beside it, which holds the same samples and the rejected ones.
    """
    if not path.exists():
        raise fault(path, "", "does not exist", "give a file of samples, or a folder of such files")
    if path.is_file():
        if _kind(path) is None:
            raise fault(path, "", "is neither CSV nor JSON lines", "give .csv, .jsonl or .ndjson, or one of them with .gz")
        return [Source(path, _step(path, path.parent.parent.parent.parent))]
    if not path.is_dir():
        raise fault(path, "", "is not a regular file", "give a file of samples, or a folder of such files")
    found = []
    for file in path.rglob("*"):
        inside = file.relative_to(path).parts[:-1]
        repeated = file.parent.name == "effective" and (file.parent.parent / "all").is_dir()
        if _kind(file) is None or {"eval", "val"} & set(inside) or repeated or not file.is_file():
            continue
        found.append(Source(file, _step(file, path)))
        if len(found) > MAX_FILES:
            raise fault(path, "", f"holds more than {MAX_FILES:,} files", "give a folder inside it")
    if not found:
        raise fault(path, "", "holds no CSV or JSON-lines file", "give the folder that the framework writes its samples to")
    return sorted(found, key=lambda source: (source.step is None, source.step or 0, str(source.path)))


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and columns of each row; raise `InputError` at the first line that is none."""
    line = 0
    try:
        with _opened(path) as file:
            lines = _lines(file, path)
            for line, row in _json_rows(lines, path) if _kind(path) == "json" else _csv_rows(lines, path):
                yield line, row
    except UnicodeDecodeError:
        raise fault(path, f"after line {line}", "is not UTF-8 text", "give CSV or JSON lines in UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise fault(path, f"after line {line}", f"is not a whole gzip file ({error})", "compress it again") from None
    except OSError as error:
        raise fault(path, "", f"cannot be read ({error.strerror})", "check the path and its permissions") from None


def fault(path: Path, place: str, problem: str, remedy: str, value: str = "") -> InputError:
    """Return the refusal of a file, or of a place in it."""
    return InputError(str(path), [Finding(place or str(path), value, problem, remedy)])


def _kind(path: Path) -> str | None:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    return "json" if suffix in JSON_LINES else "csv" if suffix == ".csv" else None


def _step(file: Path, top: Path) -> int | None:
    """Return the step that the name of a file says, or that of the nearest folder below `top`."""
    if found := _STEP_FILE.fullmatch(file.name.split(".")[0]):
        return int(found[1])
    for folder in file.parents:
        if folder == top:
            break
        if found := _STEP_FOLDER.fullmatch(folder.name):
            return int(found[1])
    return None


def _opened(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise fault(path, f"line {number}", f"has more than {MAX_LINE:,} characters", "give one sample on each line")
        yield line


def _json_rows(lines: Iterator[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise fault(path, f"line {number}", "is not JSON", "write one JSON object on each line, the last one whole") from None
        if not isinstance(row, dict):
            raise fault(path, f"line {number}", "is not a JSON object", 'write {"prompt": ..., "tokens": ...} on each line')
        yield number, row


def _csv_rows(lines: Iterator[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # A quote that is never closed would swallow the rest of the file.
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header or len(set(header)) < len(header):
            raise fault(path, "line 1", "is not a header with a different name for each column", "name the columns in the first line")
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                problem = f"has {len(row)} values, the header has {len(header)} names"
                raise fault(path, f"line {reader.line_num}", problem, "put values with commas or line ends in quotes")
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise fault(path, f"line {reader.line_num}", f"is not CSV ({error})", "write comma-separated values with a header") from None
