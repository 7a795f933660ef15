"""The page names every setting and every key of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan.models.launch import DIALECTS, Dialect, LaunchSettings
from rollplan.models.launch.setting import ADJUSTABLE
from rollplan.models.launch.settings import FRAMEWORKS, STALENESS

PAGE = (Path(__file__).parents[3] / "docs" / "launch_settings.md").read_text()
WORDS = " ".join(PAGE.split())


@pytest.mark.parametrize("table", DIALECTS, ids=lambda table: f"{table.framework}: {table.name}")
def test_the_page_has_every_key(table: Dialect) -> None:
    """A key that is read or written and not documented would be a secret."""
    assert f"### {table.framework}: {table.name}" in PAGE
    keys = {key for keys in table.keys.values() for key in keys} | {*table.rollout.keys, *table.train.keys}
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()


def test_the_page_has_every_setting_and_what_staleness_is() -> None:
    """Fields of the settings, what can be written, and one sentence per framework."""
    assert {name for name in (*LaunchSettings.model_fields, *ADJUSTABLE) if f"`{name}`" not in PAGE} == set()
    assert set(STALENESS) == set(FRAMEWORKS)
    assert all(" ".join(text.split()) in WORDS for text in STALENESS.values())
