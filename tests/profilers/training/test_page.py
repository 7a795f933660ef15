"""The page of the training profiler says what every option and every key of the file means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from rollplan.cli.profile.group import app
from rollplan.models.profile.training import MemoryCheck, MemoryTerm, Move, PassLaw, TrainingPoint, TrainingProfile

PAGE = (Path(__file__).parents[3] / "docs" / "profile_train.md").read_text()


def test_every_key_of_the_section_stands_in_its_page() -> None:
    """A key that nobody can look up is guessed."""
    named = {word for code in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"\w+", code)}
    sections = (TrainingProfile, TrainingPoint, PassLaw, Move, MemoryCheck, MemoryTerm)
    assert {name for section in sections for name in section.model_fields} - named == set()


def test_every_option_stands_in_its_page() -> None:
    """The same for the command line."""
    group: Any = get_command(app)
    command = group.commands["train"]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts) if option.startswith("--")}
    assert [option for option in options if f"`{option}`" not in PAGE] == []
