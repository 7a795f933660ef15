"""`rollplan calibrate`: a job's own samples against the constants of the laws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    samples: Annotated[list[Path], typer.Argument(help="Files of samples (YAML, JSON, CSV), or profiles.", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The job, if several have a model.", show_default=False)] = None,
    rollout_gpus: Annotated[
        int | None, typer.Option(min=1, help="GPUs that generated in the logs, where they do not say.", show_default=False)
    ] = None,
    train_gpus: Annotated[
        int | None, typer.Option(min=1, help="GPUs that trained in the logs, where they do not say.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the calibration as a profile.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is not a profile.")] = False,
) -> None:
    """Fit scale, host time, MFU, interference and sync to measurements of one's own; show the error before and after."""
    from datetime import UTC, datetime

    from rollplan.cli.arguments import profile_path
    from rollplan.cli.calibrate_screen import calibration_screen
    from rollplan.cli.output import tell
    from rollplan.cli.tables import show
    from rollplan.models.calibration.read import read_sources
    from rollplan.models.scenario import Scenario
    from rollplan.planner.calibrate import calibrate

    if output is not None:
        profile_path(output, force)
    asked = Scenario.load(scenario)
    sources = [source for path in samples for source in read_sources(path, rollout_gpus, train_gpus)]
    found = calibrate(asked, sources, datetime.now(UTC).isoformat(timespec="seconds"), job)
    if output is not None:
        found.save(output)
    if as_json:
        tell(found.to_json(), end="")
    elif found.calibration is not None:
        show(calibration_screen(found.calibration))
