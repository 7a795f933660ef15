"""A split that was derived from a model, changed after it was made: `check` derives it again and finds the change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from rollplan import InputError, Plan, Scenario, check, plan
from rollplan.models.check import CheckReport
from rollplan.models.describe_split import SplitDecision, planned_split
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.split.candidates import undominated
from rollplan.models.split.given import Split
from rollplan.models.split.problem import objective_value
from rollplan.models.stages.compile import Compiled, compiled
from rollplan.models.strict import tuples
from rollplan.planner.split import decide

Place = tuple[str | int, ...]

SCENARIO = """\
name: deep
pools:
  h100: {gpu: H100, nodes: 1, gpus_per_node: 4, price: 3.2 $/h, memory: 1 TB}
  h20: {role: rollout, gpu: H20, nodes: 1, gpus_per_node: 2, price: 1.85 $/h, memory: 1 TB}
links:
  - {from: h100, to: h20, bandwidth: 20 Gbps}
jobs:
  - name: grpo
    split:
      model: Qwen3-1.7B
      workload: {prompts: 8, samples_per_prompt: 4, prompt_tokens: 256, lengths: {mean: 700, sigma: 0.8, limit: 4096}}
      engine: {tp: [1, 2], max_num_seqs: 16}
      trainer: {tp: [1], pp: [1], cp: [1]}
      target: 60 s
      noise: 0.3
"""
CASE = Scenario.from_yaml(SCENARIO)
WORDS = {
    "trim": "paper", "objective": "cost", "mode": "colocated", "pipelining": "serial", "binds": "both stages in turn", "stage": "train",
    "rollout_pool": "h20", "train_pool": "h20", "pool": "h20", "where": "host",
}  # fmt: skip
"""Other values that the file's format allows."""

HARMLESS = {
    r"even: null": "shown for comparison; if it is shown, it is checked",
    r"(next_best|front|rules): drop": "shown for comparison; each choice that is shown is checked",
    r"(front|rules): (repeat|reverse)": "shown for comparison; each choice that is shown is checked",
}
"""Changes that leave a split as good as it was, and why."""


@pytest.fixture(scope="module")
def made() -> Plan:
    """A split that shows everything a split can show."""
    found = plan(CASE)
    assert check(CASE, found).faults == ()
    split = found.splits[0]
    assert [name for name, value in split if value in (None, (), {})] == []
    return found


def judged(made: Plan, tree: Any) -> CheckReport | None:
    """Check the plan with this content as its split, sealed again; None if the content is refused."""
    try:
        split = PlannedSplit.build(tuples(tree), "changed")
    except InputError:
        return None
    return check(CASE, made.model_copy(update={"splits": (split,)}).sealed())


