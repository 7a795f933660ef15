"""A plan that was changed after it was made: `check` finds every change, with the old seal and with a new one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan import InputError, Plan, Scenario, check, plan
from rollplan.models.certified import Bound, Branch, Certified, GroupCount, Leaf, PoolNodes
from rollplan.models.check import CheckReport
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution
from rollplan.models.resolve import resolve
from rollplan.planner import compose

Place = tuple[str | int, ...]

SCENARIO = """\
name: tampered
overheads: zero
max_group_size: 3
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB, nodes: 7}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}
jobs:
  - {name: a, slo: 1.5, sync: 2 s, rollout: {time: {worst: 100 s, expected: 40 s}, memory: 200 GB}, train: {time: 100 s, memory: 200 GB}}
  - {name: b, slo: 1.5, sync: 2 s, rollout: {time: 90 s, memory: 300 GB, nodes: 2}, train: {time: 40 s, memory: 300 GB, nodes: 2}}
  - {name: c, slo: 1.5, sync: 2 s, rollout: {time: 210 s, memory: 200 GB, nodes: 2}, train: {time: 120 s, memory: 200 GB}}
  - {name: d, slo: 2.5, sync: 2 s, rollout: {time: 110 s, memory: 300 GB}, train: {time: 170 s, memory: 200 GB, nodes: 2}}
  - {name: e, slo: 2.5, sync: 2 s, rollout: {time: 230 s, memory: 300 GB}, train: {time: 190 s, memory: 100 GB}}
  - {name: f, slo: 2, sync: 2 s, rollout: {time: 250 s, memory: 200 GB, nodes: 2}, train: {time: 90 s, memory: 200 GB, nodes: 2}}
  - name: alone
    split:
      budget: {h20: 8, h800: 8}
      rollout: {h20: {4: 100 s, 8: 55 s}, h800: {4: 60 s}}
      train: {h800: {4: 90 s, 8: 50 s}}
      sync: 4 s
"""
CASE = Scenario.from_yaml(SCENARIO)
ODD = Scenario.from_yaml(
    "name: odd\noverheads: zero\nmax_group_size: 2\npools:\n"
    "  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}\n"
    "  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}\n"
    "jobs:\n"
    + "".join(
        f"  - {{name: {name}, slo: 2, rollout: {{time: 100 s, memory: 400 GB}}, train: {{time: 60 s, memory: 400 GB}}}}\n"
        for name in "abcdefghijklmno"
    )
)
"""15 equal jobs, two to a group: an LP takes half a group, so a proof needs two cases (or cuts)."""
PAIRS = GroupCount(0, 1, None, None)
CASES = Branch(
    PAIRS,
    7,
    Leaf((100.0,) * 15, ((PAIRS, -142.96),)),
    Branch(
        PoolNodes(1),
        7,
        Leaf((0.0,) * 15, ((PAIRS, 58.04), (PoolNodes(1), -1.0))),
        Leaf((0.0,) * 15, ((PAIRS, 14.8), (PoolNodes(1), 42.24))),
    ),
    prices=Leaf((28.52,) * 15),
)
"""Seven groups do not hold 15 jobs; eight have eight trainers, not seven, and cost 456.32 $/h. Half a group less: 427.80."""


@cache
def in_cases() -> tuple[ColocationProblem, Certified[ColocationSolution], Plan]:
    """Return the problem of these jobs, its solution with the witness above, and a plan that carries it."""
    problem, made = resolve(ODD).problem(ODD), plan(ODD)
    assert made.certificate is not None
    groups = ColocationSolution((), 456.32)
    found = Certified(groups, 456.32, Bound(456.32, "LP relaxation"), "optimal", witness=CASES, witness_bound=456.32)
    return problem, found, made.model_copy(update={"certificate": compose._certificate(problem, found)}).sealed()


HARMLESS = {
    r"tool\.version": "says who wrote the plan, decides nothing",
    r"settings\.(seed|method|node_limit|target_gap)": "what was asked for; the certificate says what came out, and that is checked",
    r"groups\.\d+\.jobs: swap": "any round-robin order has the same period",
    r"groups\.\d+\.jobs\.\d+\.rollout_nodes: swap": "the nodes of a job are a set",
    r"certificate\.claimed_proof: other word branch and bound": "a mere claim in place of a proof; the checked bound stays the same",
    r"splits\.\d+\.even: null": "shown for comparison; if it is shown, it is checked",
    r"splits\.\d+\.next_best: (drop|empty)": "shown for comparison; each choice that is shown is checked",
    r"splits\.\d+\.(front|rules): (drop|empty|swap|repeat)": "shown for comparison; each plan that is shown is checked",
    r"splits\.\d+\.next_best: swap": "of two choices that take equally long either may come first; other orders are found",
}
"""Changes that leave a plan as good as it was, and why."""


@pytest.fixture(scope="module")
def made() -> Plan:
    """Groups of one, two and three jobs, jobs on two nodes, a price on the limited pool, and a split."""
    found = plan(CASE)
    assert sorted(len(group.jobs) for group in found.groups) == [1, 2, 3]
    assert check(CASE, found).faults == ()
    return found


def places(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every node of a JSON tree with its path."""
    yield place, tree
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from places(child, (*place, key))


