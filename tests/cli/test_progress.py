"""Progress of a search: readable, never going backwards, never more than needed."""

from __future__ import annotations

import pytest

from rollplan.cli.progress import Progress


def test_progress_shows_incumbent_bound_and_gap(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, at once for the first news."""
    Progress(quiet=False)(150.0, 100.0)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.split()[2:] == ["incumbent", "150.00", "$/h", "bound", "100.00", "$/h", "gap", "50.00", "%"]


def test_progress_never_gets_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a solver reports in its phases; news within a second are not shown."""
    progress = Progress(quiet=False)
    for value, bound in ((150.0, 100.0), (170.0, 90.0), (140.0, None)):
        progress(value, bound)
    assert capsys.readouterr().err.count("\n") == 1
    assert progress._best == (140.0, 100.0)


def test_the_last_news_are_shown_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """The line before the plan says what the plan says, even if the last news came within a second."""
    progress = Progress(quiet=False)
    for value, bound in ((150.0, 100.0), (140.0, 120.0)):
        progress(value, bound)
    progress.done()
    progress.done()
    lines = capsys.readouterr().err.splitlines()
    assert [(line.split()[3], line.split()[6]) for line in lines] == [("150.00", "100.00"), ("140.00", "120.00")]


@pytest.mark.parametrize("bound", [None, 0.0])
def test_progress_without_a_bound_shows_no_gap(capsys: pytest.CaptureFixture[str], bound: float | None) -> None:
    """Nothing is known yet, so nothing is claimed."""
    Progress(quiet=False)(150.0, bound)
    assert capsys.readouterr().err.endswith("gap      ?\n")


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """For logs and pipes."""
    progress = Progress(quiet=True)
    progress(150.0, 100.0)
    progress.done()
    assert capsys.readouterr() == ("", "")
