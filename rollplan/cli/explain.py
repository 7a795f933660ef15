"""`rollplan explain`: what binds, and why a job is where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    plan: Annotated[Path, typer.Argument(help="Plan file (JSON).", show_default=False)],
    job: Annotated[str | None, typer.Option(help="Explain the place of this job only.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Explain a plan: what sets each period, how much room is left, why a job is not elsewhere."""
    import json
    from dataclasses import asdict

    from rollplan.cli.output import tell
    from rollplan.models.plan import Plan
    from rollplan.planner.explain import binding_text, explain_job, proof_texts
    from rollplan.planner.infeasible.scenario_splits import missed_targets

    made = Plan.load(plan)
    reason = None if job is None else explain_job(made, job)
    if as_json:
        groups = {group.name: binding_text(group) for group in made.groups}
        shown = asdict(reason) if reason else {"groups": groups, "proofs": proof_texts(made), "targets": missed_targets(made)}
        tell(json.dumps(shown, sort_keys=True, indent=1))
        return
    from rollplan.cli.screen import explain_screen, job_screen
    from rollplan.cli.tables import show

    show(explain_screen(made, missed_targets(made)) if reason is None else job_screen(made, reason))