WORDS = {
    "claimed_proof": ["LP relaxation", "branch and bound", "fluid", "closed form", "exhaustive"],
    "stopped": ["optimal", "heuristic", "target gap", "node limit", "time limit", "interrupted"],
    "mode": ["separate", "colocated"],
    "trim": ["safe", "paper"],
    "binds": ["rollout", "train", "both stages in turn", "training pool"],
}
"""Other values that the file's format allows."""


def variants(key: str | int, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield changed values of a node, each with a name."""
    if value is not None:
        yield "null", None
    if isinstance(value, bool):
        yield "flip", not value
    elif isinstance(value, (int, float)) and abs(value) < 1e300:
        yield from (("+1", value + 1), ("-1", value - 1), ("* 1.01", value * 1.01), ("sign", -value or -1.0), ("text", str(value)))
    elif isinstance(value, str):
        yield from (("append", value + "x"), ("empty", ""))
        yield from ((f"other word {word}", word) for word in WORDS.get(str(key), []))
    elif value is None:
        yield from (("0", 0), ("1.5", 1.5), ("text", "x"), ("mapping", {}))
    elif isinstance(value, list):
        yield "empty", []
        for position in range(len(value)):
            yield f"drop {position}", value[:position] + value[position + 1 :]
            yield f"repeat {position}", value[: position + 1] + value[position:]
        for one, other in combinations(range(len(value)), 2):
            swapped = list(value)
            swapped[one], swapped[other] = value[other], value[one]
            yield f"swap {one} {other}", swapped
    elif isinstance(value, dict):
        yield "empty", {}
        yield "add", {**value, "zzz": 1}
        for name in value:
            yield f"remove {name}", {other: child for other, child in value.items() if other != name}
            yield f"rename {name}", {f"{other}x" if other == name else other: child for other, child in value.items()}


def put(tree: Any, place: Place, value: Any) -> Any:
    """Return a copy of a tree with one node replaced."""
    if not place:
        return value
    copy = deepcopy(tree)
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return copy


def judged(made: Plan, tree: Any, path: Path, sealed_again: bool) -> CheckReport | None:
    """Check a plan file with this content; None if it is refused, or reads as the same plan (a default left out)."""
    path.write_text(json.dumps(tree))
    try:
        read = Plan.load(path)
    except InputError:
        return None
    scenario = CASE if made.scenario.name == CASE.name else ODD
    return None if read == made else check(scenario, read.sealed() if sealed_again else read)


def changes(made: Plan, part: str) -> Iterator[tuple[Place, str, Any]]:
    """Yield every change of one part of the plan: where, which, and the whole changed tree."""
    whole = json.loads(made.to_json())
    for place, value in places(whole[part], (part,)):
        yield from ((place, name, put(whole, place, new)) for name, new in variants(place[-1], value) if new != value)


PARTS = sorted(Plan.model_fields)


@pytest.mark.parametrize("part", PARTS)
def test_a_change_without_a_new_seal_is_always_found(made: Plan, tmp_path: Path, part: str) -> None:
    """An editor that slipped, a merge that went wrong, a disk that lost a bit."""
    for place, name, tree in changes(made, part):
        report = judged(made, tree, tmp_path / "plan.json", sealed_again=False)
        assert report is None or report.faults, (place, name)


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"seal"}))
def test_a_change_with_a_new_seal_is_found_unless_it_is_harmless(made: Plan, tmp_path: Path, part: str) -> None:
    """Whoever can write a plan can seal it; so nothing rests on the seal."""
    for place, name, tree in changes(made, part):
        report = judged(made, tree, tmp_path / "plan.json", sealed_again=True)
        if report is None or report.faults:
            continue
        if place[:2] == ("certificate", "witness"):
            # Other prices may prove the same bound, or a lower one beside a claim that is only shown as a claim.
            assert report.checked is not None
            assert made.certificate is not None
            assert report.checked.value <= made.certificate.value * (1 + 1e-9), (place, name)
        else:
            change = f"{'.'.join(map(str, place))}: {name}"
            assert any(re.match(pattern, change) for pattern in HARMLESS), change


def test_a_changed_tree_of_prices_is_found_or_proves_no_more(tmp_path: Path) -> None:
    """A proof in several cases: limits on groups and nodes, and prices for each of them."""
    _, _, made = in_cases()
    assert made.certificate is not None
    assert check(ODD, made).faults == ()
    for place, name, tree in changes(made, "certificate"):
        report = judged(made, tree, tmp_path / "plan.json", sealed_again=True)
        if report is not None and not report.faults and place[:2] == ("certificate", "witness"):
            assert report.checked is not None
            assert report.checked.value <= made.certificate.value * (1 + 1e-9), (place, name)


def test_of_a_witness_that_is_too_large_for_a_file_the_root_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not prove is a claim then, and the plan is as valid as before."""
    problem, found, made = in_cases()
    monkeypatch.setattr(compose, "MOST_PRICES", 20)
    certificate = compose._certificate(problem, found)
    report = check(ODD, made.model_copy(update={"certificate": certificate}).sealed())
    assert certificate.witness is not None
    assert report.checked is not None
    assert (len(certificate.witness.tree), certificate.claimed_bound, report.faults) == (1, 456.32, ())
    assert certificate.witness_bound == report.checked.value == 427.84


@pytest.mark.parametrize("key", ["format", "groups", "seal", "certificate"])
def test_a_plan_without_a_part_or_with_a_strange_one_is_refused_or_found(made: Plan, tmp_path: Path, key: str) -> None:
    """The top level is a mapping like the others."""
    whole = json.loads(made.to_json())
    missing = {name: value for name, value in whole.items() if name != key}
    for tree in (missing, {**missing, f"{key}x": whole[key]}, {**whole, "zzz": 1}):
        report = judged(made, tree, tmp_path / "plan.json", sealed_again=False)
        assert report is None or report.faults


EXTREMES: list[Any] = [None, True, 0, -1, 10**30, 10**400, 1e308, -1e308, 5e-324, "", "x", "h20", "colocated", "\0", [], [[]], {}]


@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=4))
def test_no_change_makes_check_stumble(made: Plan, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]) -> None:
    """Several changes at once, extreme values among them, end in a report or a refusal."""
    tree = json.loads(made.to_json())
    for where, which in changes:
        nodes = [(place, value) for place, value in places(tree) if place]
        place, value = nodes[where % len(nodes)]
        options = [new for _, new in variants(place[-1], value)] + EXTREMES
        tree = put(tree, place, options[which % len(options)])
    path = tmp_path_factory.getbasetemp() / "plan.json"
    for sealed_again in (False, True):
        report = judged(made, tree, path, sealed_again)
        assert report is None or isinstance(report.faults, tuple)


@pytest.mark.parametrize("extreme", EXTREMES, ids=lambda extreme: str(extreme)[:12].encode("unicode_escape").decode())
def test_no_extreme_value_makes_check_stumble(made: Plan, tmp_path: Path, extreme: Any) -> None:
    """At every place of the plan: no overflow, no division by zero, no endless loop."""
    whole = json.loads(made.to_json())
    for place, _ in places(whole):
        if place:
            report = judged(made, put(whole, place, extreme), tmp_path / "plan.json", sealed_again=True)
            assert report is None or isinstance(report.faults, tuple)
