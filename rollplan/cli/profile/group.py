"""`rollplan profile`: one verb for each thing that is measured, each in a module of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from rollplan.cli.profile import import_log, lengths, link, rollout, train

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root(context: typer.Context) -> None:
    """Measure phase times, latency, links and lengths, or read the log of a run: everything ends in a profile file."""
    context.with_resource(_terminated_as_interrupted())


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, do what Ctrl-C does: workers are stopped, and what they wrote for a while is removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


app.command("train")(train.command)
app.command("rollout")(rollout.command)
app.command("link")(link.command)
app.command("import")(import_log.command)
app.command("lengths")(lengths.command)
