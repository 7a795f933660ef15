"""The report of a run as a screen: predicted beside executed."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.run_watch import remark_text
from rollplan.cli.tables import labelled, new_table, percent, seconds_text
from rollplan.executor.report import Compared, JobReport, RunReport

_MOST_REMARKS = 12
_LEAST_S = 1e-3
"""Phases and switches that take less are no news."""


def report_screen(report: RunReport, name: str, seconds: float) -> RenderableType:
    """Return every job's period and phases, how busy the nodes were, what sharing was worth, how long data waited."""
    count = len(report.jobs)
    head = f"{name}   {count} job{'' if count == 1 else 's'}, {report.policy}, {seconds:.1f} s   {_verdict(report)}"
    parts: list[RenderableType] = [Text(head), Text(), _job_table(report), Text(), _phase_table(report), Text(), _busy_table(report)]
    lines = [("worth", line) for line in _worth(report)] + [("starts", line) for line in _starts(report)]
    lines += [("waits", line) for line in _waits(report)]
    lines += [("error", line) for line in _error(report)]
    lines += [_unfinished(job) for job in report.jobs if job.finished < job.wanted]
    lines += [("note", line) for line in _notes(report)]
    own = [remark for remark in report.remarks if remark.job in (None, *(job.name for job in report.jobs))]
    lines += [("remark", remark_text(remark)) for remark in own[-_MOST_REMARKS:]]
    return Group(*parts, *([Text()] if lines else []), *(labelled(kind, text) for kind, text in lines))


def compared_text(compared: Compared) -> str:
    """Return `predicted 12.3 s, executed 12.9 s (+4.9 %)`."""
    predicted = f"predicted {_seconds(compared.predicted_s)}"
    if compared.executed_s is None:
        return f"{predicted}, not executed"
    difference = "" if compared.difference is None else f" ({_difference(compared)})"
    return f"{predicted}, executed {_seconds(compared.executed_s)}{difference}"


def _verdict(report: RunReport) -> str:
    if report.complete:
        return "all jobs done"
    left = sum(job.finished < job.wanted for job in report.jobs)
    return f"{left} job{'' if left == 1 else 's'} NOT done ({report.reason})"


def _job_table(report: RunReport) -> Table:
    table = new_table(("job", "left"), ("iterations", "right"), ("restarts", "right"), ("iteration", "left"))
    for job in report.jobs:
        table.add_row(job.name, f"{job.finished} of {job.wanted}", str(job.restarts), compared_text(job.phase("iteration")))
    return table


def _phase_table(report: RunReport) -> Table:
    table = new_table(("job", "left"), ("phase", "left"), ("predicted", "right"), ("executed", "right"), ("difference", "right"))
    for job in report.jobs:
        shown = [one for one in job.phases if one.phase != "iteration" and max(one.predicted_s, one.executed_s or 0.0) >= _LEAST_S]
        for place, phase in enumerate(shown):
            executed = "-" if phase.executed_s is None else _seconds(phase.executed_s)
            table.add_row("" if place else job.name, phase.phase, _seconds(phase.predicted_s), executed, _difference(phase))
    return table


def _busy_table(report: RunReport) -> Table:
    table = new_table(("resource", "left"), ("busy, predicted", "right"), ("executed", "right"), ("idle", "right"))
    for one in report.busy:
        idle = None if one.executed is None else 1 - one.executed
        table.add_row(one.resource, *("-" if share is None else percent(share, 0) for share in (one.predicted, one.executed, idle)))
    return table


def _worth(report: RunReport) -> Iterator[str]:
    for one in report.efficiency:
        executed = "" if one.executed is None else f", executed {one.executed:.2f}x"
        measured = "" if one.measured is None else f", by the phases' own seconds {one.measured:.2f}x"
        jobs = ", ".join(one.jobs)
        yield f"{one.group} ({jobs}): cost efficiency predicted {one.predicted:.2f}x{executed}{measured}; nodes weighed by {one.weighed_by}"


def _starts(report: RunReport) -> Iterator[str]:
    for job in report.jobs:
        for start in job.starts:
            warm = "" if start.warm_s is None else f", warm switch {_seconds(start.warm_s)}"
            # Where there is nothing to load, a ratio would be one of clocks.
            ratio = f": {start.ratio:.0f}x" if start.ratio and start.warm_s and start.warm_s >= _LEAST_S else ""
            yield f"{job.name} on {start.pool} nodes: cold start {_seconds(start.cold_s)}{warm}{ratio}"


def _waits(report: RunReport) -> Iterator[str]:
    for job in report.jobs:
        for edge in job.edges:
            yield f"{job.name} {edge.name}: mean {_seconds(edge.mean_s)}, p95 {_seconds(edge.p95_s)} of {edge.count}"


def _error(report: RunReport) -> Iterator[str]:
    differences = [abs(known) for job in report.jobs if (known := job.phase("iteration").difference) is not None]
    if differences:
        yield f"iteration times differ from the plan by {percent(fmean(differences), 1)} on average, {percent(max(differences), 1)} at most"


def _notes(report: RunReport) -> Iterator[str]:
    yield "executed: medians without the first iteration, those started again, and the last where stages overlap; iteration: mean period"
    apart = [
        job.name for job in report.jobs if not job.together and job.phase("iteration").executed_s is not None and _company(report, job)
    ]
    if apart:
        yield f"the period of {', '.join(apart)} is not of a time in which all jobs of the group ran: more iterations would tell more"
    if report.policy == "fifo":
        yield "periods are predicted by a rehearsal with fifo; the plan promises those of round robin"


def _company(report: RunReport, job: JobReport) -> bool:
    return any(other.group == job.group and other.name != job.name for other in report.jobs)


def _unfinished(job: JobReport) -> tuple[str, str]:
    text = job.failed or "did not begin"
    kind = "failed" if text.startswith("failed: ") else "not done"
    return kind, f"{job.name}: {text.removeprefix('failed: ')}"


def _difference(compared: Compared) -> str:
    return "-" if compared.difference is None else f"{100 * compared.difference:+.1f} %"


def _seconds(seconds: float) -> str:
    if not 0 < seconds < 1:
        return seconds_text(seconds)
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
