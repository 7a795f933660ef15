"""Arguments that several verbs read: time limits with and without units."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from rollplan.cli.arguments import seconds
from rollplan.cli.main import app
from rollplan.models.units import DURATION


@pytest.mark.parametrize(
    ("text", "wanted_s"),
    [
        ("60", 60),
        ("0", 0),
        ("1e3", 1000),
        ("60s", 60),
        ("60 s", 60),
        ("2 min", 120),
        ("1.5h", 5400),
        ("250 ms", 0.25),
        (60.0, 60),
        ("inf", inf),
    ],
)
def test_a_time_limit_is_seconds_or_has_a_unit(text: str | float, wanted_s: float) -> None:
    """`inf`, which no scenario knows, was always accepted."""
    assert seconds()(text) == wanted_s


@given(st.floats(0, 1e7), st.sampled_from(["s", "ms", "min", "h"]))
def test_a_time_with_its_unit_is_what_a_scenario_makes_of_it(number: float, unit: str) -> None:
    """One parser for both."""
    text = f"{min(number, 1e3)!r} {unit}"
    assert seconds()(text) == DURATION.parse(text)


@pytest.mark.parametrize("text", ["-1", "nan", "-inf", "-1 s", "60 x", "60sec", "", "s", "1e9 s", "1 2", "60 s s", "\u0663 s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """Exit code 2, with the option's name before it."""
    with pytest.raises(typer.BadParameter):
        seconds()(text)


@pytest.mark.parametrize("text", ["0.9", "900 ms", "1e6 min", "inf", "nan"])
def test_what_is_outside_the_limits_of_a_verb_is_refused(text: str) -> None:
    """Whether it is written with a unit or without."""
    with pytest.raises(typer.BadParameter):
        seconds(1.0, 1e6)(text)


def test_every_time_limit_is_read_so() -> None:
    """No verb is left with seconds alone."""
    group: Any = get_command(app)
    verbs = [*group.commands.values(), *group.commands["profile"].commands.values()]
    limits = [option for verb in verbs for option in verb.params if "--time-limit" in option.opts]
    assert len(limits) == 7
    assert {option.metavar for option in limits} == {"TIME"}
