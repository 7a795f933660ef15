"""Lies that are consistent in themselves: whole plans and certificates that claim more than is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollplan import Plan, Scenario, check, plan
from rollplan.models.certified import gap
from rollplan.models.check import CheckReport
from rollplan.models.plan_witness import Prices

POOLS = """\
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}
"""
JOBS = "jobs:\n" + "".join(
    f"  - {{name: {name}, slo: 2, rollout: {{time: 100 s, memory: 400 GB}}, train: {{time: 60 s, memory: 400 GB}}}}\n"
    for name in "abcdefghijklmnop"
)
JOB_Z = "  - {name: z, slo: 1, rollout: {time: 9 s, memory: 1 GB}, train: {time: 9 s, memory: 1 GB}}"


def scenario(*replacements: tuple[str, str]) -> Scenario:
    """Sixteen equal jobs, two of which fit on a node of each pool, with changes; too many to search every partition."""
    text = f"name: lies\noverheads: zero\n{POOLS}{JOBS}"
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return Scenario.from_yaml(text)


TRUE = scenario()


def posing(made: Plan, target: Scenario, **more: Any) -> CheckReport:
    """Check a plan that says it was made from `target`, sealed again."""
    origin = made.scenario.model_copy(update={"name": target.name, "sha256": target.sha256()})
    settings = made.settings.model_copy(update={"max_group_size": target.max_group_size, "guarantee": target.guarantee})
    return check(target, made.model_copy(update={"scenario": origin, "settings": settings, **more}).sealed())


def test_the_honest_plan_makes_pairs() -> None:
    """What the lies of this file start from: half of what every job alone costs, and the LP bound says so."""
    made = plan(TRUE)
    assert [len(group.jobs) for group in made.groups] == [2] * 8
    assert made.certificate is not None
    assert (made.certificate.claimed_proof, made.certificate.claimed_bound) == ("LP relaxation", 456.32)
    assert posing(made, TRUE).faults == ()


LIES = {
    "times of another scenario": (("{time: 100 s", "{time: 90 s"), "groups[0].period_s: the plan says"),
    "an SLO that does not hold": (("name: b, slo: 2", "name: b, slo: 1.2"), "runs 1.250 times slower than alone, its SLO allows 1.2"),
    "memory of a rollout node": (("1.85 $/h, memory: 900 GB", "1.85 $/h, memory: 700 GB"), "rollout node 0 keeps 745.1 GiB, it has 651.9"),
    "memory of a training node": (("5.28 $/h, memory: 900 GB", "5.28 $/h, memory: 700 GB"), "training node keeps 745.1 GiB, it has 651.9"),
    "groups too large": (("overheads: zero", "overheads: zero\nmax_group_size: 1"), "has 2 jobs, at most 1 may share nodes"),
    "a job left out": (("jobs:", f"jobs:\n{JOB_Z}"), "job z is in 0 groups, must be in exactly one"),
    "a job that is not there": (("name: c", "name: y"), "job c is not in the scenario"),
    "a job on more nodes": (("GB}, train", "GB, nodes: 2}, train"), "is pinned to 1 different rollout nodes, needs 2"),
    "a job on more training nodes": (("{time: 60 s", "{nodes: 2, time: 60 s"), "needs 2 training nodes, the group has 1"),
    "another price": (("1.85 $/h", "1.95 $/h"), "groups[0].cost_per_h: the plan says 57.04, its decisions give 57.84"),
    "another GPU": (("gpu: H20", "gpu: H21"), "pools.h20.gpu: the plan says H20"),
}


@pytest.mark.parametrize(("replacement", "fault"), LIES.values(), ids=LIES)
def test_a_plan_that_poses_as_another_scenarios_is_found(replacement: tuple[str, str], fault: str) -> None:
    """With that scenario's hash and a good seal; the fault says what does not hold."""
    report = posing(plan(TRUE), scenario(replacement))
    assert any(fault in found for found in report.faults), report.faults


