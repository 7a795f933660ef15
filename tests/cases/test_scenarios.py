"""Every case is a scenario that a user could run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan import InfeasibleError, Scenario, check, plan

SCENARIOS = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_case_is_planned_and_checked_or_refused_with_reasons(path: Path) -> None:
    """Cases about impossibility say so in their first line, and in no other."""
    text = path.read_text()
    scenario = Scenario.load(path)
    assert text.startswith(f"# rollplan plan tests/cases/{path.name}")
    if "does not fit: that is the case" in text.splitlines()[0]:
        with pytest.raises(InfeasibleError) as refused:
            plan(scenario)
        assert refused.value.reasons
    else:
        assert check(scenario, plan(scenario)).faults == ()
