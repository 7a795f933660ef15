"""`rollplan diff`: what changed between two plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.exits import Exit


def command(
    old: Annotated[Path, typer.Argument(help="Plan file (JSON).", show_default=False)],
    new: Annotated[Path, typer.Argument(help="Plan file (JSON).", show_default=False)],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Leave with 1 if there are differences.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Show what changed between two plans."""
    import json
    from dataclasses import asdict

    from rollplan.cli.output import tell
    from rollplan.models.plan import Plan
    from rollplan.planner.diff import diff

    changes = diff(Plan.load(old), Plan.load(new))
    if as_json:
        tell(json.dumps([asdict(change) for change in changes], sort_keys=True, indent=1))
    else:
        tell("\n".join(map(str, changes)) or "no differences")
    if changes and exit_code:
        raise typer.Exit(Exit.NO)