def places(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every node of a JSON tree with its path; of equal lists of mappings only the first entry is entered."""
    yield place, tree
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        if not (isinstance(child, dict) and isinstance(key, int) and key > 0):
            yield from places(child, (*place, key))


def variants(key: str | int, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield changed values of a node, each with a name."""
    if value is not None:
        yield "null", None
    if isinstance(value, bool):
        yield "flip", not value
    elif isinstance(value, int):
        yield from (("+1", value + 1), ("sign", -value or -1))
    elif isinstance(value, float):
        yield from (("* 1.01", value * 1.01 or 0.01), ("sign", -value or -1.0))
    elif isinstance(value, str):
        yield from (("append", f"{value}x"), ("empty", ""), ("other word", WORDS.get(str(key), "train")))
    elif isinstance(value, list):
        yield from (("drop", value[:-1]), ("repeat", [*value, *value[-1:]]), ("reverse", value[::-1]))
    elif isinstance(value, dict):
        yield from (("add", {**value, "zzz": 1}), ("drop", dict(list(value.items())[:-1])))


def put(tree: Any, place: Place, value: Any) -> Any:
    """Return a copy of a tree with one node replaced."""
    copy = deepcopy(tree)
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return copy


@pytest.mark.parametrize("field", sorted(PlannedSplit.model_fields))
def test_a_change_of_a_derived_split_is_found_unless_it_is_harmless(made: Plan, field: str) -> None:
    """Every field, with a new seal: nothing that is shown of a split rests on the file alone."""
    whole = json.loads(made.splits[0].model_dump_json())
    tried = 0
    for place, value in places(whole[field], (field,)):
        for name, new in variants(place[-1], value):
            if new == value:
                continue
            tried += 1
            report = judged(made, put(whole, place, new))
            change = f"{'.'.join(map(str, place))}: {name}"
            if report is not None and not report.faults:
                assert any(re.fullmatch(pattern, change) for pattern in HARMLESS), change
    assert tried > 0


def test_a_change_without_a_new_seal_is_named_as_such(made: Plan) -> None:
    """An editor that slipped."""
    split = made.splits[0].model_copy(update={"noise": 0.2})
    assert check(CASE, made.model_copy(update={"splits": (split,)})).faults[0].startswith("the seal does not match")


# Lies that are consistent in themselves: another decision, described with its own right numbers.


def asked() -> tuple[Split, Compiled]:
    """Return what the scenario asks for, and the problem it makes."""
    split = CASE.jobs[0].split
    assert split is not None
    return split, compiled(split, CASE.pools, CASE.links)


def posing(made: Plan, change: Callable[[SplitDecision], SplitDecision], bound: float | None = None) -> CheckReport:
    """Check the plan of a changed decision, all numbers described anew, sealed again; bound: that it claims."""
    split, ready = asked()
    decision, least = decide(ready.problem, split.noise, split.target_s)
    described = planned_split("grpo", split, ready, change(decision), least if bound is None else bound)
    return check(CASE, made.model_copy(update={"splits": (described,)}).sealed())


def test_the_honest_description_is_valid(made: Plan) -> None:
    """What the lies below start from."""
    assert posing(made, lambda decision: decision).faults == ()


def test_every_choice_that_is_worse_than_the_best_is_found(made: Plan) -> None:
    """With the true bound, and with a bound that makes it look optimal."""
    problem = asked()[1].problem
    best = objective_value(problem, decide(problem)[0].choice)
    worse = [other for other in undominated(problem) if objective_value(problem, other) > best * (1 + 1e-9)]
    assert len(worse) > 10
    for other in worse[:: len(worse) // 10]:
        honest = posing(made, lambda decision, other=other: replace(decision, choice=other))
        assert any("is not the best candidate" in fault for fault in honest.faults)
        assert honest.checked_gap == pytest.approx(objective_value(problem, other) / best - 1)
        boasting = posing(made, lambda decision, other=other: replace(decision, choice=other), objective_value(problem, other))
        assert any("plan.bound: the plan says" in fault for fault in boasting.faults)


def test_a_faster_time_than_the_law_gives_is_found(made: Plan) -> None:
    """Whoever believes the file would rent too few GPUs."""
    faster = posing(made, lambda decision: replace(decision, choice=replace(decision.choice, rollout_s=0.9 * decision.choice.rollout_s)))
    assert any(re.search(r"rollout on \d+ GPUs of h100 takes \S+ s, the plan says", fault) for fault in faster.faults)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"rollout_gpus": 4, "train_gpus": 4}, "pool h100: 8 GPUs are used, the budget is 4"),
        ({"train_gpus": 3, "rollout_gpus": 1}, "training: 3 GPUs are not in the table of pool h100"),
        ({"train_pool": "h20"}, "training: pool h20 has no table for it"),
        ({"rollout_pool": "h30"}, "rollout: pool h30 has no table for it"),
        ({"pipelining": "async-streamed"}, "pipelining async-streamed is not allowed, only mini-batch, one-step, async-batch"),
        ({"mode": "colocated"}, "colocated stages must share the same GPUs of one pool"),
    ],
)
def test_a_split_that_cannot_be_is_found(made: Plan, change: dict[str, Any], fault: str) -> None:
    """Over budget, on GPUs without a layout, in a pool of the wrong role, in a way that was excluded."""
    shown = made.splits[0]
    split = shown.model_copy(update={"choice": shown.choice.model_copy(update=change)})
    faults = check(CASE, made.model_copy(update={"splits": (split,)}).sealed()).faults
    assert any(fault in found for found in faults), faults


