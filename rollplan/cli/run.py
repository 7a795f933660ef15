"""`rollplan run`: a plan is executed, exactly as it is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollplan.cli.arguments import seconds
from rollplan.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from rollplan.executor.core.records import Record
    from rollplan.executor.core.runbook import Dispatch, Runbook
    from rollplan.executor.run_folder import RunFolder
    from rollplan.executor.supervise import Ended, Launch, Watcher

_MOST_REHEARSED = 500
"""Iterations of each job that a prediction is drawn for."""
_MOST_STREAMED = 200_000
"""Samples that a prediction follows one by one: seconds of computing."""


class Policy(StrEnum):
    """Who gets a free node."""

    round_robin = "round-robin"
    fifo = "fifo"


def command(
    plan: Annotated[Path, typer.Argument(help="Plan file (JSON), written by `rollplan plan -o`.", show_default=False)],
    folder: Annotated[Path | None, typer.Option(help="Folder of the run (absent: the plan's name with .run).", show_default=False)] = None,
    python: Annotated[
        str | None, typer.Option(envvar="ROLLPLAN_PYTHON", help="Interpreter that has Ray and the engines.", show_default=False)
    ] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster (absent: one on this machine).", show_default=False)] = None,
    interface: Annotated[str | None, typer.Option(help="Network interface for weights and meetings.", show_default=False)] = None,
    policy: Annotated[Policy, typer.Option(help="Who gets a free node: turns as planned, or who waited longest.")] = Policy.round_robin,
    job: Annotated[list[str] | None, typer.Option(help="Run only this job (repeatable).", show_default=False)] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations of every job.", show_default=False)] = None,
    dispatch: Annotated[
        list[Path] | None, typer.Option(help="Deal samples as `rollplan dispatch --json` found (repeatable).", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Start anew: throw away the earlier run in the folder.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace here.", show_default=False)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write what was measured as a profile.", show_default=False)] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Prometheus text on this port of 127.0.0.1.", show_default=False)
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(parser=seconds(), metavar="TIME", help="Stop the run after it, such as 2 h.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Execute a plan on Ray; show predicted beside executed times."""
    import json
    import sys
    from time import monotonic

    from rollplan.cli.arguments import run_profile_path, trace_path
    from rollplan.cli.interrupt import Interrupt
    from rollplan.cli.output import note, tell
    from rollplan.cli.run_screen import report_screen
    from rollplan.cli.tables import show
    from rollplan.executor.report import report
    from rollplan.executor.run_folder import RunFolder, default_folder
    from rollplan.executor.runbook_of_plan import Overrides, runbook
    from rollplan.executor.supervise import Launch, check_python
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.plan import Plan

    if resume and force:
        raise InputError("command line", [Finding("--resume", "", "cannot stand beside --force", "go on with the run, or start anew")])
    if output is not None:
        run_profile_path(output)
    if trace is not None:
        trace_path(trace)
        if output is not None and trace.resolve() == output.resolve():
            raise InputError("command line", [Finding("--trace", f"`{trace}`", "is the file of -o, too", "give each its own")])
    made = Plan.load(plan)
    dealt, instances = _dispatches(dispatch or [])
    book = runbook(made, policy.value, Overrides(tuple(job or ()), iterations, dealt), plan.absolute().parent)
    _same_instances(book, instances)
    launch = Launch(book, python or sys.executable, address, interface)
    check_python(launch.python)
    started = monotonic()
    with RunFolder(folder or default_folder(plan), book, resume, force) as home, Interrupt() as interrupt:

        def asked() -> bool:
            return interrupt.asked or (time_limit is not None and monotonic() - started > time_limit)

        try:
            ended = _watched(launch, home, metrics_port, quiet, asked)
        except KeyboardInterrupt:
            note(f"killed; what was finished is in {home.path} (--resume)")
            raise typer.Exit(Exit.INTERRUPTED) from None
    rehearsed = _rehearsed(book, ended)
    if trace is not None:
        from rollplan.executor.trace import save_trace

        save_trace(trace, book, ended, rehearsed)
        note(f"trace written to {trace}; open it in https://ui.perfetto.dev")
    if output is not None:
        _save_profile(output, plan, book, ended, bool(made.groups))
    result = report(made, book, ended, rehearsed)
    if as_json:
        tell(json.dumps(result.to_dict(), indent=1))
    else:
        show(report_screen(result, made.scenario.name, monotonic() - started))
    if not result.complete:
        note(f"not all iterations are finished; go on with --resume ({home.path})")
        raise typer.Exit(Exit.INTERRUPTED if interrupt.asked else Exit.NO)


