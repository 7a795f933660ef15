"""`rollplan fit`: the memory bill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.exits import Exit


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The job, if several have a model.", show_default=False)] = None,
    rollout: Annotated[str | None, typer.Option(help="Layout of rollout: tp2-dp4 (absent: as planned).", show_default=False)] = None,
    train: Annotated[str | None, typer.Option(help="Layout of training, such as tp4-pp2-dp8.", show_default=False)] = None,
    colocated: Annotated[bool, typer.Option("--colocated", help="Both stages in turn on the same GPUs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the bill as JSON.")] = False,
) -> None:
    """Say what fits: the memory of every role and phase, the smallest change if it does not, the fewest GPUs."""
    import json

    from rollplan.cli.arguments import layout
    from rollplan.cli.fit_screen import fit_data, fit_screen
    from rollplan.cli.output import tell
    from rollplan.cli.tables import show
    from rollplan.models.scenario import Scenario
    from rollplan.planner.fit import fit

    layouts = [None if text is None else layout(text, option) for text, option in ((rollout, "--rollout"), (train, "--train"))]
    found = fit(Scenario.load(scenario), job, layouts[0], layouts[1], colocated)
    if as_json:
        tell(json.dumps(fit_data(found), sort_keys=True, indent=1))
    else:
        show(fit_screen(found))
    if not found.bill.fits:
        raise typer.Exit(Exit.INFEASIBLE)
