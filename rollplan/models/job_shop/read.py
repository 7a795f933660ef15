"""The standard text formats of shops, read strictly: a file that does not say what it should is refused with its line.

| form | first line | then a row for each job |
| --- | --- | --- |
| `jsp` | jobs, machines | machine and duration of each operation; machines counted from 0; as many operations as machines |
| `fjsp` | jobs, machines, and perhaps the mean number of alternatives | see below (Brandimarte, Hurink) |
| `flow` | jobs, machines | the duration on each machine, all in the same order (Taillard) |
| `hybrid` | jobs, stages; second line: identical machines of each stage | the duration in each stage |

A row of `fjsp` has the number of operations, and of each the number of its alternatives, then machine (counted from 1) and
duration of each alternative. Empty lines count for nothing, nor does what follows `#`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Literal, NoReturn, get_args

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.job_shop.problem import Alternative, JobShopProblem, Operation, flow_shop, hybrid_flow_shop, job_shop

Form = Literal["jsp", "fjsp", "flow", "hybrid"]
FORMS: tuple[Form, ...] = get_args(Form)
_SUFFIXES: dict[str, Form] = {".fjs": "fjsp", ".fjsp": "fjsp", ".hfs": "hybrid"}


def read_file(path: Path, form: Form | None = None) -> JobShopProblem:
    """Return the problem of a file, by `form_of` if no form is given.

    Raises `InputError` for a file that cannot be read or is not of the form.
    """
    text = read_text(path, "job shop")
    return read(text, form or form_of(text, path.suffix), str(path))


def form_of(text: str, suffix: str = "") -> Form:
    """Return the form of a file called .fjs, .fjsp or .hfs, else `flow` if its first row has as many numbers as machines, else `jsp`."""
    if form := _SUFFIXES.get(suffix.lower()):
        return form
    lines = [line.words for line in _lines(text, "")[:2]]
    return "flow" if len(lines) == 2 and len(lines[0]) == 2 and lines[0][1] == str(len(lines[1])) else "jsp"


def read(text: str, form: Form, source: str = "text") -> JobShopProblem:
    """Return the problem that a text of this form states; raise `InputError` with line, value and remedy otherwise."""
    lines = _lines(text, source)
    if not lines:
        raise InputError(source, [Finding("line 1", "", "there is nothing in the file", "write the numbers of jobs and machines first")])
    try:
        return _READERS[form](lines)
    except ValueError as error:
        raise InputError(source, [Finding("file", "", str(error), "correct the numbers")]) from None


@dataclass(slots=True)
class _Line:
    """The words of a line that are still to be read."""

    source: str
    number: int
    words: list[str]
    at: int = field(default=0)

    def refuse(self, value: str, problem: str, remedy: str) -> NoReturn:
        raise InputError(self.source, [Finding(f"line {self.number}", value, problem, remedy)])

    def word(self, what: str) -> str:
        if self.at == len(self.words):
            self.refuse("", f"ends after {self.at} number{'s' * (self.at != 1)}, before {what}", "complete the line")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, what: str, least: int, most: int, remedy: str) -> int:
        word = self.word(what)
        if not (word.isascii() and word.isdecimal() and len(word) <= 9):
            self.refuse(_shown(word), f"is not a whole number of at most 9 digits, for {what}", remedy)
        if not least <= int(word) <= most:
            self.refuse(word, f"is out of range for {what}, {least} to {most}", remedy)
        return int(word)

    def duration(self, what: str) -> float:
        word = self.word(what)
        try:
            value = float(word) if word.isascii() and "_" not in word else float("nan")
        except ValueError:
            value = float("nan")
        if not (isfinite(value) and value >= 0):
            self.refuse(_shown(word), f"is not a finite number of at least 0, for {what}", "write a duration such as 12 or 7.5")
        return value

    def end(self, remedy: str) -> None:
        if self.at < len(self.words):
            self.refuse(_shown(self.words[self.at]), f"follows after the {self.at} numbers that belong on this line", remedy)


def _lines(text: str, source: str) -> list[_Line]:
    bare = (line.partition("#")[0].split() for line in text.splitlines())
    return [_Line(source, number, words) for number, words in enumerate(bare, start=1) if words]


def _shown(word: str) -> str:
    return word if len(word) <= 24 else f"{word[:20]}..."


_MOST = 1_000_000
_HEAD = "begin the file with the numbers of jobs and machines, at least 1 and at most 1,000,000 each"


def _head(line: _Line, what: str = "machines") -> tuple[int, int]:
    return line.whole("the number of jobs", 1, _MOST, _HEAD), line.whole(f"the number of {what}", 1, _MOST, _HEAD)


def _rows(lines: list[_Line], jobs: int, heading: int) -> list[_Line]:
    """Return the line of each job; refuse a file with fewer or more of them."""
    rows = lines[heading:]
    if len(rows) < jobs:
        last = lines[-1]
        last.refuse(
            "", f"is the last, after {len(rows)} of {jobs} jobs", "add the missing rows, or correct the number of jobs in the first line"
        )
    if len(rows) > jobs:
        rows[jobs].refuse("", f"follows after all {jobs} jobs", "remove it, or correct the number of jobs in the first line")
    return rows


def _jsp(lines: list[_Line]) -> JobShopProblem:
    jobs, machines = _head(lines[0])
    lines[0].end("keep the numbers of jobs and machines")
    table: list[list[tuple[int, float]]] = []
    for line in _rows(lines, jobs, 1):
        row = []
        for k in range(machines):
            machine = line.whole(f"the machine of operation {k}", 0, machines - 1, "machines are counted from 0")
            row.append((machine, line.duration(f"the duration of operation {k}")))
        line.end("a job has as many operations as there are machines; write other shops as fjsp")
        table.append(row)
    return job_shop(table, machines)


def _fjsp(lines: list[_Line]) -> JobShopProblem:
    jobs, machines = _head(lines[0])
    if len(lines[0].words) > 2:
        lines[0].duration("the mean number of alternatives")
    lines[0].end("keep the numbers of jobs, machines and mean alternatives")
    return JobShopProblem(machines, tuple(_chain(line, machines) for line in _rows(lines, jobs, 1)))


def _chain(line: _Line, machines: int) -> tuple[Operation, ...]:
    """Return the operations of a row of the flexible form."""
    operations: list[Operation] = []
    for k in range(line.whole("the number of operations", 0, _MOST, "begin the row of a job with it")):
        ways: dict[int, Alternative] = {}
        for _ in range(line.whole(f"the number of alternatives of operation {k}", 1, machines, "an operation runs on one of the machines")):
            machine = line.whole(f"a machine of operation {k}", 1, machines, "machines are counted from 1 in this form")
            if machine in ways:
                line.refuse(str(machine), f"is given twice as a machine of operation {k}", "keep the shorter alternative")
            ways[machine] = Alternative(machine - 1, line.duration(f"the duration of operation {k} on machine {machine}"))
        operations.append(tuple(ways.values()))
    line.end("correct the number of operations with which the row begins, or the numbers of alternatives")
    return tuple(operations)


def _table(rows: list[_Line], columns: int, what: str) -> list[list[float]]:
    table = []
    for line in rows:
        table.append([line.duration(f"the duration {what} {k}") for k in range(columns)])
        line.end(f"a job has one duration {what} each")
    return table


def _flow(lines: list[_Line]) -> JobShopProblem:
    jobs, machines = _head(lines[0])
    lines[0].end("keep the numbers of jobs and machines")
    return flow_shop(_table(_rows(lines, jobs, 1), machines, "on machine"))


def _hybrid(lines: list[_Line]) -> JobShopProblem:
    jobs, stages = _head(lines[0], "stages")
    lines[0].end("keep the numbers of jobs and stages")
    if len(lines) < 2:
        lines[0].refuse("", "is the last", "write the number of machines of each stage on the second line")
    remedy = "the second line has the number of machines of each stage"
    parallel = [lines[1].whole(f"the machines of stage {stage}", 1, 1000, remedy) for stage in range(stages)]
    lines[1].end(remedy)
    return hybrid_flow_shop(parallel, _table(_rows(lines, jobs, 2), stages, "in stage"))


_READERS: dict[Form, Callable[[list[_Line]], JobShopProblem]] = {"jsp": _jsp, "fjsp": _fjsp, "flow": _flow, "hybrid": _hybrid}