def _watched(launch: Launch, home: RunFolder, port: int | None, quiet: bool, asked: Callable[[], bool]) -> Ended:
    """Run, shown as stderr allows, with metrics if asked for."""
    from contextlib import ExitStack

    from rollplan.cli.output import note
    from rollplan.cli.run_watch import Several, Table, watcher_for
    from rollplan.executor.supervise import supervise

    view = watcher_for(launch.runbook, quiet)
    watchers: list[Watcher] = [view]
    with ExitStack() as stack:
        if port is not None:
            from rollplan.executor.prometheus import Metrics, MetricsServer

            metrics = Metrics()
            served = stack.enter_context(MetricsServer(metrics, port))
            note(f"metrics at http://127.0.0.1:{served.port}/metrics")
            watchers.append(metrics)
        if isinstance(view, Table):
            stack.enter_context(view)
        return supervise(launch, home, Several(*watchers), asked)


def _dispatches(paths: list[Path]) -> tuple[dict[str, Dispatch], dict[str, tuple[Path, int]]]:
    """Return rules, and file and number of instances, by job."""
    from rollplan.executor.dispatch_of_file import read_dispatch
    from rollplan.models.errors import Finding, InputError

    rules: dict[str, Dispatch] = {}
    instances: dict[str, tuple[Path, int]] = {}
    for path in paths:
        name, rules_of_job, count = read_dispatch(path)
        if name in rules:
            problem = f"is of job {name}, as `{instances[name][0]}` is"
            raise InputError("command line", [Finding("--dispatch", f"`{path}`", problem, "give one of them")])
        rules[name], instances[name] = rules_of_job, (path, count)
    return rules, instances


def _same_instances(book: Runbook, instances: dict[str, tuple[Path, int]]) -> None:
    from rollplan.models.errors import Finding, InputError

    for job in book.jobs:
        path, count = instances.get(job.name, (None, len(job.rollout)))
        if count != len(job.rollout):
            problem = f"deals samples to {count} instances, job {job.name} has {len(job.rollout)}"
            raise InputError(
                "run", [Finding("--dispatch", f"`{path}`", problem, f"use `rollplan dispatch --instances {len(job.rollout)}`")]
            )


def _rehearsed(book: Runbook, ended: Ended) -> list[Record]:
    """Return the predicted timeline, about as long as what was executed."""
    from dataclasses import replace

    from rollplan.executor.core.rehearse import rehearse, streams

    streamed = sum(job.samples for job in book.jobs if streams(job))
    most = max((record.iteration for record in ended.records), default=0) + 1
    most = min(most, _MOST_REHEARSED, max(1, _MOST_STREAMED // max(1, streamed)))
    jobs = tuple(replace(job, iterations=min(job.iterations, most)) for job in book.jobs)
    return rehearse(replace(book, jobs=jobs))[0]


def _save_profile(output: Path, plan: Path, book: Runbook, ended: Ended, shared: bool) -> None:
    import platform
    from datetime import UTC, datetime

    from rollplan import __version__
    from rollplan.cli.output import note
    from rollplan.executor.profile_of_run import profile_of_run

    host = f"{platform.system()} {platform.machine()}"
    made = profile_of_run(book, ended.records, plan, f"rollplan {__version__}", datetime.now(UTC).isoformat(timespec="seconds"), host)
    if made is None:
        note("no profile: no iteration was trained")
        return
    made.save(output)
    note(f"profile written to {output}" + (f"; next: `measured: {output}` in the jobs of the scenario" if shared else ""))
