"""The folder of a run: the runbook, everything that was executed, and what jobs go on from.

    runbook.json     the plan as it is run                       records.jsonl    what was executed, a line each
    remarks.jsonl    what people should read, a line each        held.jsonl       memory that was measured, a line each
    journal.jsonl    events of the core, by the driver           driver.log       what the driver's libraries print
    jobs/, logs/     saved states, logs of workers               lock             held while a run is going on
    code/            a link to rollplan, for the driver's interpreter

A line that was torn by a kill is skipped when it is read.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, Self, TypeVar

from rollplan.executor.core.records import Held, Record, Remark
from rollplan.executor.core.runbook import Runbook
from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text, write_whole

_FILES = ("records.jsonl", "remarks.jsonl", "held.jsonl", "driver.log", "journal.jsonl", "runbook.json")
_FOLDERS = ("jobs", "logs", "code")
Line = TypeVar("Line", Record, Remark, Held)


class RunFolder:
    """A run's folder, held by this process alone; a context that lets it go."""

    def __init__(self, path: Path, runbook: Runbook, resume: bool = False, force: bool = False) -> None:
        """Make the folder, or take the one that is there.

        resume: go on with the run of the same plan. force: throw an earlier run away. Raises `InputError` where neither was
        asked for, for another plan's run, for a folder that holds something else, and for a run that is going on.
        """
        self.path = path.absolute()
        self.driver_log = self.path / "driver.log"
        holds_run = (self.path / "runbook.json").is_file()
        if resume and not holds_run:
            raise _fault(self.path, "holds no run to go on with", "leave --resume out, or name the folder of the run with --folder")
        if not holds_run and self.path.exists() and not (self.path.is_dir() and _only_lock(self.path)):
            raise _fault(self.path, "exists and is not the folder of a run", "name another one with --folder")
        if holds_run and not (resume or force):
            raise _fault(self.path, "holds a run already", "go on with it (--resume), start anew (--force), or name another --folder")
        if resume:
            self._same_plan(runbook)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a")
        except OSError as error:
            raise _fault(self.path, f"cannot be written ({error.strerror})", "name another one with --folder") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise _fault(self.path, "is in use: its run is going on", "wait for it, or stop it with Ctrl-C") from None
        if force and not resume:
            self._clear()
        write_whole(self.path / "runbook.json", json.dumps(runbook.to_dict(), indent=1) + "\n")
        self.records = tuple(_read(self.path / "records.jsonl", Record))
        self.remarks = tuple(_read(self.path / "remarks.jsonl", Remark))
        self.held = tuple(_read(self.path / "held.jsonl", Held))
        self._lines = {kind: (self.path / name).open("a", encoding="utf-8") for kind, name in _NAMES.items()}
        for file in self._lines.values():
            if file.tell() > 0:
                # After a line that was torn.
                file.write("\n")

    def add(self, line: Record | Remark | Held) -> None:
        """Append what was executed or said."""
        file = self._lines[type(line)]
        file.write(json.dumps(line.to_dict()) + "\n")
        file.flush()

    def close(self) -> None:
        """Let the folder go."""
        for file in self._lines.values():
            file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _same_plan(self, runbook: Runbook) -> None:
        try:
            earlier = json.loads(read_text(self.path / "runbook.json", "runbook"))
            seal = earlier["seal"]
        except (ValueError, KeyError, TypeError):
            raise _fault(self.path / "runbook.json", "is no runbook", "start anew with --force") from None
        if seal != runbook.seal:
            raise _fault(self.path, "holds the run of another plan", "give that plan, start anew (--force), or name another --folder")

    def _clear(self) -> None:
        """Remove what a run leaves behind, and nothing else."""
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        for name in _FOLDERS:
            rmtree(self.path / name, ignore_errors=True)


_NAMES: dict[type[Record] | type[Remark] | type[Held], str] = {Record: "records.jsonl", Remark: "remarks.jsonl", Held: "held.jsonl"}


def default_folder(plan: Path) -> Path:
    """Return the folder of a plan's run where nobody names one: beside the plan."""
    return plan.with_name(f"{plan.stem}.run")


def _read(path: Path, kind: type[Line]) -> Iterator[Line]:
    names = {field.name for field in fields(kind)}
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                raw: Any = json.loads(text)
            except ValueError:
                continue
            if isinstance(raw, dict) and raw.keys() == names:
                yield kind(**raw)


def _only_lock(path: Path) -> bool:
    return all(entry.name == "lock" for entry in path.iterdir())


def _fault(path: Path, problem: str, remedy: str) -> InputError:
    return InputError("run", [Finding(str(path), "", problem, remedy)])
