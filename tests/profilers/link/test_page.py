"""The page of the link profiler names every option and every key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from rollplan.cli.main import app
from rollplan.models.profile.link import BroadcastLaw, LinkProfile, LinkSample, StreamLaw

PAGE = (Path(__file__).parents[3] / "docs" / "profile_link.md").read_text()


def test_every_option_stands_in_its_page() -> None:
    """`--help` says it in a line; the page says what it means."""
    group: Any = get_command(app)
    options = {text for parameter in group.commands["profile"].commands["link"].params for text in parameter.opts}
    assert {option for option in options if f"`{option}" not in PAGE} == set()


def test_every_key_of_the_section_stands_in_its_page() -> None:
    """A key that nobody can look up is guessed."""
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    named = {word for code in re.findall(r"`([^`]+)`", prose) for word in re.findall(r"\w+", code)}
    keys = {key for model in (LinkProfile, LinkSample, StreamLaw, BroadcastLaw) for key in model.model_fields}
    assert keys - named == set()
