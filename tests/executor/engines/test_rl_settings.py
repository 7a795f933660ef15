"""Settings of the program `rl`: what is wrong is refused with name, value and what is accepted; the page describes all."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from rollplan.executor.core.runbook import Setting
from rollplan.executor.programs.rl_settings import RlSettings

PAGE = Path(__file__).parents[3] / "docs" / "programs.md"


def test_settings_that_are_absent_have_their_defaults() -> None:
    """And whole numbers may stand for others, as YAML writes them."""
    assert RlSettings.of({}) == RlSettings()
    assert RlSettings.of({"lr": 1, "digits": 4}) == RlSettings(lr=1, digits=4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"digts": 4}, "setting digts is unknown to the program rl; did you mean digits?"),
        ({"zzz": 4}, "setting zzz is unknown to the program rl; known are algorithm, engine, "),
        ({"layers": 2.5}, "setting layers must be a whole number, got 2.5"),
        ({"layers": True}, "setting layers must be a whole number, got True"),
        ({"lr": "fast"}, "setting lr must be a number, got 'fast'"),
        ({"layers": 0}, "setting layers must be at least 1, got 0"),
        ({"lr": -1.0}, "setting lr must be at least 0, got -1.0"),
        ({"lr": float("nan")}, "setting lr must be at least 0, got nan"),
        ({"digits": 11}, "setting digits must be from 1 to 10, got 11"),
        ({"lam": 1.5}, "setting lam must be from 0 to 1, got 1.5"),
        ({"max_norm": -0.5}, "setting max_norm must be at least 0, got -0.5"),
        ({"enforce_eager": 1}, "setting enforce_eager must be true or false, got 1"),
        ({"algorithm": 7}, "setting algorithm must be a word, got 7"),
        ({"algorithm": "sac"}, "setting algorithm must be one of grpo, ppo, got 'sac'"),
        ({"samples_per_prompt": 1}, "setting samples_per_prompt must be at least 2 for grpo"),
        ({"engine": "vllm", "repeat_rollout": 2}, "setting repeat_rollout is of the torch engine"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Setting], message: str) -> None:
    """Before anything heavy is imported, and in the words of the person who wrote them."""
    with pytest.raises(ValueError, match=re.escape(message)):
        RlSettings.of(given)


def test_one_response_per_prompt_is_enough_for_ppo() -> None:
    """Its critic says what to expect."""
    assert RlSettings.of({"algorithm": "ppo", "samples_per_prompt": 1}).samples_per_prompt == 1


def test_every_setting_stands_in_the_page_with_its_default() -> None:
    """A row of the table for each."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", PAGE.read_text(), flags=re.MULTILINE))
    defaults = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in asdict(RlSettings()).items()}
    assert {name: rows.get(name) for name in (one.name for one in fields(RlSettings))} == defaults
