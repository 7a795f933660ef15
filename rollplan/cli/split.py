"""`rollplan split`: one job in depth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    job: Annotated[str | None, typer.Option(help="Only this job.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the splits as JSON.")] = False,
) -> None:
    """Split the GPUs of each job that asks for it: who binds, who idles, what fits, what is next best, the Pareto front."""
    import json

    from rollplan.cli.output import tell
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.scenario import Scenario
    from rollplan.planner.compose import plan_splits

    found = plan_splits(Scenario.load(scenario), job)
    if not found:
        raise InputError(str(scenario), [Finding("jobs", "", "has no job that asks for a split", "give a job a `split`")])
    if as_json:
        tell(json.dumps([split.model_dump(mode="json") for split in found], sort_keys=True, indent=1))
        return
    from rich.console import Group

    from rollplan.cli.split_screen import front_part, notes_part, split_part
    from rollplan.cli.tables import show

    for split in found:
        show(Group(*split_part(split), *front_part(split), *notes_part(split), ""))
