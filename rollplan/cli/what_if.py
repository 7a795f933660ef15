"""`rollplan what-if`: the plan again, with one number changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    plan: Annotated[Path, typer.Argument(help="Plan file (JSON); the scenario is in it.", show_default=False)],
    changes: Annotated[list[str], typer.Argument(help="key=value, such as gpus=+8 or samples_per_prompt=16.", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The split that the keys are of, if there are several.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the variants as JSON.")] = False,
) -> None:
    """Plan again with each change alone, and with all together; show the difference to the plan."""
    import json

    from rollplan.cli.output import tell
    from rollplan.models.plan import Plan
    from rollplan.planner.what_if import what_if

    made = Plan.load(plan)
    variants = what_if(made, changes, job)
    if as_json:
        rows = [
            {
                "change": variant.name,
                "plan": None if variant.plan is None else variant.plan.model_dump(mode="json"),
                "reasons": variant.reasons,
            }
            for variant in variants
        ]
        tell(json.dumps({"plan": made.model_dump(mode="json"), "variants": rows}, sort_keys=True, indent=1))
        return
    from rollplan.cli.tables import show
    from rollplan.cli.what_if_screen import what_if_screen

    show(what_if_screen(made, variants))
