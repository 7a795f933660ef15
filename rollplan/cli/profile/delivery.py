"""What all profilers' verbs do with a worker's progress and with the finished profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rollplan.cli.output import note, tell
from rollplan.cli.tables import show
from rollplan.profilers.worker import PROGRESS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rollplan.models.profile.file import Profile


def progress(line: str) -> None:
    """Pass a worker's progress on to stderr; what its libraries print is left out."""
    if line.startswith(PROGRESS):
        note(line.removeprefix(PROGRESS))


def deliver(made: Profile, output: Path | None, as_json: bool, screen: Callable[[], RenderableType], use: str) -> None:
    """Save a profile if it shall be saved, and show it. use: what to do with the file next, with `{}` for its name."""
    if output is not None:
        made.save(output)
        note(f"profile written to {output}; next: {use.format(output)}")
    if as_json:
        tell(made.to_json(), end="")
    else:
        show(screen())
