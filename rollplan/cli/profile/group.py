"""`rollplan profile`: one verb for each thing that is measured, each in a module of its own."""

from __future__ import annotations

import typer

from rollplan.cli.profile import import_log, lengths, link, rollout, train

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Measure phase times, latency, links and lengths, or read the log of a run: everything ends in a profile file."""


app.command("train")(train.command)
app.command("rollout")(rollout.command)
app.command("link")(link.command)
app.command("import")(import_log.command)
app.command("lengths")(lengths.command)