def test_a_thrifty_plan_must_be_within_the_noise(made: Plan) -> None:
    """It is shown as equal to the choice."""
    problem = asked()[1].problem
    slowest = max(undominated(problem), key=lambda other: objective_value(problem, other))
    faults = posing(made, lambda decision: replace(decision, thrifty=slowest)).faults
    assert any("thrifty" in fault for fault in faults)


def test_the_fewest_gpus_must_keep_the_target() -> None:
    """A capacity planner orders by this line."""
    problem = asked()[1].problem
    slow = next(other for other in undominated(problem) if other.iteration_s > 5)
    strict = Scenario.from_yaml(SCENARIO.replace("target: 60 s", "target: 5 s"))
    split = strict.jobs[0].split
    assert split is not None
    decision, bound = decide(problem, split.noise, split.target_s)
    described = planned_split("grpo", split, compiled(split, strict.pools, strict.links), replace(decision, fewest=slow), bound)
    report = check(strict, plan(strict).model_copy(update={"splits": (described,)}).sealed())
    assert report.faults == ("split grpo: the fewest GPUs do not keep the target",)


def test_who_says_that_nothing_keeps_the_target_is_right(made: Plan) -> None:
    """Somebody would order more GPUs."""
    denied = posing(made, lambda decision: replace(decision, fewest=None))
    fastest = min(other.iteration_s for other in undominated(asked()[1].problem))
    assert denied.faults == (f"split grpo: names no plan that keeps the target, and the fastest takes {fastest:g} s per iteration",)


def test_next_best_choices_out_of_order_are_found(made: Plan) -> None:
    """They are read as a ranking."""
    report = posing(made, lambda decision: replace(decision, next_best=decision.next_best[::-1]))
    assert "split grpo: the next best choices are not in order" in report.faults


# Scenarios.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Qwen3-1.7B", "Qwen3-0.6B"),
        ("prompts: 8", "prompts: 16"),
        ("mean: 700", "mean: 701"),
        ("limit: 4096", "limit: 4097"),
        ("max_num_seqs: 16", "max_num_seqs: 17"),
        ("cp: [1]}", "cp: [1], mfu: 0.3}"),
        ("noise: 0.3", "noise: 0.31"),
        ("target: 60 s", "target: 61 s"),
        ("3.2 $/h", "3.3 $/h"),
        ("memory: 1 TB}\n  h20", "memory: 2 TB}\n  h20"),
    ],
)
def test_a_plan_of_another_scenario_is_found(made: Plan, old: str, new: str) -> None:
    """By its hash, and by its numbers where the hash is forged."""
    assert SCENARIO.count(old) == 1
    other = Scenario.from_yaml(SCENARIO.replace(old, new))
    faults = check(other, made).faults
    assert "the plan was made from another scenario, or the scenario was changed since" in faults
    assert "the scenario inside the plan is not the one that was given" in faults
    forged = made.scenario.model_copy(update={"sha256": other.sha256(), "content": other.content()})
    faults = check(other, made.model_copy(update={"scenario": forged}).sealed()).faults
    assert faults
    assert not any("scenario" in fault for fault in faults)


def test_an_edited_scenario_inside_the_plan_is_found(made: Plan) -> None:
    """`what-if` plans from it, so it must be the one that the plan belongs to."""
    content = deepcopy(made.scenario.content)
    content["jobs"][0]["split"]["workload"]["prompts"] = 16
    edited = made.model_copy(update={"scenario": made.scenario.model_copy(update={"content": content})}).sealed()
    assert check(CASE, edited).faults == ("the scenario inside the plan is not the one that was given",)


@pytest.mark.parametrize("count", [0, 2])
def test_splits_left_out_or_doubled_are_found(made: Plan, count: int) -> None:
    """Each job that asks for a split has exactly one."""
    report = check(CASE, made.model_copy(update={"splits": made.splits * count}).sealed())
    assert "splits: not exactly the scenario's jobs that ask for one" in report.faults
