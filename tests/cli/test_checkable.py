"""The line `checkable` of a plan: what `check` can prove of the claimed bound, where that may be less."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from rollplan import Plan, Scenario, plan
from rollplan.cli.screen import plan_screen

JOB = "  - {{name: j{k}, slo: 2, rollout: {{time: 40 s, memory: 10 GB{nodes}}}, train: {{time: 30 s, memory: 10 GB}}{gang}}}"


def planned(jobs: int, rate: int = 1, nodes: str = "", gang: str = "") -> Plan:
    """A plan whose witness is said to prove a dollar less than is claimed."""
    lines = [
        "name: few",
        f"max_rate: {rate}",
        "overheads: zero",
        "pools:",
        "  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}",
        "  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}",
        "jobs:",
        *(JOB.format(k=k, nodes=nodes, gang=gang) for k in range(jobs)),
    ]
    made = plan(Scenario.from_yaml("\n".join(lines)), method="solo")
    assert made.certificate is not None
    certificate = made.certificate.model_copy(update={"claimed_bound": made.certificate.value, "witness_bound": made.certificate.value - 1})
    return made.model_copy(update={"certificate": certificate})


def checkable(made: Plan) -> str:
    """The line as it is shown; empty if it is not."""
    console = Console(width=120, file=StringIO(), record=True)
    console.print(plan_screen(made))
    return "".join(line for line in console.export_text().splitlines() if "checkable" in line)


@pytest.mark.parametrize("options", [{"rate": 2}, {"nodes": ", nodes: 2", "gang": ", gang: true"}])
def test_few_jobs_are_not_proven_outright_where_nodes_are_counted_from_below(options: dict[str, Any]) -> None:
    """Every partition is searched, but with the nodes that groups need at least."""
    assert "the part that `check` can prove again" in checkable(planned(2, **options))


def test_few_jobs_of_round_robin_are_proven_outright() -> None:
    """What the witness proves is not all that `check` proves."""
    assert not checkable(planned(2))
    assert "can prove again" in checkable(planned(14))


def test_many_groups_take_check_some_time() -> None:
    """Above 40 jobs the list may take longer than the time limit."""
    assert "the part that `check` proves again, given time" in checkable(planned(41, rate=2))
