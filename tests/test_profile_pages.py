"""Profile files and the verbs that write them are explained: every option and every key stands in its page."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

from rollplan.cli.main import app
from rollplan.models.profile.run import PhaseName
from rollplan.models.strict import Strict

from .test_documents import named

DOCS = Path(__file__).parent.parent / "docs"
VERBS = {
    "rollout": "profile_rollout.md",
    "train": "profile_train.md",
    "link": "profile_link.md",
    "lengths": "lengths.md",
    "import": "logs.md",
}
SECTIONS = {
    "profile.file": "profile.md",
    "profile.origin": "profile.md",
    "profile.run": "profile.md",
    "profile.decode": "profile_rollout.md",
    "fits.ptl": "profile_rollout.md",
    "profile.training": "profile_train.md",
    "profile.link": "profile_link.md",
    "profile.lengths": "lengths.md",
    "profile.calibration": "calibrate.md",
}


def test_every_verb_of_the_profilers_has_a_page() -> None:
    """A new one is a decision."""
    group: Any = get_command(app)
    assert group.commands["profile"].commands.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_profiler_stands_in_its_page(verb: str) -> None:
    """`--help` says it in a line; the page says what it means."""
    group: Any = get_command(app)
    page = (DOCS / VERBS[verb]).read_text()
    parameters = group.commands["profile"].commands[verb].params
    options = [option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)]
    assert [option for option in options if option.startswith("--") and f"`{option}" not in page] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_a_section_stands_in_its_page(section: str) -> None:
    """Those who read a file by hand need its words explained."""
    module = import_module(f"rollplan.models.{section}")
    models = [model for _, model in getmembers(module, isclass) if issubclass(model, Strict) and model.__module__ == module.__name__]
    assert models
    assert {field for model in models for field in model.model_fields} - named(SECTIONS[section]) == set()


def test_every_phase_stands_in_the_page() -> None:
    """They are the words in which frameworks become comparable."""
    assert set(get_args(PhaseName)) - named("profile.md") == set()
