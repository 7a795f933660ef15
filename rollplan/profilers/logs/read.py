"""From a log file to runs, and to a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from rollplan import __version__
from rollplan.models.errors import Finding, InputError
from rollplan.models.profile.file import Profile, is_profile
from rollplan.models.profile.origin import Origin
from rollplan.models.profile.run import LoggedRun
from rollplan.profilers.logs.detect import detect
from rollplan.profilers.logs.judge import judged
from rollplan.profilers.logs.lines import LogFile
from rollplan.profilers.logs.sessions import Session, sessions

MOST_RECORDS = 20_000
"""Lines, blocks or tables of steps that are read of one file; more than any run has, and a bound on memory."""
MOST_RUNS = 1000


def read_log(path: Path, framework: str | None = None, on_progress: Callable[[float], None] | None = None) -> tuple[LoggedRun, ...]:
    """Return the runs of a log, each with its steps in canonical names and every step that does not count marked.

    path: plain text or gzip of any size, or `-` for stdin. framework: one of `detect.FRAMEWORKS`, by name; absent, found
    by its marks. on_progress: is told the share of the file that has been read, once per pass. Raises `InputError` if
    the file cannot be read, is of no known framework or of several, or if no step of it can be used.
    """
    with closing(LogFile(path, on_progress)) as log:
        kind = detect(log, framework)
        records = list(islice(kind.records(log.lines(kind.needles)), MOST_RECORDS + 1))
        more = len(records) > MOST_RECORDS
        found = sessions(records[:MOST_RECORDS])
        if not found:
            remedy = "give a log that holds them, or choose another framework with --framework"
            raise InputError(log.name, [Finding(log.name, "", f"holds no {kind.name} step ({kind.looked_for})", remedy)])
        if len(found) > MOST_RUNS:
            problem = f"falls back to an earlier step {len(found)} times: its lines are not in order"
            raise InputError(log.name, [Finding(log.name, "", problem, "give the log of one run, in order")])
        runs = [
            judged(kind.interpret(session.steps), kind.name, _source(log, session, len(found), number), session.notes)
            for number, session in enumerate(found, 1)
        ]
        return tuple(_useful(log, runs, more))


def import_log(
    path: Path,
    framework: str | None = None,
    name: str | None = None,
    at: datetime | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Profile:
    """Return the profile of a log. name: of the profile, absent that of the file. at: when it was read, absent now."""
    runs = read_log(path, framework, on_progress)
    source = runs[0].source.partition(",")[0]
    gpus = {run.gpus for run in runs}
    origin = Origin(
        kind="imported",
        by=f"rollplan {__version__}",
        date=(at or datetime.now(UTC)).isoformat(timespec="seconds"),
        source=source,
        devices=gpus.pop() if len(gpus) == 1 else None,
        engine=runs[0].framework,
    )
    return Profile(name=(name or source)[:1000], origin=origin, runs=runs)


def logged_run(path: Path, framework: str | None = None, number: int | None = None) -> LoggedRun:
    """Return one run of a log, or of a profile made from one. number: from 1; absent, the last."""
    runs = Profile.load(path).runs if is_profile(path) else read_log(path, framework)
    place = len(runs) if number is None else number
    if not 1 <= place <= len(runs):
        problem = "holds no runs" if not runs else f"holds {len(runs)} run{'s' if len(runs) != 1 else ''} that can be used"
        raise InputError(str(path), [Finding("run", "" if number is None else f"`{number}`", problem, "choose one that is there")])
    return runs[place - 1]


def _source(log: LogFile, session: Session, count: int, number: int) -> str:
    if count == 1:
        return log.name
    begin, end = session.lines
    return f"{log.name}, run {number} of {count} (lines {begin} to {end})"


def _useful(log: LogFile, runs: list[LoggedRun], more: bool) -> Iterator[LoggedRun]:
    """Yield the runs that hold a step that counts; the first of them tells of the others and of the file."""
    useful = [run for run in runs if run.kept]
    if not useful:
        reasons = sorted({step.dropped for run in runs for step in run.steps if step.dropped})
        shown = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else "")
        remedy = "give a longer log, or check it: nothing was guessed"
        raise InputError(log.name, [Finding(log.name, "", f"holds no step that can be used: {shown}", remedy)])
    told = [f"{run.source} holds no step that can be used" for run in runs if not run.kept]
    if more:
        told.append(f"the file holds more than {MOST_RECORDS} records of steps: only the first {MOST_RECORDS} were read")
    if log.long_lines:
        told.append(f"{log.long_lines} lines are longer than 8 MiB: only their beginning was read")
    if log.broken:
        told.append(log.broken)
    for place, run in enumerate(useful):
        yield run.model_copy(update={"warnings": (*run.warnings, *told[:20])}) if place == 0 and told else run
