"""`rollplan check`: is the plan valid, and is it near enough to the optimum?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds
from rollplan.cli.exits import Exit


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    plan: Annotated[Path, typer.Argument(help="Plan file (JSON).", show_default=False)],
    max_gap: Annotated[str | None, typer.Option(help="Fail if the checked gap is larger, such as 2%.", show_default=False)] = None,
    time_limit: Annotated[
        float,
        typer.Option(parser=seconds(), metavar="TIME", help="For proving the bound, such as 2 min; then only the fluid bound stands."),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Verify a plan against its scenario with code of its own, and prove its bound again."""
    import json
    from dataclasses import asdict

    from rollplan.cli.arguments import share
    from rollplan.cli.output import tell
    from rollplan.models.certified import Limits
    from rollplan.models.check import check
    from rollplan.models.plan import Plan
    from rollplan.models.scenario import Scenario

    allowed = None if max_gap is None else share(max_gap, "--max-gap")
    read = Scenario.load(scenario)
    made = Plan.load(plan)
    report = check(read, made, Limits(time_limit).stop)
    too_far = allowed is not None and report.checked_gap > allowed + 1e-9
    if as_json:
        verdict = {**asdict(report), "valid": report.valid, "max_gap": allowed, "within_max_gap": not too_far}
        tell(json.dumps(verdict, sort_keys=True, indent=1))
    else:
        from rollplan.cli.screen import check_screen
        from rollplan.cli.tables import show

        show(check_screen(made, report, allowed, made.scenario.sha256 != read.sha256()))
    if too_far or not report.valid:
        raise typer.Exit(Exit.NO)
