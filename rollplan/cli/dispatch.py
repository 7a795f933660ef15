"""`rollplan dispatch`: which prompt on which instance, in which order."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds


class Method(StrEnum):
    """How to dispatch."""

    best = "best"
    exact = "exact"


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The job, if several have a model.", show_default=False)] = None,
    instances: Annotated[int | None, typer.Option(min=1, help="Instances (absent: as planned).", show_default=False)] = None,
    recall: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Recall of the length ranker (absent: 1, all are known).", show_default=False)
    ] = None,
    ranker: Annotated[Path | None, typer.Option(help="Profile with a ranker: its measured recall.", show_default=False)] = None,
    method: Annotated[Method, typer.Option(help="Best of the heuristics, or exact search (small batches only).")] = Method.best,
    time_limit: Annotated[float, typer.Option(parser=seconds(), metavar="TIME", help="For the search: seconds, or with a unit.")] = 30.0,
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

    if recall is not None and ranker is not None:
        raise InputError("command line", [Finding("--recall", f"`{recall}`", "stands beside --ranker", "keep one of the two")])
    used = _measured_recall(ranker) if ranker is not None else 1.0 if recall is None else recall
    try:
        found = dispatch_job(Scenario.load(scenario), job, instances, used, method.value, Limits(time_limit), seed)
    except ValueError as error:
        if method is not Method.exact:
            raise
        # Only the exact search may refuse a batch that is right in itself.
        raise InputError(str(scenario), [Finding("dispatch", "", str(error), "choose another method or other numbers")]) from None
    if as_json:
        tell(json.dumps(dispatch_data(found), sort_keys=True, indent=1))
    else:
        show(dispatch_screen(found))


def _measured_recall(path: Path) -> float | None:
    """Return the recall of a profile's ranker, None if chance is as good; say either."""
    from rollplan.cli.output import note
    from rollplan.models.dispatch.problem import TAIL_SHARE
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.profile.file import Profile

    section = Profile.load(path).lengths
    if section is None or section.ranker is None or (found := section.ranker.at(TAIL_SHARE)) is None:
        remedy = "give a profile that `rollplan profile lengths --ranker light -o` wrote"
        raise InputError(str(path), [Finding("lengths.ranker", "", "is missing: the profile holds no ranker", remedy)])
    said = f"recall {found.recall:.2f} of the longest {TAIL_SHARE:.0%} ({found.low:.2f} to {found.high:.2f}, chance {found.chance:.2f})"
    if not found.better_than_chance:
        note(f"ranker: {said} is no better than chance; dispatched without it, at random in equal shares (`even`)")
        return None
    note(f"ranker: {said}")
    return found.recall
