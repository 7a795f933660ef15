"""`rollplan profile import`: the log of a run of another framework, as a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    log: Annotated[Path, typer.Argument(help="Log of a run, plain or gzip, of any size; - for stdin.", show_default=False)],
    framework: Annotated[str | None, typer.Option(help="Framework that wrote it (absent: found by its lines).", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(help="Name of the profile (absent: that of the file).", show_default=False)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the profile here (JSON).", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a profile.")] = False,
) -> None:
    """Read phase times, lengths and mode of a run from its log, and say which steps count and why the others do not."""
    from rollplan.cli.arguments import profile_path
    from rollplan.cli.profile.delivery import deliver
    from rollplan.cli.profile.import_screen import Progress, import_screen
    from rollplan.profilers.logs.read import import_log

    if output is not None:
        profile_path(output, force)
    progress = Progress()
    try:
        profile = import_log(log, framework, name, on_progress=progress)
    finally:
        progress.done()
    deliver(profile, output, as_json, lambda: import_screen(profile), "rollplan advise {0}, rollplan calibrate SCENARIO {0}")
