"""`rollplan dispatch`: which prompt on which instance, in which order."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Method(StrEnum):
    """How to dispatch."""

    best = "best"
    exact = "exact"


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The job, if several have a model.", show_default=False)] = None,
    instances: Annotated[int | None, typer.Option(min=1, help="Instances (absent: as planned).", show_default=False)] = None,
    recall: Annotated[float, typer.Option(min=0.0, max=1.0, help="Recall of the length ranker; 1 knows all lengths.")] = 1.0,
    method: Annotated[Method, typer.Option(help="Best of the heuristics, or exact search (small batches only).")] = Method.best,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds for the search.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the dispatch as JSON.")] = False,
) -> None:
    """Spread one typical batch over the instances of a job: every method by simulation, with a lower bound."""
    import json

    from rollplan.cli.dispatch_screen import dispatch_data, dispatch_screen
    from rollplan.cli.output import tell
    from rollplan.cli.tables import show
    from rollplan.models.certified import Limits
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.scenario import Scenario
    from rollplan.planner.dispatch.job import dispatch_job

    try:
        found = dispatch_job(Scenario.load(scenario), job, instances, recall, method.value, Limits(time_limit), seed)
    except ValueError as error:
        if method is not Method.exact:
            raise
        # Only the exact search may refuse a batch that is right in itself.
        raise InputError(str(scenario), [Finding("dispatch", "", str(error), "choose another method or other numbers")]) from None
    if as_json:
        tell(json.dumps(dispatch_data(found), sort_keys=True, indent=1))
    else:
        show(dispatch_screen(found))