def test_a_plan_that_takes_more_nodes_than_the_pool_has_is_found() -> None:
    """Every job alone takes sixteen nodes of each pool."""
    report = posing(plan(TRUE, "solo"), scenario(("memory: 900 GB}\njobs", "memory: 900 GB, nodes: 15}\njobs")))
    assert any("pool h800: 16 nodes are used, it has 15" in fault for fault in report.faults)


def test_the_plan_of_another_scenario_is_named_as_such() -> None:
    """Before anything else, because that is what usually happened."""
    other = scenario(("name: lies", "name: truth"))
    assert check(other, plan(TRUE)).faults[0] == "the plan was made from another scenario, or the scenario was changed since"


# Certificates.


def claiming(**claims: Any) -> CheckReport:
    """Check the plan with every job alone, its certificate changed and made consistent again."""
    made = plan(TRUE, "solo")
    assert made.certificate is not None
    certificate = made.certificate.model_copy(update=claims)
    right = gap(certificate.value, certificate.claimed_bound)
    certificate = certificate.model_copy(update={"claimed_gap": right, "stopped": "optimal" if right <= 1e-9 else "heuristic"})
    return check(TRUE, made.model_copy(update={"certificate": certificate}).sealed())


def witness(change: Callable[[float], float]) -> dict[str, Any]:
    """Return the job prices of that plan's witness, each changed."""
    made = plan(TRUE, "solo")
    assert made.certificate is not None
    assert made.certificate.witness is not None
    (prices,) = made.certificate.witness.tree
    assert isinstance(prices, Prices)
    changed = prices.model_copy(update={"jobs": tuple(map(change, prices.jobs))})
    return {"witness": made.certificate.witness.model_copy(update={"tree": (changed,)})}


def test_the_honest_certificate_of_a_bad_plan_says_how_bad_it_is() -> None:
    """Every job alone costs twice the optimum."""
    report = claiming()
    assert (report.faults, report.checked_gap) == ((), pytest.approx(1.0))


@pytest.mark.parametrize("bound", [800.0, 912.64])
def test_a_bound_above_what_the_witness_proves_is_found(bound: float) -> None:
    """In between, and so high that the bad plan would be called optimal."""
    report = claiming(claimed_bound=bound)
    assert any("its witness proves 456.32, the plan claims" in fault for fault in report.faults)
    assert report.checked_gap == pytest.approx(1.0)


def test_a_bound_above_the_value_is_found() -> None:
    """No plan costs less than a bound, this one included."""
    assert any("is above the value" in fault for fault in claiming(claimed_bound=1000.0).faults)


@pytest.mark.parametrize("factor", [0.9, 1.1, 3.0])
def test_scaled_prices_are_found(factor: float) -> None:
    """Too low, they prove less; too high, a group is cheaper than its prices and the bound falls by as much."""
    report = claiming(**witness(lambda price: factor * price))
    assert any("its witness proves" in fault for fault in report.faults)
    assert report.checked is not None
    assert report.checked.value <= 456.32 + 1e-6


def test_negative_prices_are_found() -> None:
    """They would prove anything."""
    assert any("negative" in fault for fault in claiming(**witness(lambda price: -price)).faults)


def test_a_solvers_claim_is_not_taken_for_a_proof() -> None:
    """A claim of branch and bound without a proof changes neither the checked bound nor the gap that --max-gap judges."""
    report = claiming(claimed_bound=912.64, claimed_proof="branch and bound")
    assert report.checked is not None
    assert (report.checked.value, report.checked_gap) == (pytest.approx(456.32), pytest.approx(1.0))


def test_a_missing_certificate_is_found() -> None:
    """A plan without a bound is not a plan of ours."""
    assert "certificate: missing" in posing(plan(TRUE), TRUE, certificate=None).faults


def test_a_witness_proves_nothing_when_the_proof_is_stopped() -> None:
    """Then the fluid bound stands, the plan stays valid, and the report says why."""
    report = check(TRUE, plan(TRUE), stop=lambda: "time limit")
    assert report.checked is not None
    assert (report.faults, report.checked.proof, "stopped" in report.checked.note) == ((), "fluid", True)
