"""`rollplan schema`: the JSON schema of the files, for editors and validators."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class File(StrEnum):
    """Files that have a schema."""

    scenario = "scenario"
    plan = "plan"


def command(file: Annotated[File, typer.Argument(help="Which file.", show_default=False)]) -> None:
    """Print the JSON schema of scenario or plan files."""
    import json

    from rollplan.cli.output import tell
    from rollplan.models.plan import Plan
    from rollplan.models.scenario import Scenario

    model = Scenario if file is File.scenario else Plan
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    tell(json.dumps(schema, indent=1))
